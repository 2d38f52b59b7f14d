"""Passwords: what one gives under the workspace's key, and how often one may be tried.

Argon2id makes every try slow; the key makes sure that whoever has only the log cannot try at all.
The salt comes from the key and the name, so that nothing has to be looked up before.
"""

import threading
import time
from collections import deque

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from interlock.errors import RateLimited, Usage
from interlock.node.keys import Keys

SHORTEST = 12
LONGEST = 1024
AT_ONCE = 2
TRIES = 10
WITHIN_S = 600.0
MOST_TRIED = 10_000
_SALT_BYTES = 16
_at_once = threading.Semaphore(AT_ONCE)


def refuse_weak(name: str, password: str) -> None:
    if len(password) < SHORTEST:
        raise Usage(f"A password has at least {SHORTEST} characters. A sentence is a good one.")
    if len(password) > LONGEST:
        raise Usage(f"A password has at most {LONGEST} characters.")
    if len(set(password)) < 4 or password.casefold().strip() == name.casefold():
        raise Usage("That password is easily guessed. A sentence is a good one.")


def verifier(keys: Keys, name: str, password: str) -> str:
    """What stands for the password in the log. Takes a tenth of a second, and 64 MiB."""
    salt = bytes.fromhex(keys.fingerprint(b"password of " + name.encode()))[:_SALT_BYTES]
    with _at_once:
        argon = Argon2id(salt=salt, length=32, iterations=2, lanes=1, memory_cost=64 << 10)
        stretched = argon.derive(password.encode("utf-8", "surrogatepass"))
    return keys.fingerprint(b"verifier " + stretched)


class Attempts:
    """How often signing in failed lately, by name and address."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str], deque[float]] = {}

    def refuse_too_many(self, name: str, peer: str) -> None:
        failed = self._lately(name, peer)
        if len(failed) >= TRIES:
            wait_s = int(failed[0] + WITHIN_S - time.monotonic()) + 1
            raise RateLimited(
                f"Signing in as {name[:80]} failed {TRIES} times. Wait {wait_s} s, or ask for a "
                "new invitation.",
                retry_after_s=wait_s,
            )

    def failed(self, name: str, peer: str) -> None:
        if len(self._failed) >= MOST_TRIED:
            self._failed.clear()
        failed = self._lately(name, peer)
        failed.append(time.monotonic())
        self._failed[name, peer] = failed

    def _lately(self, name: str, peer: str) -> deque[float]:
        failed = self._failed.get((name, peer), deque())
        while failed and failed[0] < time.monotonic() - WITHIN_S:
            failed.popleft()
        return failed
