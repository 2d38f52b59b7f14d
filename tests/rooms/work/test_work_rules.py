"""The rules of work one by one, each in a sentence: who may take, prove, judge, block and end, with
which code the rest is refused, and that what is refused leaves nothing. The clock is the test's."""

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
def workspace(tmp_path: Path) -> Iterator[TaskWorkspace]:
    """A workspace for tasks, whose log and state are checked after each test."""
    with TaskWorkspace(tmp_path) as workspace:
        yield workspace
        assert audit.verify(workspace.node)["ok"]
        assert upkeep.rebuild(workspace.node, OWNER)["changed"] is False


# --- states


def test_a_task_goes_from_open_over_taken_and_submitted_to_done(workspace: TaskWorkspace) -> None:
    workspace.create(criteria=("tests pass",), gates=("athena",))
    assert workspace.state() == "open"
    workspace.take(workspace.otto)
    assert workspace.state() == "taken"
    workspace.run(workspace.otto)
    workspace.submit(workspace.otto)
    assert (workspace.state(), workspace.missing()) == ("submitted", ["gate"])
    assert workspace.judge(workspace.vera)["task"]["state"] == "submitted"
    assert workspace.call(workspace.otto, CompleteTask("B-1"))["completed"] is True
    assert (workspace.state(), workspace.missing()) == ("done", [])


def test_a_failing_verdict_takes_a_task_back_to_taken(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    assert workspace.judge(workspace.vera, "fail")["task"]["state"] == "taken"
    assert workspace.missing() == ["submission", "criterion", "gate", "blocker"]


def submitted(workspace: TaskWorkspace, gates: tuple[str, ...] = ("athena",), **said: Any) -> int:
    """A task with one criterion, taken by otto's terminal, proven and submitted; its fence."""
    workspace.create(criteria=("tests pass",), gates=gates)
    fence = workspace.take(workspace.otto, **said)
    workspace.run(workspace.otto)
    workspace.submit(workspace.otto)
    return fence


def ended(workspace: TaskWorkspace, how: str) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera)
    ending = {"done": CompleteTask("B-1"), "failed": FailTask("B-1"), "cancelled": None}[how]
    workspace.call(workspace.otto if ending else workspace.vera, ending or CancelTask("B-1"))
    assert workspace.state() == how


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
def test_what_has_ended_stays_as_it_ended(workspace: TaskWorkspace, how: str) -> None:
    ended(workspace, how)
    for who, act in LATE_ACTS:
        told = workspace.refused("ALREADY_DONE", getattr(workspace, who), act)
        assert (told["task"], told["state"]) == ("B-1", how)
    assert workspace.state() == how


def test_the_end_frees_the_claim_and_tells_whoever_made_the_task(workspace: TaskWorkspace) -> None:
    ended(workspace, "done")
    assert workspace.call(OWNER, CheckClaim("B-1"))["claimed"] is False
    (told,) = workspace.mail(workspace.vera, "task_completed")
    artifact = {"commit": COMMIT, "tree": TREE}
    assert told["payload"] == {"task_id": "B-1", "status": "done", "artifact": artifact}
    assert workspace.mail(workspace.otto, "task_completed") == []


def test_a_task_that_is_not_there_is_not_found_and_near_ones_are_named(
    workspace: TaskWorkspace,
) -> None:
    workspace.create("B-100")
    for act in (TakeTask("B-10"), ShowTask("B-10"), CompleteTask("B-10")):
        assert workspace.refused("NOT_FOUND", workspace.otto, act)["did_you_mean"] == ["B-100"]


def test_an_id_is_given_once_and_made_where_none_is_given(workspace: TaskWorkspace) -> None:
    workspace.create("T-2")
    assert workspace.call(workspace.vera, CreateTask("x"))["task"]["id"] == "T-3"
    workspace.refused("NAME_TAKEN", workspace.vera, CreateTask("x", "T-2"))


def test_only_the_worker_fails_a_task(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    for who in (workspace.vera, workspace.mira, workspace.desktop):
        workspace.refused("NOT_HOLDER", who, FailTask("B-1"))
    assert workspace.call(workspace.otto, FailTask("B-1", "no way"))["task"]["state"] == "failed"
    assert workspace.show()["story"][-3]["note"] == "no way"


def test_its_maker_a_person_and_an_admin_cancel_a_task_and_nobody_else(
    workspace: TaskWorkspace,
) -> None:
    maker, other = workspace.join("vera", "web"), workspace.join("boss", scopes=("admin",))
    for id, who in (("B-1", maker), ("B-2", workspace.mira), ("B-3", other), ("B-4", OWNER)):
        workspace.create(id)
        workspace.take(workspace.otto, id)
        workspace.refused("MISSING_SCOPE", workspace.mal, CancelTask(id))
        workspace.refused("MISSING_SCOPE", workspace.otto, CancelTask(id))
        assert workspace.call(who, CancelTask(id))["task"]["state"] == "cancelled"
    assert len(workspace.mail(workspace.otto, "task_completed")) == 4


# --- claims and fences


def test_taking_is_a_claim_with_a_lease_a_fence_and_a_session(workspace: TaskWorkspace) -> None:
    workspace.create()
    window = in_session(workspace.otto, "s1")
    answer = workspace.call(window, TakeTask("B-1", branch="flag", ttl_s=60))
    claim = answer["claim"]
    assert workspace.call(OWNER, CheckClaim("B-1"))["claims"] == [claim]
    assert (claim["holder"], claim["session"], claim["branch"]) == ("@otto-cli", "s1", "flag")
    assert answer["task"]["worker"] == "@otto-cli"
    assert [task["id"] for task in workspace.call(window, Whoami())["tasks"]] == ["B-1"]
    assert workspace.call(workspace.otto, Whoami())["tasks"] == []
    (told,) = workspace.mail(workspace.vera, "task_claimed")
    said = {"task_id": "B-1", "fence": claim["fence"], "expires_at": claim["expires_at"]}
    assert told["payload"] == said


def test_taking_again_extends_and_keeps_the_fence_and_what_is_submitted(
    workspace: TaskWorkspace,
) -> None:
    fence = submitted(workspace, ttl_s=60)
    workspace.judge(workspace.vera)
    workspace.ms += 30_000
    assert workspace.take(workspace.otto, ttl_s=60) == fence
    workspace.ms += 45_000
    assert workspace.call(workspace.otto, CompleteTask("B-1", fence))["completed"] is True


@pytest.mark.parametrize("who", ["desktop", "vera", "another session"])
def test_what_somebody_works_on_is_held_against_everybody_else(
    workspace: TaskWorkspace, who: str
) -> None:
    workspace.create()
    fence = workspace.take(workspace.otto)
    other = (
        in_session(workspace.otto, "s2") if who == "another session" else getattr(workspace, who)
    )
    answer = workspace.not_yet(other, TakeTask("B-1"))
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
    workspace: TaskWorkspace, is_taken: bool
) -> None:
    fence = submitted(workspace, ttl_s=60)
    workspace.judge(workspace.vera)
    workspace.ms += 60_000
    assert (
        workspace.call(workspace.otto, Whoami())["tasks"] == []
    )  # whoever looks notices the expiry
    if is_taken:
        workspace.take(workspace.mal)
    for act in UNDER_A_CLAIM:
        for presented in (fence, None):
            told = workspace.refused("STALE_FENCE", workspace.otto, act(presented))
            assert told["task"] == "B-1"
            assert [claim["holder"] for claim in told.get("held_by", [])] == ["@mal"] * is_taken
    assert workspace.state() == ("taken" if is_taken else "submitted")


def test_a_fence_that_is_not_the_claims_is_stale_and_the_right_one_is_good(
    workspace: TaskWorkspace,
) -> None:
    fence = submitted(workspace)
    for act in UNDER_A_CLAIM:
        workspace.refused("STALE_FENCE", workspace.otto, act(fence + 1))
        workspace.refused("STALE_FENCE", workspace.vera, act(fence))
    assert workspace.call(workspace.otto, SubmitTask("B-1", LATER, OTHER, fence))["submitted"]


def test_whoever_never_took_it_is_not_the_holder(workspace: TaskWorkspace) -> None:
    workspace.create()
    for who in (workspace.otto, workspace.vera):
        workspace.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
    workspace.take(workspace.otto)
    for who in (workspace.desktop, workspace.vera, in_session(workspace.otto, "s2")):
        told = workspace.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
        assert [claim["holder"] for claim in told["held_by"]] == ["@otto-cli"]


def test_a_claim_on_the_item_alone_is_not_the_task(workspace: TaskWorkspace) -> None:
    workspace.create()
    workspace.call(workspace.otto, AcquireClaim("B-1"))
    told = workspace.refused("NOT_HOLDER", workspace.otto, SubmitTask("B-1", COMMIT, TREE))
    assert "interlock task take B-1" in told["message"]
    assert workspace.not_yet(workspace.vera, TakeTask("B-1"))["code"] == "CLAIM_HELD"
    assert workspace.state() == "open"
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)


def test_a_person_takes_the_claim_over_and_then_the_task(workspace: TaskWorkspace) -> None:
    fence = submitted(workspace)
    workspace.call(workspace.mira, TakeOverClaim("otto is stuck", "B-1"))
    assert (
        workspace.call(workspace.otto, Whoami())["tasks"]
        == workspace.call(workspace.mira, Whoami())["tasks"]
        == []
    )
    (told,) = workspace.mail(workspace.otto, "send")
    assert "otto is stuck" in told["payload"]["text"]
    for act in UNDER_A_CLAIM:
        workspace.refused("STALE_FENCE", workspace.otto, act(fence))
        workspace.refused("STALE_FENCE", workspace.otto, act(None))
    assert workspace.state() == "submitted"
    assert workspace.take(workspace.mira) > fence
    assert (workspace.state(), workspace.show()["task"]["worker"]) == ("taken", "@mira")
    workspace.refused("OWN_WORK", workspace.mira, GiveVerdict("B-1", "athena", "pass"))


def test_a_session_that_ends_gives_its_tasks_up_and_takes_no_other(
    workspace: TaskWorkspace,
) -> None:
    workspace.create()
    window = in_session(workspace.otto, "s1")
    workspace.call(window, StartSession("s1"))
    workspace.take(window)
    workspace.call(window, EndSession("s1"))
    workspace.refused("STALE_FENCE", window, SubmitTask("B-1", COMMIT, TREE))
    workspace.refused("NOT_HOLDER", window, TakeTask("B-1"))
    workspace.take(workspace.desktop)


@pytest.mark.parametrize("surface", ["otto", "desktop"])
def test_the_same_agent_that_takes_it_again_keeps_what_it_submitted(
    workspace: TaskWorkspace, surface: str
) -> None:
    first = submitted(workspace, ttl_s=60)
    workspace.judge(workspace.vera)
    workspace.ms += 60_000
    again = getattr(workspace, surface)
    assert workspace.take(again) > first
    assert (workspace.state(), workspace.missing()) == ("submitted", [])
    assert workspace.call(again, CompleteTask("B-1"))["completed"] is True


@pytest.mark.parametrize("other", ["a stranger", "a former worker"])
def test_another_agent_that_takes_it_begins_anew(workspace: TaskWorkspace, other: str) -> None:
    if other == "a former worker":
        workspace.create(criteria=("tests pass",), gates=("athena",))
        workspace.take(workspace.mal)
        workspace.call(workspace.mal, ReleaseClaim("B-1"))
        workspace.take(workspace.otto)
        workspace.run(workspace.otto)
        workspace.submit(workspace.otto)
    else:
        submitted(workspace)
    workspace.judge(workspace.vera)
    workspace.call(workspace.otto, ReleaseClaim("B-1"))
    workspace.take(workspace.mal)
    assert (workspace.state(), workspace.missing()) == (
        "taken",
        ["submission", "criterion", "gate"],
    )
    assert "artifact" not in workspace.show()["task"]


# --- depends_on


def test_a_task_is_not_taken_before_what_it_depends_on_is_done(workspace: TaskWorkspace) -> None:
    workspace.create("B-0")
    workspace.create(depends_on=("B-0",))
    for act, member in ((TakeTask("B-1"), "taken"), (CompleteTask("B-1"), "completed")):
        answer = workspace.not_yet(workspace.otto, act)
        assert (answer[member], answer["code"]) == (False, "GATES_NOT_PASSED")
        need = answer["missing"][0]
        assert (need["what"], need["task"], need["state"]) == ("dependency", "B-0", "open")
    workspace.take(workspace.mal, "B-0")
    workspace.call(workspace.mal, SubmitTask("B-0", COMMIT, TREE))
    assert workspace.not_yet(workspace.otto, TakeTask("B-1"))["taken"] is False
    workspace.call(workspace.mal, CompleteTask("B-0"))
    workspace.take(workspace.otto)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_what_failed_or_was_cancelled_is_not_done(workspace: TaskWorkspace, how: str) -> None:
    workspace.create("B-0")
    workspace.create(depends_on=("B-0",))
    workspace.take(workspace.otto, "B-0")
    workspace.call(
        *{"failed": (workspace.otto, FailTask("B-0"))}.get(how, (workspace.vera, CancelTask("B-0")))
    )
    assert workspace.not_yet(workspace.otto, TakeTask("B-1"))["missing"][0]["state"] == how


def test_a_circle_of_dependencies_cannot_be_made(workspace: TaskWorkspace) -> None:
    workspace.refused("USAGE", workspace.vera, CreateTask("x", "B-1", depends_on=("B-1",)))
    workspace.refused("NOT_FOUND", workspace.vera, CreateTask("x", "B-1", depends_on=("B-2",)))
    workspace.create("B-1")
    workspace.create("B-2", depends_on=("B-1",))
    workspace.refused("NAME_TAKEN", workspace.vera, CreateTask("x", "B-1", depends_on=("B-2",)))


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
    workspace: TaskWorkspace, why: str
) -> None:
    workspace.create(criteria=("tests pass",))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    answer = workspace.run(workspace.otto, **NOT_ENOUGH[why])
    assert answer["counts"] is False
    (need,) = workspace.not_yet(workspace.otto, CompleteTask("B-1"))["missing"]
    assert (need["what"], need["criterion"], need["text"]) == ("criterion", 1, "tests pass")
    assert why in answer["why"]
    assert why in need["message"]
    assert workspace.run(workspace.otto)["counts"] is True
    assert workspace.call(workspace.otto, CompleteTask("B-1"))["completed"] is True


def test_the_last_run_of_a_criterion_counts_whoever_made_it(workspace: TaskWorkspace) -> None:
    submitted(workspace, gates=())
    assert workspace.missing() == []
    workspace.run(workspace.mal, exit_code=1)
    assert workspace.missing() == ["criterion"]
    fixed = workspace.run(workspace.vera)["evidence"]
    assert (fixed["by"], fixed["kind"]) == ("@vera", "run")
    (criterion,) = workspace.show()["task"]["criteria"]
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
    workspace: TaskWorkspace, criteria: tuple[str, ...], many: str
) -> None:
    workspace.create(criteria=criteria)
    refusal = workspace.refused("USAGE", workspace.vera, AddEvidence(ran(criterion=3)))
    assert refusal["message"].startswith(f"B-1 has {many}, and no number 3.")


def test_a_run_counts_for_its_own_criterion_only(workspace: TaskWorkspace) -> None:
    workspace.create(criteria=("tests pass", "docs"))
    workspace.take(workspace.otto)
    workspace.run(workspace.otto, criterion=2)
    workspace.call(workspace.otto, AddEvidence(ran()))
    workspace.submit(workspace.otto)
    assert [c["met"] for c in workspace.show()["task"]["criteria"]] == [False, True]
    workspace.refused("USAGE", workspace.otto, AddEvidence(ran(criterion=3)))


@pytest.mark.parametrize("kind", ["note", "url"])
def test_what_was_said_counts_when_a_passing_verdict_names_it(
    workspace: TaskWorkspace, kind: str
) -> None:
    said = {"note": {"text": "I looked"}, "url": {"url": "https://ci.example/1"}}[kind]
    workspace.create(criteria=("docs",), gates=("athena", "style"))
    workspace.take(workspace.otto)
    payload = {"kind": kind, "task_id": "B-1", "criterion": 1} | said
    answer = workspace.call(workspace.otto, AddEvidence(payload))
    assert answer["counts"] is False
    workspace.submit(workspace.otto)
    named = (answer["evidence"]["id"],)
    workspace.judge(workspace.vera)
    assert "criterion" in workspace.missing()
    workspace.judge(workspace.vera, evidence=named)
    assert workspace.missing() == ["gate"]
    (criterion,) = workspace.show()["task"]["criteria"]
    assert (criterion["by"], criterion["said_by"]) == (kind, "@otto-cli")
    assert "ran_by" not in criterion
    workspace.submit(workspace.otto)
    assert workspace.missing() == ["criterion", "gate", "gate"]


def test_a_run_after_the_verdict_that_names_a_note_was_not_looked_at(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("docs",), gates=("athena",))
    workspace.take(workspace.otto)
    note = workspace.note(workspace.otto)
    workspace.run(workspace.otto, exit_code=1)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera, evidence=(note,))
    assert workspace.missing() == []
    workspace.run(workspace.otto, exit_code=1)
    assert workspace.missing() == ["criterion"]


@pytest.fixture(autouse=True)
def style(workspace: TaskWorkspace) -> Credentials:
    """Nora holds the gate style, by her token's scope alone."""
    return workspace.join("nora", scopes=("gate:style",))


def test_what_a_failing_verdict_names_does_not_count(
    workspace: TaskWorkspace, style: Credentials
) -> None:
    workspace.create(criteria=("docs",), gates=("athena", "style"))
    workspace.take(workspace.otto)
    note = workspace.note(workspace.otto)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera)
    workspace.judge(style, "fail", "style", evidence=(note,))
    assert workspace.missing() == ["submission", "criterion", "gate", "blocker"]
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera)
    assert workspace.missing() == ["criterion", "gate", "blocker"]


def test_a_verdict_names_evidence_of_its_own_task_only(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.create("B-2", criteria=("docs",))
    foreign = workspace.note(workspace.vera, id="B-2")
    for named in (foreign, "00000000-0000-4000-8000-000000000000"):
        act = GiveVerdict("B-1", "athena", "pass", evidence=(named,))
        workspace.refused("NOT_FOUND", workspace.vera, act)


def test_others_prove_as_readers_and_the_workers_agent_under_its_claim_alone(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("tests pass",))
    workspace.run(workspace.mal)
    workspace.take(workspace.otto)
    assert workspace.run(workspace.vera)["evidence"]["by"] == "@vera"
    workspace.refused("NOT_HOLDER", workspace.desktop, AddEvidence(ran()))
    workspace.call(workspace.otto, ReleaseClaim("B-1"))
    workspace.refused("STALE_FENCE", workspace.otto, AddEvidence(ran()))


def test_what_was_run_and_what_was_said_look_different(workspace: TaskWorkspace) -> None:
    workspace.create(criteria=("tests pass",))
    run = workspace.run(workspace.mal, spooled=True)["evidence"]
    note = workspace.call(workspace.mal, ShowEvidence(workspace.note(workspace.mal)))["evidence"]
    assert (run["kind"], run["exit_code"], run["tree"], run["spooled"]) == ("run", 0, TREE, True)
    assert note["kind"] == "note"
    assert not {"exit_code", "tree", "command", "spooled"} & set(note)


def test_a_submission_without_a_tree_takes_it_from_a_clean_run_at_that_commit(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("tests pass",))
    workspace.take(workspace.otto)
    workspace.refused("USAGE", workspace.otto, SubmitTask("B-1", COMMIT))
    workspace.run(workspace.otto, dirty=True)
    workspace.run(workspace.otto, commit=LATER, tree=OTHER)
    workspace.refused("USAGE", workspace.otto, SubmitTask("B-1", COMMIT))
    workspace.run(workspace.otto)
    answer = workspace.call(workspace.otto, SubmitTask("B-1", COMMIT))
    assert answer["task"]["artifact"] == {"commit": COMMIT, "tree": TREE}


def upload(workspace: TaskWorkspace, by: Credentials, data: bytes) -> str:
    return str(workspace.call(by, PutChunk(data, len(data)))["upload"])


def test_a_file_is_kept_whole_and_nothing_is_kept_without_its_bytes(
    workspace: TaskWorkspace,
) -> None:
    data = b"all of it\n" * 10
    digest = hashlib.sha256(data).hexdigest()
    said = {"kind": "file", "name": "log.txt", "sha256": digest, "size": len(data)}
    workspace.refused("USAGE", workspace.otto, AddEvidence(said))
    wrong = upload(workspace, workspace.otto, data[:-1])
    workspace.refused("DIGEST_MISMATCH", workspace.otto, AddEvidence(said, wrong))
    workspace.refused(
        "NOT_FOUND", workspace.vera, AddEvidence(said, upload(workspace, workspace.otto, data))
    )
    made = workspace.call(
        workspace.otto, AddEvidence(said, upload(workspace, workspace.otto, data))
    )["evidence"]
    shown = workspace.call(workspace.vera, ShowEvidence(made["id"]))["content"]
    assert (shown["text"], shown["sha256"]) == (data.decode(), digest)


def test_evidence_under_a_key_is_kept_once_whoever_was_quicker(workspace: TaskWorkspace) -> None:
    """By whichever way it comes the second time, and though its task has ended by then."""
    submitted(workspace, gates=())
    first = AddEvidence(ran(criterion=1), key="run-1")
    made = workspace.call(workspace.otto, first)
    before = workspace.head()
    handed_over = AddEvidence(ran(criterion=1, spooled=True), key="run-1")
    for again in (first, first._replace(fence=1), handed_over):
        assert workspace.call(workspace.otto, again) == made
    assert workspace.head() == before
    assert workspace.call(workspace.otto, CompleteTask("B-1"))["completed"]
    assert workspace.call(workspace.otto, first)["evidence"] == made["evidence"]
    others = workspace.call(workspace.vera, AddEvidence(ran(workspace.create("B-2")), key="run-1"))
    assert others["evidence"]["id"] != made["evidence"]["id"], "a key is its sender's own"


def test_what_was_uploaded_for_evidence_that_is_kept_already_is_dropped(
    workspace: TaskWorkspace,
) -> None:
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    request = AddEvidence(ran(workspace.create(), output=output), key="run-1")
    for _ in range(2):
        flow = attach(request, in_pieces(data), len(data))
        made = run(flow, lambda step: workspace.call(workspace.mal, step))["evidence"]
    assert (
        workspace.call(workspace.mal, ShowEvidence(made["id"]))["content"]["text"] == data.decode()
    )
    with workspace.node.file.reading() as db:
        assert db.execute("SELECT count(*) FROM blob_chunks").get == 1


def test_another_run_under_the_same_key_is_a_conflict(workspace: TaskWorkspace) -> None:
    workspace.create(criteria=("tests pass", "docs"))
    data = b"all of it"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    run = AddEvidence(ran(output=output), key="run-1")
    made = workspace.call(
        workspace.mal, run._replace(upload=upload(workspace, workspace.mal, data))
    )["evidence"]
    other = AddEvidence(run.payload | {"criterion": 2}, key="run-1")
    said = workspace.refused("IDEMPOTENCY_CONFLICT", workspace.mal, other)
    assert (said["key"], said["seq"]) == ("run-1", made["seq"])
    spooled = other._replace(payload=other.payload | {"spooled": True})
    said = workspace.refused("IDEMPOTENCY_CONFLICT", workspace.mal, spooled)
    assert f"This run was handed over before, at #{made['seq']}" in said["message"]
    workspace.call(workspace.mal, Redact(made["id"], "a secret"))
    workspace.refused("IDEMPOTENCY_CONFLICT", workspace.mal, run)


def test_redacted_evidence_loses_what_it_kept_and_counts_no_more(workspace: TaskWorkspace) -> None:
    submitted(workspace, gates=())
    data = b"token=hunter2"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    act = AddEvidence(ran(criterion=1, output=output), upload(workspace, workspace.otto, data))
    made = workspace.call(workspace.otto, act)["evidence"]
    workspace.refused("MISSING_SCOPE", workspace.mal, Redact(made["id"], "a secret"))
    assert workspace.call(workspace.desktop, Redact(made["id"], "a secret"))["redacted"] is True
    shown = workspace.call(workspace.vera, ShowEvidence(made["id"]))
    assert (shown["evidence"]["redacted"], shown["evidence"]["kind"]) == (True, "run")
    assert "content" not in shown
    assert "command" not in shown["evidence"]
    with workspace.node.file.reading() as db:
        assert db.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (output["sha256"],)).get is None
    assert workspace.missing() == ["criterion"]


# --- gates


def test_a_gate_that_nobody_can_hold_is_refused_when_the_task_is_made(
    workspace: TaskWorkspace,
) -> None:
    told = workspace.refused(
        "GATE_HAS_NO_HOLDER", workspace.vera, CreateTask("x", gates=("athens",))
    )
    assert (told["gate"], told["did_you_mean"]) == ("athens", ["athena"])
    workspace.call(OWNER, CreateGate("solo", ("otto-desktop",)))
    alone = CreateTask("x", gates=("solo",), assignee="@otto-cli")
    assert workspace.refused("GATE_HAS_NO_HOLDER", workspace.vera, alone)["gate"] == "solo"
    workspace.create("B-1", gates=("solo",))
    workspace.call(OWNER, RevokeToken(sender="otto-desktop"))
    refusal = workspace.refused(
        "GATE_HAS_NO_HOLDER", workspace.vera, CreateTask("x", gates=("solo",))
    )
    add = "interlock gate create solo --replace --holder otto-desktop --holder SENDER"
    assert refusal["message"].endswith(f"Add a holder: {add}")
    assert "did_you_mean" not in refusal


def test_a_worker_learns_at_once_that_nobody_else_could_judge(workspace: TaskWorkspace) -> None:
    workspace.call(OWNER, CreateGate("solo", ("otto",)))
    workspace.create(gates=("solo", "athena"), assignee="@mal")
    notices = workspace.call(workspace.otto, TakeTask("B-1"))["notices"]
    assert [notice["code"] for notice in notices] == ["ASSIGNED_TO_ANOTHER", "GATE_HAS_NO_HOLDER"]
    add = "interlock gate create solo --replace --holder otto --holder SENDER"
    assert notices[1]["message"].endswith(f"Add a holder: {add}")
    assert add in [need["do"] for need in workspace.show()["missing"]]


def test_a_gate_is_held_by_a_sender_by_an_agent_or_by_a_scope(
    workspace: TaskWorkspace, style: Credentials
) -> None:
    workspace.join("vera", "web")
    workspace.call(OWNER, CreateGate("whole", ("vera",)))
    workspace.call(OWNER, CreateGate("part", ("vera-web", "otto-cli")))
    held = {gate["name"]: gate["can_judge"] for gate in workspace.call(OWNER, ListGates())["gates"]}
    assert held["whole"] == ["@vera", "@vera-web"]
    assert held["part"] == ["@otto-cli", "@vera-web"]
    submitted(workspace, gates=("style",))
    workspace.refused("MISSING_SCOPE", workspace.vera, GiveVerdict("B-1", "style", "pass"))
    workspace.judge(style, gate="style")
    assert workspace.missing() == []


def test_a_listed_holder_judges_only_with_a_token_for_work(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    mint = MintToken("vera", None, ("mail",), None, token_format.hashed(token))
    workspace.call(OWNER, mint)
    narrow = Credentials(token=token)
    refusal = workspace.refused("MISSING_SCOPE", narrow, GiveVerdict("B-1", "athena", "pass"))
    assert refusal["message"] == (
        "This token does not hold the gate athena: another of @vera's does. Use that one."
    )
    assert workspace.call(narrow, Whoami())["verdicts_due"] == []
    assert len(workspace.call(workspace.vera, Whoami())["verdicts_due"]) == 1


def test_a_gate_keeps_its_holders_until_they_are_replaced(workspace: TaskWorkspace) -> None:
    assert (
        workspace.not_yet(OWNER, CreateGate("athena", ("mira", "vera")))["gate"]["name"] == "athena"
    )
    workspace.refused("NAME_TAKEN", OWNER, CreateGate("athena", ("mal",)))
    workspace.refused("GATE_HAS_NO_HOLDER", OWNER, CreateGate("athena", ("ghost",), replace=True))
    workspace.refused("MISSING_SCOPE", workspace.vera, CreateGate("athena", ("mal",), replace=True))
    submitted(workspace)
    workspace.call(OWNER, CreateGate("athena", ("mal",), replace=True))
    workspace.refused("MISSING_SCOPE", workspace.vera, GiveVerdict("B-1", "athena", "pass"))
    workspace.judge(workspace.mal)


def test_nobody_judges_what_a_surface_of_theirs_has_worked_on(workspace: TaskWorkspace) -> None:
    workspace.call(OWNER, CreateGate("athena", ("otto", "vera", "mal"), replace=True))
    workspace.create(gates=("athena",))
    workspace.take(workspace.mal)
    workspace.call(workspace.mal, ReleaseClaim("B-1"))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    for who in (workspace.otto, workspace.desktop, workspace.mal):
        workspace.refused("OWN_WORK", who, GiveVerdict("B-1", "athena", "pass"))
        assert workspace.call(who, Whoami())["verdicts_due"] == []
    workspace.judge(workspace.vera)


def test_a_submission_wakes_everybody_from_whom_a_verdict_is_due(workspace: TaskWorkspace) -> None:
    workspace.call(OWNER, CreateGate("athena", ("otto", "vera", "mira"), replace=True))
    before = workspace.head()
    submitted(workspace)
    woken = [
        f["outcome"] for f in workspace.facts(after=before) if f["outcome"].get("type") == "wake"
    ]
    assert [(wake["to"], wake["wake"]) for wake in woken] == [("@mira", True), ("@vera", True)]
    for who in (workspace.vera, workspace.mira):
        (due,) = workspace.call(who, Whoami())["verdicts_due"]
        assert (due["task"], due["gate"], due["commit"]) == ("B-1", "athena", COMMIT)
        assert due["do"] == f"interlock gate pass B-1 athena --commit {COMMIT[:12]}"
    workspace.judge(workspace.mira)
    assert workspace.call(workspace.vera, Whoami())["verdicts_due"] == []


@pytest.mark.parametrize("commit", [COMMIT, LATER])
def test_a_new_submission_clears_the_verdicts_even_of_the_same_commit(
    workspace: TaskWorkspace, commit: str
) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera)
    assert workspace.missing() == []
    workspace.submit(workspace.otto, commit)
    assert workspace.missing() == ["gate"]


def test_a_verdict_is_about_what_is_submitted_now(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.submit(workspace.otto, LATER, OTHER)
    told = workspace.refused(
        "NOT_SUBMITTED", workspace.vera, GiveVerdict("B-1", "athena", "pass", COMMIT)
    )
    assert told["submitted"] == {"commit": LATER, "tree": OTHER}
    given = workspace.judge(workspace.vera, commit=LATER[:8])["verdict"]
    assert given["artifact"] == {"commit": LATER, "tree": OTHER}


def test_there_is_nothing_to_judge_before_a_submission_or_after_a_fail(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(gates=("athena",))
    workspace.refused("NOT_SUBMITTED", workspace.vera, GiveVerdict("B-1", "athena", "pass"))
    workspace.take(workspace.otto)
    workspace.refused("NOT_SUBMITTED", workspace.vera, GiveVerdict("B-1", "athena", "pass"))
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera, "fail")
    workspace.refused("NOT_SUBMITTED", workspace.mira, GiveVerdict("B-1", "athena", "pass"))
    workspace.refused("NOT_FOUND", workspace.mira, GiveVerdict("B-1", "style", "pass"))


def test_the_last_word_of_a_gate_counts(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera)
    workspace.judge(workspace.mira, "fail")
    assert workspace.missing() == ["submission", "criterion", "gate", "blocker"]


def test_a_failing_verdict_says_what_is_wrong_and_becomes_a_blocker_that_wakes(
    workspace: TaskWorkspace,
) -> None:
    submitted(workspace)
    workspace.refused("USAGE", workspace.vera, GiveVerdict("B-1", "athena", "pass", fix=("make",)))
    before = workspace.head()
    act = GiveVerdict("B-1", "athena", "fail", note="no docs", fix=("make docs",))
    made = workspace.call(workspace.vera, act)["blocker"]
    assert [fact["kind"] for fact in workspace.facts(after=before)] == [
        "verdict_given",
        "message_sent",
    ]
    assert workspace.facts(after=before)[1]["outcome"]["wake"] is True
    assert (made["to"], made["gate"], made["severity"]) == ("@otto-cli", "athena", "stop")
    (mail,) = workspace.mail(workspace.otto, "blocker")
    assert mail["payload"]["fix"] == ["make docs"]
    assert (mail["payload"]["what"], mail["id"]) == ("no docs", made["id"])


def test_a_fail_without_a_word_says_whom_to_ask(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    made = workspace.call(workspace.vera, GiveVerdict("B-1", "athena", "fail"))["blocker"]
    assert made["what"] == "The gate athena failed B-1, and does not say why. Ask @vera."


def test_a_pass_resolves_what_its_own_gate_held_against_the_task(
    workspace: TaskWorkspace, style: Credentials
) -> None:
    submitted(workspace, gates=("athena", "style"))
    workspace.judge(workspace.vera, "fail")
    workspace.submit(workspace.otto)
    workspace.judge(style, "fail", "style")
    workspace.submit(workspace.otto)
    workspace.judge(workspace.mira)
    assert [blocker["gate"] for blocker in workspace.blockers()] == ["style"]
    assert workspace.missing() == ["gate", "blocker"]
    workspace.judge(style, gate="style")
    assert workspace.missing() == []


def test_a_gate_has_passed_a_commit_until_it_says_otherwise_or_is_asked_again(
    workspace: TaskWorkspace,
) -> None:
    def passed(commit: str) -> bool:
        answer = workspace.call(OWNER, CheckGate("athena", commit))
        assert answer.get("code") == (None if answer["passed"] else "GATES_NOT_PASSED")
        return bool(answer["passed"])

    submitted(workspace)
    assert not passed(COMMIT)
    workspace.judge(workspace.vera)
    assert passed(COMMIT)
    assert not passed(LATER)
    workspace.submit(workspace.otto)
    assert not passed(COMMIT)
    workspace.judge(workspace.vera)
    workspace.judge(workspace.mira, "fail")
    assert not passed(COMMIT)


# --- blockers


def test_a_blocker_goes_to_the_worker_and_the_workers_own_to_the_maker(
    workspace: TaskWorkspace,
) -> None:
    workspace.create()
    assert workspace.call(workspace.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    workspace.take(workspace.otto)
    before = workspace.head()
    assert (
        workspace.call(workspace.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"]
        == "@otto-cli"
    )
    assert workspace.facts(after=before)[0]["outcome"]["wake"] is True
    assert (
        workspace.call(workspace.desktop, RaiseBlocker("no disk", "B-1"))["blocker"]["to"]
        == "@vera"
    )
    made = workspace.call(workspace.otto, RaiseBlocker("no disk", "B-1", "@mira"))["blocker"]
    assert (made["to"], made["by"], made["task"]) == ("@mira", "@otto-cli", "B-1")


def test_a_worker_that_made_its_task_tells_a_judge_of_a_blocker_or_at_least_itself(
    workspace: TaskWorkspace,
) -> None:
    workspace.call(OWNER, CreateGate("shared", ("otto", "mira")))
    for id, gates, to in (("B-1", ("shared",), "@mira"), ("B-2", (), "@otto-cli")):
        workspace.create(id, workspace.desktop, gates=gates)
        workspace.take(workspace.otto, id)
        assert workspace.call(workspace.otto, RaiseBlocker("no disk", id))["blocker"]["to"] == to
        assert "blocker" in workspace.missing(id)


def test_a_blocker_that_stops_is_in_the_way_and_a_warning_is_not(workspace: TaskWorkspace) -> None:
    submitted(workspace, gates=())
    workspace.call(workspace.vera, RaiseBlocker("slow", "B-1", severity="warn"))
    assert workspace.missing() == []
    payload = {"what": "no disk", "severity": "stop", "task_id": "B-1"}
    workspace.call(workspace.mal, SendMessage("@otto", payload, "blocker"))
    (need,) = workspace.not_yet(workspace.otto, CompleteTask("B-1"))["missing"]
    assert need["do"] == f"interlock blocker resolve {need['id']}"
    workspace.call(workspace.mal, ResolveBlocker(need["id"]))
    assert workspace.call(workspace.otto, CompleteTask("B-1"))["completed"] is True


def test_a_blocker_on_a_task_that_is_not_open_is_sent_and_said_to_stop_none(
    workspace: TaskWorkspace,
) -> None:
    workspace.create("ZZ-1")
    workspace.create("ZZ-2")
    workspace.call(workspace.vera, CancelTask("ZZ-2"))
    for named in ("zz-1", "ZZ-2"):
        said = {"what": "no disk", "severity": "stop", "task_id": named}
        act = SendMessage("@vera", said, "blocker", key=f"blocks {named}")
        sent = workspace.call(workspace.mal, act)
        assert sent["accepted"] is True
        assert sent["notices"] == [
            {
                "code": "NO_OPEN_TASK",
                "message": f"There is no open task '{named}', so this stops none.",
                "did_you_mean": ["ZZ-1"],
            }
        ]
        assert workspace.call(workspace.mal, act) == sent
    said = {"what": "no disk", "severity": "stop", "task_id": "ZZ-1"}
    assert workspace.call(workspace.mal, SendMessage("@vera", said, "blocker"))["notices"] == []


def test_a_blocker_is_resolved_by_its_raiser_a_judge_or_a_person_and_not_by_the_worker(
    workspace: TaskWorkspace,
) -> None:
    other = workspace.join("vera", "web")
    boss = workspace.join("boss", scopes=("admin",))
    workspace.call(OWNER, CreateGate("athena", ("vera", "mal", "otto"), replace=True))
    submitted(workspace)
    for who in (other, workspace.mal, workspace.mira, boss, OWNER):
        id = workspace.judge(workspace.vera, "fail")["blocker"]["id"]
        workspace.refused("OWN_WORK", workspace.otto, ResolveBlocker(id))
        workspace.refused("OWN_WORK", workspace.desktop, ResolveBlocker(id))
        assert "resolved_by" in workspace.call(who, ResolveBlocker(id, "it is there"))["blocker"]
        assert workspace.not_yet(workspace.otto, ResolveBlocker(id))["blocker"]["id"] == id
        workspace.submit(workspace.otto)
    id = workspace.call(workspace.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    workspace.refused("MISSING_SCOPE", workspace.mal, ResolveBlocker(id))
    assert [blocker["id"] for blocker in workspace.blockers()] == [id]


def test_a_worker_resolves_the_blocker_that_it_raised_itself(workspace: TaskWorkspace) -> None:
    submitted(workspace, gates=())
    id = workspace.call(workspace.otto, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    workspace.call(workspace.desktop, ResolveBlocker(id))
    assert workspace.missing() == []


# --- complete, and every shortcut to it


def test_complete_lists_all_that_is_missing_with_the_command_for_each(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("tests pass", "docs"), gates=("athena",))
    assert workspace.not_yet(workspace.otto, CompleteTask("B-1"))["missing"][0]["do"] == (
        "interlock task take B-1"
    )
    workspace.take(workspace.otto)
    workspace.run(workspace.otto, criterion=2)
    blocker = workspace.call(workspace.vera, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    answer = workspace.not_yet(workspace.otto, CompleteTask("B-1"))
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


def test_a_good_run_on_what_a_gate_failed_is_to_be_made_again(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera, "fail")
    (need,) = [need for need in workspace.show()["missing"] if need["what"] == "criterion"]
    assert need["do"] == "interlock evidence run --task B-1 --criterion 1 -- pytest -q"


def test_nothing_completes_without_evidence(workspace: TaskWorkspace) -> None:
    workspace.create(criteria=("tests pass",), gates=("athena",))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera)
    answer = workspace.not_yet(workspace.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "criterion")


def test_nothing_completes_without_a_pass(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    answer = workspace.not_yet(workspace.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "gate")


def test_nothing_completes_with_a_verdict_for_an_older_artifact(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera)
    workspace.submit(workspace.otto, LATER)
    answer = workspace.not_yet(workspace.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["gate"]


def test_nothing_completes_twice_or_after_failing(workspace: TaskWorkspace) -> None:
    ended(workspace, "done")
    workspace.refused("ALREADY_DONE", workspace.otto, CompleteTask("B-1"))
    workspace.refused("ALREADY_DONE", workspace.otto, FailTask("B-1"))
    workspace.create("B-2")
    workspace.take(workspace.otto, "B-2")
    workspace.call(workspace.otto, FailTask("B-2"))
    workspace.refused("ALREADY_DONE", workspace.otto, CompleteTask("B-2"))


def test_nobody_completes_the_work_of_another(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera)
    for who in (workspace.vera, workspace.mira, workspace.desktop):
        workspace.refused("NOT_HOLDER", who, CompleteTask("B-1"))
    assert workspace.state() == "submitted"


def test_who_may_not_work_does_nothing_of_it(workspace: TaskWorkspace) -> None:
    reader = workspace.join("rex", scopes=("mail",))
    submitted(workspace)
    for act in (
        *(CreateTask("x"), TakeTask("B-1"), SubmitTask("B-1", COMMIT, TREE), CompleteTask("B-1")),
        *(FailTask("B-1"), CancelTask("B-1"), AddEvidence(ran()), RaiseBlocker("no", "B-1")),
        *(GiveVerdict("B-1", "athena", "pass"), CreateGate("own", ("rex",)), Review()),
    ):
        workspace.refused("MISSING_SCOPE", reader, act)
    assert workspace.call(reader, ListTasks())["tasks"][0]["id"] == "B-1"


# --- the whole story, and what needs a person


def test_the_story_of_a_task_stands_in_the_order_of_the_log(workspace: TaskWorkspace) -> None:
    submitted(workspace)
    workspace.judge(workspace.vera, "fail")
    workspace.submit(workspace.otto, LATER)
    workspace.judge(workspace.mira)
    workspace.call(workspace.otto, CompleteTask("B-1"))
    story = workspace.show()["story"]
    assert [entry["seq"] for entry in story] == sorted({entry["seq"] for entry in story})
    assert [entry["kind"] for entry in story if entry["kind"] != "message_sent"] == [
        *("task_created", "task_taken", "evidence_added", "task_submitted", "verdict_given"),
        *("task_submitted", "verdict_given", "blocker_resolved", "task_ended", "claim_released"),
    ]
    assert [e["blocker"]["gate"] for e in story if "blocker" in e] == ["athena"]
    assert [e["verdict"]["verdict"] for e in story if "verdict" in e] == ["fail", "pass"]


def test_what_needs_a_person_stands_in_one_place_with_what_to_type(
    workspace: TaskWorkspace,
) -> None:
    submitted(workspace, ttl_s=60)
    workspace.call(workspace.vera, RaiseBlocker("no disk", "B-1"))
    workspace.refused("OWN_WORK", workspace.otto, GiveVerdict("B-1", "athena", "pass"))
    workspace.call(workspace.otto, SendMessage("@vera", {"question": "may I?"}, "ask"))
    workspace.call(workspace.otto, SendMessage("@verra", {"text": "hello"}, "send"))
    workspace.call(workspace.otto, SendMessage("@mal", {"text": "soon"}, "send", ttl_s=30))
    workspace.ms += 61_000
    for who in (workspace.mira, OWNER):
        found = workspace.call(who, Review())
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
    workspace.refused("MISSING_SCOPE", workspace.vera, Review())


def test_mail_to_a_name_that_nobody_mistyped_lets_it_join(workspace: TaskWorkspace) -> None:
    for name in ("zephyrine", "Zoe"):
        workspace.call(workspace.otto, SendMessage(f"@{name}", {"text": "hello"}, "send"))
    found = workspace.call(OWNER, Review())["unknown_recipients"]
    assert {entry["to"]: entry["do"].split()[1] for entry in found} == {
        "@zephyrine": "join",
        "@Zoe": "explain",
    }


# --- what readers of the rules tried


def test_a_worker_cannot_submit_a_commit_with_another_tree_than_its_runs_had(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("tests pass",))
    workspace.take(workspace.otto)
    workspace.run(workspace.otto)
    workspace.refused("DIGEST_MISMATCH", workspace.otto, SubmitTask("B-1", COMMIT, OTHER))


def test_what_others_say_of_a_commit_keeps_nobody_from_submitting_it(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("tests pass",))
    workspace.take(workspace.otto)
    workspace.run(workspace.mal, tree=OTHER)
    workspace.submit(workspace.otto)
    workspace.refused("USAGE", workspace.otto, SubmitTask("B-1", LATER))


def test_a_verdict_on_another_tree_than_the_submitted_one_is_refused(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(gates=("athena",))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    looked_at = GiveVerdict("B-1", "athena", "pass", COMMIT, tree=OTHER)
    workspace.refused("NOT_SUBMITTED", workspace.vera, looked_at)
    assert workspace.judge(workspace.vera, tree=TREE)["missing"] == []


def test_a_push_asks_for_the_tree_that_git_knows(workspace: TaskWorkspace) -> None:
    workspace.create(gates=("athena",))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera)
    assert workspace.call(OWNER, CheckGate("athena", COMMIT, TREE))["passed"] is True
    assert workspace.call(OWNER, CheckGate("athena", COMMIT, OTHER))["passed"] is False


def test_after_one_gate_has_failed_the_others_still_say_what_they_found(
    workspace: TaskWorkspace,
) -> None:
    workspace.call(OWNER, CreateGate("style", ("@mal",)))
    workspace.create(gates=("athena", "style"))
    workspace.take(workspace.otto)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera, "fail")
    assert workspace.judge(workspace.mal, "fail", gate="style")["task"]["state"] == "taken"
    workspace.refused("NOT_SUBMITTED", workspace.vera, GiveVerdict("B-1", "athena", "pass"))


def test_a_failing_run_after_the_verdict_that_named_a_note_unmeets_the_criterion(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("docs",), gates=("athena",))
    workspace.take(workspace.otto)
    note = workspace.note(workspace.otto)
    workspace.submit(workspace.otto)
    workspace.judge(workspace.vera, evidence=(note[:8],))
    workspace.run(workspace.otto, exit_code=1)
    answer = workspace.not_yet(workspace.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["criterion"]
    workspace.judge(workspace.vera, evidence=(note,))
    assert workspace.call(workspace.otto, CompleteTask("B-1"))["completed"] is True


def test_the_command_for_a_verdict_names_the_commit_and_what_was_said(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(criteria=("docs",), gates=("athena",))
    workspace.take(workspace.otto)
    note = workspace.note(workspace.otto)
    workspace.submit(workspace.otto)
    typed = f"interlock gate pass B-1 athena --commit {COMMIT[:12]} --evidence {note}"
    assert workspace.call(workspace.vera, Whoami())["verdicts_due"][0]["do"] == typed
    workspace.judge(workspace.vera)
    assert workspace.call(OWNER, Review())["verdicts_due"][0]["do"] == f"{typed} --from mira"


def test_what_looks_like_a_token_is_masked_in_whatever_is_said(workspace: TaskWorkspace) -> None:
    secret = "ghp_" + "a1B2" * 9
    workspace.create(criteria=("docs",))
    said = {"kind": "note", "text": f"it is {secret}", "title": secret, "task_id": "B-1"}
    kept = workspace.call(workspace.mal, AddEvidence(said))["evidence"]
    assert (kept["text"], kept["title"], kept["masked"]) == ("it is [masked]", "[masked]", 2)


def test_a_redacted_brief_is_gone_from_the_mail_that_told_of_it(workspace: TaskWorkspace) -> None:
    workspace.create(brief="the password is hunter2", assignee="@otto")
    (told,) = workspace.call(workspace.otto, ListInbox())["messages"]
    assert "hunter2" in str(told)
    workspace.refused("MISSING_SCOPE", workspace.mal, Redact("B-1", "a secret"))
    workspace.call(workspace.vera, Redact("B-1", "a secret"))
    assert "hunter2" not in str(workspace.call(workspace.otto, ReadMessage(told["id"])))
    assert "hunter2" not in str(workspace.show())
    assert [entry["kind"] for entry in workspace.show()["story"]].count("body_redacted") == 2


def bodies(workspace: TaskWorkspace) -> str:
    """All that is kept of what was said."""
    with workspace.node.file.reading() as db:
        return str([row[0] for row in db.execute("SELECT body FROM bodies")])


def last_of(workspace: TaskWorkspace, kind: str) -> str:
    return [f"#{fact['seq']}" for fact in workspace.facts() if fact["kind"] == kind][-1]


def test_the_note_of_an_end_is_redacted_by_its_position(workspace: TaskWorkspace) -> None:
    workspace.create()
    workspace.take(workspace.otto)
    workspace.call(workspace.otto, FailTask("B-1", "the password is hunter2"))
    end = last_of(workspace, "task_ended")
    workspace.refused("MISSING_SCOPE", workspace.vera, Redact(end, "a secret"))
    assert workspace.call(workspace.desktop, Redact(end, "a secret")) == {
        "redacted": True,
        "id": end,
        "seq": int(end[1:]),
    }
    assert "hunter2" not in bodies(workspace)
    assert workspace.show()["task"]["title"] == "Add a flag"
    assert workspace.show()["story"][-1]["kind"] == "body_redacted"
    workspace.call(OWNER, Redact(last_of(workspace, "body_redacted"), "it said too much"))


@pytest.mark.parametrize("end", [FailTask, CancelTask])
def test_a_redacted_task_takes_the_note_of_its_end_with_it(
    workspace: TaskWorkspace, end: Any
) -> None:
    workspace.create(by=workspace.otto, brief="see the wiki")
    workspace.take(workspace.otto)
    workspace.call(workspace.otto, end("B-1", note="the password is hunter2"))
    workspace.call(workspace.otto, Redact("B-1", "a secret"))
    assert "hunter2" not in bodies(workspace)
    assert "wiki" not in bodies(workspace)


def test_a_redacted_task_may_be_named_by_its_position_and_takes_its_mail_with_it(
    workspace: TaskWorkspace,
) -> None:
    workspace.create(brief="the password is hunter2", assignee="@otto")
    workspace.call(workspace.vera, Redact(last_of(workspace, "task_created"), "a secret"))
    assert "hunter2" not in bodies(workspace)


@pytest.mark.parametrize("by_position", [True, False])
def test_the_note_of_a_resolution_is_redacted_with_its_blocker_or_alone(
    workspace: TaskWorkspace, by_position: bool
) -> None:
    workspace.create()
    raised = workspace.call(workspace.otto, RaiseBlocker("no disk", "B-1"))["blocker"]
    workspace.call(workspace.otto, ResolveBlocker(raised["id"], "the password is hunter2"))
    named = last_of(workspace, "blocker_resolved") if by_position else raised["id"]
    workspace.refused(
        "MISSING_SCOPE", workspace.mal if by_position else workspace.vera, Redact(named, "a secret")
    )
    workspace.call(workspace.otto, Redact(named, "a secret"))
    assert "hunter2" not in bodies(workspace)
    assert ("no disk" in bodies(workspace)) is by_position


def test_the_note_of_an_acknowledgement_is_redacted_by_whoever_gave_it(
    workspace: TaskWorkspace,
) -> None:
    sent = workspace.call(workspace.otto, SendMessage("@vera", {"text": "Done?"}, "send"))[
        "message"
    ]
    workspace.call(workspace.vera, AckMessages((sent["id"],), note="the password is hunter2"))
    receipt = last_of(workspace, "mail_moved")
    workspace.refused("NOT_FOUND", workspace.mal, Redact(receipt, "a secret"))
    workspace.refused("MISSING_SCOPE", workspace.otto, Redact(receipt, "a secret"))
    workspace.call(workspace.vera, Redact(receipt, "a secret"))
    assert "hunter2" not in bodies(workspace)
    told = workspace.call(workspace.otto, ShowReceipts(sent["id"]))["deliveries"][0]
    assert (told["state"], "note" in str(told)) == ("acked", False)


def test_a_fact_that_says_nothing_has_nothing_to_redact(workspace: TaskWorkspace) -> None:
    workspace.create()
    workspace.take(workspace.otto)
    for seq in (0, 1, int(last_of(workspace, "task_taken")[1:]), workspace.head() + 1):
        workspace.refused("NOT_FOUND", OWNER, Redact(f"#{seq}", "a secret"))


def test_a_redaction_beside_the_mail_leaves_the_search_as_it_was(workspace: TaskWorkspace) -> None:
    workspace.create(brief="the wiki knows")
    workspace.call(workspace.otto, SendMessage("@vera", {"text": "the wiki knows"}, "send"))
    assert len(workspace.call(workspace.vera, Search("wiki"))["messages"]) == 1
    workspace.call(workspace.vera, Redact("B-1", "a secret"))
    assert len(workspace.call(workspace.vera, Search("wiki"))["messages"]) == 1
    with workspace.node.file.reading() as db:
        # It counts its rows, and ranking by them finds out whether it counted well.
        ranked = "SELECT bm25(search_words) FROM search_words WHERE search_words MATCH 'wiki'"
        assert len(db.execute(ranked).fetchall()) == 1


def test_a_blocker_that_names_no_task_is_mail_and_nobody_elses_business(
    workspace: TaskWorkspace,
) -> None:
    workspace.call(workspace.otto, RaiseBlocker("a private word", to="@vera"))
    assert len(workspace.call(workspace.vera, ListBlockers())["blockers"]) == 1
    assert workspace.call(workspace.mal, ListBlockers())["blockers"] == []


def test_mail_that_acts_write_counts_against_the_senders_limit(workspace: TaskWorkspace) -> None:
    workspace.call(OWNER, ChangeSetting("limits.sends_per_minute", "2"))
    workspace.create(gates=("athena",))
    workspace.take(workspace.otto)
    workspace.refused("RATE_LIMITED", workspace.otto, SubmitTask("B-1", COMMIT, TREE))
