"""Copy the output of a run live to the caller's streams, and store it in a file of limited size,
with secrets masked."""

import os
import select
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final

from interlock.rooms.work.secrets import MASK, Masker, Piece

# The maximum number of bytes that wait until a masker releases earlier bytes of the other stream.
MAX_WAITING: Final = 1 << 16
_PIPE_BLOCK: Final = 1 << 16
_FILE_BLOCK: Final = 1 << 20


class Live:
    """A stream of the caller. A write error does not stop the run."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_broken = False
        try:
            stream.flush()
            self._fd: int | None = stream.fileno()
        except (OSError, ValueError):
            self._fd = None  # a buffer in memory

    def write(self, data: bytes) -> None:
        if self._is_broken:
            return
        try:
            if self._fd is None:
                self._stream.write(data)
                self._stream.flush()
                return
            # Bypass the stream's buffer: bytes that cannot be written would stay in it.
            rest = memoryview(data)
            while rest:
                try:
                    rest = rest[os.write(self._fd, rest) :]
                except BlockingIOError:
                    select.select([], [self._fd], [])
        except (OSError, ValueError):
            self._is_broken = True


class Copier(threading.Thread):
    """Copies the pipes of a run to the caller's streams, and calls `keep` with the number of the
    stream and the bytes. It reads until the pipes end. After a call of `drain`, it reads until they
    are empty, so that a process that keeps a pipe open cannot block the run."""

    def __init__(
        self,
        pipes: list[int],
        streams: list[Live],
        keep: Callable[[int, bytes], None],
        failed: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True)
        self._streams = streams
        self._keep = keep
        self._failed = failed
        self._is_draining = False
        self._wake_reader, self._wake_writer = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        for number, pipe in enumerate(pipes):
            self._selector.register(pipe, selectors.EVENT_READ, number)
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while len(self._selector.get_map()) > 1:
                ready = self._selector.select(0 if self._is_draining else None)
                pipes = [key for key, _ in ready if key.data is not None]
                if self._is_draining and not pipes:
                    return
                for key in pipes:
                    data = os.read(key.fd, _PIPE_BLOCK)
                    if not data:
                        self._selector.unregister(key.fd)
                        continue
                    self._streams[key.data].write(data)
                    self._keep(key.data, data)
        except BaseException as error:  # noqa: BLE001 - `drain` raises it
            self._error = error
            self._failed()

    def drain(self) -> None:
        """Wait until all output is copied. Raise the error of the thread, if any."""
        self._is_draining = True
        os.write(self._wake_writer, b"!")
        self.join()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        if self._error is not None:
            raise self._error


class Keeper:
    """A file with a size limit. Its first half stores the first bytes. Its second half is a ring
    buffer with the latest bytes. At the end, a line between the two parts gives the number of
    missing bytes."""

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
        # Skip bytes that later bytes of the same data would overwrite.
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
        """Put the parts in order. Return whether bytes are missing between them."""
        missing = self._written - self._half - self._ring
        if missing > 0:
            oldest = self._half + self._position()
            joined = f"{self._path}.joined"
            with open(joined, "wb") as whole:
                self._copy(0, self._half, whole)
                whole.write(f"\n[interlock: {missing} bytes are not stored]\n".encode())
                self._copy(oldest, self._half + self._ring, whole)
                self._copy(self._half, oldest, whole)
            os.replace(joined, self._path)
        self._file.flush()
        return missing > 0

    def _copy(self, start: int, end: int, target: BinaryIO) -> None:
        self._file.seek(start)
        while block := self._file.read(min(_FILE_BLOCK, end - start)):
            target.write(block)
            start += len(block)

    def close(self) -> None:
        # If a write failed, its bytes are still in the buffer, and closing fails too.
        with suppress(OSError):
            self._file.close()


class _Arrival:
    """Bytes of one stream from one read. `left` of them are not stored yet."""

    def __init__(self, stream: int, left: int) -> None:
        self.stream = stream
        self.left = left


class Transcript:
    """Both streams of a run in the order of arrival. Each stream has its own masker, because bytes
    of the other stream could split a secret. A masker can hold bytes back. Later bytes of the other
    stream wait for them, up to a limit. Above the limit, the later bytes are stored first."""

    def __init__(self, keeper: Keeper, streams: int = 2) -> None:
        self._keeper = keeper
        self._maskers = [Masker() for _ in range(streams)]
        self._settled: list[deque[Piece]] = [deque() for _ in range(streams)]
        self._arrivals: deque[_Arrival] = deque()
        self._waiting = 0
        self.produced = 0

    @property
    def masked(self) -> int:
        return sum(masker.count for masker in self._maskers)

    def add(self, stream: int, data: bytes) -> None:
        self.produced += len(data)
        self._waiting += len(data)
        self._arrivals.append(_Arrival(stream, len(data)))
        self._settled[stream].extend(self._maskers[stream].feed(data))
        self._store()

    def finish(self) -> bool:
        """Store the bytes that are still held back. Return whether bytes are missing because of the
        limit."""
        for masker, settled in zip(self._maskers, self._settled, strict=True):
            settled.extend(masker.feed(b"", last=True))
        self._store()
        return self._keeper.finish()

    def _store(self) -> None:
        while self._arrivals:
            self._take(self._arrivals[0])
            if self._arrivals[0].left:
                break
            self._arrivals.popleft()
        if self._waiting > MAX_WAITING:
            for arrival in self._arrivals:
                self._take(arrival)
            self._arrivals = deque(arrival for arrival in self._arrivals if arrival.left)

    def _take(self, arrival: _Arrival) -> None:
        """Store the bytes of this arrival that its masker has released."""
        settled = self._settled[arrival.stream]
        while arrival.left and settled:
            piece = settled.popleft()
            if piece.taken > arrival.left:
                # Store a mask whole, at the start of its secret.
                is_mask = piece.stored in (MASK, b"")
                at = len(piece.stored) if is_mask else arrival.left
                settled.appendleft(Piece(piece.taken - arrival.left, piece.stored[at:]))
                piece = Piece(arrival.left, piece.stored[:at])
            self._keeper.write(piece.stored)
            arrival.left -= piece.taken
            self._waiting -= piece.taken
