"""The key that signs checkpoints, and the checkpoints kept beside the log.

They lie in the workspace's directory and not in the database, so that somebody who rewrites the
one still has to forge the other.
"""

import hashlib
import os
from contextlib import suppress

from interlock.contracts.merkle import Frontier
from interlock.contracts.notes import Checkpoint, parse_verifier_key, public_key, sign, verifier_key

SEED_BYTES = 32
KEPT = 10
EVERY = 128


class Keys:
    def __init__(self, directory: str) -> None:
        self._key = os.path.join(directory, "keys", "checkpoint.key")
        self._notes = os.path.join(directory, "checkpoints")

    def verifier(self, workspace: str) -> str:
        """The public half, in the form that checkpoints are verified with."""
        return verifier_key(signer(workspace), public_key(self._seed()))

    def fingerprint(self, data: bytes) -> str:
        """A digest that only the holder of the workspace's key can compute."""
        return hashlib.blake2b(data, key=self._seed(), digest_size=32).hexdigest()

    def checkpoint(self, workspace: str, frontier: Frontier) -> str:
        """Signs the tree as it stands and keeps the note beside the log, with the latest few."""
        name = signer(workspace)
        note = sign(Checkpoint(name, frontier.size, frontier.root()), name, self._seed())
        os.makedirs(self._notes, 0o700, exist_ok=True)
        path = os.path.join(self._notes, f"{frontier.size:020}.note")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(note)
        os.replace(path + ".new", path)
        for old in sorted(self._names())[:-KEPT]:
            with suppress(OSError):
                os.unlink(os.path.join(self._notes, old))
        return note

    def kept(self) -> list[str]:
        """The notes beside the log, oldest first."""
        notes = []
        for name in sorted(self._names()):
            with suppress(OSError), open(os.path.join(self._notes, name), encoding="utf-8") as file:
                notes.append(file.read())
        return notes

    def set_aside(self, suffix: str) -> None:
        """Moves the notes of an abandoned log out of the way, and keeps them."""
        with suppress(OSError):
            os.rename(self._notes, f"{self._notes}-{suffix}")

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._notes) if name.endswith(".note")]
        except OSError:
            return []

    def _seed(self) -> bytes:
        try:
            with open(self._key, "rb") as file:
                seed = file.read()
        except FileNotFoundError:
            return self._make()
        if len(seed) != SEED_BYTES:
            raise ValueError(f"{self._key} is not a signing key")
        return seed

    def _make(self) -> bytes:
        os.makedirs(os.path.dirname(self._key), 0o700, exist_ok=True)
        seed = os.urandom(SEED_BYTES)
        draft = f"{self._key}.{os.getpid()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(seed)
            os.fsync(file.fileno())
        try:
            os.link(draft, self._key)  # fails where another process was first
        except FileExistsError:
            return self._seed()
        finally:
            os.unlink(draft)
        return seed


def signer(workspace: str) -> str:
    return f"interlock/{workspace}"


def parsed(verifier: str) -> tuple[str, bytes]:
    return parse_verifier_key(verifier)
