"""A linearizability check for the calls of one claim.

A history is linearizable if each call can have an instant between its start and its end. In the
order of these instants, each answer must be correct for a claim. A call with an unknown outcome may
have happened at any time after its start, or never.

The search processes starts and ends in the order of time. It keeps every state that the calls so
far can have led to. It places a call only when the end of a call requires it. If no state is left,
the call that ended there is not explained. The check does not use the code of Interlock.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Literal, NamedTuple

Verb = Literal["take", "release", "check"]
Outcome = Literal["granted", "held", "released", "refused", "free", "unknown"]


class Held(NamedTuple):
    """The holder of the item and its fence, according to an answer."""

    holder: str
    fence: int


class Call(NamedTuple):
    """A call and its answer, with its start and end. A call with an unknown outcome has no end.

    `fence` is the fence that a release presents. A take is granted or held. A release is released,
    refused, or free (the item had no holder). A check is held or free."""

    verb: Verb
    caller: str
    start: int
    end: int | None = None
    outcome: Outcome = "unknown"
    held: Held | None = None
    fence: int | None = None


def lapse(take: Call, lease: int) -> Call:
    """Return the possible expiry of a claim as a call. The claim may end at any time after the
    lease, or never, because it was released or extended before."""
    fence = take.held.fence if take.held is not None else None
    return Call("release", take.caller, take.start + lease, fence=fence)


class Item(NamedTuple):
    """The claim on an item. Its fence is None if an unknown take created it and no answer has shown
    it since. `last` is the highest fence so far, and each later fence is higher."""

    holder: str | None = None
    fence: int | None = None
    last: int = 0


def after(item: Item, call: Call) -> Item | None:
    """Return the item after a call at this instant, or None if the answer would differ."""
    if call.verb == "take":
        return _take(item, call)
    if call.verb == "release":
        return _release(item, call)
    return item if call.held is None and item.holder is None else _shown(item, call.held)


def _take(item: Item, call: Call) -> Item | None:
    is_others = item.holder not in (None, call.caller)
    if call.outcome == "held":
        return _shown(item, call.held) if is_others else None
    taken = Item(call.caller, None, item.last) if item.holder is None else item
    if call.outcome == "unknown":
        return taken
    return None if is_others else _shown(taken, call.held)


def _release(item: Item, call: Call) -> Item | None:
    mine = _mine(item, call)
    if call.outcome == "released":
        return None if mine is None else Item(last=mine.last)
    if call.outcome == "unknown":
        return item if mine is None else Item(last=mine.last)
    if call.outcome == "free":
        return item if item.holder is None and call.fence is None else None
    if mine == item:
        return None
    if item.holder in (None, call.caller):
        return item if call.held is None else None
    return _shown(item, call.held)


def _mine(item: Item, call: Call) -> Item | None:
    """Return the item if the caller holds it, or may hold it, with the presented fence."""
    if item.holder != call.caller or call.fence is None:
        return item if item.holder == call.caller else None
    return _shown(item, Held(call.caller, call.fence))


def _shown(item: Item, held: Held | None) -> Item | None:
    """Return the item after an answer showed its holder, or None if that is impossible."""
    if held is None or held.holder != item.holder:
        return None
    if item.fence is None:
        return Item(held.holder, held.fence, held.fence) if held.fence > item.last else None
    return item if held.fence == item.fence else None


# --- the search


class Standing(NamedTuple):
    """A possible state after the calls so far. `done` are the pending calls that have happened.
    `used` are the calls with an unknown outcome that the state needs."""

    item: Item = Item()
    done: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()

    def cost(self) -> tuple[int, int]:
        return len(self.used), -len(self.done)


class Best:
    """States without redundant ones. A state is redundant if another state has the same item, has
    done at least the same calls, and has used no further unknown calls."""

    def __init__(self) -> None:
        self._kept: dict[Item, list[Standing]] = {}

    def add(self, new: Standing) -> bool:
        """Add a state unless it is redundant, cheaper states first. Return whether it was added."""
        kept = self._kept.setdefault(new.item, [])
        if any(old.done >= new.done and old.used <= new.used for old in kept):
            return False
        kept.append(new)
        return True

    def all(self) -> list[Standing]:
        return [standing for kept in self._kept.values() for standing in kept]


def unexplained(history: Iterable[Call]) -> Call | None:
    """Return the first call, by its end, that no order explains, or None if the history is
    linearizable. All times are from one clock."""
    calls = sorted(history, key=lambda call: call.start)
    begun: list[int] = []
    standings = [Standing()]
    for _, is_end, number in sorted(_events(calls)):
        if not is_end:
            begun.append(number)
            continue
        standings = _ended(calls, begun, standings, number)
        begun.remove(number)
        if not standings:
            return calls[number]
    return None


def _events(calls: Sequence[Call]) -> Iterator[tuple[int, bool, int]]:
    for number, call in enumerate(calls):
        yield call.start, False, number
        if call.end is not None:
            yield call.end, True, number


def _ended(
    calls: Sequence[Call], begun: Sequence[int], standings: Iterable[Standing], number: int
) -> list[Standing]:
    """Return the states in which the call has happened, after the calls that it needs."""
    found, met = Best(), Best()
    arrival = count()
    waiting = [(standing.cost(), next(arrival), standing) for standing in standings]
    heapify(waiting)
    while waiting:
        _, _, standing = heappop(waiting)
        if number in standing.done:
            found.add(standing._replace(done=standing.done - {number}))
        elif met.add(standing):
            for step in _steps(calls, begun, standing):
                heappush(waiting, (step.cost(), next(arrival), step))
    return found.all()


def _steps(calls: Sequence[Call], begun: Sequence[int], standing: Standing) -> list[Standing]:
    """Return the states after one more call. Of equal unknown calls, try only the first. Place a
    call at once if its answer matches and it changes nothing."""
    steps: list[Standing] = []
    tried: set[Call] = set()
    for number in begun:
        call = calls[number]
        if number in standing.done or number in standing.used:
            continue
        item = after(standing.item, call)
        if item is None or (call.end is None and item == standing.item):
            continue
        if call.end is not None:
            step = Standing(item, standing.done | {number}, standing.used)
            if item == standing.item:
                return [step]
            steps.append(step)
        elif (alike := call._replace(start=0)) not in tried:
            tried.add(alike)
            steps.append(Standing(item, standing.done, standing.used | {number}))
    return steps
