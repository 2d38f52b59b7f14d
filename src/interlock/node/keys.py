"""The workspace's key: it signs checkpoints, seals entries and data for clients, and makes
fingerprints. This module stores the signed checkpoints too.

Key and checkpoints are in the workspace's directory, outside the database. An attacker who
rewrites the database must therefore forge the checkpoints too.
"""

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.errors import EngineUnavailable, LogDamaged, Refusal, Usage
from interlock.log.merkle import Frontier
from interlock.log.notes import Checkpoint, public_key, sign, verifier_key

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

SEED_BYTES = 32
# Without the directory's path, because visitors of the dashboard can read this text.
NAMED = "keys/checkpoint.key in the workspace's directory"
KEPT = 10
EVERY = 128


class Keys:
    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "keys", "checkpoint.key")
        self._notes = os.path.join(directory, "checkpoints")

    # --- the key

    def exist(self) -> bool:
        try:
            os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as trouble:
            raise _unusable(trouble) from None
        return True

    def make(self) -> None:
        """Make the key for a new or restored log, unless the key exists."""
        if not self.exist():
            self._write(os.urandom(SEED_BYTES))

    def adopt(self, seed: bytes) -> None:
        """Store the key of a workspace that another node created."""
        self._write(_checked(seed))
        if self._seed() != seed:
            raise Usage("This directory has the key of another workspace. Use another directory.")

    def trouble(self) -> Refusal | None:
        """The reason why this process cannot use the key, or None."""
        try:
            self._seed()
        except Refusal as refusal:
            return refusal
        return None

    def _seed(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                seed = file.read()
        except (FileNotFoundError, NotADirectoryError):
            raise LogDamaged(
                f"The key that signs checkpoints is missing. Restore {NAMED} from a copy, or "
                "restore a backup, which starts a new key."
            ) from None
        except OSError as trouble:
            raise _unusable(trouble) from None
        if len(seed) != SEED_BYTES:
            raise LogDamaged(
                f"The key that signs checkpoints is damaged: it has {len(seed)} bytes instead of "
                f"{SEED_BYTES}. Restore {NAMED} from a copy."
            )
        return seed

    def _write(self, seed: bytes) -> None:
        """Write the key, unless another process has written it."""
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            draft = f"{self.path}.{os.urandom(8).hex()}"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(seed)
                os.fsync(file.fileno())
            try:
                with suppress(FileExistsError):
                    os.link(draft, self.path)
            finally:
                os.unlink(draft)
        except OSError as trouble:
            raise EngineUnavailable(
                f"Interlock cannot create the workspace's key ({trouble.strerror}). Check the "
                "owner and mode of keys in the workspace's directory, and the free disk space."
            ) from None

    # --- derived from the key

    def verifier(self, workspace: str) -> str:
        """The public key, in the form that verifies checkpoints."""
        return verifier_key(signer(workspace), public_key(self._seed()))

    def sealing(self) -> bytes:
        """The key that seals entries on a shared engine, which other writers may reach."""
        return sealing(self._seed())

    def derived(self, purpose: bytes) -> bytes:
        """A key for one purpose, the same on every node of the workspace."""
        return hashlib.blake2b(b"for " + purpose, key=self._seed(), digest_size=32).digest()

    def fingerprint(self, data: bytes) -> str:
        """A digest that only a process with the key can compute. If this process cannot use the
        key, the digest is random."""
        try:
            key = self._seed()
        except (LogDamaged, EngineUnavailable):
            key = os.urandom(SEED_BYTES)
        return hashlib.blake2b(data, key=key, digest_size=32).hexdigest()

    # --- checkpoints

    def checkpoint(self, workspace: str, epoch: int, frontier: Frontier) -> str:
        """Sign the tree, and store the note."""
        note = self.signed(workspace, frontier)
        self.keep(note, frontier.size, epoch)
        return note

    def signed(self, workspace: str, frontier: Frontier) -> str:
        name = signer(workspace)
        return sign(Checkpoint(name, frontier.size, frontier.root()), name, self._seed())

    def keep(self, note: str, size: int, epoch: int) -> None:
        """Store a note in the workspace's directory, and delete all but the latest few. The epoch
        in the name tells a note of an abandoned log, which may arrive after a restore."""
        os.makedirs(self._notes, 0o700, exist_ok=True)
        path = os.path.join(self._notes, f"{size:020}-{epoch}.note")
        draft = f"{path}.{os.urandom(8).hex()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(note)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        for old in self._names()[:-KEPT]:
            with suppress(OSError):
                os.unlink(os.path.join(self._notes, old))

    def kept(self) -> list[tuple[int, str]]:
        """The stored notes, oldest first, each with its epoch."""
        notes = []
        for name in self._names():
            epoch = name.removesuffix(".note").rpartition("-")[2]
            with suppress(OSError), open(os.path.join(self._notes, name), "rb") as file:
                note = file.read().decode("utf-8", "replace")
                notes.append((int(epoch) if epoch.isdecimal() else 0, note))
        return notes

    def set_aside(self, suffix: str) -> None:
        """Rename the directory of notes, which belong to an abandoned log."""
        with suppress(OSError):
            os.rename(self._notes, f"{self._notes}-{suffix}")

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._notes) if name.endswith(".note"))
        except OSError:
            return []


class Seals:
    """Seals data that a client stores and sends back, so that the server need not store it: the
    registration of an OAuth client, for example. Every node of the workspace can open a seal. A
    client can neither read nor make one."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, purpose: str, content: dict[str, Any]) -> str:
        import orjson

        return self._fernet(purpose).encrypt(orjson.dumps(content)).decode().rstrip("=")

    def opened(self, purpose: str, text: str, lasts_s: int | None = None) -> dict[str, Any] | None:
        """The content that was sealed for this purpose, or None for a forged or expired seal."""
        import orjson
        from cryptography.fernet import InvalidToken

        padded = text + "=" * (-len(text) % 4)
        try:
            content: dict[str, Any] = orjson.loads(self._fernet(purpose).decrypt(padded, lasts_s))
        except (InvalidToken, ValueError):
            return None
        return content

    def _fernet(self, purpose: str) -> "Fernet":
        from base64 import urlsafe_b64encode

        from cryptography.fernet import Fernet

        return Fernet(urlsafe_b64encode(self._keys.derived(purpose.encode())))


def _unusable(trouble: OSError) -> EngineUnavailable:
    """Return the refusal for a key that exists, but that this process has no permission to use."""
    return EngineUnavailable(
        f"Interlock cannot read the key that signs checkpoints ({trouble.strerror}). The key "
        f"exists, so restore nothing. Make the user who runs Interlock the owner of {NAMED} "
        "(chown), and allow access to that user only (chmod 600, and chmod 700 for keys)."
    )


def signer(workspace: str) -> str:
    return f"interlock/{workspace}"


def sealing(seed: bytes) -> bytes:
    """Derive the key that seals entries from the workspace's key."""
    return hashlib.blake2b(b"seal", key=_checked(seed), digest_size=32).digest()


def _checked(seed: bytes) -> bytes:
    if len(seed) != SEED_BYTES:
        raise Usage(
            f"The file is not a workspace's key. It has {len(seed)} bytes instead of {SEED_BYTES}. "
            "Give a copy of keys/checkpoint.key."
        )
    return seed
