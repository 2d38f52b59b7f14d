"""The rules of work one by one, each in a sentence: who may take, prove, judge, block and end, with
which code the rest is refused, and that what is refused leaves nothing. The clock is the test's."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import errors
from interlock.node import Node, audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim, TakeOverClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import EndSession, Join, MintToken, RevokeToken, StartSession
from interlock.rooms.mail.uploads import attach, in_pieces
from interlock.rooms.mail.verbs import (
    AckMessages,
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
)
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CheckGate,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    ListBlockers,
    ListGates,
    ListTasks,
    RaiseBlocker,
    ResolveBlocker,
    ShowEvidence,
    ShowTask,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import ChangeSetting, Review, ShowLog, Whoami
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run

OWNER = Credentials(owner=True)
COMMIT, LATER = "a" * 40, "b" * 40
TREE, OTHER = "1" * 40, "2" * 40
RECORDED = {"MISSING_SCOPE", "OWN_WORK", "STALE_FENCE"}


class Town:
    """A node on a clock that stands still, and a few who have joined: otto works on two surfaces,
    vera and the person mira hold the gate athena, mal holds nothing."""

    def __init__(self, directory: Path) -> None:
        self.ms = 2_000_000_000_000
        self.node = Node(str(directory), clock=lambda: self.ms)
        # Whether it outlives a loss of power is not the question here, and waiting for disks is.
        self.node.file.writer.execute("PRAGMA synchronous = OFF")
        self.otto = self.join("otto", "cli")
        self.desktop = self.join("otto", "desktop")
        self.vera = self.join("vera")
        self.mal = self.join("mal")
        self.mira = self.join("mira", kind="human")
        self.call(OWNER, CreateGate("athena", ("@vera", "@mira")))

    def join(self, name: str, surface: str | None = None, **said: Any) -> Credentials:
        token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
        self.call(OWNER, Join(name, surface, token_hash=token_format.hashed(token), **said))
        return Credentials(token=token)

    def call(self, by: Credentials, act: Any) -> dict[str, Any]:
        return self.node.call(by, act)

    def facts(self, after: int = 0) -> list[dict[str, Any]]:
        found = audit.show(self.node, ShowLog(after=after, limit=1000))["facts"]
        assert isinstance(found, list)
        return found

    def refused(self, code: str, by: Credentials, act: Any) -> dict[str, Any]:
        """The error object with which it is refused; nothing but the refusal is written."""
        before = self.node.head()
        with pytest.raises(errors.Refusal) as caught:
            self.call(by, act)
        assert caught.value.code == code, caught.value.message
        written = [(fact["kind"], fact["outcome"]["code"]) for fact in self.facts(before)]
        assert written == ([("request_refused", code)] if code in RECORDED else [])
        return caught.value.as_dict()

    def not_yet(self, by: Credentials, act: Any) -> dict[str, Any]:
        """A plain no, which writes nothing."""
        before = self.node.head()
        answer = self.call(by, act)
        assert self.node.head() == before
        return answer

    def create(self, id: str = "B-1", by: Credentials | None = None, **said: Any) -> str:
        self.call(by or self.vera, CreateTask("Add a flag", id, **said))
        return id

    def take(self, by: Credentials, id: str = "B-1", **said: Any) -> int:
        answer = self.call(by, TakeTask(id, **said))
        assert answer["taken"], answer
        return int(answer["claim"]["fence"])

    def run(self, by: Credentials, criterion: int = 1, **said: Any) -> dict[str, Any]:
        return self.call(by, AddEvidence(ran(criterion=criterion, **said)))

    def note(self, by: Credentials, criterion: int = 1, id: str = "B-1") -> str:
        said = {"kind": "note", "text": "looked", "task_id": id, "criterion": criterion}
        return str(self.call(by, AddEvidence(said))["evidence"]["id"])

    def submit(self, by: Credentials, commit: str = COMMIT, tree: str = TREE) -> None:
        assert self.call(by, SubmitTask("B-1", commit, tree))["submitted"]

    def judge(
        self, by: Credentials, verdict: Any = "pass", gate: str = "athena", **said: Any
    ) -> dict[str, Any]:
        note = "there are no docs" if verdict == "fail" else None
        return self.call(by, GiveVerdict("B-1", gate, verdict, note=note, **said))

    def state(self, id: str = "B-1") -> str:
        return str(self.show(id)["task"]["state"])

    def show(self, id: str = "B-1") -> dict[str, Any]:
        return self.call(OWNER, ShowTask(id))

    def missing(self, id: str = "B-1") -> list[str]:
        return [need["what"] for need in self.show(id)["missing"]]

    def mail(self, by: Credentials, type: str) -> list[dict[str, Any]]:
        found = self.call(by, ListInbox("all"))["messages"]
        return [message for message in found if message["type"] == type]

    def blockers(self) -> list[dict[str, Any]]:
        found = self.call(OWNER, ListBlockers())["blockers"]
        assert isinstance(found, list)
        return found


def ran(task: str = "B-1", **said: Any) -> dict[str, Any]:
    """What came of a run that counts, but for what is said."""
    usual = {
        "kind": "run",
        "task_id": task,
        "command": ["pytest", "-q"],
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 5,
        "commit": COMMIT,
        "tree": TREE,
        "dirty": False,
        "output": {"sha256": hashlib.sha256(b"").hexdigest(), "size": 0},
    }
    return {name: value for name, value in (usual | said).items() if value is not None}


def in_session(who: Credentials, session: str) -> Credentials:
    return who._replace(session=session)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    made = Town(tmp_path)
    yield made
    assert audit.verify(made.node)["ok"]
    assert upkeep.rebuild(made.node, OWNER)["changed"] is False
    made.node.close()


# --- states


def test_a_task_goes_from_open_over_taken_and_submitted_to_done(town: Town) -> None:
    town.create(criteria=("tests pass",), gates=("athena",))
    assert town.state() == "open"
    town.take(town.otto)
    assert town.state() == "taken"
    town.run(town.otto)
    town.submit(town.otto)
    assert (town.state(), town.missing()) == ("submitted", ["gate"])
    assert town.judge(town.vera)["task"]["state"] == "submitted"
    assert town.call(town.otto, CompleteTask("B-1"))["completed"] is True
    assert (town.state(), town.missing()) == ("done", [])


def test_a_failing_verdict_takes_a_task_back_to_taken(town: Town) -> None:
    submitted(town)
    assert town.judge(town.vera, "fail")["task"]["state"] == "taken"
    assert town.missing() == ["submission", "criterion", "gate", "blocker"]


def submitted(town: Town, gates: tuple[str, ...] = ("athena",), **said: Any) -> int:
    """A task with one criterion, taken by otto's terminal, proven and submitted; its fence."""
    town.create(criteria=("tests pass",), gates=gates)
    fence = town.take(town.otto, **said)
    town.run(town.otto)
    town.submit(town.otto)
    return fence


def ended(town: Town, how: str) -> None:
    submitted(town)
    town.judge(town.vera)
    ending = {"done": CompleteTask("B-1"), "failed": FailTask("B-1"), "cancelled": None}[how]
    town.call(town.otto if ending else town.vera, ending or CancelTask("B-1"))
    assert town.state() == how


LATE_ACTS = (
    ("otto", TakeTask("B-1")),
    ("otto", SubmitTask("B-1", COMMIT, TREE)),
    ("otto", CompleteTask("B-1")),
    ("otto", FailTask("B-1")),
    ("mira", CancelTask("B-1")),
    ("otto", AddEvidence(ran())),
    ("vera", GiveVerdict("B-1", "athena", "pass")),
    ("vera", RaiseBlocker("no disk", "B-1")),
    ("vera", RaiseBlocker("no disk", "B-1", "@otto")),
)


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_what_has_ended_stays_as_it_ended(town: Town, how: str) -> None:
    ended(town, how)
    for who, act in LATE_ACTS:
        told = town.refused("ALREADY_DONE", getattr(town, who), act)
        assert (told["task"], told["state"]) == ("B-1", how)
    assert town.state() == how


def test_the_end_frees_the_claim_and_tells_whoever_made_the_task(town: Town) -> None:
    ended(town, "done")
    assert town.call(OWNER, CheckClaim("B-1"))["claimed"] is False
    (told,) = town.mail(town.vera, "task_completed")
    artifact = {"commit": COMMIT, "tree": TREE}
    assert told["payload"] == {"task_id": "B-1", "status": "done", "artifact": artifact}
    assert town.mail(town.otto, "task_completed") == []


def test_a_task_that_is_not_there_is_not_found_and_near_ones_are_named(town: Town) -> None:
    town.create("B-100")
    for act in (TakeTask("B-10"), ShowTask("B-10"), CompleteTask("B-10")):
        assert town.refused("NOT_FOUND", town.otto, act)["did_you_mean"] == ["B-100"]


def test_an_id_is_given_once_and_made_where_none_is_given(town: Town) -> None:
    town.create("T-2")
    assert town.call(town.vera, CreateTask("x"))["task"]["id"] == "T-3"
    town.refused("NAME_TAKEN", town.vera, CreateTask("x", "T-2"))


def test_only_the_worker_fails_a_task(town: Town) -> None:
    submitted(town)
    for who in (town.vera, town.mira, town.desktop):
        town.refused("NOT_HOLDER", who, FailTask("B-1"))
    assert town.call(town.otto, FailTask("B-1", "no way"))["task"]["state"] == "failed"
    assert town.show()["story"][-3]["note"] == "no way"


def test_its_maker_a_person_and_an_admin_cancel_a_task_and_nobody_else(town: Town) -> None:
    maker, other = town.join("vera", "web"), town.join("boss", scopes=("admin",))
    for id, who in (("B-1", maker), ("B-2", town.mira), ("B-3", other), ("B-4", OWNER)):
        town.create(id)
        town.take(town.otto, id)
        town.refused("MISSING_SCOPE", town.mal, CancelTask(id))
        town.refused("MISSING_SCOPE", town.otto, CancelTask(id))
        assert town.call(who, CancelTask(id))["task"]["state"] == "cancelled"
    assert len(town.mail(town.otto, "task_completed")) == 4


# --- claims and fences


def test_taking_is_a_claim_with_a_lease_a_fence_and_a_session(town: Town) -> None:
    town.create()
    window = in_session(town.otto, "s1")
    answer = town.call(window, TakeTask("B-1", branch="flag", ttl_s=60))
    claim = answer["claim"]
    assert town.call(OWNER, CheckClaim("B-1"))["claims"] == [claim]
    assert (claim["holder"], claim["session"], claim["branch"]) == ("@otto-cli", "s1", "flag")
    assert answer["task"]["worker"] == "@otto-cli"
    assert [task["id"] for task in town.call(window, Whoami())["tasks"]] == ["B-1"]
    assert town.call(town.otto, Whoami())["tasks"] == []
    (told,) = town.mail(town.vera, "task_claimed")
    said = {"task_id": "B-1", "fence": claim["fence"], "expires_at": claim["expires_at"]}
    assert told["payload"] == said


def test_taking_again_extends_and_keeps_the_fence_and_what_is_submitted(town: Town) -> None:
    fence = submitted(town, ttl_s=60)
    town.judge(town.vera)
    town.ms += 30_000
    assert town.take(town.otto, ttl_s=60) == fence
    town.ms += 45_000
    assert town.call(town.otto, CompleteTask("B-1", fence))["completed"] is True


@pytest.mark.parametrize("who", ["desktop", "vera", "another session"])
def test_what_somebody_works_on_is_held_against_everybody_else(town: Town, who: str) -> None:
    town.create()
    fence = town.take(town.otto)
    other = in_session(town.otto, "s2") if who == "another session" else getattr(town, who)
    answer = town.not_yet(other, TakeTask("B-1"))
    assert (answer["taken"], answer["code"]) == (False, "CLAIM_HELD")
    assert [claim["fence"] for claim in answer["held_by"]] == [fence]


UNDER_A_CLAIM: tuple[Callable[[int | None], Any], ...] = (
    lambda fence: SubmitTask("B-1", COMMIT, TREE, fence),
    lambda fence: CompleteTask("B-1", fence),
    lambda fence: FailTask("B-1", fence=fence),
    lambda fence: AddEvidence(ran(), fence=fence),
)


@pytest.mark.parametrize("is_taken", [True, False])
def test_after_the_lease_every_write_bounces_with_and_without_a_fence(
    town: Town, is_taken: bool
) -> None:
    fence = submitted(town, ttl_s=60)
    town.judge(town.vera)
    town.ms += 60_000
    assert town.call(town.otto, Whoami())["tasks"] == []  # whoever looks notices the expiry
    if is_taken:
        town.take(town.mal)
    for act in UNDER_A_CLAIM:
        for presented in (fence, None):
            told = town.refused("STALE_FENCE", town.otto, act(presented))
            assert told["task"] == "B-1"
            assert [claim["holder"] for claim in told.get("held_by", [])] == ["@mal"] * is_taken
    assert town.state() == ("taken" if is_taken else "submitted")


def test_a_fence_that_is_not_the_claims_is_stale_and_the_right_one_is_good(town: Town) -> None:
    fence = submitted(town)
    for act in UNDER_A_CLAIM:
        town.refused("STALE_FENCE", town.otto, act(fence + 1))
        town.refused("STALE_FENCE", town.vera, act(fence))
    assert town.call(town.otto, SubmitTask("B-1", LATER, OTHER, fence))["submitted"]


def test_whoever_never_took_it_is_not_the_holder(town: Town) -> None:
    town.create()
    for who in (town.otto, town.vera):
        town.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
    town.take(town.otto)
    for who in (town.desktop, town.vera, in_session(town.otto, "s2")):
        told = town.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
        assert [claim["holder"] for claim in told["held_by"]] == ["@otto-cli"]


def test_a_claim_on_the_item_alone_is_not_the_task(town: Town) -> None:
    town.create()
    town.call(town.otto, AcquireClaim("B-1"))
    told = town.refused("NOT_HOLDER", town.otto, SubmitTask("B-1", COMMIT, TREE))
    assert "interlock task take B-1" in told["message"]
    assert town.not_yet(town.vera, TakeTask("B-1"))["code"] == "CLAIM_HELD"
    assert town.state() == "open"
    town.take(town.otto)
    town.submit(town.otto)


def test_a_person_takes_the_claim_over_and_then_the_task(town: Town) -> None:
    fence = submitted(town)
    town.call(town.mira, TakeOverClaim("otto is stuck", "B-1"))
    assert town.call(town.otto, Whoami())["tasks"] == town.call(town.mira, Whoami())["tasks"] == []
    (told,) = town.mail(town.otto, "send")
    assert "otto is stuck" in told["payload"]["text"]
    for act in UNDER_A_CLAIM:
        town.refused("STALE_FENCE", town.otto, act(fence))
        town.refused("STALE_FENCE", town.otto, act(None))
    assert town.state() == "submitted"
    assert town.take(town.mira) > fence
    assert (town.state(), town.show()["task"]["worker"]) == ("taken", "@mira")
    town.refused("OWN_WORK", town.mira, GiveVerdict("B-1", "athena", "pass"))


def test_a_session_that_ends_gives_its_tasks_up_and_takes_no_other(town: Town) -> None:
    town.create()
    window = in_session(town.otto, "s1")
    town.call(window, StartSession("s1"))
    town.take(window)
    town.call(window, EndSession("s1"))
    town.refused("STALE_FENCE", window, SubmitTask("B-1", COMMIT, TREE))
    town.refused("NOT_HOLDER", window, TakeTask("B-1"))
    town.take(town.desktop)


@pytest.mark.parametrize("surface", ["otto", "desktop"])
def test_the_same_agent_that_takes_it_again_keeps_what_it_submitted(
    town: Town, surface: str
) -> None:
    first = submitted(town, ttl_s=60)
    town.judge(town.vera)
    town.ms += 60_000
    again = getattr(town, surface)
    assert town.take(again) > first
    assert (town.state(), town.missing()) == ("submitted", [])
    assert town.call(again, CompleteTask("B-1"))["completed"] is True


@pytest.mark.parametrize("other", ["a stranger", "a former worker"])
def test_another_agent_that_takes_it_begins_anew(town: Town, other: str) -> None:
    if other == "a former worker":
        town.create(criteria=("tests pass",), gates=("athena",))
        town.take(town.mal)
        town.call(town.mal, ReleaseClaim("B-1"))
        town.take(town.otto)
        town.run(town.otto)
        town.submit(town.otto)
    else:
        submitted(town)
    town.judge(town.vera)
    town.call(town.otto, ReleaseClaim("B-1"))
    town.take(town.mal)
    assert (town.state(), town.missing()) == ("taken", ["submission", "criterion", "gate"])
    assert "artifact" not in town.show()["task"]


# --- depends_on


def test_a_task_is_not_taken_before_what_it_depends_on_is_done(town: Town) -> None:
    town.create("B-0")
    town.create(depends_on=("B-0",))
    for act, member in ((TakeTask("B-1"), "taken"), (CompleteTask("B-1"), "completed")):
        answer = town.not_yet(town.otto, act)
        assert (answer[member], answer["code"]) == (False, "GATES_NOT_PASSED")
        need = answer["missing"][0]
        assert (need["what"], need["task"], need["state"]) == ("dependency", "B-0", "open")
    town.take(town.mal, "B-0")
    town.call(town.mal, SubmitTask("B-0", COMMIT, TREE))
    assert town.not_yet(town.otto, TakeTask("B-1"))["taken"] is False
    town.call(town.mal, CompleteTask("B-0"))
    town.take(town.otto)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_what_failed_or_was_cancelled_is_not_done(town: Town, how: str) -> None:
    town.create("B-0")
    town.create(depends_on=("B-0",))
    town.take(town.otto, "B-0")
    town.call(*{"failed": (town.otto, FailTask("B-0"))}.get(how, (town.vera, CancelTask("B-0"))))
    assert town.not_yet(town.otto, TakeTask("B-1"))["missing"][0]["state"] == how


def test_a_circle_of_dependencies_cannot_be_made(town: Town) -> None:
    town.refused("USAGE", town.vera, CreateTask("x", "B-1", depends_on=("B-1",)))
    town.refused("NOT_FOUND", town.vera, CreateTask("x", "B-1", depends_on=("B-2",)))
    town.create("B-1")
    town.create("B-2", depends_on=("B-1",))
    town.refused("NAME_TAKEN", town.vera, CreateTask("x", "B-1", depends_on=("B-2",)))


# --- criteria and evidence


NOT_ENOUGH: dict[str, dict[str, Any]] = {
    "exited 2": {"exit_code": 2},
    "uncommitted changes": {"dirty": True},
    "another tree": {"tree": OTHER},
    "interrupted": {"interrupted": True},
    "not made in a repository": {"commit": None, "tree": None, "dirty": None},
}


@pytest.mark.parametrize("why", NOT_ENOUGH)
def test_a_run_that_does_not_prove_the_submitted_tree_does_not_count(town: Town, why: str) -> None:
    town.create(criteria=("tests pass",))
    town.take(town.otto)
    town.submit(town.otto)
    answer = town.run(town.otto, **NOT_ENOUGH[why])
    assert answer["counts"] is False
    (need,) = town.not_yet(town.otto, CompleteTask("B-1"))["missing"]
    assert (need["what"], need["criterion"], need["text"]) == ("criterion", 1, "tests pass")
    assert why in answer["why"]
    assert why in need["message"]
    assert town.run(town.otto)["counts"] is True
    assert town.call(town.otto, CompleteTask("B-1"))["completed"] is True


def test_the_last_run_of_a_criterion_counts_whoever_made_it(town: Town) -> None:
    submitted(town, gates=())
    assert town.missing() == []
    town.run(town.mal, exit_code=1)
    assert town.missing() == ["criterion"]
    fixed = town.run(town.vera)["evidence"]
    assert (fixed["by"], fixed["kind"]) == ("@vera", "run")
    (criterion,) = town.show()["task"]["criteria"]
    assert criterion == {
        "number": 1,
        "text": "tests pass",
        "met": True,
        "evidence": fixed["id"],
        "by": "run",
        "ran_by": "@vera",
    }


@pytest.mark.parametrize(
    ("criteria", "many"),
    [((), "no criteria"), (("a",), "1 criterion"), (("a", "b"), "2 criteria")],
)
def test_a_criterion_that_a_task_has_not_is_refused_with_how_many_it_has(
    town: Town, criteria: tuple[str, ...], many: str
) -> None:
    town.create(criteria=criteria)
    refusal = town.refused("USAGE", town.vera, AddEvidence(ran(criterion=3)))
    assert refusal["message"].startswith(f"B-1 has {many}, and no number 3.")


def test_a_run_counts_for_its_own_criterion_only(town: Town) -> None:
    town.create(criteria=("tests pass", "docs"))
    town.take(town.otto)
    town.run(town.otto, criterion=2)
    town.call(town.otto, AddEvidence(ran()))
    town.submit(town.otto)
    assert [c["met"] for c in town.show()["task"]["criteria"]] == [False, True]
    town.refused("USAGE", town.otto, AddEvidence(ran(criterion=3)))


@pytest.mark.parametrize("kind", ["note", "url"])
def test_what_was_said_counts_when_a_passing_verdict_names_it(town: Town, kind: str) -> None:
    said = {"note": {"text": "I looked"}, "url": {"url": "https://ci.example/1"}}[kind]
    town.create(criteria=("docs",), gates=("athena", "style"))
    town.take(town.otto)
    payload = {"kind": kind, "task_id": "B-1", "criterion": 1} | said
    answer = town.call(town.otto, AddEvidence(payload))
    assert answer["counts"] is False
    town.submit(town.otto)
    named = (answer["evidence"]["id"],)
    town.judge(town.vera)
    assert "criterion" in town.missing()
    town.judge(town.vera, evidence=named)
    assert town.missing() == ["gate"]
    (criterion,) = town.show()["task"]["criteria"]
    assert (criterion["by"], criterion["said_by"]) == (kind, "@otto-cli")
    assert "ran_by" not in criterion
    town.submit(town.otto)
    assert town.missing() == ["criterion", "gate", "gate"]


def test_a_run_after_the_verdict_that_names_a_note_was_not_looked_at(town: Town) -> None:
    town.create(criteria=("docs",), gates=("athena",))
    town.take(town.otto)
    note = town.note(town.otto)
    town.run(town.otto, exit_code=1)
    town.submit(town.otto)
    town.judge(town.vera, evidence=(note,))
    assert town.missing() == []
    town.run(town.otto, exit_code=1)
    assert town.missing() == ["criterion"]


@pytest.fixture(autouse=True)
def style(town: Town) -> Credentials:
    """Nora holds the gate style, by her token's scope alone."""
    return town.join("nora", scopes=("gate:style",))


def test_what_a_failing_verdict_names_does_not_count(town: Town, style: Credentials) -> None:
    town.create(criteria=("docs",), gates=("athena", "style"))
    town.take(town.otto)
    note = town.note(town.otto)
    town.submit(town.otto)
    town.judge(town.vera)
    town.judge(style, "fail", "style", evidence=(note,))
    assert town.missing() == ["submission", "criterion", "gate", "blocker"]
    town.submit(town.otto)
    town.judge(town.vera)
    assert town.missing() == ["criterion", "gate", "blocker"]


def test_a_verdict_names_evidence_of_its_own_task_only(town: Town) -> None:
    submitted(town)
    town.create("B-2", criteria=("docs",))
    foreign = town.note(town.vera, id="B-2")
    for named in (foreign, "00000000-0000-4000-8000-000000000000"):
        act = GiveVerdict("B-1", "athena", "pass", evidence=(named,))
        town.refused("NOT_FOUND", town.vera, act)


def test_others_prove_as_readers_and_the_workers_agent_under_its_claim_alone(town: Town) -> None:
    town.create(criteria=("tests pass",))
    town.run(town.mal)
    town.take(town.otto)
    assert town.run(town.vera)["evidence"]["by"] == "@vera"
    town.refused("NOT_HOLDER", town.desktop, AddEvidence(ran()))
    town.call(town.otto, ReleaseClaim("B-1"))
    town.refused("STALE_FENCE", town.otto, AddEvidence(ran()))


def test_what_was_run_and_what_was_said_look_different(town: Town) -> None:
    town.create(criteria=("tests pass",))
    run = town.run(town.mal, spooled=True)["evidence"]
    note = town.call(town.mal, ShowEvidence(town.note(town.mal)))["evidence"]
    assert (run["kind"], run["exit_code"], run["tree"], run["spooled"]) == ("run", 0, TREE, True)
    assert note["kind"] == "note"
    assert not {"exit_code", "tree", "command", "spooled"} & set(note)


def test_a_submission_without_a_tree_takes_it_from_a_clean_run_at_that_commit(town: Town) -> None:
    town.create(criteria=("tests pass",))
    town.take(town.otto)
    town.refused("USAGE", town.otto, SubmitTask("B-1", COMMIT))
    town.run(town.otto, dirty=True)
    town.run(town.otto, commit=LATER, tree=OTHER)
    town.refused("USAGE", town.otto, SubmitTask("B-1", COMMIT))
    town.run(town.otto)
    answer = town.call(town.otto, SubmitTask("B-1", COMMIT))
    assert answer["task"]["artifact"] == {"commit": COMMIT, "tree": TREE}


def upload(town: Town, by: Credentials, data: bytes) -> str:
    return str(town.call(by, PutChunk(data, len(data)))["upload"])


def test_a_file_is_kept_whole_and_nothing_is_kept_without_its_bytes(town: Town) -> None:
    data = b"all of it\n" * 10
    digest = hashlib.sha256(data).hexdigest()
    said = {"kind": "file", "name": "log.txt", "sha256": digest, "size": len(data)}
    town.refused("USAGE", town.otto, AddEvidence(said))
    wrong = upload(town, town.otto, data[:-1])
    town.refused("DIGEST_MISMATCH", town.otto, AddEvidence(said, wrong))
    town.refused("NOT_FOUND", town.vera, AddEvidence(said, upload(town, town.otto, data)))
    made = town.call(town.otto, AddEvidence(said, upload(town, town.otto, data)))["evidence"]
    shown = town.call(town.vera, ShowEvidence(made["id"]))["content"]
    assert (shown["text"], shown["sha256"]) == (data.decode(), digest)


def test_evidence_under_a_key_is_kept_once_whoever_was_quicker(town: Town) -> None:
    """By whichever way it comes the second time, and though its task has ended by then."""
    submitted(town, gates=())
    first = AddEvidence(ran(criterion=1), key="run-1")
    made = town.call(town.otto, first)
    before = town.node.head()
    handed_over = AddEvidence(ran(criterion=1, spooled=True), key="run-1")
    for again in (first, first._replace(fence=1), handed_over):
        assert town.call(town.otto, again) == made
    assert town.node.head() == before
    assert town.call(town.otto, CompleteTask("B-1"))["completed"]
    assert town.call(town.otto, first)["evidence"] == made["evidence"]
    others = town.call(town.vera, AddEvidence(ran(town.create("B-2")), key="run-1"))
    assert others["evidence"]["id"] != made["evidence"]["id"], "a key is its sender's own"


def test_what_was_uploaded_for_evidence_that_is_kept_already_is_dropped(town: Town) -> None:
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    request = AddEvidence(ran(town.create(), output=output), key="run-1")
    for _ in range(2):
        flow = attach(request, in_pieces(data), len(data))
        made = run(flow, lambda step: town.call(town.mal, step))["evidence"]
    assert town.call(town.mal, ShowEvidence(made["id"]))["content"]["text"] == data.decode()
    with town.node.file.reading() as db:
        assert db.execute("SELECT count(*) FROM blob_chunks").get == 1


def test_another_run_under_the_same_key_is_a_conflict(town: Town) -> None:
    town.create(criteria=("tests pass", "docs"))
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    run = AddEvidence(ran(output=output), key="run-1")
    made = town.call(town.mal, run._replace(upload=upload(town, town.mal, data)))["evidence"]
    other = AddEvidence(run.payload | {"criterion": 2}, key="run-1")
    said = town.refused("IDEMPOTENCY_CONFLICT", town.mal, other)
    assert (said["key"], said["seq"]) == ("run-1", made["seq"])
    spooled = other._replace(payload=other.payload | {"spooled": True})
    said = town.refused("IDEMPOTENCY_CONFLICT", town.mal, spooled)
    assert f"This run was handed over before, at #{made['seq']}" in said["message"]
    town.call(town.mal, Redact(made["id"], "a secret"))
    town.refused("IDEMPOTENCY_CONFLICT", town.mal, run)


def test_redacted_evidence_loses_what_it_kept_and_counts_no_more(town: Town) -> None:
    submitted(town, gates=())
    data = b"token=hunter2"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    act = AddEvidence(ran(criterion=1, output=output), upload(town, town.otto, data))
    made = town.call(town.otto, act)["evidence"]
    town.refused("MISSING_SCOPE", town.mal, Redact(made["id"], "a secret"))
    assert town.call(town.desktop, Redact(made["id"], "a secret"))["redacted"] is True
    shown = town.call(town.vera, ShowEvidence(made["id"]))
    assert (shown["evidence"]["redacted"], shown["evidence"]["kind"]) == (True, "run")
    assert "content" not in shown
    assert "command" not in shown["evidence"]
    with town.node.file.reading() as db:
        assert db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (output["sha256"],)).get is None
    assert town.missing() == ["criterion"]


# --- gates


def test_a_gate_that_nobody_can_hold_is_refused_when_the_task_is_made(town: Town) -> None:
    told = town.refused("GATE_HAS_NO_HOLDER", town.vera, CreateTask("x", gates=("athens",)))
    assert (told["gate"], told["did_you_mean"]) == ("athens", ["athena"])
    town.call(OWNER, CreateGate("solo", ("otto-desktop",)))
    alone = CreateTask("x", gates=("solo",), assignee="@otto-cli")
    assert town.refused("GATE_HAS_NO_HOLDER", town.vera, alone)["gate"] == "solo"
    town.create("B-1", gates=("solo",))
    town.call(OWNER, RevokeToken(sender="otto-desktop"))
    refusal = town.refused("GATE_HAS_NO_HOLDER", town.vera, CreateTask("x", gates=("solo",)))
    add = "interlock gate create solo --replace --holder otto-desktop --holder SENDER"
    assert refusal["message"].endswith(f"Add a holder: {add}")
    assert "did_you_mean" not in refusal


def test_a_worker_learns_at_once_that_nobody_else_could_judge(town: Town) -> None:
    town.call(OWNER, CreateGate("solo", ("otto",)))
    town.create(gates=("solo", "athena"), assignee="@mal")
    notices = town.call(town.otto, TakeTask("B-1"))["notices"]
    assert [notice["code"] for notice in notices] == ["ASSIGNED_TO_ANOTHER", "GATE_HAS_NO_HOLDER"]
    add = "interlock gate create solo --replace --holder otto --holder SENDER"
    assert notices[1]["message"].endswith(f"Add a holder: {add}")
    assert add in [need["do"] for need in town.show()["missing"]]


def test_a_gate_is_held_by_a_sender_by_an_agent_or_by_a_scope(
    town: Town, style: Credentials
) -> None:
    town.join("vera", "web")
    town.call(OWNER, CreateGate("whole", ("vera",)))
    town.call(OWNER, CreateGate("part", ("vera-web", "otto-cli")))
    held = {gate["name"]: gate["can_judge"] for gate in town.call(OWNER, ListGates())["gates"]}
    assert held["whole"] == ["@vera", "@vera-web"]
    assert held["part"] == ["@otto-cli", "@vera-web"]
    submitted(town, gates=("style",))
    town.refused("MISSING_SCOPE", town.vera, GiveVerdict("B-1", "style", "pass"))
    town.judge(style, gate="style")
    assert town.missing() == []


def test_a_listed_holder_judges_only_with_a_token_for_work(town: Town) -> None:
    submitted(town)
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    mint = MintToken("vera", None, ("mail",), None, token_format.hashed(token))
    town.call(OWNER, mint)
    narrow = Credentials(token=token)
    refusal = town.refused("MISSING_SCOPE", narrow, GiveVerdict("B-1", "athena", "pass"))
    assert refusal["message"] == (
        "This token does not hold the gate athena: another of @vera's does. Use that one."
    )
    assert town.call(narrow, Whoami())["verdicts_due"] == []
    assert len(town.call(town.vera, Whoami())["verdicts_due"]) == 1


def test_a_gate_keeps_its_holders_until_they_are_replaced(town: Town) -> None:
    assert town.not_yet(OWNER, CreateGate("athena", ("mira", "vera")))["gate"]["name"] == "athena"
    town.refused("NAME_TAKEN", OWNER, CreateGate("athena", ("mal",)))
    town.refused("GATE_HAS_NO_HOLDER", OWNER, CreateGate("athena", ("ghost",), replace=True))
    town.refused("MISSING_SCOPE", town.vera, CreateGate("athena", ("mal",), replace=True))
    submitted(town)
    town.call(OWNER, CreateGate("athena", ("mal",), replace=True))
    town.refused("MISSING_SCOPE", town.vera, GiveVerdict("B-1", "athena", "pass"))
    town.judge(town.mal)


def test_nobody_judges_what_a_surface_of_theirs_has_worked_on(town: Town) -> None:
    town.call(OWNER, CreateGate("athena", ("otto", "vera", "mal"), replace=True))
    town.create(gates=("athena",))
    town.take(town.mal)
    town.call(town.mal, ReleaseClaim("B-1"))
    town.take(town.otto)
    town.submit(town.otto)
    for who in (town.otto, town.desktop, town.mal):
        town.refused("OWN_WORK", who, GiveVerdict("B-1", "athena", "pass"))
        assert town.call(who, Whoami())["verdicts_due"] == []
    town.judge(town.vera)


def test_a_submission_wakes_everybody_from_whom_a_verdict_is_due(town: Town) -> None:
    town.call(OWNER, CreateGate("athena", ("otto", "vera", "mira"), replace=True))
    before = town.node.head()
    submitted(town)
    woken = [f["outcome"] for f in town.facts(before) if f["outcome"].get("type") == "wake"]
    assert [(wake["to"], wake["wake"]) for wake in woken] == [("@mira", True), ("@vera", True)]
    for who in (town.vera, town.mira):
        (due,) = town.call(who, Whoami())["verdicts_due"]
        assert (due["task"], due["gate"], due["commit"]) == ("B-1", "athena", COMMIT)
        assert due["do"] == f"interlock gate pass B-1 athena --commit {COMMIT[:12]}"
    town.judge(town.mira)
    assert town.call(town.vera, Whoami())["verdicts_due"] == []


@pytest.mark.parametrize("commit", [COMMIT, LATER])
def test_a_new_submission_clears_the_verdicts_even_of_the_same_commit(
    town: Town, commit: str
) -> None:
    submitted(town)
    town.judge(town.vera)
    assert town.missing() == []
    town.submit(town.otto, commit)
    assert town.missing() == ["gate"]


def test_a_verdict_is_about_what_is_submitted_now(town: Town) -> None:
    submitted(town)
    town.submit(town.otto, LATER, OTHER)
    told = town.refused("NOT_SUBMITTED", town.vera, GiveVerdict("B-1", "athena", "pass", COMMIT))
    assert told["submitted"] == {"commit": LATER, "tree": OTHER}
    given = town.judge(town.vera, commit=LATER[:8])["verdict"]
    assert given["artifact"] == {"commit": LATER, "tree": OTHER}


def test_there_is_nothing_to_judge_before_a_submission_or_after_a_fail(town: Town) -> None:
    town.create(gates=("athena",))
    town.refused("NOT_SUBMITTED", town.vera, GiveVerdict("B-1", "athena", "pass"))
    town.take(town.otto)
    town.refused("NOT_SUBMITTED", town.vera, GiveVerdict("B-1", "athena", "pass"))
    town.submit(town.otto)
    town.judge(town.vera, "fail")
    town.refused("NOT_SUBMITTED", town.mira, GiveVerdict("B-1", "athena", "pass"))
    town.refused("NOT_FOUND", town.mira, GiveVerdict("B-1", "style", "pass"))


def test_the_last_word_of_a_gate_counts(town: Town) -> None:
    submitted(town)
    town.judge(town.vera)
    town.judge(town.mira, "fail")
    assert town.missing() == ["submission", "criterion", "gate", "blocker"]


def test_a_failing_verdict_says_what_is_wrong_and_becomes_a_blocker_that_wakes(town: Town) -> None:
    submitted(town)
    town.refused("USAGE", town.vera, GiveVerdict("B-1", "athena", "pass", fix=("make",)))
    before = town.node.head()
    act = GiveVerdict("B-1", "athena", "fail", note="no docs", fix=("make docs",))
    made = town.call(town.vera, act)["blocker"]
    assert [fact["kind"] for fact in town.facts(before)] == ["verdict_given", "message_sent"]
    assert town.facts(before)[1]["outcome"]["wake"] is True
    assert (made["to"], made["gate"], made["severity"]) == ("@otto-cli", "athena", "stop")
    (mail,) = town.mail(town.otto, "blocker")
    assert mail["payload"]["fix"] == ["make docs"]
    assert (mail["payload"]["what"], mail["id"]) == ("no docs", made["id"])


def test_a_fail_without_a_word_says_whom_to_ask(town: Town) -> None:
    submitted(town)
    made = town.call(town.vera, GiveVerdict("B-1", "athena", "fail"))["blocker"]
    assert made["what"] == "The gate athena failed B-1, and does not say why. Ask @vera."


def test_a_pass_resolves_what_its_own_gate_held_against_the_task(
    town: Town, style: Credentials
) -> None:
    submitted(town, gates=("athena", "style"))
    town.judge(town.vera, "fail")
    town.submit(town.otto)
    town.judge(style, "fail", "style")
    town.submit(town.otto)
    town.judge(town.mira)
    assert [blocker["gate"] for blocker in town.blockers()] == ["style"]
    assert town.missing() == ["gate", "blocker"]
    town.judge(style, gate="style")
    assert town.missing() == []


def test_a_gate_has_passed_a_commit_until_it_says_otherwise_or_is_asked_again(town: Town) -> None:
    def passed(commit: str) -> bool:
        answer = town.call(OWNER, CheckGate("athena", commit))
        assert answer.get("code") == (None if answer["passed"] else "GATES_NOT_PASSED")
        return bool(answer["passed"])

    submitted(town)
    assert not passed(COMMIT)
    town.judge(town.vera)
    assert passed(COMMIT)
    assert not passed(LATER)
    town.submit(town.otto)
    assert not passed(COMMIT)
    town.judge(town.vera)
    town.judge(town.mira, "fail")
    assert not passed(COMMIT)


# --- blockers


def test_a_blocker_goes_to_the_worker_and_the_workers_own_to_the_maker(town: Town) -> None:
    town.create()
    assert town.call(town.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    town.take(town.otto)
    before = town.node.head()
    assert town.call(town.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@otto-cli"
    assert town.facts(before)[0]["outcome"]["wake"] is True
    assert town.call(town.desktop, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    made = town.call(town.otto, RaiseBlocker("no disk", "B-1", "@mira"))["blocker"]
    assert (made["to"], made["by"], made["task"]) == ("@mira", "@otto-cli", "B-1")


def test_a_worker_that_made_its_task_tells_a_judge_of_a_blocker_or_at_least_itself(
    town: Town,
) -> None:
    town.call(OWNER, CreateGate("shared", ("otto", "mira")))
    for id, gates, to in (("B-1", ("shared",), "@mira"), ("B-2", (), "@otto-cli")):
        town.create(id, town.desktop, gates=gates)
        town.take(town.otto, id)
        assert town.call(town.otto, RaiseBlocker("no disk", id))["blocker"]["to"] == to
        assert "blocker" in town.missing(id)


def test_a_blocker_that_stops_is_in_the_way_and_a_warning_is_not(town: Town) -> None:
    submitted(town, gates=())
    town.call(town.vera, RaiseBlocker("slow", "B-1", severity="warn"))
    assert town.missing() == []
    payload = {"what": "no disk", "severity": "stop", "task_id": "B-1"}
    town.call(town.mal, SendMessage("@otto", payload, "blocker"))
    (need,) = town.not_yet(town.otto, CompleteTask("B-1"))["missing"]
    assert need["do"] == f"interlock blocker resolve {need['id']}"
    town.call(town.mal, ResolveBlocker(need["id"]))
    assert town.call(town.otto, CompleteTask("B-1"))["completed"] is True


def test_a_blocker_on_a_task_that_is_not_open_is_sent_and_said_to_stop_none(town: Town) -> None:
    town.create("ZZ-1")
    town.create("ZZ-2")
    town.call(town.vera, CancelTask("ZZ-2"))
    for named in ("zz-1", "ZZ-2"):
        said = {"what": "no disk", "severity": "stop", "task_id": named}
        act = SendMessage("@vera", said, "blocker", key=f"blocks {named}")
        sent = town.call(town.mal, act)
        assert sent["accepted"] is True
        assert sent["notices"] == [
            {
                "code": "NO_OPEN_TASK",
                "message": f"There is no open task '{named}', so this stops none.",
                "did_you_mean": ["ZZ-1"],
            }
        ]
        assert town.call(town.mal, act) == sent
    said = {"what": "no disk", "severity": "stop", "task_id": "ZZ-1"}
    assert town.call(town.mal, SendMessage("@vera", said, "blocker"))["notices"] == []


def test_a_blocker_is_resolved_by_its_raiser_a_judge_or_a_person_and_not_by_the_worker(
    town: Town,
) -> None:
    other = town.join("vera", "web")
    boss = town.join("boss", scopes=("admin",))
    town.call(OWNER, CreateGate("athena", ("vera", "mal", "otto"), replace=True))
    submitted(town)
    for who in (other, town.mal, town.mira, boss, OWNER):
        id = town.judge(town.vera, "fail")["blocker"]["id"]
        town.refused("OWN_WORK", town.otto, ResolveBlocker(id))
        town.refused("OWN_WORK", town.desktop, ResolveBlocker(id))
        assert "resolved_by" in town.call(who, ResolveBlocker(id, "it is there"))["blocker"]
        assert town.not_yet(town.otto, ResolveBlocker(id))["blocker"]["id"] == id
        town.submit(town.otto)
    id = town.call(town.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    town.refused("MISSING_SCOPE", town.mal, ResolveBlocker(id))
    assert [blocker["id"] for blocker in town.blockers()] == [id]


def test_a_worker_resolves_the_blocker_that_it_raised_itself(town: Town) -> None:
    submitted(town, gates=())
    id = town.call(town.otto, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    town.call(town.desktop, ResolveBlocker(id))
    assert town.missing() == []


# --- complete, and every shortcut to it


def test_complete_lists_all_that_is_missing_with_the_command_for_each(town: Town) -> None:
    town.create(criteria=("tests pass", "docs"), gates=("athena",))
    assert town.not_yet(town.otto, CompleteTask("B-1"))["missing"][0]["do"] == (
        "interlock task take B-1"
    )
    town.take(town.otto)
    town.run(town.otto, criterion=2)
    blocker = town.call(town.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    answer = town.not_yet(town.otto, CompleteTask("B-1"))
    assert (answer["completed"], answer["code"]) == (False, "GATES_NOT_PASSED")
    assert [(need["what"], need["do"]) for need in answer["missing"]] == [
        ("submission", "interlock task submit B-1"),
        ("criterion", "interlock evidence run --task B-1 --criterion 1 -- COMMAND"),
        ("criterion", "interlock task submit B-1"),
        ("gate", "interlock task submit B-1"),
        ("blocker", f"interlock blocker resolve {blocker}"),
    ]
    assert all(need["message"] in answer["message"] for need in answer["missing"])
    assert answer["missing"][3]["holders"] == ["@mira", "@vera"]


def test_a_good_run_on_what_a_gate_failed_is_to_be_made_again(town: Town) -> None:
    submitted(town)
    town.judge(town.vera, "fail")
    (need,) = [need for need in town.show()["missing"] if need["what"] == "criterion"]
    assert need["do"] == "interlock evidence run --task B-1 --criterion 1 -- pytest -q"


def test_nothing_completes_without_evidence(town: Town) -> None:
    town.create(criteria=("tests pass",), gates=("athena",))
    town.take(town.otto)
    town.submit(town.otto)
    town.judge(town.vera)
    answer = town.not_yet(town.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "criterion")


def test_nothing_completes_without_a_pass(town: Town) -> None:
    submitted(town)
    answer = town.not_yet(town.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "gate")


def test_nothing_completes_with_a_verdict_for_an_older_artifact(town: Town) -> None:
    submitted(town)
    town.judge(town.vera)
    town.submit(town.otto, LATER)
    answer = town.not_yet(town.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["gate"]


def test_nothing_completes_twice_or_after_failing(town: Town) -> None:
    ended(town, "done")
    town.refused("ALREADY_DONE", town.otto, CompleteTask("B-1"))
    town.refused("ALREADY_DONE", town.otto, FailTask("B-1"))
    town.create("B-2")
    town.take(town.otto, "B-2")
    town.call(town.otto, FailTask("B-2"))
    town.refused("ALREADY_DONE", town.otto, CompleteTask("B-2"))


def test_nobody_completes_the_work_of_another(town: Town) -> None:
    submitted(town)
    town.judge(town.vera)
    for who in (town.vera, town.mira, town.desktop):
        town.refused("NOT_HOLDER", who, CompleteTask("B-1"))
    assert town.state() == "submitted"


def test_who_may_not_work_does_nothing_of_it(town: Town) -> None:
    reader = town.join("rex", scopes=("mail",))
    submitted(town)
    for act in (
        *(CreateTask("x"), TakeTask("B-1"), SubmitTask("B-1", COMMIT, TREE), CompleteTask("B-1")),
        *(FailTask("B-1"), CancelTask("B-1"), AddEvidence(ran()), RaiseBlocker("no", "B-1")),
        *(GiveVerdict("B-1", "athena", "pass"), CreateGate("own", ("rex",)), Review()),
    ):
        town.refused("MISSING_SCOPE", reader, act)
    assert town.call(reader, ListTasks())["tasks"][0]["id"] == "B-1"


# --- the whole story, and what needs a person


def test_the_story_of_a_task_stands_in_the_order_of_the_log(town: Town) -> None:
    submitted(town)
    town.judge(town.vera, "fail")
    town.submit(town.otto, LATER)
    town.judge(town.mira)
    town.call(town.otto, CompleteTask("B-1"))
    story = town.show()["story"]
    assert [entry["seq"] for entry in story] == sorted({entry["seq"] for entry in story})
    assert [entry["kind"] for entry in story if entry["kind"] != "message_sent"] == [
        *("task_created", "task_taken", "evidence_added", "task_submitted", "verdict_given"),
        *("task_submitted", "verdict_given", "blocker_resolved", "task_ended", "claim_released"),
    ]
    assert [e["blocker"]["gate"] for e in story if "blocker" in e] == ["athena"]
    assert [e["verdict"]["verdict"] for e in story if "verdict" in e] == ["fail", "pass"]


def test_what_needs_a_person_stands_in_one_place_with_what_to_type(town: Town) -> None:
    submitted(town, ttl_s=60)
    town.call(town.vera, RaiseBlocker("no disk", "B-1"))
    town.refused("OWN_WORK", town.otto, GiveVerdict("B-1", "athena", "pass"))
    town.call(town.otto, SendMessage("@vera", {"question": "may I?"}, "ask"))
    town.call(town.otto, SendMessage("@verra", {"text": "hello"}, "send"))
    town.call(town.otto, SendMessage("@mal", {"text": "soon"}, "send", ttl_s=30))
    town.ms += 61_000
    for who in (town.mira, OWNER):
        found = town.call(who, Review())
        assert {name: len(section) for name, section in found.items()} == {
            "verdicts_due": 1,
            "blockers": 1,
            "unanswered": 1,
            "expired": 1,
            "unknown_recipients": 1,
            "dead_holders": 1,
            "refusals": 1,
        }
        assert all(
            entry["do"].startswith("interlock ") for section in found.values() for entry in section
        )
    assert found["verdicts_due"][0]["holders"] == ["@mira", "@vera"]
    assert found["blockers"][0]["do"].endswith(" --from vera")
    assert found["dead_holders"][0]["on"] == "B-1"
    assert found["unanswered"][0]["do"].endswith(" --type wake --from otto-cli")
    assert found["unknown_recipients"][0]["do"].startswith("interlock explain ")
    town.refused("MISSING_SCOPE", town.vera, Review())


def test_mail_to_a_name_that_nobody_mistyped_lets_it_join(town: Town) -> None:
    for name in ("zephyrine", "Zoe"):
        town.call(town.otto, SendMessage(f"@{name}", {"text": "hello"}, "send"))
    found = town.call(OWNER, Review())["unknown_recipients"]
    assert {entry["to"]: entry["do"].split()[1] for entry in found} == {
        "@zephyrine": "join",
        "@Zoe": "explain",
    }


# --- what readers of the rules tried


def test_a_worker_cannot_submit_a_commit_with_another_tree_than_its_runs_had(town: Town) -> None:
    town.create(criteria=("tests pass",))
    town.take(town.otto)
    town.run(town.otto)
    town.refused("DIGEST_MISMATCH", town.otto, SubmitTask("B-1", COMMIT, OTHER))


def test_what_others_say_of_a_commit_keeps_nobody_from_submitting_it(town: Town) -> None:
    town.create(criteria=("tests pass",))
    town.take(town.otto)
    town.run(town.mal, tree=OTHER)
    town.submit(town.otto)
    town.refused("USAGE", town.otto, SubmitTask("B-1", LATER))


def test_a_verdict_on_another_tree_than_the_submitted_one_is_refused(town: Town) -> None:
    town.create(gates=("athena",))
    town.take(town.otto)
    town.submit(town.otto)
    looked_at = GiveVerdict("B-1", "athena", "pass", COMMIT, tree=OTHER)
    town.refused("NOT_SUBMITTED", town.vera, looked_at)
    assert town.judge(town.vera, tree=TREE)["missing"] == []


def test_a_push_asks_for_the_tree_that_git_knows(town: Town) -> None:
    town.create(gates=("athena",))
    town.take(town.otto)
    town.submit(town.otto)
    town.judge(town.vera)
    assert town.call(OWNER, CheckGate("athena", COMMIT, TREE))["passed"] is True
    assert town.call(OWNER, CheckGate("athena", COMMIT, OTHER))["passed"] is False


def test_after_one_gate_has_failed_the_others_still_say_what_they_found(town: Town) -> None:
    town.call(OWNER, CreateGate("style", ("@mal",)))
    town.create(gates=("athena", "style"))
    town.take(town.otto)
    town.submit(town.otto)
    town.judge(town.vera, "fail")
    assert town.judge(town.mal, "fail", gate="style")["task"]["state"] == "taken"
    town.refused("NOT_SUBMITTED", town.vera, GiveVerdict("B-1", "athena", "pass"))


def test_a_failing_run_after_the_verdict_that_named_a_note_unmeets_the_criterion(
    town: Town,
) -> None:
    town.create(criteria=("docs",), gates=("athena",))
    town.take(town.otto)
    note = town.note(town.otto)
    town.submit(town.otto)
    town.judge(town.vera, evidence=(note[:8],))
    town.run(town.otto, exit_code=1)
    answer = town.not_yet(town.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["criterion"]
    town.judge(town.vera, evidence=(note,))
    assert town.call(town.otto, CompleteTask("B-1"))["completed"] is True


def test_the_command_for_a_verdict_names_the_commit_and_what_was_said(town: Town) -> None:
    town.create(criteria=("docs",), gates=("athena",))
    town.take(town.otto)
    note = town.note(town.otto)
    town.submit(town.otto)
    typed = f"interlock gate pass B-1 athena --commit {COMMIT[:12]} --evidence {note}"
    assert town.call(town.vera, Whoami())["verdicts_due"][0]["do"] == typed
    town.judge(town.vera)
    assert town.call(OWNER, Review())["verdicts_due"][0]["do"] == f"{typed} --from mira"


def test_what_looks_like_a_token_is_masked_in_whatever_is_said(town: Town) -> None:
    secret = "ghp_" + "a1B2" * 9
    town.create(criteria=("docs",))
    said = {"kind": "note", "text": f"it is {secret}", "title": secret, "task_id": "B-1"}
    kept = town.call(town.mal, AddEvidence(said))["evidence"]
    assert (kept["text"], kept["title"], kept["masked"]) == ("it is [masked]", "[masked]", 2)


def test_a_redacted_brief_is_gone_from_the_mail_that_told_of_it(town: Town) -> None:
    town.create(brief="the password is hunter2", assignee="@otto")
    (told,) = town.call(town.otto, ListInbox())["messages"]
    assert "hunter2" in str(told)
    town.refused("MISSING_SCOPE", town.mal, Redact("B-1", "a secret"))
    town.call(town.vera, Redact("B-1", "a secret"))
    assert "hunter2" not in str(town.call(town.otto, ReadMessage(told["id"])))
    assert "hunter2" not in str(town.show())
    assert [entry["kind"] for entry in town.show()["story"]].count("body_redacted") == 2


def bodies(town: Town) -> str:
    """All that is kept of what was said."""
    with town.node.file.reading() as db:
        return str([row[0] for row in db.execute("SELECT body FROM bodies")])


def last_of(town: Town, kind: str) -> str:
    return [f"#{fact['seq']}" for fact in town.facts() if fact["kind"] == kind][-1]


def test_the_note_of_an_end_is_redacted_by_its_position(town: Town) -> None:
    town.create()
    town.take(town.otto)
    town.call(town.otto, FailTask("B-1", "the password is hunter2"))
    end = last_of(town, "task_ended")
    town.refused("MISSING_SCOPE", town.vera, Redact(end, "a secret"))
    assert town.call(town.desktop, Redact(end, "a secret")) == {
        "redacted": True,
        "id": end,
        "seq": int(end[1:]),
    }
    assert "hunter2" not in bodies(town)
    assert town.show()["task"]["title"] == "Add a flag"
    assert town.show()["story"][-1]["kind"] == "body_redacted"
    town.call(OWNER, Redact(last_of(town, "body_redacted"), "it said too much"))


@pytest.mark.parametrize("end", [FailTask, CancelTask])
def test_a_redacted_task_takes_the_note_of_its_end_with_it(town: Town, end: Any) -> None:
    town.create(by=town.otto, brief="see the wiki")
    town.take(town.otto)
    town.call(town.otto, end("B-1", note="the password is hunter2"))
    town.call(town.otto, Redact("B-1", "a secret"))
    assert "hunter2" not in bodies(town)
    assert "wiki" not in bodies(town)


def test_a_redacted_task_may_be_named_by_its_position_and_takes_its_mail_with_it(
    town: Town,
) -> None:
    town.create(brief="the password is hunter2", assignee="@otto")
    town.call(town.vera, Redact(last_of(town, "task_created"), "a secret"))
    assert "hunter2" not in bodies(town)


@pytest.mark.parametrize("by_position", [True, False])
def test_the_note_of_a_resolution_is_redacted_with_its_blocker_or_alone(
    town: Town, by_position: bool
) -> None:
    town.create()
    raised = town.call(town.otto, RaiseBlocker("no disk", "B-1"))["blocker"]
    town.call(town.otto, ResolveBlocker(raised["id"], "the password is hunter2"))
    named = last_of(town, "blocker_resolved") if by_position else raised["id"]
    town.refused("MISSING_SCOPE", town.mal if by_position else town.vera, Redact(named, "a secret"))
    town.call(town.otto, Redact(named, "a secret"))
    assert "hunter2" not in bodies(town)
    assert ("no disk" in bodies(town)) is by_position


def test_the_note_of_an_acknowledgement_is_redacted_by_whoever_gave_it(town: Town) -> None:
    sent = town.call(town.otto, SendMessage("@vera", {"text": "Done?"}, "send"))["message"]
    town.call(town.vera, AckMessages((sent["id"],), note="the password is hunter2"))
    receipt = last_of(town, "mail_moved")
    town.refused("NOT_FOUND", town.mal, Redact(receipt, "a secret"))
    town.refused("MISSING_SCOPE", town.otto, Redact(receipt, "a secret"))
    town.call(town.vera, Redact(receipt, "a secret"))
    assert "hunter2" not in bodies(town)
    told = town.call(town.otto, ShowReceipts(sent["id"]))["deliveries"][0]
    assert (told["state"], "note" in str(told)) == ("acked", False)


def test_a_fact_that_says_nothing_has_nothing_to_redact(town: Town) -> None:
    town.create()
    town.take(town.otto)
    for seq in (0, 1, int(last_of(town, "task_taken")[1:]), town.node.head() + 1):
        town.refused("NOT_FOUND", OWNER, Redact(f"#{seq}", "a secret"))


def test_a_redaction_beside_the_mail_leaves_the_search_as_it_was(town: Town) -> None:
    town.create(brief="the wiki knows")
    town.call(town.otto, SendMessage("@vera", {"text": "the wiki knows"}, "send"))
    assert len(town.call(town.vera, Search("wiki"))["messages"]) == 1
    town.call(town.vera, Redact("B-1", "a secret"))
    assert len(town.call(town.vera, Search("wiki"))["messages"]) == 1
    with town.node.file.reading() as db:
        # It counts its rows, and ranking by them finds out whether it counted well.
        ranked = "SELECT bm25(search_words) FROM search_words WHERE search_words MATCH 'wiki'"
        assert len(db.execute(ranked).fetchall()) == 1


def test_a_blocker_that_names_no_task_is_mail_and_nobody_elses_business(town: Town) -> None:
    town.call(town.otto, RaiseBlocker("a private word", to="@vera"))
    assert len(town.call(town.vera, ListBlockers())["blockers"]) == 1
    assert town.call(town.mal, ListBlockers())["blockers"] == []


def test_mail_that_acts_write_counts_against_the_senders_limit(town: Town) -> None:
    town.call(OWNER, ChangeSetting("limits.sends_per_minute", "2"))
    town.create(gates=("athena",))
    town.take(town.otto)
    town.refused("RATE_LIMITED", town.otto, SubmitTask("B-1", COMMIT, TREE))
