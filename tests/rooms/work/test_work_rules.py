"""The rules of work: which sender may take, prove, judge, block and end a task.

Each refusal has its code, and leaves nothing in the log but itself."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.node import audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim, TakeOverClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import EndSession, MintToken, RevokeToken, StartSession
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
from interlock.rooms.workspace.verbs import ChangeSetting, Review, Whoami
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import run
from world.workspace import OWNER, StaffedWorkspace

COMMIT, LATER = "a" * 40, "b" * 40
TREE, OTHER = "1" * 40, "2" * 40


class TaskWorkspace(StaffedWorkspace):
    """A workspace where vera and mira hold the gate athena, with a method for each step of a task.

    The agent mal holds no gate."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.mal = self.join("mal")
        self.call(OWNER, CreateGate("athena", ("@vera", "@mira")))

    def not_yet(self, by: Credentials, act: Any) -> dict[str, Any]:
        """A plain no, which writes nothing."""
        before = self.head()
        answer = self.call(by, act)
        assert self.head() == before
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
def work(tmp_path: Path) -> Iterator[TaskWorkspace]:
    """A workspace for tasks, whose log and state are checked after each test."""
    with TaskWorkspace(tmp_path) as workspace:
        yield workspace
        assert audit.verify(workspace.node)["ok"]
        assert upkeep.rebuild(workspace.node, OWNER)["changed"] is False


# --- states


def test_a_task_goes_from_open_over_taken_and_submitted_to_done(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",), gates=("athena",))
    assert work.state() == "open"
    work.take(work.otto)
    assert work.state() == "taken"
    work.run(work.otto)
    work.submit(work.otto)
    assert (work.state(), work.missing()) == ("submitted", ["gate"])
    assert work.judge(work.vera)["task"]["state"] == "submitted"
    assert work.call(work.otto, CompleteTask("B-1"))["completed"] is True
    assert (work.state(), work.missing()) == ("done", [])


def test_a_failing_verdict_takes_a_task_back_to_taken(work: TaskWorkspace) -> None:
    submitted(work)
    assert work.judge(work.vera, "fail")["task"]["state"] == "taken"
    assert work.missing() == ["submission", "criterion", "gate", "blocker"]


def submitted(work: TaskWorkspace, gates: tuple[str, ...] = ("athena",), **said: Any) -> int:
    """A task with one criterion, taken by otto's terminal, proven and submitted; its fence."""
    work.create(criteria=("tests pass",), gates=gates)
    fence = work.take(work.otto, **said)
    work.run(work.otto)
    work.submit(work.otto)
    return fence


def ended(work: TaskWorkspace, how: str) -> None:
    submitted(work)
    work.judge(work.vera)
    ending = {"done": CompleteTask("B-1"), "failed": FailTask("B-1"), "cancelled": None}[how]
    work.call(work.otto if ending else work.vera, ending or CancelTask("B-1"))
    assert work.state() == how


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
def test_what_has_ended_stays_as_it_ended(work: TaskWorkspace, how: str) -> None:
    ended(work, how)
    for who, act in LATE_ACTS:
        told = work.refused("ALREADY_DONE", getattr(work, who), act)
        assert (told["task"], told["state"]) == ("B-1", how)
    assert work.state() == how


def test_the_end_frees_the_claim_and_tells_whoever_made_the_task(work: TaskWorkspace) -> None:
    ended(work, "done")
    assert work.call(OWNER, CheckClaim("B-1"))["claimed"] is False
    (told,) = work.mail(work.vera, "task_completed")
    artifact = {"commit": COMMIT, "tree": TREE}
    assert told["payload"] == {"task_id": "B-1", "status": "done", "artifact": artifact}
    assert work.mail(work.otto, "task_completed") == []


def test_a_task_that_is_not_there_is_not_found_and_near_ones_are_named(work: TaskWorkspace) -> None:
    work.create("B-100")
    for act in (TakeTask("B-10"), ShowTask("B-10"), CompleteTask("B-10")):
        assert work.refused("NOT_FOUND", work.otto, act)["did_you_mean"] == ["B-100"]


def test_an_id_is_given_once_and_made_where_none_is_given(work: TaskWorkspace) -> None:
    work.create("T-2")
    assert work.call(work.vera, CreateTask("x"))["task"]["id"] == "T-3"
    work.refused("NAME_TAKEN", work.vera, CreateTask("x", "T-2"))


def test_only_the_worker_fails_a_task(work: TaskWorkspace) -> None:
    submitted(work)
    for who in (work.vera, work.mira, work.desktop):
        work.refused("NOT_HOLDER", who, FailTask("B-1"))
    assert work.call(work.otto, FailTask("B-1", "no way"))["task"]["state"] == "failed"
    assert work.show()["story"][-3]["note"] == "no way"


def test_its_maker_a_person_and_an_admin_cancel_a_task_and_nobody_else(work: TaskWorkspace) -> None:
    maker, other = work.join("vera", "web"), work.join("boss", scopes=("admin",))
    for id, who in (("B-1", maker), ("B-2", work.mira), ("B-3", other), ("B-4", OWNER)):
        work.create(id)
        work.take(work.otto, id)
        work.refused("MISSING_SCOPE", work.mal, CancelTask(id))
        work.refused("MISSING_SCOPE", work.otto, CancelTask(id))
        assert work.call(who, CancelTask(id))["task"]["state"] == "cancelled"
    assert len(work.mail(work.otto, "task_completed")) == 4


# --- claims and fences


def test_taking_is_a_claim_with_a_lease_a_fence_and_a_session(work: TaskWorkspace) -> None:
    work.create()
    window = in_session(work.otto, "s1")
    answer = work.call(window, TakeTask("B-1", branch="flag", ttl_s=60))
    claim = answer["claim"]
    assert work.call(OWNER, CheckClaim("B-1"))["claims"] == [claim]
    assert (claim["holder"], claim["session"], claim["branch"]) == ("@otto-cli", "s1", "flag")
    assert answer["task"]["worker"] == "@otto-cli"
    assert [task["id"] for task in work.call(window, Whoami())["tasks"]] == ["B-1"]
    assert work.call(work.otto, Whoami())["tasks"] == []
    (told,) = work.mail(work.vera, "task_claimed")
    said = {"task_id": "B-1", "fence": claim["fence"], "expires_at": claim["expires_at"]}
    assert told["payload"] == said


def test_taking_again_extends_and_keeps_the_fence_and_what_is_submitted(
    work: TaskWorkspace,
) -> None:
    fence = submitted(work, ttl_s=60)
    work.judge(work.vera)
    work.ms += 30_000
    assert work.take(work.otto, ttl_s=60) == fence
    work.ms += 45_000
    assert work.call(work.otto, CompleteTask("B-1", fence))["completed"] is True


@pytest.mark.parametrize("who", ["desktop", "vera", "another session"])
def test_what_somebody_works_on_is_held_against_everybody_else(
    work: TaskWorkspace, who: str
) -> None:
    work.create()
    fence = work.take(work.otto)
    other = in_session(work.otto, "s2") if who == "another session" else getattr(work, who)
    answer = work.not_yet(other, TakeTask("B-1"))
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
    work: TaskWorkspace, is_taken: bool
) -> None:
    fence = submitted(work, ttl_s=60)
    work.judge(work.vera)
    work.ms += 60_000
    assert work.call(work.otto, Whoami())["tasks"] == []  # whoever looks notices the expiry
    if is_taken:
        work.take(work.mal)
    for act in UNDER_A_CLAIM:
        for presented in (fence, None):
            told = work.refused("STALE_FENCE", work.otto, act(presented))
            assert told["task"] == "B-1"
            assert [claim["holder"] for claim in told.get("held_by", [])] == ["@mal"] * is_taken
    assert work.state() == ("taken" if is_taken else "submitted")


def test_a_fence_that_is_not_the_claims_is_stale_and_the_right_one_is_good(
    work: TaskWorkspace,
) -> None:
    fence = submitted(work)
    for act in UNDER_A_CLAIM:
        work.refused("STALE_FENCE", work.otto, act(fence + 1))
        work.refused("STALE_FENCE", work.vera, act(fence))
    assert work.call(work.otto, SubmitTask("B-1", LATER, OTHER, fence))["submitted"]


def test_whoever_never_took_it_is_not_the_holder(work: TaskWorkspace) -> None:
    work.create()
    for who in (work.otto, work.vera):
        work.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
    work.take(work.otto)
    for who in (work.desktop, work.vera, in_session(work.otto, "s2")):
        told = work.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
        assert [claim["holder"] for claim in told["held_by"]] == ["@otto-cli"]


def test_a_claim_on_the_item_alone_is_not_the_task(work: TaskWorkspace) -> None:
    work.create()
    work.call(work.otto, AcquireClaim("B-1"))
    told = work.refused("NOT_HOLDER", work.otto, SubmitTask("B-1", COMMIT, TREE))
    assert "interlock task take B-1" in told["message"]
    assert work.not_yet(work.vera, TakeTask("B-1"))["code"] == "CLAIM_HELD"
    assert work.state() == "open"
    work.take(work.otto)
    work.submit(work.otto)


def test_a_person_takes_the_claim_over_and_then_the_task(work: TaskWorkspace) -> None:
    fence = submitted(work)
    work.call(work.mira, TakeOverClaim("otto is stuck", "B-1"))
    assert work.call(work.otto, Whoami())["tasks"] == work.call(work.mira, Whoami())["tasks"] == []
    (told,) = work.mail(work.otto, "send")
    assert "otto is stuck" in told["payload"]["text"]
    for act in UNDER_A_CLAIM:
        work.refused("STALE_FENCE", work.otto, act(fence))
        work.refused("STALE_FENCE", work.otto, act(None))
    assert work.state() == "submitted"
    assert work.take(work.mira) > fence
    assert (work.state(), work.show()["task"]["worker"]) == ("taken", "@mira")
    work.refused("OWN_WORK", work.mira, GiveVerdict("B-1", "athena", "pass"))


def test_a_session_that_ends_gives_its_tasks_up_and_takes_no_other(work: TaskWorkspace) -> None:
    work.create()
    window = in_session(work.otto, "s1")
    work.call(window, StartSession("s1"))
    work.take(window)
    work.call(window, EndSession("s1"))
    work.refused("STALE_FENCE", window, SubmitTask("B-1", COMMIT, TREE))
    work.refused("NOT_HOLDER", window, TakeTask("B-1"))
    work.take(work.desktop)


@pytest.mark.parametrize("surface", ["otto", "desktop"])
def test_the_same_agent_that_takes_it_again_keeps_what_it_submitted(
    work: TaskWorkspace, surface: str
) -> None:
    first = submitted(work, ttl_s=60)
    work.judge(work.vera)
    work.ms += 60_000
    again = getattr(work, surface)
    assert work.take(again) > first
    assert (work.state(), work.missing()) == ("submitted", [])
    assert work.call(again, CompleteTask("B-1"))["completed"] is True


@pytest.mark.parametrize("other", ["a stranger", "a former worker"])
def test_another_agent_that_takes_it_begins_anew(work: TaskWorkspace, other: str) -> None:
    if other == "a former worker":
        work.create(criteria=("tests pass",), gates=("athena",))
        work.take(work.mal)
        work.call(work.mal, ReleaseClaim("B-1"))
        work.take(work.otto)
        work.run(work.otto)
        work.submit(work.otto)
    else:
        submitted(work)
    work.judge(work.vera)
    work.call(work.otto, ReleaseClaim("B-1"))
    work.take(work.mal)
    assert (work.state(), work.missing()) == ("taken", ["submission", "criterion", "gate"])
    assert "artifact" not in work.show()["task"]


# --- depends_on


def test_a_task_is_not_taken_before_what_it_depends_on_is_done(work: TaskWorkspace) -> None:
    work.create("B-0")
    work.create(depends_on=("B-0",))
    for act, member in ((TakeTask("B-1"), "taken"), (CompleteTask("B-1"), "completed")):
        answer = work.not_yet(work.otto, act)
        assert (answer[member], answer["code"]) == (False, "GATES_NOT_PASSED")
        need = answer["missing"][0]
        assert (need["what"], need["task"], need["state"]) == ("dependency", "B-0", "open")
    work.take(work.mal, "B-0")
    work.call(work.mal, SubmitTask("B-0", COMMIT, TREE))
    assert work.not_yet(work.otto, TakeTask("B-1"))["taken"] is False
    work.call(work.mal, CompleteTask("B-0"))
    work.take(work.otto)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_what_failed_or_was_cancelled_is_not_done(work: TaskWorkspace, how: str) -> None:
    work.create("B-0")
    work.create(depends_on=("B-0",))
    work.take(work.otto, "B-0")
    work.call(*{"failed": (work.otto, FailTask("B-0"))}.get(how, (work.vera, CancelTask("B-0"))))
    assert work.not_yet(work.otto, TakeTask("B-1"))["missing"][0]["state"] == how


def test_a_circle_of_dependencies_cannot_be_made(work: TaskWorkspace) -> None:
    work.refused("USAGE", work.vera, CreateTask("x", "B-1", depends_on=("B-1",)))
    work.refused("NOT_FOUND", work.vera, CreateTask("x", "B-1", depends_on=("B-2",)))
    work.create("B-1")
    work.create("B-2", depends_on=("B-1",))
    work.refused("NAME_TAKEN", work.vera, CreateTask("x", "B-1", depends_on=("B-2",)))


# --- criteria and evidence


NOT_ENOUGH: dict[str, dict[str, Any]] = {
    "exited 2": {"exit_code": 2},
    "uncommitted changes": {"dirty": True},
    "another tree": {"tree": OTHER},
    "interrupted": {"interrupted": True},
    "not made in a repository": {"commit": None, "tree": None, "dirty": None},
}


@pytest.mark.parametrize("why", NOT_ENOUGH)
def test_a_run_that_does_not_prove_the_submitted_tree_does_not_count(
    work: TaskWorkspace, why: str
) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.submit(work.otto)
    answer = work.run(work.otto, **NOT_ENOUGH[why])
    assert answer["counts"] is False
    (need,) = work.not_yet(work.otto, CompleteTask("B-1"))["missing"]
    assert (need["what"], need["criterion"], need["text"]) == ("criterion", 1, "tests pass")
    assert why in answer["why"]
    assert why in need["message"]
    assert work.run(work.otto)["counts"] is True
    assert work.call(work.otto, CompleteTask("B-1"))["completed"] is True


def test_the_last_run_of_a_criterion_counts_whoever_made_it(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    assert work.missing() == []
    work.run(work.mal, exit_code=1)
    assert work.missing() == ["criterion"]
    fixed = work.run(work.vera)["evidence"]
    assert (fixed["by"], fixed["kind"]) == ("@vera", "run")
    (criterion,) = work.show()["task"]["criteria"]
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
    work: TaskWorkspace, criteria: tuple[str, ...], many: str
) -> None:
    work.create(criteria=criteria)
    refusal = work.refused("USAGE", work.vera, AddEvidence(ran(criterion=3)))
    assert refusal["message"].startswith(f"B-1 has {many}, and no number 3.")


def test_a_run_counts_for_its_own_criterion_only(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass", "docs"))
    work.take(work.otto)
    work.run(work.otto, criterion=2)
    work.call(work.otto, AddEvidence(ran()))
    work.submit(work.otto)
    assert [c["met"] for c in work.show()["task"]["criteria"]] == [False, True]
    work.refused("USAGE", work.otto, AddEvidence(ran(criterion=3)))


@pytest.mark.parametrize("kind", ["note", "url"])
def test_what_was_said_counts_when_a_passing_verdict_names_it(
    work: TaskWorkspace, kind: str
) -> None:
    said = {"note": {"text": "I looked"}, "url": {"url": "https://ci.example/1"}}[kind]
    work.create(criteria=("docs",), gates=("athena", "style"))
    work.take(work.otto)
    payload = {"kind": kind, "task_id": "B-1", "criterion": 1} | said
    answer = work.call(work.otto, AddEvidence(payload))
    assert answer["counts"] is False
    work.submit(work.otto)
    named = (answer["evidence"]["id"],)
    work.judge(work.vera)
    assert "criterion" in work.missing()
    work.judge(work.vera, evidence=named)
    assert work.missing() == ["gate"]
    (criterion,) = work.show()["task"]["criteria"]
    assert (criterion["by"], criterion["said_by"]) == (kind, "@otto-cli")
    assert "ran_by" not in criterion
    work.submit(work.otto)
    assert work.missing() == ["criterion", "gate", "gate"]


def test_a_run_after_the_verdict_that_names_a_note_was_not_looked_at(work: TaskWorkspace) -> None:
    work.create(criteria=("docs",), gates=("athena",))
    work.take(work.otto)
    note = work.note(work.otto)
    work.run(work.otto, exit_code=1)
    work.submit(work.otto)
    work.judge(work.vera, evidence=(note,))
    assert work.missing() == []
    work.run(work.otto, exit_code=1)
    assert work.missing() == ["criterion"]


@pytest.fixture(autouse=True)
def style(work: TaskWorkspace) -> Credentials:
    """Nora holds the gate style, by her token's scope alone."""
    return work.join("nora", scopes=("gate:style",))


def test_what_a_failing_verdict_names_does_not_count(
    work: TaskWorkspace, style: Credentials
) -> None:
    work.create(criteria=("docs",), gates=("athena", "style"))
    work.take(work.otto)
    note = work.note(work.otto)
    work.submit(work.otto)
    work.judge(work.vera)
    work.judge(style, "fail", "style", evidence=(note,))
    assert work.missing() == ["submission", "criterion", "gate", "blocker"]
    work.submit(work.otto)
    work.judge(work.vera)
    assert work.missing() == ["criterion", "gate", "blocker"]


def test_a_verdict_names_evidence_of_its_own_task_only(work: TaskWorkspace) -> None:
    submitted(work)
    work.create("B-2", criteria=("docs",))
    foreign = work.note(work.vera, id="B-2")
    for named in (foreign, "00000000-0000-4000-8000-000000000000"):
        act = GiveVerdict("B-1", "athena", "pass", evidence=(named,))
        work.refused("NOT_FOUND", work.vera, act)


def test_others_prove_as_readers_and_the_workers_agent_under_its_claim_alone(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("tests pass",))
    work.run(work.mal)
    work.take(work.otto)
    assert work.run(work.vera)["evidence"]["by"] == "@vera"
    work.refused("NOT_HOLDER", work.desktop, AddEvidence(ran()))
    work.call(work.otto, ReleaseClaim("B-1"))
    work.refused("STALE_FENCE", work.otto, AddEvidence(ran()))


def test_what_was_run_and_what_was_said_look_different(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",))
    run = work.run(work.mal, spooled=True)["evidence"]
    note = work.call(work.mal, ShowEvidence(work.note(work.mal)))["evidence"]
    assert (run["kind"], run["exit_code"], run["tree"], run["spooled"]) == ("run", 0, TREE, True)
    assert note["kind"] == "note"
    assert not {"exit_code", "tree", "command", "spooled"} & set(note)


def test_a_submission_without_a_tree_takes_it_from_a_clean_run_at_that_commit(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.refused("USAGE", work.otto, SubmitTask("B-1", COMMIT))
    work.run(work.otto, dirty=True)
    work.run(work.otto, commit=LATER, tree=OTHER)
    work.refused("USAGE", work.otto, SubmitTask("B-1", COMMIT))
    work.run(work.otto)
    answer = work.call(work.otto, SubmitTask("B-1", COMMIT))
    assert answer["task"]["artifact"] == {"commit": COMMIT, "tree": TREE}


def upload(work: TaskWorkspace, by: Credentials, data: bytes) -> str:
    return str(work.call(by, PutChunk(data, len(data)))["upload"])


def test_a_file_is_kept_whole_and_nothing_is_kept_without_its_bytes(work: TaskWorkspace) -> None:
    data = b"all of it\n" * 10
    digest = hashlib.sha256(data).hexdigest()
    said = {"kind": "file", "name": "log.txt", "sha256": digest, "size": len(data)}
    work.refused("USAGE", work.otto, AddEvidence(said))
    wrong = upload(work, work.otto, data[:-1])
    work.refused("DIGEST_MISMATCH", work.otto, AddEvidence(said, wrong))
    work.refused("NOT_FOUND", work.vera, AddEvidence(said, upload(work, work.otto, data)))
    made = work.call(work.otto, AddEvidence(said, upload(work, work.otto, data)))["evidence"]
    shown = work.call(work.vera, ShowEvidence(made["id"]))["content"]
    assert (shown["text"], shown["sha256"]) == (data.decode(), digest)


def test_evidence_under_a_key_is_kept_once_whoever_was_quicker(work: TaskWorkspace) -> None:
    """By whichever way it comes the second time, and though its task has ended by then."""
    submitted(work, gates=())
    first = AddEvidence(ran(criterion=1), key="run-1")
    made = work.call(work.otto, first)
    before = work.head()
    handed_over = AddEvidence(ran(criterion=1, spooled=True), key="run-1")
    for again in (first, first._replace(fence=1), handed_over):
        assert work.call(work.otto, again) == made
    assert work.head() == before
    assert work.call(work.otto, CompleteTask("B-1"))["completed"]
    assert work.call(work.otto, first)["evidence"] == made["evidence"]
    others = work.call(work.vera, AddEvidence(ran(work.create("B-2")), key="run-1"))
    assert others["evidence"]["id"] != made["evidence"]["id"], "a key is its sender's own"


def test_what_was_uploaded_for_evidence_that_is_kept_already_is_dropped(
    work: TaskWorkspace,
) -> None:
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    request = AddEvidence(ran(work.create(), output=output), key="run-1")
    for _ in range(2):
        flow = attach(request, in_pieces(data), len(data))
        made = run(flow, lambda step: work.call(work.mal, step))["evidence"]
    assert work.call(work.mal, ShowEvidence(made["id"]))["content"]["text"] == data.decode()
    with work.node.file.reading() as db:
        assert db.execute("SELECT count(*) FROM blob_chunks").get == 1


def test_another_run_under_the_same_key_is_a_conflict(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass", "docs"))
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    run = AddEvidence(ran(output=output), key="run-1")
    made = work.call(work.mal, run._replace(upload=upload(work, work.mal, data)))["evidence"]
    other = AddEvidence(run.payload | {"criterion": 2}, key="run-1")
    said = work.refused("IDEMPOTENCY_CONFLICT", work.mal, other)
    assert (said["key"], said["seq"]) == ("run-1", made["seq"])
    spooled = other._replace(payload=other.payload | {"spooled": True})
    said = work.refused("IDEMPOTENCY_CONFLICT", work.mal, spooled)
    assert f"This run was handed over before, at #{made['seq']}" in said["message"]
    work.call(work.mal, Redact(made["id"], "a secret"))
    work.refused("IDEMPOTENCY_CONFLICT", work.mal, run)


def test_redacted_evidence_loses_what_it_kept_and_counts_no_more(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    data = b"token=hunter2"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    act = AddEvidence(ran(criterion=1, output=output), upload(work, work.otto, data))
    made = work.call(work.otto, act)["evidence"]
    work.refused("MISSING_SCOPE", work.mal, Redact(made["id"], "a secret"))
    assert work.call(work.desktop, Redact(made["id"], "a secret"))["redacted"] is True
    shown = work.call(work.vera, ShowEvidence(made["id"]))
    assert (shown["evidence"]["redacted"], shown["evidence"]["kind"]) == (True, "run")
    assert "content" not in shown
    assert "command" not in shown["evidence"]
    with work.node.file.reading() as db:
        assert db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (output["sha256"],)).get is None
    assert work.missing() == ["criterion"]


# --- gates


def test_a_gate_that_nobody_can_hold_is_refused_when_the_task_is_made(work: TaskWorkspace) -> None:
    told = work.refused("GATE_HAS_NO_HOLDER", work.vera, CreateTask("x", gates=("athens",)))
    assert (told["gate"], told["did_you_mean"]) == ("athens", ["athena"])
    work.call(OWNER, CreateGate("solo", ("otto-desktop",)))
    alone = CreateTask("x", gates=("solo",), assignee="@otto-cli")
    assert work.refused("GATE_HAS_NO_HOLDER", work.vera, alone)["gate"] == "solo"
    work.create("B-1", gates=("solo",))
    work.call(OWNER, RevokeToken(sender="otto-desktop"))
    refusal = work.refused("GATE_HAS_NO_HOLDER", work.vera, CreateTask("x", gates=("solo",)))
    add = "interlock gate create solo --replace --holder otto-desktop --holder SENDER"
    assert refusal["message"].endswith(f"Add a holder: {add}")
    assert "did_you_mean" not in refusal


def test_a_worker_learns_at_once_that_nobody_else_could_judge(work: TaskWorkspace) -> None:
    work.call(OWNER, CreateGate("solo", ("otto",)))
    work.create(gates=("solo", "athena"), assignee="@mal")
    notices = work.call(work.otto, TakeTask("B-1"))["notices"]
    assert [notice["code"] for notice in notices] == ["ASSIGNED_TO_ANOTHER", "GATE_HAS_NO_HOLDER"]
    add = "interlock gate create solo --replace --holder otto --holder SENDER"
    assert notices[1]["message"].endswith(f"Add a holder: {add}")
    assert add in [need["do"] for need in work.show()["missing"]]


def test_a_gate_is_held_by_a_sender_by_an_agent_or_by_a_scope(
    work: TaskWorkspace, style: Credentials
) -> None:
    work.join("vera", "web")
    work.call(OWNER, CreateGate("whole", ("vera",)))
    work.call(OWNER, CreateGate("part", ("vera-web", "otto-cli")))
    held = {gate["name"]: gate["can_judge"] for gate in work.call(OWNER, ListGates())["gates"]}
    assert held["whole"] == ["@vera", "@vera-web"]
    assert held["part"] == ["@otto-cli", "@vera-web"]
    submitted(work, gates=("style",))
    work.refused("MISSING_SCOPE", work.vera, GiveVerdict("B-1", "style", "pass"))
    work.judge(style, gate="style")
    assert work.missing() == []


def test_a_listed_holder_judges_only_with_a_token_for_work(work: TaskWorkspace) -> None:
    submitted(work)
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    mint = MintToken("vera", None, ("mail",), None, token_format.hashed(token))
    work.call(OWNER, mint)
    narrow = Credentials(token=token)
    refusal = work.refused("MISSING_SCOPE", narrow, GiveVerdict("B-1", "athena", "pass"))
    assert refusal["message"] == (
        "This token does not hold the gate athena: another of @vera's does. Use that one."
    )
    assert work.call(narrow, Whoami())["verdicts_due"] == []
    assert len(work.call(work.vera, Whoami())["verdicts_due"]) == 1


def test_a_gate_keeps_its_holders_until_they_are_replaced(work: TaskWorkspace) -> None:
    assert work.not_yet(OWNER, CreateGate("athena", ("mira", "vera")))["gate"]["name"] == "athena"
    work.refused("NAME_TAKEN", OWNER, CreateGate("athena", ("mal",)))
    work.refused("GATE_HAS_NO_HOLDER", OWNER, CreateGate("athena", ("ghost",), replace=True))
    work.refused("MISSING_SCOPE", work.vera, CreateGate("athena", ("mal",), replace=True))
    submitted(work)
    work.call(OWNER, CreateGate("athena", ("mal",), replace=True))
    work.refused("MISSING_SCOPE", work.vera, GiveVerdict("B-1", "athena", "pass"))
    work.judge(work.mal)


def test_nobody_judges_what_a_surface_of_theirs_has_worked_on(work: TaskWorkspace) -> None:
    work.call(OWNER, CreateGate("athena", ("otto", "vera", "mal"), replace=True))
    work.create(gates=("athena",))
    work.take(work.mal)
    work.call(work.mal, ReleaseClaim("B-1"))
    work.take(work.otto)
    work.submit(work.otto)
    for who in (work.otto, work.desktop, work.mal):
        work.refused("OWN_WORK", who, GiveVerdict("B-1", "athena", "pass"))
        assert work.call(who, Whoami())["verdicts_due"] == []
    work.judge(work.vera)


def test_a_submission_wakes_everybody_from_whom_a_verdict_is_due(work: TaskWorkspace) -> None:
    work.call(OWNER, CreateGate("athena", ("otto", "vera", "mira"), replace=True))
    before = work.head()
    submitted(work)
    woken = [f["outcome"] for f in work.facts(after=before) if f["outcome"].get("type") == "wake"]
    assert [(wake["to"], wake["wake"]) for wake in woken] == [("@mira", True), ("@vera", True)]
    for who in (work.vera, work.mira):
        (due,) = work.call(who, Whoami())["verdicts_due"]
        assert (due["task"], due["gate"], due["commit"]) == ("B-1", "athena", COMMIT)
        assert due["do"] == f"interlock gate pass B-1 athena --commit {COMMIT[:12]}"
    work.judge(work.mira)
    assert work.call(work.vera, Whoami())["verdicts_due"] == []


@pytest.mark.parametrize("commit", [COMMIT, LATER])
def test_a_new_submission_clears_the_verdicts_even_of_the_same_commit(
    work: TaskWorkspace, commit: str
) -> None:
    submitted(work)
    work.judge(work.vera)
    assert work.missing() == []
    work.submit(work.otto, commit)
    assert work.missing() == ["gate"]


def test_a_verdict_is_about_what_is_submitted_now(work: TaskWorkspace) -> None:
    submitted(work)
    work.submit(work.otto, LATER, OTHER)
    told = work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass", COMMIT))
    assert told["submitted"] == {"commit": LATER, "tree": OTHER}
    given = work.judge(work.vera, commit=LATER[:8])["verdict"]
    assert given["artifact"] == {"commit": LATER, "tree": OTHER}


def test_there_is_nothing_to_judge_before_a_submission_or_after_a_fail(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))
    work.take(work.otto)
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))
    work.submit(work.otto)
    work.judge(work.vera, "fail")
    work.refused("NOT_SUBMITTED", work.mira, GiveVerdict("B-1", "athena", "pass"))
    work.refused("NOT_FOUND", work.mira, GiveVerdict("B-1", "style", "pass"))


def test_the_last_word_of_a_gate_counts(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    work.judge(work.mira, "fail")
    assert work.missing() == ["submission", "criterion", "gate", "blocker"]


def test_a_failing_verdict_says_what_is_wrong_and_becomes_a_blocker_that_wakes(
    work: TaskWorkspace,
) -> None:
    submitted(work)
    work.refused("USAGE", work.vera, GiveVerdict("B-1", "athena", "pass", fix=("make",)))
    before = work.head()
    act = GiveVerdict("B-1", "athena", "fail", note="no docs", fix=("make docs",))
    made = work.call(work.vera, act)["blocker"]
    assert [fact["kind"] for fact in work.facts(after=before)] == ["verdict_given", "message_sent"]
    assert work.facts(after=before)[1]["outcome"]["wake"] is True
    assert (made["to"], made["gate"], made["severity"]) == ("@otto-cli", "athena", "stop")
    (mail,) = work.mail(work.otto, "blocker")
    assert mail["payload"]["fix"] == ["make docs"]
    assert (mail["payload"]["what"], mail["id"]) == ("no docs", made["id"])


def test_a_fail_without_a_word_says_whom_to_ask(work: TaskWorkspace) -> None:
    submitted(work)
    made = work.call(work.vera, GiveVerdict("B-1", "athena", "fail"))["blocker"]
    assert made["what"] == "The gate athena failed B-1, and does not say why. Ask @vera."


def test_a_pass_resolves_what_its_own_gate_held_against_the_task(
    work: TaskWorkspace, style: Credentials
) -> None:
    submitted(work, gates=("athena", "style"))
    work.judge(work.vera, "fail")
    work.submit(work.otto)
    work.judge(style, "fail", "style")
    work.submit(work.otto)
    work.judge(work.mira)
    assert [blocker["gate"] for blocker in work.blockers()] == ["style"]
    assert work.missing() == ["gate", "blocker"]
    work.judge(style, gate="style")
    assert work.missing() == []


def test_a_gate_has_passed_a_commit_until_it_says_otherwise_or_is_asked_again(
    work: TaskWorkspace,
) -> None:
    def passed(commit: str) -> bool:
        answer = work.call(OWNER, CheckGate("athena", commit))
        assert answer.get("code") == (None if answer["passed"] else "GATES_NOT_PASSED")
        return bool(answer["passed"])

    submitted(work)
    assert not passed(COMMIT)
    work.judge(work.vera)
    assert passed(COMMIT)
    assert not passed(LATER)
    work.submit(work.otto)
    assert not passed(COMMIT)
    work.judge(work.vera)
    work.judge(work.mira, "fail")
    assert not passed(COMMIT)


# --- blockers


def test_a_blocker_goes_to_the_worker_and_the_workers_own_to_the_maker(work: TaskWorkspace) -> None:
    work.create()
    assert work.call(work.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    work.take(work.otto)
    before = work.head()
    assert work.call(work.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@otto-cli"
    assert work.facts(after=before)[0]["outcome"]["wake"] is True
    assert work.call(work.desktop, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    made = work.call(work.otto, RaiseBlocker("no disk", "B-1", "@mira"))["blocker"]
    assert (made["to"], made["by"], made["task"]) == ("@mira", "@otto-cli", "B-1")


def test_a_worker_that_made_its_task_tells_a_judge_of_a_blocker_or_at_least_itself(
    work: TaskWorkspace,
) -> None:
    work.call(OWNER, CreateGate("shared", ("otto", "mira")))
    for id, gates, to in (("B-1", ("shared",), "@mira"), ("B-2", (), "@otto-cli")):
        work.create(id, work.desktop, gates=gates)
        work.take(work.otto, id)
        assert work.call(work.otto, RaiseBlocker("no disk", id))["blocker"]["to"] == to
        assert "blocker" in work.missing(id)


def test_a_blocker_that_stops_is_in_the_way_and_a_warning_is_not(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    work.call(work.vera, RaiseBlocker("slow", "B-1", severity="warn"))
    assert work.missing() == []
    payload = {"what": "no disk", "severity": "stop", "task_id": "B-1"}
    work.call(work.mal, SendMessage("@otto", payload, "blocker"))
    (need,) = work.not_yet(work.otto, CompleteTask("B-1"))["missing"]
    assert need["do"] == f"interlock blocker resolve {need['id']}"
    work.call(work.mal, ResolveBlocker(need["id"]))
    assert work.call(work.otto, CompleteTask("B-1"))["completed"] is True


def test_a_blocker_on_a_task_that_is_not_open_is_sent_and_said_to_stop_none(
    work: TaskWorkspace,
) -> None:
    work.create("ZZ-1")
    work.create("ZZ-2")
    work.call(work.vera, CancelTask("ZZ-2"))
    for named in ("zz-1", "ZZ-2"):
        said = {"what": "no disk", "severity": "stop", "task_id": named}
        act = SendMessage("@vera", said, "blocker", key=f"blocks {named}")
        sent = work.call(work.mal, act)
        assert sent["accepted"] is True
        assert sent["notices"] == [
            {
                "code": "NO_OPEN_TASK",
                "message": f"No open task has the id '{named}', so this blocker stops no task.",
                "did_you_mean": ["ZZ-1"],
            }
        ]
        assert work.call(work.mal, act) == sent
    said = {"what": "no disk", "severity": "stop", "task_id": "ZZ-1"}
    assert work.call(work.mal, SendMessage("@vera", said, "blocker"))["notices"] == []


def test_a_blocker_is_resolved_by_its_raiser_a_judge_or_a_person_and_not_by_the_worker(
    work: TaskWorkspace,
) -> None:
    other = work.join("vera", "web")
    boss = work.join("boss", scopes=("admin",))
    work.call(OWNER, CreateGate("athena", ("vera", "mal", "otto"), replace=True))
    submitted(work)
    for who in (other, work.mal, work.mira, boss, OWNER):
        id = work.judge(work.vera, "fail")["blocker"]["id"]
        work.refused("OWN_WORK", work.otto, ResolveBlocker(id))
        work.refused("OWN_WORK", work.desktop, ResolveBlocker(id))
        assert "resolved_by" in work.call(who, ResolveBlocker(id, "it is there"))["blocker"]
        assert work.not_yet(work.otto, ResolveBlocker(id))["blocker"]["id"] == id
        work.submit(work.otto)
    id = work.call(work.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    work.refused("MISSING_SCOPE", work.mal, ResolveBlocker(id))
    assert [blocker["id"] for blocker in work.blockers()] == [id]


def test_a_worker_resolves_the_blocker_that_it_raised_itself(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    id = work.call(work.otto, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    work.call(work.desktop, ResolveBlocker(id))
    assert work.missing() == []


# --- complete, and every shortcut to it


def test_complete_lists_all_that_is_missing_with_the_command_for_each(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass", "docs"), gates=("athena",))
    assert work.not_yet(work.otto, CompleteTask("B-1"))["missing"][0]["do"] == (
        "interlock task take B-1"
    )
    work.take(work.otto)
    work.run(work.otto, criterion=2)
    blocker = work.call(work.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
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


def test_a_good_run_on_what_a_gate_failed_is_to_be_made_again(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera, "fail")
    (need,) = [need for need in work.show()["missing"] if need["what"] == "criterion"]
    assert need["do"] == "interlock evidence run --task B-1 --criterion 1 -- pytest -q"


def test_nothing_completes_without_evidence(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",), gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "criterion")


def test_nothing_completes_without_a_pass(work: TaskWorkspace) -> None:
    submitted(work)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "gate")


def test_nothing_completes_with_a_verdict_for_an_older_artifact(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    work.submit(work.otto, LATER)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["gate"]


def test_nothing_completes_twice_or_after_failing(work: TaskWorkspace) -> None:
    ended(work, "done")
    work.refused("ALREADY_DONE", work.otto, CompleteTask("B-1"))
    work.refused("ALREADY_DONE", work.otto, FailTask("B-1"))
    work.create("B-2")
    work.take(work.otto, "B-2")
    work.call(work.otto, FailTask("B-2"))
    work.refused("ALREADY_DONE", work.otto, CompleteTask("B-2"))


def test_nobody_completes_the_work_of_another(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    for who in (work.vera, work.mira, work.desktop):
        work.refused("NOT_HOLDER", who, CompleteTask("B-1"))
    assert work.state() == "submitted"


def test_who_may_not_work_does_nothing_of_it(work: TaskWorkspace) -> None:
    reader = work.join("rex", scopes=("mail",))
    submitted(work)
    for act in (
        *(CreateTask("x"), TakeTask("B-1"), SubmitTask("B-1", COMMIT, TREE), CompleteTask("B-1")),
        *(FailTask("B-1"), CancelTask("B-1"), AddEvidence(ran()), RaiseBlocker("no", "B-1")),
        *(GiveVerdict("B-1", "athena", "pass"), CreateGate("own", ("rex",)), Review()),
    ):
        work.refused("MISSING_SCOPE", reader, act)
    assert work.call(reader, ListTasks())["tasks"][0]["id"] == "B-1"


# --- the whole story, and what needs a person


def test_the_story_of_a_task_stands_in_the_order_of_the_log(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera, "fail")
    work.submit(work.otto, LATER)
    work.judge(work.mira)
    work.call(work.otto, CompleteTask("B-1"))
    story = work.show()["story"]
    assert [entry["seq"] for entry in story] == sorted({entry["seq"] for entry in story})
    assert [entry["kind"] for entry in story if entry["kind"] != "message_sent"] == [
        *("task_created", "task_taken", "evidence_added", "task_submitted", "verdict_given"),
        *("task_submitted", "verdict_given", "blocker_resolved", "task_ended", "claim_released"),
    ]
    assert [e["blocker"]["gate"] for e in story if "blocker" in e] == ["athena"]
    assert [e["verdict"]["verdict"] for e in story if "verdict" in e] == ["fail", "pass"]


def test_what_needs_a_person_stands_in_one_place_with_what_to_type(work: TaskWorkspace) -> None:
    submitted(work, ttl_s=60)
    work.call(work.vera, RaiseBlocker("no disk", "B-1"))
    work.refused("OWN_WORK", work.otto, GiveVerdict("B-1", "athena", "pass"))
    work.call(work.otto, SendMessage("@vera", {"question": "may I?"}, "ask"))
    work.call(work.otto, SendMessage("@verra", {"text": "hello"}, "send"))
    work.call(work.otto, SendMessage("@mal", {"text": "soon"}, "send", ttl_s=30))
    work.ms += 61_000
    for who in (work.mira, OWNER):
        found = work.call(who, Review())
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
    work.refused("MISSING_SCOPE", work.vera, Review())


def test_mail_to_a_name_that_nobody_mistyped_lets_it_join(work: TaskWorkspace) -> None:
    for name in ("zephyrine", "Zoe"):
        work.call(work.otto, SendMessage(f"@{name}", {"text": "hello"}, "send"))
    found = work.call(OWNER, Review())["unknown_recipients"]
    assert {entry["to"]: entry["do"].split()[1] for entry in found} == {
        "@zephyrine": "join",
        "@Zoe": "explain",
    }


# --- what readers of the rules tried


def test_a_worker_cannot_submit_a_commit_with_another_tree_than_its_runs_had(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.run(work.otto)
    work.refused("DIGEST_MISMATCH", work.otto, SubmitTask("B-1", COMMIT, OTHER))


def test_what_others_say_of_a_commit_keeps_nobody_from_submitting_it(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.run(work.mal, tree=OTHER)
    work.submit(work.otto)
    work.refused("USAGE", work.otto, SubmitTask("B-1", LATER))


def test_a_verdict_on_another_tree_than_the_submitted_one_is_refused(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    looked_at = GiveVerdict("B-1", "athena", "pass", COMMIT, tree=OTHER)
    work.refused("NOT_SUBMITTED", work.vera, looked_at)
    assert work.judge(work.vera, tree=TREE)["missing"] == []


def test_a_push_asks_for_the_tree_that_git_knows(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera)
    assert work.call(OWNER, CheckGate("athena", COMMIT, TREE))["passed"] is True
    assert work.call(OWNER, CheckGate("athena", COMMIT, OTHER))["passed"] is False


def test_after_one_gate_has_failed_the_others_still_say_what_they_found(
    work: TaskWorkspace,
) -> None:
    work.call(OWNER, CreateGate("style", ("@mal",)))
    work.create(gates=("athena", "style"))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera, "fail")
    assert work.judge(work.mal, "fail", gate="style")["task"]["state"] == "taken"
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))


def test_a_failing_run_after_the_verdict_that_named_a_note_unmeets_the_criterion(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("docs",), gates=("athena",))
    work.take(work.otto)
    note = work.note(work.otto)
    work.submit(work.otto)
    work.judge(work.vera, evidence=(note[:8],))
    work.run(work.otto, exit_code=1)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["criterion"]
    work.judge(work.vera, evidence=(note,))
    assert work.call(work.otto, CompleteTask("B-1"))["completed"] is True


def test_the_command_for_a_verdict_names_the_commit_and_what_was_said(work: TaskWorkspace) -> None:
    work.create(criteria=("docs",), gates=("athena",))
    work.take(work.otto)
    note = work.note(work.otto)
    work.submit(work.otto)
    typed = f"interlock gate pass B-1 athena --commit {COMMIT[:12]} --evidence {note}"
    assert work.call(work.vera, Whoami())["verdicts_due"][0]["do"] == typed
    work.judge(work.vera)
    assert work.call(OWNER, Review())["verdicts_due"][0]["do"] == f"{typed} --from mira"


def test_what_looks_like_a_token_is_masked_in_whatever_is_said(work: TaskWorkspace) -> None:
    secret = "ghp_" + "a1B2" * 9
    work.create(criteria=("docs",))
    said = {"kind": "note", "text": f"it is {secret}", "title": secret, "task_id": "B-1"}
    kept = work.call(work.mal, AddEvidence(said))["evidence"]
    assert (kept["text"], kept["title"], kept["masked"]) == ("it is [masked]", "[masked]", 2)


def test_a_redacted_brief_is_gone_from_the_mail_that_told_of_it(work: TaskWorkspace) -> None:
    work.create(brief="the password is hunter2", assignee="@otto")
    (told,) = work.call(work.otto, ListInbox())["messages"]
    assert "hunter2" in str(told)
    work.refused("MISSING_SCOPE", work.mal, Redact("B-1", "a secret"))
    work.call(work.vera, Redact("B-1", "a secret"))
    assert "hunter2" not in str(work.call(work.otto, ReadMessage(told["id"])))
    assert "hunter2" not in str(work.show())
    assert [entry["kind"] for entry in work.show()["story"]].count("body_redacted") == 2


def bodies(work: TaskWorkspace) -> str:
    """All that is kept of what was said."""
    with work.node.file.reading() as db:
        return str([row[0] for row in db.execute("SELECT body FROM bodies")])


def last_of(work: TaskWorkspace, kind: str) -> str:
    return [f"#{fact['seq']}" for fact in work.facts() if fact["kind"] == kind][-1]


def test_the_note_of_an_end_is_redacted_by_its_position(work: TaskWorkspace) -> None:
    work.create()
    work.take(work.otto)
    work.call(work.otto, FailTask("B-1", "the password is hunter2"))
    end = last_of(work, "task_ended")
    work.refused("MISSING_SCOPE", work.vera, Redact(end, "a secret"))
    assert work.call(work.desktop, Redact(end, "a secret")) == {
        "redacted": True,
        "id": end,
        "seq": int(end[1:]),
    }
    assert "hunter2" not in bodies(work)
    assert work.show()["task"]["title"] == "Add a flag"
    assert work.show()["story"][-1]["kind"] == "body_redacted"
    work.call(OWNER, Redact(last_of(work, "body_redacted"), "it said too much"))


@pytest.mark.parametrize("end", [FailTask, CancelTask])
def test_a_redacted_task_takes_the_note_of_its_end_with_it(work: TaskWorkspace, end: Any) -> None:
    work.create(by=work.otto, brief="see the wiki")
    work.take(work.otto)
    work.call(work.otto, end("B-1", note="the password is hunter2"))
    work.call(work.otto, Redact("B-1", "a secret"))
    assert "hunter2" not in bodies(work)
    assert "wiki" not in bodies(work)


def test_a_redacted_task_may_be_named_by_its_position_and_takes_its_mail_with_it(
    work: TaskWorkspace,
) -> None:
    work.create(brief="the password is hunter2", assignee="@otto")
    work.call(work.vera, Redact(last_of(work, "task_created"), "a secret"))
    assert "hunter2" not in bodies(work)


@pytest.mark.parametrize("by_position", [True, False])
def test_the_note_of_a_resolution_is_redacted_with_its_blocker_or_alone(
    work: TaskWorkspace, by_position: bool
) -> None:
    work.create()
    raised = work.call(work.otto, RaiseBlocker("no disk", "B-1"))["blocker"]
    work.call(work.otto, ResolveBlocker(raised["id"], "the password is hunter2"))
    named = last_of(work, "blocker_resolved") if by_position else raised["id"]
    work.refused("MISSING_SCOPE", work.mal if by_position else work.vera, Redact(named, "a secret"))
    work.call(work.otto, Redact(named, "a secret"))
    assert "hunter2" not in bodies(work)
    assert ("no disk" in bodies(work)) is by_position


def test_the_note_of_an_acknowledgement_is_redacted_by_whoever_gave_it(work: TaskWorkspace) -> None:
    sent = work.call(work.otto, SendMessage("@vera", {"text": "Done?"}, "send"))["message"]
    work.call(work.vera, AckMessages((sent["id"],), note="the password is hunter2"))
    receipt = last_of(work, "mail_moved")
    work.refused("NOT_FOUND", work.mal, Redact(receipt, "a secret"))
    work.refused("MISSING_SCOPE", work.otto, Redact(receipt, "a secret"))
    work.call(work.vera, Redact(receipt, "a secret"))
    assert "hunter2" not in bodies(work)
    told = work.call(work.otto, ShowReceipts(sent["id"]))["deliveries"][0]
    assert (told["state"], "note" in str(told)) == ("acked", False)


def test_a_fact_that_says_nothing_has_nothing_to_redact(work: TaskWorkspace) -> None:
    work.create()
    work.take(work.otto)
    for seq in (0, 1, int(last_of(work, "task_taken")[1:]), work.head() + 1):
        work.refused("NOT_FOUND", OWNER, Redact(f"#{seq}", "a secret"))


def test_a_redaction_beside_the_mail_leaves_the_search_as_it_was(work: TaskWorkspace) -> None:
    work.create(brief="the wiki knows")
    work.call(work.otto, SendMessage("@vera", {"text": "the wiki knows"}, "send"))
    assert len(work.call(work.vera, Search("wiki"))["messages"]) == 1
    work.call(work.vera, Redact("B-1", "a secret"))
    assert len(work.call(work.vera, Search("wiki"))["messages"]) == 1
    with work.node.file.reading() as db:
        # It counts its rows, and ranking by them finds out whether it counted well.
        ranked = "SELECT bm25(search_words) FROM search_words WHERE search_words MATCH 'wiki'"
        assert len(db.execute(ranked).fetchall()) == 1


def test_a_blocker_that_names_no_task_is_mail_and_nobody_elses_business(
    work: TaskWorkspace,
) -> None:
    work.call(work.otto, RaiseBlocker("a private word", to="@vera"))
    assert len(work.call(work.vera, ListBlockers())["blockers"]) == 1
    assert work.call(work.mal, ListBlockers())["blockers"] == []


def test_mail_that_acts_write_counts_against_the_senders_limit(work: TaskWorkspace) -> None:
    work.call(OWNER, ChangeSetting("limits.sends_per_minute", "2"))
    work.create(gates=("athena",))
    work.take(work.otto)
    work.refused("RATE_LIMITED", work.otto, SubmitTask("B-1", COMMIT, TREE))
