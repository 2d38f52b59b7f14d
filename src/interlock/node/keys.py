"""The key that signs checkpoints, and the checkpoints kept beside the log.

They lie in the workspace's directory and not in the database, so that somebody who rewrites the
one still has to forge the other.
"""

import hashlib
import os
from contextlib import suppress

from interlock.errors import EngineUnavailable, LogDamaged, Refusal, Usage
from interlock.log.merkle import Frontier
from interlock.log.notes import Checkpoint, public_key, sign, verifier_key

SEED_BYTES = 32
# Said without the directory's path, because visitors of pages are told too.
NAMED = "keys/checkpoint.key in the workspace's directory"
KEPT = 10
EVERY = 128


class Keys:
    def __init__(self, directory: str) -> None:
        self._key = os.path.join(directory, "keys", "checkpoint.key")
        self._notes = os.path.join(directory, "checkpoints")

    def verifier(self, workspace: str) -> str:
        """The public half, in the form that checkpoints are verified with."""
        return verifier_key(signer(workspace), public_key(self._seed()))

    def make(self) -> None:
        """Makes the key, unless there is one: for a new log, or one that begins anew."""
        if not self.exist():
            self._make(os.urandom(SEED_BYTES))

    def adopt(self, seed: bytes) -> None:
        """Takes the key of a workspace that others made."""
        self._make(_checked(seed))
        if self._seed() != seed:
            raise Usage("This directory has the key of another workspace. Use another directory.")

    @property
    def path(self) -> str:
        """Where the key lies that another node of the workspace needs."""
        return self._key

    def exist(self) -> bool:
        try:
            os.stat(self._key)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as trouble:
            raise _barred(trouble) from None
        return True

    def trouble(self) -> Refusal | None:
        """Why nothing can be signed or sealed with the key just now."""
        try:
            self._seed()
        except Refusal as refusal:
            return refusal
        return None

    def sealing(self) -> bytes:
        """The key that entries are sealed with on an engine that others may write to."""
        return sealing(self._seed())

    def derived(self, purpose: bytes) -> bytes:
        """A key of the workspace's for one purpose, the same on every node of it."""
        return hashlib.blake2b(b"for " + purpose, key=self._seed(), digest_size=32).digest()

    def fingerprint(self, data: bytes) -> str:
        """A digest that only the holder of the workspace's key can compute; without the key, one
        that nobody can."""
        try:
            key = self._seed()
        except (LogDamaged, EngineUnavailable):
            key = os.urandom(SEED_BYTES)
        return hashlib.blake2b(data, key=key, digest_size=32).hexdigest()

    def checkpoint(self, workspace: str, epoch: int, frontier: Frontier) -> str:
        """Signs the tree as it stands and keeps the note."""
        note = self.signed(workspace, frontier)
        self.keep(note, frontier.size, epoch)
        return note

    def signed(self, workspace: str, frontier: Frontier) -> str:
        name = signer(workspace)
        return sign(Checkpoint(name, frontier.size, frontier.root()), name, self._seed())

    def keep(self, note: str, size: int, epoch: int) -> None:
        """Keeps a note beside the log, with the latest few. The epoch is in its name: a note that
        comes late, after a restore, is of the abandoned log."""
        os.makedirs(self._notes, 0o700, exist_ok=True)
        path = os.path.join(self._notes, f"{size:020}-{epoch}.note")
        draft = f"{path}.{os.urandom(8).hex()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(note)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        for old in sorted(self._names())[:-KEPT]:
            with suppress(OSError):
                os.unlink(os.path.join(self._notes, old))

    def kept(self) -> list[tuple[int, str]]:
        """The notes beside the log, oldest first, each with its epoch."""
        notes = []
        for name in sorted(self._names()):
            epoch = name.removesuffix(".note").rpartition("-")[2]
            with suppress(OSError), open(os.path.join(self._notes, name), "rb") as file:
                note = file.read().decode("utf-8", "replace")
                notes.append((int(epoch) if epoch.isdecimal() else 0, note))
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
        except (FileNotFoundError, NotADirectoryError):
            raise LogDamaged(
                f"The key that signs checkpoints is gone. Put {NAMED} back from a copy, or "
                "restore a backup, which begins a new key."
            ) from None
        except OSError as trouble:
            raise _barred(trouble) from None
        if len(seed) != SEED_BYTES:
            raise LogDamaged(
                "The key that signs checkpoints was changed: it is no key. Put "
                f"{NAMED} back from a copy."
            )
        return seed

    def _make(self, seed: bytes) -> None:
        try:
            self._write(seed)
        except OSError as trouble:
            raise EngineUnavailable(
                f"The workspace's key cannot be made ({trouble.strerror}). Look at the owner and "
                "the mode of keys in the workspace's directory, and at the space on its disk."
            ) from None

    def _write(self, seed: bytes) -> None:
        os.makedirs(os.path.dirname(self._key), 0o700, exist_ok=True)
        draft = f"{self._key}.{os.urandom(8).hex()}"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(seed)
            os.fsync(file.fileno())
        try:
            with suppress(FileExistsError):  # another process was first
                os.link(draft, self._key)
        finally:
            os.unlink(draft)


def _barred(trouble: OSError) -> EngineUnavailable:
    """The key is there, and this process may not use it: nothing is lost."""
    return EngineUnavailable(
        f"The key that signs checkpoints cannot be used ({trouble.strerror}). It is whole as far "
        f"as anybody knows, so restore nothing: give {NAMED} to the user who runs Interlock "
        "(chown), for them alone (chmod 600, and 700 for keys)."
    )


def signer(workspace: str) -> str:
    return f"interlock/{workspace}"


def sealing(seed: bytes) -> bytes:
    """The key that entries are sealed with, of the workspace's."""
    return hashlib.blake2b(b"seal", key=_checked(seed), digest_size=32).digest()


def _checked(seed: bytes) -> bytes:
    if len(seed) != SEED_BYTES:
        raise Usage(f"That is not a workspace's key: keys/checkpoint.key has {SEED_BYTES} bytes.")
    return seed
