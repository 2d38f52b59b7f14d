"""Keeping what a run writes within a limit: its beginning and its end, and a line between them
that says how much is not kept."""

import os
from contextlib import suppress
from typing import BinaryIO

_BLOCK = 1 << 20


class Keeper:
    """A file that takes any number of bytes and never holds more than the limit. The first half
    of the limit is written once; the second half is a ring that always has the latest."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._file: BinaryIO = open(path, "w+b")  # noqa: SIM115 - see close
        self._half = limit // 2
        self._ring = limit - self._half
        self._written = 0

    def write(self, data: bytes) -> None:
        room = max(0, self._half - self._written)
        self._file.write(data[:room])
        self._written += min(room, len(data))
        rest = memoryview(data)[room:]
        # Of more than the whole ring only the end would stay.
        skipped = max(0, len(rest) - self._ring)
        if skipped:
            self._written += skipped
            rest = rest[skipped:]
            self._file.seek(self._half + self._position())
        while rest:
            part = rest[: self._ring - self._position()]
            self._file.write(part)
            self._written += len(part)
            rest = rest[len(part) :]
            if self._position() == 0:
                self._file.seek(self._half)

    def _position(self) -> int:
        return (self._written - self._half) % self._ring if self._ring else 0

    def finish(self) -> bool:
        """Puts the parts in their order; whether something is missing between them."""
        missing = self._written - self._half - self._ring
        if missing > 0:
            self._join(missing)
        self._file.flush()
        return missing > 0

    def _join(self, missing: int) -> None:
        joined = f"{self._path}.joined"
        with open(joined, "wb") as whole:
            self._copy(0, self._half, whole)
            whole.write(f"\n[interlock: {missing} bytes are not kept here]\n".encode())
            self._copy(self._half + self._position(), self._half + self._ring, whole)
            self._copy(self._half, self._half + self._position(), whole)
        os.replace(joined, self._path)

    def _copy(self, start: int, end: int, target: BinaryIO) -> None:
        self._file.seek(start)
        while block := self._file.read(min(_BLOCK, end - start)):
            target.write(block)
            start += len(block)

    def close(self) -> None:
        # What could not be written stays in the buffer, and fails here again.
        with suppress(OSError):
            self._file.close()
