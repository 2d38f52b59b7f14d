"""The rules of work: which sender may take, submit, pass, block and end a task.

Each refusal has its code, and appends no other fact than itself to the log."""

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

    def not_yet(self, by: Credentials, request: Any) -> dict[str, Any]:
        """Return the answer to a request that appends no fact."""
        before = self.head()
        answer = self.call(by, request)
        assert self.head() == before
        return answer

    def create(self, id: str = "B-1", by: Credentials | None = None, **fields: Any) -> str:
        self.call(by or self.vera, CreateTask("Add a flag", id, **fields))
        return id

    def take(self, by: Credentials, id: str = "B-1", **fields: Any) -> int:
        answer = self.call(by, TakeTask(id, **fields))
        assert answer["taken"], answer
        return int(answer["claim"]["fence"])

    def run(self, by: Credentials, criterion: int = 1, **members: Any) -> dict[str, Any]:
        return self.call(by, AddEvidence(ran(criterion=criterion, **members)))

    def note(self, by: Credentials, criterion: int = 1, id: str = "B-1") -> str:
        payload = {"kind": "note", "text": "reviewed", "task_id": id, "criterion": criterion}
        return str(self.call(by, AddEvidence(payload))["evidence"]["id"])

    def submit(self, by: Credentials, commit: str = COMMIT, tree: str = TREE) -> None:
        assert self.call(by, SubmitTask("B-1", commit, tree))["submitted"]

    def judge(
        self, by: Credentials, verdict: Any = "pass", gate: str = "athena", **fields: Any
    ) -> dict[str, Any]:
        note = "there are no docs" if verdict == "fail" else None
        return self.call(by, GiveVerdict("B-1", gate, verdict, note=note, **fields))

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


def ran(task: str = "B-1", **members: Any) -> dict[str, Any]:
    """The payload of a run that counts, with other members where they are given."""
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
    return {name: value for name, value in (usual | members).items() if value is not None}


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


def test_a_task_is_open_then_taken_then_submitted_then_done(work: TaskWorkspace) -> None:
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


def test_a_failing_verdict_returns_a_task_to_taken(work: TaskWorkspace) -> None:
    submitted(work)
    assert work.judge(work.vera, "fail")["task"]["state"] == "taken"
    assert work.missing() == ["submission", "criterion", "gate", "blocker"]


def submitted(work: TaskWorkspace, gates: tuple[str, ...] = ("athena",), **taking: Any) -> int:
    """Create a task that otto-cli takes, proves with a run and submits. Return its fence."""
    work.create(criteria=("tests pass",), gates=gates)
    fence = work.take(work.otto, **taking)
    work.run(work.otto)
    work.submit(work.otto)
    return fence


def ended(work: TaskWorkspace, how: str) -> None:
    submitted(work)
    work.judge(work.vera)
    ending = {"done": CompleteTask("B-1"), "failed": FailTask("B-1"), "cancelled": None}[how]
    work.call(work.otto if ending else work.vera, ending or CancelTask("B-1"))
    assert work.state() == how


LATE_REQUESTS = (
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
def test_every_write_to_an_ended_task_is_refused(work: TaskWorkspace, how: str) -> None:
    ended(work, how)
    for caller, request in LATE_REQUESTS:
        refusal = work.refused("ALREADY_DONE", getattr(work, caller), request)
        assert (refusal["task"], refusal["state"]) == ("B-1", how)
    assert work.state() == how


def test_ending_a_task_releases_its_claim_and_notifies_its_creator(work: TaskWorkspace) -> None:
    ended(work, "done")
    assert work.call(OWNER, CheckClaim("B-1"))["claimed"] is False
    (notice,) = work.mail(work.vera, "task_completed")
    artifact = {"commit": COMMIT, "tree": TREE}
    assert notice["payload"] == {"task_id": "B-1", "status": "done", "artifact": artifact}
    assert work.mail(work.otto, "task_completed") == []


def test_an_unknown_task_id_gets_suggestions_of_similar_ids(work: TaskWorkspace) -> None:
    work.create("B-100")
    for request in (TakeTask("B-10"), ShowTask("B-10"), CompleteTask("B-10")):
        assert work.refused("NOT_FOUND", work.otto, request)["did_you_mean"] == ["B-100"]


def test_a_task_id_is_unique_and_generated_by_default(work: TaskWorkspace) -> None:
    work.create("T-2")
    assert work.call(work.vera, CreateTask("x"))["task"]["id"] == "T-3"
    work.refused("NAME_TAKEN", work.vera, CreateTask("x", "T-2"))


def test_only_the_worker_can_fail_a_task(work: TaskWorkspace) -> None:
    submitted(work)
    for who in (work.vera, work.mira, work.desktop):
        work.refused("NOT_HOLDER", who, FailTask("B-1"))
    assert work.call(work.otto, FailTask("B-1", "no way"))["task"]["state"] == "failed"
    assert work.show()["story"][-3]["note"] == "no way"


def test_only_the_creator_people_and_admins_can_cancel_a_task(work: TaskWorkspace) -> None:
    maker, other = work.join("vera", "web"), work.join("boss", scopes=("admin",))
    for id, who in (("B-1", maker), ("B-2", work.mira), ("B-3", other), ("B-4", OWNER)):
        work.create(id)
        work.take(work.otto, id)
        work.refused("MISSING_SCOPE", work.mal, CancelTask(id))
        work.refused("MISSING_SCOPE", work.otto, CancelTask(id))
        assert work.call(who, CancelTask(id))["task"]["state"] == "cancelled"
    assert len(work.mail(work.otto, "task_completed")) == 4


# --- claims and fences


def test_taking_a_task_acquires_a_claim_in_the_callers_session(work: TaskWorkspace) -> None:
    work.create()
    window = in_session(work.otto, "s1")
    answer = work.call(window, TakeTask("B-1", branch="flag", ttl_s=60))
    claim = answer["claim"]
    assert work.call(OWNER, CheckClaim("B-1"))["claims"] == [claim]
    assert (claim["holder"], claim["session"], claim["branch"]) == ("@otto-cli", "s1", "flag")
    assert answer["task"]["worker"] == "@otto-cli"
    assert [task["id"] for task in work.call(window, Whoami())["tasks"]] == ["B-1"]
    assert work.call(work.otto, Whoami())["tasks"] == []
    (notice,) = work.mail(work.vera, "task_claimed")
    payload = {"task_id": "B-1", "fence": claim["fence"], "expires_at": claim["expires_at"]}
    assert notice["payload"] == payload


def test_taking_a_task_again_extends_the_lease_and_keeps_fence_and_submission(
    work: TaskWorkspace,
) -> None:
    fence = submitted(work, ttl_s=60)
    work.judge(work.vera)
    work.ms += 30_000
    assert work.take(work.otto, ttl_s=60) == fence
    work.ms += 45_000
    assert work.call(work.otto, CompleteTask("B-1", fence))["completed"] is True


@pytest.mark.parametrize("who", ["desktop", "vera", "another session"])
def test_a_taken_task_cannot_be_taken_by_another_holder(work: TaskWorkspace, who: str) -> None:
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
def test_after_the_lease_every_write_is_refused_with_and_without_a_fence(
    work: TaskWorkspace, is_taken: bool
) -> None:
    fence = submitted(work, ttl_s=60)
    work.judge(work.vera)
    work.ms += 60_000
    assert work.call(work.otto, Whoami())["tasks"] == []  # a read notices the expiry too
    if is_taken:
        work.take(work.mal)
    for request in UNDER_A_CLAIM:
        for presented in (fence, None):
            refusal = work.refused("STALE_FENCE", work.otto, request(presented))
            assert refusal["task"] == "B-1"
            to = " to @mal" if is_taken else ""
            assert refusal["message"].startswith(f"You lost your claim on B-1{to}.")
            holders = [claim["holder"] for claim in refusal.get("held_by", [])]
            assert holders == ["@mal"] * is_taken
    assert work.state() == ("taken" if is_taken else "submitted")


def test_only_the_fence_of_the_current_claim_is_accepted(
    work: TaskWorkspace,
) -> None:
    fence = submitted(work)
    for request in UNDER_A_CLAIM:
        for caller, presented in ((work.otto, fence + 1), (work.vera, fence)):
            refusal = work.refused("STALE_FENCE", caller, request(presented))
            why = f"You hold no claim on B-1 with the fence {presented}."
            assert refusal["message"].startswith(why)
    assert work.call(work.otto, SubmitTask("B-1", LATER, OTHER, fence))["submitted"]


def test_a_sender_that_never_took_the_task_cannot_submit_it(work: TaskWorkspace) -> None:
    work.create()
    for who in (work.otto, work.vera):
        work.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
    work.take(work.otto)
    for who in (work.desktop, work.vera, in_session(work.otto, "s2")):
        refusal = work.refused("NOT_HOLDER", who, SubmitTask("B-1", COMMIT, TREE))
        assert [claim["holder"] for claim in refusal["held_by"]] == ["@otto-cli"]


def test_a_claim_on_the_item_does_not_take_the_task(work: TaskWorkspace) -> None:
    work.create()
    work.call(work.otto, AcquireClaim("B-1"))
    refusal = work.refused("NOT_HOLDER", work.otto, SubmitTask("B-1", COMMIT, TREE))
    assert "interlock task take B-1" in refusal["message"]
    assert work.not_yet(work.vera, TakeTask("B-1"))["code"] == "CLAIM_HELD"
    assert work.state() == "open"
    work.take(work.otto)
    work.submit(work.otto)


def test_a_person_can_take_over_the_claim_and_then_the_task(work: TaskWorkspace) -> None:
    fence = submitted(work)
    work.call(work.mira, TakeOverClaim("otto is stuck", "B-1"))
    assert work.call(work.otto, Whoami())["tasks"] == work.call(work.mira, Whoami())["tasks"] == []
    (notice,) = work.mail(work.otto, "send")
    assert "otto is stuck" in notice["payload"]["text"]
    for request in UNDER_A_CLAIM:
        work.refused("STALE_FENCE", work.otto, request(fence))
        work.refused("STALE_FENCE", work.otto, request(None))
    assert work.state() == "submitted"
    assert work.take(work.mira) > fence
    assert (work.state(), work.show()["task"]["worker"]) == ("taken", "@mira")
    work.refused("OWN_WORK", work.mira, GiveVerdict("B-1", "athena", "pass"))


def test_an_ended_session_loses_its_tasks_and_cannot_take_another(work: TaskWorkspace) -> None:
    work.create()
    window = in_session(work.otto, "s1")
    work.call(window, StartSession("s1"))
    work.take(window)
    work.call(window, EndSession("s1"))
    work.refused("STALE_FENCE", window, SubmitTask("B-1", COMMIT, TREE))
    work.refused("NOT_HOLDER", window, TakeTask("B-1"))
    work.take(work.desktop)


@pytest.mark.parametrize("surface", ["otto", "desktop"])
def test_an_agent_that_takes_its_task_again_keeps_its_submission(
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
def test_a_submission_is_dropped_when_another_agent_takes_the_task(
    work: TaskWorkspace, other: str
) -> None:
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


# --- dependencies


def test_a_task_cannot_be_taken_before_its_dependency_is_done(work: TaskWorkspace) -> None:
    work.create("B-0")
    work.create(depends_on=("B-0",))
    for request, member in ((TakeTask("B-1"), "taken"), (CompleteTask("B-1"), "completed")):
        answer = work.not_yet(work.otto, request)
        assert (answer[member], answer["code"]) == (False, "GATES_NOT_PASSED")
        need = answer["missing"][0]
        assert (need["what"], need["task"], need["state"]) == ("dependency", "B-0", "open")
    work.take(work.mal, "B-0")
    work.call(work.mal, SubmitTask("B-0", COMMIT, TREE))
    assert work.not_yet(work.otto, TakeTask("B-1"))["taken"] is False
    work.call(work.mal, CompleteTask("B-0"))
    work.take(work.otto)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_failed_or_cancelled_dependency_is_not_done(work: TaskWorkspace, how: str) -> None:
    work.create("B-0")
    work.create(depends_on=("B-0",))
    work.take(work.otto, "B-0")
    work.call(*{"failed": (work.otto, FailTask("B-0"))}.get(how, (work.vera, CancelTask("B-0"))))
    assert work.not_yet(work.otto, TakeTask("B-1"))["missing"][0]["state"] == how


def test_a_cycle_of_dependencies_cannot_be_created(work: TaskWorkspace) -> None:
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
def test_only_a_successful_clean_run_on_the_submitted_tree_counts(
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


def test_the_last_run_of_a_criterion_counts_whichever_sender_made_it(work: TaskWorkspace) -> None:
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
def test_the_refusal_of_an_unknown_criterion_counts_the_existing_ones(
    work: TaskWorkspace, criteria: tuple[str, ...], many: str
) -> None:
    work.create(criteria=criteria)
    refusal = work.refused("USAGE", work.vera, AddEvidence(ran(criterion=3)))
    assert refusal["message"].startswith(f"B-1 has {many}, so it has no criterion 3.")


def test_a_run_counts_for_its_own_criterion_only(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass", "docs"))
    work.take(work.otto)
    work.run(work.otto, criterion=2)
    work.call(work.otto, AddEvidence(ran()))
    work.submit(work.otto)
    assert [c["met"] for c in work.show()["task"]["criteria"]] == [False, True]
    work.refused("USAGE", work.otto, AddEvidence(ran(criterion=3)))


@pytest.mark.parametrize("kind", ["note", "url"])
def test_a_note_or_url_counts_when_a_passing_verdict_names_it(
    work: TaskWorkspace, kind: str
) -> None:
    content = {"note": {"text": "I reviewed it"}, "url": {"url": "https://ci.example/1"}}[kind]
    work.create(criteria=("docs",), gates=("athena", "style"))
    work.take(work.otto)
    payload = {"kind": kind, "task_id": "B-1", "criterion": 1} | content
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


def test_a_verdict_that_names_a_note_does_not_cover_a_later_failed_run(work: TaskWorkspace) -> None:
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
    """The credentials of nora, who holds the gate style by the scope of her token."""
    return work.join("nora", scopes=("gate:style",))


def test_evidence_that_a_failing_verdict_names_does_not_count(
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


def test_a_verdict_cannot_name_evidence_of_another_task(work: TaskWorkspace) -> None:
    submitted(work)
    work.create("B-2", criteria=("docs",))
    foreign = work.note(work.vera, id="B-2")
    for named in (foreign, "00000000-0000-4000-8000-000000000000"):
        request = GiveVerdict("B-1", "athena", "pass", evidence=(named,))
        work.refused("NOT_FOUND", work.vera, request)


def test_workers_need_their_claim_to_add_evidence_and_other_senders_do_not(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("tests pass",))
    work.run(work.mal)
    work.take(work.otto)
    assert work.run(work.vera)["evidence"]["by"] == "@vera"
    work.refused("NOT_HOLDER", work.desktop, AddEvidence(ran()))
    work.call(work.otto, ReleaseClaim("B-1"))
    work.refused("STALE_FENCE", work.otto, AddEvidence(ran()))


def test_a_note_has_none_of_the_members_of_a_run(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",))
    run = work.run(work.mal, spooled=True)["evidence"]
    note = work.call(work.mal, ShowEvidence(work.note(work.mal)))["evidence"]
    assert (run["kind"], run["exit_code"], run["tree"], run["spooled"]) == ("run", 0, TREE, True)
    assert note["kind"] == "note"
    assert not {"exit_code", "tree", "command", "spooled"} & set(note)


def test_a_submission_without_a_tree_uses_the_tree_of_a_clean_run(
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


def test_file_evidence_needs_its_uploaded_bytes_and_stores_them_whole(work: TaskWorkspace) -> None:
    data = b"all of it\n" * 10
    digest = hashlib.sha256(data).hexdigest()
    payload = {"kind": "file", "name": "log.txt", "sha256": digest, "size": len(data)}
    work.refused("USAGE", work.otto, AddEvidence(payload))
    wrong = upload(work, work.otto, data[:-1])
    work.refused("DIGEST_MISMATCH", work.otto, AddEvidence(payload, wrong))
    work.refused("NOT_FOUND", work.vera, AddEvidence(payload, upload(work, work.otto, data)))
    made = work.call(work.otto, AddEvidence(payload, upload(work, work.otto, data)))["evidence"]
    shown = work.call(work.vera, ShowEvidence(made["id"]))["content"]
    assert (shown["text"], shown["sha256"]) == (data.decode(), digest)


def test_evidence_with_a_key_is_added_once(work: TaskWorkspace) -> None:
    """A repetition gets the first answer: with a fence, from a spool file, after the task's end."""
    submitted(work, gates=())
    first = AddEvidence(ran(criterion=1), key="run-1")
    made = work.call(work.otto, first)
    before = work.head()
    spooled = AddEvidence(ran(criterion=1, spooled=True), key="run-1")
    for again in (first, first._replace(fence=1), spooled):
        assert work.call(work.otto, again) == made
    assert work.head() == before
    assert work.call(work.otto, CompleteTask("B-1"))["completed"]
    assert work.call(work.otto, first)["evidence"] == made["evidence"]
    others = work.call(work.vera, AddEvidence(ran(work.create("B-2")), key="run-1"))
    assert others["evidence"]["id"] != made["evidence"]["id"], "each sender has its own keys"


def test_a_second_upload_for_evidence_with_the_same_key_is_dropped(
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
    refusal = work.refused("IDEMPOTENCY_CONFLICT", work.mal, other)
    assert (refusal["key"], refusal["seq"]) == ("run-1", made["seq"])
    spooled = other._replace(payload=other.payload | {"spooled": True})
    refusal = work.refused("IDEMPOTENCY_CONFLICT", work.mal, spooled)
    assert f"This run was added before, at #{made['seq']}" in refusal["message"]
    work.call(work.mal, Redact(made["id"], "a secret"))
    work.refused("IDEMPOTENCY_CONFLICT", work.mal, run)


def test_redacted_evidence_loses_its_bytes_and_does_not_count(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    data = b"token=hunter2"
    output = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    request = AddEvidence(ran(criterion=1, output=output), upload(work, work.otto, data))
    made = work.call(work.otto, request)["evidence"]
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


def test_a_task_with_a_gate_without_a_possible_holder_is_refused(work: TaskWorkspace) -> None:
    refusal = work.refused("GATE_HAS_NO_HOLDER", work.vera, CreateTask("x", gates=("athens",)))
    assert (refusal["gate"], refusal["did_you_mean"]) == ("athens", ["athena"])
    work.call(OWNER, CreateGate("solo", ("otto-desktop",)))
    alone = CreateTask("x", gates=("solo",), assignee="@otto-cli")
    assert work.refused("GATE_HAS_NO_HOLDER", work.vera, alone)["gate"] == "solo"
    work.create("B-1", gates=("solo",))
    work.call(OWNER, RevokeToken(sender="otto-desktop"))
    refusal = work.refused("GATE_HAS_NO_HOLDER", work.vera, CreateTask("x", gates=("solo",)))
    add = "interlock gate create solo --replace --holder otto-desktop --holder SENDER"
    assert refusal["message"].endswith(f"Add a holder: {add}")
    assert "did_you_mean" not in refusal


def test_taking_a_task_warns_of_a_gate_that_only_the_worker_holds(work: TaskWorkspace) -> None:
    work.call(OWNER, CreateGate("solo", ("otto",)))
    work.create(gates=("solo", "athena"), assignee="@mal")
    notices = work.call(work.otto, TakeTask("B-1"))["notices"]
    assert [notice["code"] for notice in notices] == ["ASSIGNED_TO_ANOTHER", "GATE_HAS_NO_HOLDER"]
    add = "interlock gate create solo --replace --holder otto --holder SENDER"
    assert notices[1]["message"].endswith(f"Add a holder: {add}")
    assert add in [need["do"] for need in work.show()["missing"]]


def test_a_gate_is_held_by_a_sender_an_agent_or_a_scope(
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


def test_a_listed_holder_needs_a_token_with_the_scope_work(work: TaskWorkspace) -> None:
    submitted(work)
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    mint = MintToken("vera", None, ("mail",), None, token_format.hashed(token))
    work.call(OWNER, mint)
    narrow = Credentials(token=token)
    refusal = work.refused("MISSING_SCOPE", narrow, GiveVerdict("B-1", "athena", "pass"))
    assert refusal["message"] == (
        "This token does not hold the gate athena, but another token of @vera does. Use that token."
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


def test_an_agent_cannot_pass_a_task_that_any_of_its_surfaces_took(work: TaskWorkspace) -> None:
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


def test_a_submission_wakes_each_holder_whose_verdict_is_due(work: TaskWorkspace) -> None:
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
def test_a_new_submission_clears_the_verdicts_even_for_the_same_commit(
    work: TaskWorkspace, commit: str
) -> None:
    submitted(work)
    work.judge(work.vera)
    assert work.missing() == []
    work.submit(work.otto, commit)
    assert work.missing() == ["gate"]


def test_a_verdict_on_a_commit_that_is_not_submitted_is_refused(work: TaskWorkspace) -> None:
    submitted(work)
    work.submit(work.otto, LATER, OTHER)
    request = GiveVerdict("B-1", "athena", "pass", COMMIT)
    refusal = work.refused("NOT_SUBMITTED", work.vera, request)
    assert refusal["submitted"] == {"commit": LATER, "tree": OTHER}
    given = work.judge(work.vera, commit=LATER[:8])["verdict"]
    assert given["artifact"] == {"commit": LATER, "tree": OTHER}


def test_a_verdict_without_a_pending_submission_is_refused(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))
    work.take(work.otto)
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))
    work.submit(work.otto)
    work.judge(work.vera, "fail")
    work.refused("NOT_SUBMITTED", work.mira, GiveVerdict("B-1", "athena", "pass"))
    work.refused("NOT_FOUND", work.mira, GiveVerdict("B-1", "style", "pass"))


def test_the_last_verdict_of_a_gate_counts(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    work.judge(work.mira, "fail")
    assert work.missing() == ["submission", "criterion", "gate", "blocker"]


def test_a_failing_verdict_becomes_a_blocker_that_wakes_the_worker(
    work: TaskWorkspace,
) -> None:
    submitted(work)
    work.refused("USAGE", work.vera, GiveVerdict("B-1", "athena", "pass", fix=("make",)))
    before = work.head()
    request = GiveVerdict("B-1", "athena", "fail", note="no docs", fix=("make docs",))
    made = work.call(work.vera, request)["blocker"]
    assert [fact["kind"] for fact in work.facts(after=before)] == ["verdict_given", "message_sent"]
    assert work.facts(after=before)[1]["outcome"]["wake"] is True
    assert (made["to"], made["gate"], made["severity"]) == ("@otto-cli", "athena", "stop")
    (mail,) = work.mail(work.otto, "blocker")
    assert mail["payload"]["fix"] == ["make docs"]
    assert (mail["payload"]["what"], mail["id"]) == ("no docs", made["id"])


def test_a_failing_verdict_without_a_note_names_its_sender(work: TaskWorkspace) -> None:
    submitted(work)
    made = work.call(work.vera, GiveVerdict("B-1", "athena", "fail"))["blocker"]
    assert made["what"] == "The gate athena failed B-1 without a note. Ask @vera for the reason."


def test_a_pass_resolves_only_the_blockers_of_its_own_gate(
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


def test_a_pass_of_a_commit_counts_until_a_fail_or_a_new_submission(
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


def test_a_blocker_goes_to_the_worker_and_a_workers_own_blocker_to_the_creator(
    work: TaskWorkspace,
) -> None:
    work.create()
    assert work.call(work.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    work.take(work.otto)
    before = work.head()
    assert work.call(work.mal, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@otto-cli"
    assert work.facts(after=before)[0]["outcome"]["wake"] is True
    assert work.call(work.desktop, RaiseBlocker("no disk", "B-1"))["blocker"]["to"] == "@vera"
    made = work.call(work.otto, RaiseBlocker("no disk", "B-1", "@mira"))["blocker"]
    assert (made["to"], made["by"], made["task"]) == ("@mira", "@otto-cli", "B-1")


def test_a_blocker_of_a_worker_that_created_the_task_goes_to_a_gate_holder(
    work: TaskWorkspace,
) -> None:
    work.call(OWNER, CreateGate("shared", ("otto", "mira")))
    for id, gates, to in (("B-1", ("shared",), "@mira"), ("B-2", (), "@otto-cli")):
        work.create(id, work.desktop, gates=gates)
        work.take(work.otto, id)
        assert work.call(work.otto, RaiseBlocker("no disk", id))["blocker"]["to"] == to
        assert "blocker" in work.missing(id)


def test_a_blocker_prevents_completion_and_a_warning_does_not(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    work.call(work.vera, RaiseBlocker("slow", "B-1", severity="warn"))
    assert work.missing() == []
    payload = {"what": "no disk", "severity": "stop", "task_id": "B-1"}
    work.call(work.mal, SendMessage("@otto", payload, "blocker"))
    (need,) = work.not_yet(work.otto, CompleteTask("B-1"))["missing"]
    assert need["do"] == f"interlock blocker resolve {need['id']}"
    work.call(work.mal, ResolveBlocker(need["id"]))
    assert work.call(work.otto, CompleteTask("B-1"))["completed"] is True


def test_a_blocker_on_an_ended_or_unknown_task_is_sent_with_a_notice(
    work: TaskWorkspace,
) -> None:
    work.create("ZZ-1")
    work.create("ZZ-2")
    work.call(work.vera, CancelTask("ZZ-2"))
    for named in ("zz-1", "ZZ-2"):
        payload = {"what": "no disk", "severity": "stop", "task_id": named}
        request = SendMessage("@vera", payload, "blocker", key=f"blocks {named}")
        sent = work.call(work.mal, request)
        assert sent["accepted"] is True
        assert sent["notices"] == [
            {
                "code": "NO_OPEN_TASK",
                "message": f"No open task has the id '{named}', so this blocker stops no task.",
                "did_you_mean": ["ZZ-1"],
            }
        ]
        assert work.call(work.mal, request) == sent
    payload = {"what": "no disk", "severity": "stop", "task_id": "ZZ-1"}
    assert work.call(work.mal, SendMessage("@vera", payload, "blocker"))["notices"] == []


def test_a_worker_cannot_resolve_another_senders_blocker_on_its_task(
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


def test_a_worker_can_resolve_its_own_blocker(work: TaskWorkspace) -> None:
    submitted(work, gates=())
    id = work.call(work.otto, RaiseBlocker("no disk", "B-1"))["blocker"]["id"]
    work.call(work.desktop, ResolveBlocker(id))
    assert work.missing() == []


# --- completion


def test_complete_lists_each_open_requirement_with_its_command(work: TaskWorkspace) -> None:
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


def test_a_run_on_a_failed_submission_must_be_repeated(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera, "fail")
    (need,) = [need for need in work.show()["missing"] if need["what"] == "criterion"]
    assert need["do"] == "interlock evidence run --task B-1 --criterion 1 -- pytest -q"


def test_a_task_without_evidence_cannot_be_completed(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",), gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "criterion")


def test_a_task_without_a_pass_cannot_be_completed(work: TaskWorkspace) -> None:
    submitted(work)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert (answer["code"], answer["missing"][0]["what"]) == ("GATES_NOT_PASSED", "gate")


def test_a_pass_of_an_older_submission_does_not_complete_a_task(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    work.submit(work.otto, LATER)
    answer = work.not_yet(work.otto, CompleteTask("B-1"))
    assert [need["what"] for need in answer["missing"]] == ["gate"]


def test_an_ended_task_cannot_be_completed_or_failed(work: TaskWorkspace) -> None:
    ended(work, "done")
    work.refused("ALREADY_DONE", work.otto, CompleteTask("B-1"))
    work.refused("ALREADY_DONE", work.otto, FailTask("B-1"))
    work.create("B-2")
    work.take(work.otto, "B-2")
    work.call(work.otto, FailTask("B-2"))
    work.refused("ALREADY_DONE", work.otto, CompleteTask("B-2"))


def test_only_the_worker_can_complete_a_task(work: TaskWorkspace) -> None:
    submitted(work)
    work.judge(work.vera)
    for who in (work.vera, work.mira, work.desktop):
        work.refused("NOT_HOLDER", who, CompleteTask("B-1"))
    assert work.state() == "submitted"


def test_work_needs_the_scope_work(work: TaskWorkspace) -> None:
    reader = work.join("rex", scopes=("mail",))
    submitted(work)
    for request in (
        *(CreateTask("x"), TakeTask("B-1"), SubmitTask("B-1", COMMIT, TREE), CompleteTask("B-1")),
        *(FailTask("B-1"), CancelTask("B-1"), AddEvidence(ran()), RaiseBlocker("no", "B-1")),
        *(GiveVerdict("B-1", "athena", "pass"), CreateGate("own", ("rex",)), Review()),
    ):
        work.refused("MISSING_SCOPE", reader, request)
    assert work.call(reader, ListTasks())["tasks"][0]["id"] == "B-1"


# --- the history of a task, and the review


def test_the_history_of_a_task_has_the_order_of_the_log(work: TaskWorkspace) -> None:
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


def test_the_review_lists_each_matter_for_a_person_with_its_command(work: TaskWorkspace) -> None:
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


def test_the_review_offers_to_join_an_unregistered_name_that_was_not_mistyped(
    work: TaskWorkspace,
) -> None:
    for name in ("zephyrine", "Zoe"):
        work.call(work.otto, SendMessage(f"@{name}", {"text": "hello"}, "send"))
    found = work.call(OWNER, Review())["unknown_recipients"]
    assert {entry["to"]: entry["do"].split()[1] for entry in found} == {
        "@zephyrine": "join",
        "@Zoe": "explain",
    }


# --- attempts to get around the rules


def test_a_worker_cannot_submit_a_commit_with_another_tree_than_its_runs_had(
    work: TaskWorkspace,
) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.run(work.otto)
    work.refused("DIGEST_MISMATCH", work.otto, SubmitTask("B-1", COMMIT, OTHER))


def test_runs_of_other_agents_do_not_prevent_a_submission(work: TaskWorkspace) -> None:
    work.create(criteria=("tests pass",))
    work.take(work.otto)
    work.run(work.mal, tree=OTHER)
    work.submit(work.otto)
    work.refused("USAGE", work.otto, SubmitTask("B-1", LATER))


def test_a_verdict_on_another_tree_than_the_submitted_one_is_refused(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    other_tree = GiveVerdict("B-1", "athena", "pass", COMMIT, tree=OTHER)
    work.refused("NOT_SUBMITTED", work.vera, other_tree)
    assert work.judge(work.vera, tree=TREE)["missing"] == []


def test_check_gate_compares_the_tree_of_the_verdict(work: TaskWorkspace) -> None:
    work.create(gates=("athena",))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera)
    assert work.call(OWNER, CheckGate("athena", COMMIT, TREE))["passed"] is True
    assert work.call(OWNER, CheckGate("athena", COMMIT, OTHER))["passed"] is False


def test_other_gates_can_give_verdicts_after_one_gate_failed(
    work: TaskWorkspace,
) -> None:
    work.call(OWNER, CreateGate("style", ("@mal",)))
    work.create(gates=("athena", "style"))
    work.take(work.otto)
    work.submit(work.otto)
    work.judge(work.vera, "fail")
    assert work.judge(work.mal, "fail", gate="style")["task"]["state"] == "taken"
    work.refused("NOT_SUBMITTED", work.vera, GiveVerdict("B-1", "athena", "pass"))


def test_a_failing_run_after_a_verdict_on_a_note_reopens_the_criterion(
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


def test_the_command_for_a_verdict_names_the_commit_and_the_notes(work: TaskWorkspace) -> None:
    work.create(criteria=("docs",), gates=("athena",))
    work.take(work.otto)
    note = work.note(work.otto)
    work.submit(work.otto)
    command = f"interlock gate pass B-1 athena --commit {COMMIT[:12]} --evidence {note}"
    assert work.call(work.vera, Whoami())["verdicts_due"][0]["do"] == command
    work.judge(work.vera)
    assert work.call(OWNER, Review())["verdicts_due"][0]["do"] == f"{command} --from mira"


def test_tokens_in_the_texts_of_evidence_are_masked(work: TaskWorkspace) -> None:
    secret = "ghp_" + "a1B2" * 9
    work.create(criteria=("docs",))
    payload = {"kind": "note", "text": f"it is {secret}", "title": secret, "task_id": "B-1"}
    stored = work.call(work.mal, AddEvidence(payload))["evidence"]
    assert (stored["text"], stored["title"], stored["masked"]) == ("it is [masked]", "[masked]", 2)


def test_redacting_a_task_redacts_the_mail_with_its_brief(work: TaskWorkspace) -> None:
    work.create(brief="the password is hunter2", assignee="@otto")
    (message,) = work.call(work.otto, ListInbox())["messages"]
    assert "hunter2" in str(message)
    work.refused("MISSING_SCOPE", work.mal, Redact("B-1", "a secret"))
    work.call(work.vera, Redact("B-1", "a secret"))
    assert "hunter2" not in str(work.call(work.otto, ReadMessage(message["id"])))
    assert "hunter2" not in str(work.show())
    assert [entry["kind"] for entry in work.show()["story"]].count("body_redacted") == 2


def bodies(work: TaskWorkspace) -> str:
    """All stored bodies of facts."""
    with work.node.file.reading() as db:
        return str([row[0] for row in db.execute("SELECT body FROM bodies")])


def last_of(work: TaskWorkspace, kind: str) -> str:
    return [f"#{fact['seq']}" for fact in work.facts() if fact["kind"] == kind][-1]


def test_the_note_of_an_ended_task_can_be_redacted_by_its_position(work: TaskWorkspace) -> None:
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
def test_redacting_a_task_redacts_the_note_of_its_end(work: TaskWorkspace, end: Any) -> None:
    work.create(by=work.otto, brief="see the wiki")
    work.take(work.otto)
    work.call(work.otto, end("B-1", note="the password is hunter2"))
    work.call(work.otto, Redact("B-1", "a secret"))
    assert "hunter2" not in bodies(work)
    assert "wiki" not in bodies(work)


def test_redacting_a_task_by_its_position_redacts_its_mail(
    work: TaskWorkspace,
) -> None:
    work.create(brief="the password is hunter2", assignee="@otto")
    work.call(work.vera, Redact(last_of(work, "task_created"), "a secret"))
    assert "hunter2" not in bodies(work)


@pytest.mark.parametrize("by_position", [True, False])
def test_the_note_of_a_resolved_blocker_can_be_redacted_with_it_or_alone(
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


def test_only_the_sender_of_an_ack_can_redact_its_note(work: TaskWorkspace) -> None:
    sent = work.call(work.otto, SendMessage("@vera", {"text": "Done?"}, "send"))["message"]
    work.call(work.vera, AckMessages((sent["id"],), note="the password is hunter2"))
    receipt = last_of(work, "mail_moved")
    work.refused("NOT_FOUND", work.mal, Redact(receipt, "a secret"))
    work.refused("MISSING_SCOPE", work.otto, Redact(receipt, "a secret"))
    work.call(work.vera, Redact(receipt, "a secret"))
    assert "hunter2" not in bodies(work)
    delivery = work.call(work.otto, ShowReceipts(sent["id"]))["deliveries"][0]
    assert (delivery["state"], "note" in str(delivery)) == ("acked", False)


def test_a_fact_without_a_body_cannot_be_redacted(work: TaskWorkspace) -> None:
    work.create()
    work.take(work.otto)
    for seq in (0, 1, int(last_of(work, "task_taken")[1:]), work.head() + 1):
        work.refused("NOT_FOUND", OWNER, Redact(f"#{seq}", "a secret"))


def test_redacting_a_task_does_not_change_the_search_index_of_mail(work: TaskWorkspace) -> None:
    work.create(brief="the wiki knows")
    work.call(work.otto, SendMessage("@vera", {"text": "the wiki knows"}, "send"))
    assert len(work.call(work.vera, Search("wiki"))["messages"]) == 1
    work.call(work.vera, Redact("B-1", "a secret"))
    assert len(work.call(work.vera, Search("wiki"))["messages"]) == 1
    with work.node.file.reading() as db:
        # The ranking fails if the index has lost count of its rows.
        ranked = "SELECT bm25(search_words) FROM search_words WHERE search_words MATCH 'wiki'"
        assert len(db.execute(ranked).fetchall()) == 1


def test_a_blocker_without_a_task_is_visible_only_to_its_readers(
    work: TaskWorkspace,
) -> None:
    work.call(work.otto, RaiseBlocker("a private word", to="@vera"))
    assert len(work.call(work.vera, ListBlockers())["blockers"]) == 1
    assert work.call(work.mal, ListBlockers())["blockers"] == []


def test_mail_that_a_rule_writes_counts_towards_the_senders_rate_limit(work: TaskWorkspace) -> None:
    work.call(OWNER, ChangeSetting("limits.sends_per_minute", "2"))
    work.create(gates=("athena",))
    work.take(work.otto)
    work.refused("RATE_LIMITED", work.otto, SubmitTask("B-1", COMMIT, TREE))
