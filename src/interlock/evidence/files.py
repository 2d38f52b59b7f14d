"""Copy a file that is attached as evidence, with masked secrets, its size and its digest."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from interlock.errors import NotFound, TooLarge, Usage
from interlock.rooms.work.secrets import Masker

BLOCK = 1 << 20
# The first bytes show whether a file is text. Only text is masked.
SAMPLE = 8192


@contextmanager
def attached(path: str, most: int) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Yield the payload of evidence of the kind `file`, and a copy of the file to store. Raise
    NotFound, Usage or TooLarge."""
    try:
        # Do not wait for a pipe without a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as trouble:
        raise NotFound(f"Cannot read {path}: {trouble.strerror}.") from None
    except ValueError:
        raise Usage(f"{path[:80]!r} is not a valid file name.") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Usage(f"{path} is not a regular file. Attach a regular file, or a note.")
    with os.fdopen(descriptor, "rb") as file, tempfile.TemporaryFile() as copy:
        if status.st_size > most:
            raise TooLarge(
                f"{path} has {status.st_size} bytes. The limit is {most} bytes. Attach the "
                "relevant part."
            )
        digest, masker = hashlib.sha256(), Masker()
        is_text = b"\0" not in file.peek(SAMPLE)[:SAMPLE]
        data = None
        while data != b"":
            data = kept = file.read(BLOCK)
            if is_text:
                kept = b"".join(piece.stored for piece in masker.feed(data, last=not data))
            digest.update(kept)
            copy.write(kept)
        payload = {
            "kind": "file",
            "name": os.path.basename(os.path.abspath(path)),
            "sha256": digest.hexdigest(),
            "size": copy.tell(),
        }
        copy.seek(0)
        yield payload | ({"masked": masker.count} if masker.count else {}), copy
