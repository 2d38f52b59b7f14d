"""A file that is attached as evidence: the copy that is stored, with its size and its digest."""

import hashlib
import os
import stat
import tempfile
from typing import Any, Self

from interlock.errors import NotFound, TooLarge, Usage
from interlock.rooms.work.secrets import Masker

BLOCK = 1 << 20
# The first bytes show whether a file is text, in which secrets are masked.
SAMPLE = 8192


class Attached:
    """The payload of evidence of the kind `file`, and a copy of the file to be stored. Closing it
    removes the copy. Raises NotFound, Usage or TooLarge."""

    def __init__(self, path: str, most: int) -> None:
        try:
            # Do not wait for a pipe without a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as trouble:
            raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
        except ValueError:
            raise Usage(f"{path[:80]!r} is no file's name.") from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise Usage(f"{path} is no ordinary file. Attach one, or a note.")
        if status.st_size > most:
            os.close(descriptor)
            raise TooLarge(
                f"{path} has {status.st_size} bytes; at most {most} are taken. Attach the part "
                "that matters."
            )
        digest = hashlib.sha256()
        masker = Masker()
        size = 0
        with os.fdopen(descriptor, "rb") as file:
            self._copy = tempfile.NamedTemporaryFile(prefix="interlock-file-")  # noqa: SIM115
            is_text = b"\0" not in file.peek(SAMPLE)[:SAMPLE]
            while True:
                data = kept = file.read(BLOCK)
                if is_text:
                    pieces = masker.feed(data, last=not data)
                    kept = b"".join(piece.stored for piece in pieces)
                digest.update(kept)
                size += len(kept)
                self._copy.write(kept)
                if not data:
                    break
        self._copy.flush()
        self.output = self._copy.name
        self.payload: dict[str, Any] = {
            "kind": "file",
            "name": os.path.basename(os.path.abspath(path)),
            "sha256": digest.hexdigest(),
            "size": size,
        } | ({"masked": masker.count} if masker.count else {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.close()
