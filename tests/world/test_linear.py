"""The linearizability check accepts exactly the histories that a claim can produce."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from world.linear import Call, Held, Item, Outcome, Verb, after, lapse, unexplained

CALLERS = ("otto", "vera", "nora")
UNHELD = Item()


class Claim:
    """A claim without concurrency, and the fences that it grants."""

    def __init__(self) -> None:
        self.held: Held | None = None
        self.next = 1

    def do(self, verb: Verb, caller: str, fence: int | None) -> tuple[Outcome, Held | None]:
        others = self.held if self.held is not None and self.held.holder != caller else None
        if verb == "check":
            return ("held" if self.held else "free"), self.held
        if verb == "take":
            self.held = self.held or self._new(caller)
            return ("held" if others else "granted"), self.held
        if self.held is None and fence is None:
            return "free", None
        if self.held is None or others or fence not in (None, self.held.fence):
            return "refused", others
        self.held = None
        return "released", None

    def _new(self, caller: str) -> Held:
        """Grant a fence. Other items use up numbers too, so some are missing."""
        self.next += 1 + self.next % 3
        return Held(caller, self.next)


class ConcurrentCallers:
    """Concurrent callers of one claim. Random numbers decide each step.

    A call starts, happens and ends in separate steps. A call that its caller abandons may still
    happen later."""

    def __init__(self) -> None:
        self.claim = Claim()
        self.now = 0
        self.history: list[Call] = []
        self.calling: dict[str, int] = {}
        self.waiting: list[int] = []
        self.fences: dict[str, int] = {}

    def move(self, caller: str, draw: int) -> None:
        self.now += 1
        if self.waiting and draw % 5 == 0:
            self._happen(self.waiting.pop(draw % len(self.waiting)))
        elif caller not in self.calling:
            self._begin(caller, draw)
        elif draw % 7 == 1:
            del self.calling[caller]
        else:
            self._end(caller)

    def _begin(self, caller: str, draw: int) -> None:
        verbs: tuple[Verb, ...] = ("take", "release", "check", "take", "release")
        fence = self.fences.get(caller) if draw % 3 else None
        verb = verbs[draw % 5]
        call = Call(verb, caller, self.now, fence=fence if verb == "release" else None)
        self.calling[caller] = len(self.history)
        self.waiting.append(len(self.history))
        self.history.append(call)

    def _happen(self, number: int) -> None:
        """Execute a call. Its answer is fixed from now on, even if the caller never receives it."""
        call = self.history[number]
        outcome, held = self.claim.do(call.verb, call.caller, call.fence)
        self.history[number] = call._replace(outcome=outcome, held=held)

    def _end(self, caller: str) -> None:
        number = self.calling.pop(caller)
        if number in self.waiting:
            self.waiting.remove(number)
            self._happen(number)
        call = self.history[number] = self.history[number]._replace(end=self.now)
        if call.outcome == "granted" and call.held is not None:
            self.fences[caller] = call.held.fence

    def seen(self) -> list[Call]:
        """Return the history as its callers know it."""
        return [
            call if call.end is not None else call._replace(outcome="unknown", held=None)
            for call in self.history
        ]


def history_of(moves: Sequence[tuple[str, int]]) -> list[Call]:
    callers = ConcurrentCallers()
    for caller, draw in moves:
        callers.move(caller, draw)
    return callers.seen()


def histories(longest: int) -> st.SearchStrategy[list[Call]]:
    move = st.tuples(st.sampled_from(CALLERS), st.integers(0, 104))
    return st.lists(move, max_size=longest).map(history_of)


# --- possible histories


@settings(max_examples=300)
@given(histories(80))
def test_history_of_overlapping_and_abandoned_calls_is_explained(
    history: list[Call],
) -> None:
    assert unexplained(history) is None


def test_a_thousand_calls_with_a_hundred_unknown_outcomes_are_explained() -> None:
    chance = random.Random(5)
    callers = [f"agent-{number}" for number in range(16)]
    moves = [(chance.choice(callers), chance.randrange(105)) for _ in range(3_200)]
    history = history_of(moves)
    assert len(history) > 1_000
    assert sum(call.end is None for call in history) > 100
    assert unexplained(history) is None


def test_a_repeated_take_of_the_holder_keeps_its_fence() -> None:
    assert unexplained([granted("otto", 1, 2, 7), granted("otto", 3, 4, 7)]) is None
    assert unexplained([granted("otto", 1, 2, 7), granted("otto", 3, 4, 8)]) is not None


def test_unknown_take_may_happen_late_or_never() -> None:
    start = [unknown("otto", 1), granted("vera", 2, 3, 1), released("vera", 4, 5, 1)]
    late = seen("nora", 6, 7, Held("otto", 2))
    assert unexplained([*start, late]) is None
    assert unexplained([*start, free("nora", 6, 7)]) is None
    assert unexplained([*start, free("nora", 6, 7), late._replace(start=8, end=9)]) is None


@pytest.mark.parametrize("fences", [(None, 3), (3, None)])
def test_search_keeps_the_unknown_release_that_it_needs_later(
    fences: tuple[int | None, int | None],
) -> None:
    unsure = [Call("release", "otto", 3, fence=fence) for fence in fences]
    once = [granted("otto", 1, 2, 3), *unsure, free("vera", 4, 5), granted("otto", 6, 7, 4)]
    twice = [*once, free("vera", 8, 9), granted("otto", 10, 11, 5)]
    assert unexplained(twice) is None
    third = free("vera", 12, 13)
    assert unexplained([*twice, third]) == third


def test_others_are_granted_the_claim_only_after_the_lease() -> None:
    first = granted("otto", 10, 12, 1)
    history = [first, lapse(first, 100)]
    assert unexplained([*history, granted("vera", 110, 113, 2)]) is None
    assert unexplained([*history, granted("vera", 108, 111, 2)]) is None
    early = granted("vera", 105, 109, 2)
    assert unexplained([*history, early]) == early
    # The claim may stay held after the lease, if no call noticed the end or extended the lease.
    assert unexplained([*history, seen("vera", 120, 121, Held("otto", 1))]) is None


def test_lease_of_an_unknown_take_ends_too() -> None:
    take = unknown("otto", 10)
    later = [seen("vera", 20, 21, Held("otto", 1)), granted("vera", 115, 116, 2)]
    assert unexplained([take, lapse(take, 100), *later]) is None
    assert unexplained([take, *later]) == later[1]


# --- impossible histories


def granted(caller: str, start: int, end: int, fence: int) -> Call:
    return Call("take", caller, start, end, "granted", Held(caller, fence))


def denied(caller: str, start: int, end: int, held: Held) -> Call:
    return Call("take", caller, start, end, "held", held)


def released(caller: str, start: int, end: int, fence: int) -> Call:
    return Call("release", caller, start, end, "released", fence=fence)


def refused(caller: str, start: int, end: int, fence: int, held: Held | None = None) -> Call:
    return Call("release", caller, start, end, "refused", held, fence)


def seen(caller: str, start: int, end: int, held: Held) -> Call:
    return Call("check", caller, start, end, "held", held)


def free(caller: str, start: int, end: int) -> Call:
    return Call("check", caller, start, end, "free")


def unknown(caller: str, start: int) -> Call:
    return Call("take", caller, start)


# Each history ends with the call that no order explains.
FORGED = {
    "a double grant": [granted("otto", 1, 4, 1), granted("vera", 2, 5, 2)],
    "a double grant after unknown takes of others": [
        unknown("nora", 0),
        unknown("vera", 0),
        granted("otto", 1, 2, 3),
        granted("vera", 3, 4, 4),
    ],
    "a fence that repeats": [
        granted("otto", 1, 2, 7),
        released("otto", 3, 4, 7),
        granted("vera", 5, 6, 7),
    ],
    "a fence that goes back": [
        granted("otto", 1, 2, 7),
        released("otto", 3, 4, 7),
        granted("vera", 5, 6, 6),
    ],
    "the fence of an unknown take that goes back": [
        unknown("otto", 0),
        granted("vera", 1, 2, 7),
        released("vera", 3, 4, 7),
        seen("vera", 5, 6, Held("otto", 7)),
    ],
    "two fences of one claim": [
        unknown("otto", 0),
        seen("vera", 1, 2, Held("otto", 3)),
        seen("nora", 3, 4, Held("otto", 4)),
    ],
    "a stale read of a taken claim": [granted("otto", 1, 2, 1), free("vera", 3, 4)],
    "a stale read of a released claim": [
        granted("otto", 1, 2, 1),
        released("otto", 3, 4, 1),
        seen("vera", 5, 6, Held("otto", 1)),
    ],
    "a read that shows a claim, and then an earlier state": [
        unknown("otto", 0),
        seen("vera", 1, 2, Held("otto", 1)),
        free("vera", 3, 4),
    ],
    "a lost acknowledged grant": [
        granted("otto", 1, 2, 1),
        granted("vera", 3, 4, 2),
    ],
    "a lost acknowledged release": [
        granted("otto", 1, 2, 1),
        released("otto", 3, 4, 1),
        denied("vera", 5, 6, Held("otto", 1)),
    ],
    "a release that succeeded twice": [
        granted("otto", 1, 2, 1),
        released("otto", 3, 6, 1),
        released("otto", 4, 7, 1),
    ],
    "a release with a stale fence that succeeded": [
        granted("otto", 1, 2, 1),
        released("otto", 3, 4, 1),
        granted("otto", 5, 6, 2),
        released("otto", 7, 8, 1),
    ],
    "an answer free to the release of a held claim": [
        granted("otto", 1, 2, 1),
        Call("release", "vera", 3, 4, "free"),
    ],
    "an unknown fence without a refusal": [Call("release", "vera", 1, 2, "free", fence=3)],
    "a refusal that does not name the holder": [
        granted("otto", 1, 2, 1),
        refused("vera", 3, 4, 9),
    ],
    "a holder that was denied because of itself": [
        granted("otto", 1, 2, 1),
        denied("otto", 3, 4, Held("otto", 1)),
    ],
    "a grant with the holder and fence of another": [
        granted("otto", 1, 2, 1),
        Call("take", "vera", 3, 4, "granted", Held("otto", 1)),
    ],
    "a refused release of the holder": [granted("otto", 1, 2, 1), refused("otto", 3, 4, 1)],
    "a refusal that names a former holder": [
        granted("otto", 1, 2, 1),
        released("otto", 3, 4, 1),
        granted("vera", 5, 6, 2),
        released("vera", 7, 8, 2),
        refused("otto", 9, 10, 1, Held("vera", 2)),
    ],
    "an unknown take that happened twice": [
        unknown("otto", 0),
        seen("vera", 1, 2, Held("otto", 1)),
        released("otto", 3, 4, 1),
        seen("vera", 5, 6, Held("otto", 2)),
    ],
    "an unknown release that happened twice": [
        granted("otto", 1, 2, 1),
        Call("release", "otto", 3),
        free("vera", 4, 5),
        granted("otto", 6, 7, 2),
        free("vera", 8, 9),
    ],
    "an answer before its cause": [
        denied("vera", 1, 2, Held("otto", 1)),
        granted("otto", 3, 4, 1),
    ],
    "an unknown take that happened before it began": [
        seen("vera", 1, 2, Held("otto", 1)),
        unknown("otto", 3),
    ],
    "a holder that never called": [
        unknown("otto", 0),
        denied("vera", 1, 2, Held("nora", 1)),
    ],
}
EARLIER = {"an answer before its cause", "an unknown take that happened before it began"}


@pytest.mark.parametrize("what", FORGED)
def test_forged_history_is_not_explained(what: str) -> None:
    history = FORGED[what]
    assert unexplained(history) == history[0 if what in EARLIER else -1]


@pytest.mark.parametrize("what", FORGED)
def test_forged_history_is_explained_without_the_forged_call(what: str) -> None:
    """So the check rejects that call, and not an earlier one."""
    history = FORGED[what]
    rest = history[1:] if what in EARLIER else history[:-1]
    assert unexplained(rest) is None


@settings(max_examples=200)
@given(histories(60))
def test_grant_copied_to_another_caller_is_not_explained(history: list[Call]) -> None:
    for take in history:
        if take.outcome == "granted" and take.held is not None:
            copy = take._replace(caller="mallory", held=Held("mallory", take.held.fence))
            assert unexplained([*history, copy]) is not None


# --- comparison with an exhaustive search


def any_order(calls: Sequence[Call], item: Item = UNHELD) -> bool:
    """Whether an order explains the calls that must have happened. Tries all orders."""
    ends = [call.end for call in calls if call.end is not None]
    if not ends:
        return True
    for number, call in enumerate(calls):
        reached = after(item, call) if call.start <= min(ends) else None
        rest = [*calls[:number], *calls[number + 1 :]]
        if reached is not None and any_order(rest, reached):
            return True
    return False


@st.composite
def doubtful_histories(draw: st.DrawFn) -> list[Call]:
    """Draw short histories, some with a changed answer or changed times."""
    history = draw(histories(30).filter(lambda calls: 2 <= len(calls) <= 7))
    for _ in range(draw(st.integers(0, 2))):
        number = draw(st.integers(0, len(history) - 1))
        history[number] = draw(st.sampled_from(forgeries(history[number])))
    return history


def forgeries(call: Call) -> list[Call]:
    found = [call._replace(start=max(0, call.start - 5))]
    if call.end is not None:
        found += [call._replace(end=call.end + 5), call._replace(start=call.start, end=call.start)]
        found += [Call(call.verb, call.caller, call.start, fence=call.fence)]
    if call.held is not None:
        holders = CALLERS if call.outcome == "held" else (call.caller,)
        held = [Held(holder, fence) for holder in holders for fence in range(1, 9)]
        found += [call._replace(held=said) for said in held]
    if call.fence is not None:
        found += [call._replace(fence=fence) for fence in (None, 1, 2, 3, 4)]
    return found


@settings(max_examples=600)
@given(doubtful_histories())
def test_search_agrees_with_the_exhaustive_search(
    history: list[Call],
) -> None:
    assert (unexplained(history) is None) == any_order(history)
