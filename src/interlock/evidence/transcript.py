"""What a run wrote to both its streams, in the order of arrival, masked, within the limit."""

from collections import deque
from typing import Final

from interlock.evidence.keeping import Keeper
from interlock.rooms.work.secrets import MASK, Masker, Piece

# How much of one stream waits for another that has not ended its line.
MAX_WAITING: Final = 1 << 16


class _Arrival:
    """So many bytes of one stream came at once."""

    def __init__(self, stream: int, left: int) -> None:
        self.stream = stream
        self.left = left


class Transcript:
    """Each stream is masked by itself, since what comes between on the other would cut a secret
    in two. What a masker still holds back keeps its place: later bytes wait for it, up to a
    limit, beyond which they go first."""

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
        """Stores what is still held back; whether the limit left something out."""
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
        """Stores what is settled of this arrival, as far as it goes."""
        settled = self._settled[arrival.stream]
        while arrival.left and settled:
            piece = settled.popleft()
            if piece.taken > arrival.left:
                piece, rest = _split(piece, arrival.left)
                settled.appendleft(rest)
            self._keeper.write(piece.stored)
            arrival.left -= piece.taken
            self._waiting -= piece.taken


def _split(piece: Piece, size: int) -> tuple[Piece, Piece]:
    # A mask stands whole where its secret began.
    at = len(piece.stored) if piece.stored in (MASK, b"") else size
    return Piece(size, piece.stored[:at]), Piece(piece.taken - size, piece.stored[at:])
