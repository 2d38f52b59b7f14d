"""A file that is attached as evidence: what is kept of it, with its size and its digest."""

import hashlib
import os
import stat
import tempfile
from types import TracebackType
from typing import Any, Self

from interlock.errors import NotFound, TooLarge, Usage
from interlock.rooms.work.secrets import Masker

BLOCK = 1 << 20
# So much of a file shows whether it is text, in which secrets are masked.
LOOKED_AT = 8192


class Attached:
    """The payload of evidence of the kind `file`, and a copy of what is to be stored. Closing it
    removes the copy."""

    def __init__(self, path: str, most: int) -> None:
        source = _opened(path, most)
        self._copy = tempfile.NamedTemporaryFile(prefix="interlock-file-")  # noqa: SIM115
        whole = hashlib.sha256()
        masker = Masker()
        size = 0
        with os.fdopen(source, "rb") as file:
            is_text = b"\0" not in file.peek(LOOKED_AT)[:LOOKED_AT]
            while True:
                data = file.read(BLOCK)
                kept = data
                if is_text:
                    pieces = masker.feed(data, last=not data)
                    kept = b"".join(piece.stored for piece in pieces)
                whole.update(kept)
                size += len(kept)
                self._copy.write(kept)
                if not data:
                    break
        self._copy.flush()
        self.output = self._copy.name
        name = os.path.basename(os.path.abspath(path))
        self.payload: dict[str, Any] = {
            "kind": "file",
            "name": name,
            "sha256": whole.hexdigest(),
            "size": size,
        } | ({"masked": masker.count} if masker.count else {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        trouble: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._copy.close()


def _opened(path: str, most: int) -> int:
    """A descriptor of an ordinary file that is not too large. A pipe that nobody writes to must
    not be waited for."""
    try:
        found = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
    except ValueError:
        raise Usage(f"{path[:80]!r} is no file's name.") from None
    status = os.fstat(found)
    try:
        if not stat.S_ISREG(status.st_mode):
            raise Usage(f"{path} is no ordinary file. Attach one, or a note.")
        if status.st_size > most:
            raise TooLarge(
                f"{path} has {status.st_size} bytes; at most {most} are taken. Attach the part "
                "that matters."
            )
    except (Usage, TooLarge):
        os.close(found)
        raise
    return found
