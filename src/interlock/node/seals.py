"""Seals: what is handed out and comes back unchanged, so that nobody has to remember it.

What a client registered, and what it asked a person for, travel in its own hands, sealed under the
workspace's key: every node can open them, nobody can make or read one, and somebody who asks a
million times has filled nothing.
"""

import base64
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken

from interlock.node.keys import Keys


class Seals:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, purpose: str, content: dict[str, Any]) -> str:
        return self._fernet(purpose).encrypt(orjson.dumps(content)).decode().rstrip("=")

    def opened(self, purpose: str, text: str, lasts_s: int | None = None) -> dict[str, Any] | None:
        """What was sealed for this purpose; None where that was not us, or is too long ago."""
        padded = text + "=" * (-len(text) % 4)
        try:
            content: dict[str, Any] = orjson.loads(self._fernet(purpose).decrypt(padded, lasts_s))
        except (InvalidToken, ValueError):
            return None
        return content

    def _fernet(self, purpose: str) -> Fernet:
        return Fernet(base64.urlsafe_b64encode(self._keys.derived(purpose.encode())))
