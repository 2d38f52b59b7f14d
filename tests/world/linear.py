"""Checks what callers saw of the claim on one item: could it all have happened one call at a time?

A history holds where every call can be given an instant between its start and its end such that,
in the order of those instants, each answer is the one that Interlock's claims give. A call whose
outcome is unknown may have happened at any time after its start, or never.

The search goes through starts and ends in the order of time. It keeps every standing that the
calls so far can have led to, and puts a call in its place no earlier than somebody's end makes it
necessary; when no standing is left, the call that ended there cannot be explained. Nothing here
knows how Interlock does it.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Literal, NamedTuple

Verb = Literal["take", "release", "check"]
Outcome = Literal["granted", "held", "released", "refused", "free", "unknown"]


class Held(NamedTuple):
    """Who holds the item and by which fence, as an answer says."""

    holder: str
    fence: int


class Call(NamedTuple):
    """A call and its answer, with the times around it; the end of one that is unknown is None.

    `fence` is what a release presents. A take is granted or held, a release released, refused or
    free (nobody held it), a check held or free."""

    verb: Verb
    caller: str
    start: int
    end: int | None = None
    outcome: Outcome = "unknown"
    held: Held | None = None
    fence: int | None = None


def lapse(take: Call, lease: int) -> Call:
    """What the end of a lease may do to the claim that was taken: it is given up, at any time after
    the lease, or never, as where it was given up or extended before."""
    fence = take.held.fence if take.held is not None else None
    return Call("release", take.caller, take.start + lease, fence=fence)


class Item(NamedTuple):
    """The claim on an item. Its fence is None where an unknown take gave it and nobody has shown it
    since; `last` is the highest that was shown, and whatever comes is higher."""

    holder: str | None = None
    fence: int | None = None
    last: int = 0


def after(item: Item, call: Call) -> Item | None:
    """The item after a call at this instant; None where its answer would have been another."""
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
    """The item where the caller holds it by the fence it presents, or may do so."""
    if item.holder != call.caller or call.fence is None:
        return item if item.holder == call.caller else None
    return _shown(item, Held(call.caller, call.fence))


def _shown(item: Item, held: Held | None) -> Item | None:
    """The item once an answer has said who holds it; None where that cannot be."""
    if held is None or held.holder != item.holder:
        return None
    if item.fence is None:
        return Item(held.holder, held.fence, held.fence) if held.fence > item.last else None
    return item if held.fence == item.fence else None


# --- the search


class Standing(NamedTuple):
    """What the calls so far can have led to: which of those under way have happened, and which of
    the unknown ones were needed for it."""

    item: Item = Item()
    done: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()

    def cost(self) -> tuple[int, int]:
        return len(self.used), -len(self.done)


class Best:
    """Standings of which none is needless: whatever could follow one can follow another that has
    used less, as an unknown call may still happen later, or never."""

    def __init__(self) -> None:
        self._kept: dict[Item, list[Standing]] = {}

    def add(self, new: Standing) -> bool:
        """Keeps it unless it is needless; those of less cost come first."""
        kept = self._kept.setdefault(new.item, [])
        if any(old.done >= new.done and old.used <= new.used for old in kept):
            return False
        kept.append(new)
        return True

    def all(self) -> list[Standing]:
        return [standing for kept in self._kept.values() for standing in kept]


def unexplained(history: Iterable[Call]) -> Call | None:
    """The first call, by its end, up to which no order explains what was answered; None where the
    history holds. Times are all of one clock."""
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
    """The standings in which the call has happened, by whatever else had to happen first."""
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
    """What one more call can lead to. Of unknown calls that are alike the first is as good as any;
    a known answer that fits and changes nothing is best given at once."""
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
