"""The verbs of work: tasks, evidence, gates and blockers."""

from collections.abc import Iterable
from typing import Any, Literal

from interlock.client.asking import Asked, Verb
from interlock.contracts import acts, answers

LEASE_S = 3600


class Work:
    """A task is done when its criteria are met on the submitted tree, its gates have passed that
    submission, and nothing blocks it."""

    @Verb
    def create_task(
        self,
        title: str,
        *,
        id: str | None = None,
        brief: str | None = None,
        criteria: Iterable[str] = (),
        gates: Iterable[str] = (),
        depends_on: Iterable[str] = (),
        priority: str | None = None,
        assignee: str | None = None,
        labels: Iterable[str] = (),
    ) -> Asked[answers.TaskMade]:
        """Create a task. Its gates must have holders, and what it depends on must exist."""
        lists = tuple(criteria), tuple(gates), tuple(depends_on)
        last = priority, assignee, tuple(labels)
        return Asked(acts.CreateTask(title, id, brief, *lists, *last))

    @Verb
    def tasks(
        self,
        state: str | None = None,
        *,
        mine: bool = False,
        limit: int = 100,
        after: int = 0,
    ) -> Asked[answers.Tasks]:
        """List tasks, of one state, or `live` for all that have not ended."""
        return Asked(acts.ListTasks(state, mine, limit, after))

    @Verb
    def task(self, id: str) -> Asked[answers.TaskShown]:
        """Show a task: how it stands, what is missing, and its whole story."""
        return Asked(acts.ShowTask(id))

    @Verb
    def take(
        self,
        id: str,
        *,
        branch: str | None = None,
        worktree: str | None = None,
        note: str | None = None,
        ttl_s: int = LEASE_S,
    ) -> Asked[answers.TaskTaken | answers.TaskHeld | answers.TaskWaits]:
        """Take a task, by a claim on it. Where another works on it, the result says who."""
        return Asked(acts.TakeTask(id, branch, worktree, note, ttl_s))

    @Verb
    def submit(
        self, id: str, commit: str, *, tree: str | None = None, fence: int | None = None
    ) -> Asked[answers.TaskSubmitted]:
        """Hand in a commit, by its whole id. Its tree is found from a clean run at that commit,
        where it is not given."""
        return Asked(acts.SubmitTask(id, commit, tree, fence))

    @Verb
    def complete(
        self, id: str, *, fence: int | None = None
    ) -> Asked[answers.TaskCompleted | answers.TaskNotDone]:
        """Done; or what is missing, with the command for each."""
        return Asked(acts.CompleteTask(id, fence))

    @Verb
    def fail(
        self, id: str, *, note: str | None = None, fence: int | None = None
    ) -> Asked[answers.TaskEnded]:
        """Give a task up for good."""
        return Asked(acts.FailTask(id, note, fence))

    @Verb
    def cancel(self, id: str, *, note: str | None = None) -> Asked[answers.TaskEnded]:
        """Say that it is not wanted any more. For whoever made it, for people and for admins."""
        return Asked(acts.CancelTask(id, note))

    @Verb
    def prepare_evidence(
        self, task: str, *, criterion: int | None = None, fence: int | None = None
    ) -> Asked[answers.EvidenceWanted]:
        """Find out whether evidence would be taken, and under which fence."""
        return Asked(acts.PrepareEvidence(task, criterion, fence))

    @Verb
    def add_evidence(
        self,
        payload: dict[str, Any],
        *,
        upload: str | None = None,
        fence: int | None = None,
        key: str | None = None,
    ) -> Asked[answers.EvidenceAdded]:
        """Attach evidence: a payload of the message type `evidence`. Bytes that it has the digest
        of are uploaded before, with `put_chunk`. The same key and payload again give the first
        answer."""
        return Asked(acts.AddEvidence(payload, upload, fence, key))

    @Verb
    def evidence(
        self, id: str, *, start: int | None = None, stop: int | None = None
    ) -> Asked[answers.EvidenceShown]:
        """Show evidence, and the end or a range of what it kept."""
        return Asked(acts.ShowEvidence(id, start, stop))

    @Verb
    def create_gate(
        self, name: str, holders: Iterable[str], *, replace: bool = False
    ) -> Asked[answers.GateMade]:
        """Make a gate, with those who may judge."""
        return Asked(acts.CreateGate(name, tuple(holders), replace))

    @Verb
    def gates(self) -> Asked[answers.Gates]:
        """List gates, their holders, and what is due."""
        return Asked(acts.ListGates())

    @Verb
    def prepare_verdict(self, task: str, gate: str) -> Asked[answers.VerdictWanted]:
        """Find out whether your verdict would be taken, and on which artifact."""
        return Asked(acts.PrepareVerdict(task, gate))

    @Verb
    def judge(
        self,
        task: str,
        gate: str,
        verdict: Literal["pass", "fail"],
        *,
        commit: str | None = None,
        note: str | None = None,
        fix: Iterable[str] = (),
        evidence: Iterable[str] = (),
    ) -> Asked[answers.Judged]:
        """Pass or fail what is submitted. Say of a fail what is wrong, and how to put it right."""
        return Asked(
            acts.GiveVerdict(task, gate, verdict, commit, note, tuple(fix), tuple(evidence))
        )

    @Verb
    def check_gate(
        self, gate: str, commit: str
    ) -> Asked[answers.GatePassed | answers.GateNotPassed]:
        """Say whether a gate has passed a commit."""
        return Asked(acts.CheckGate(gate, commit))

    @Verb
    def raise_blocker(
        self,
        what: str,
        *,
        task: str | None = None,
        to: str | None = None,
        severity: Literal["stop", "warn"] = "stop",
        fix: Iterable[str] = (),
    ) -> Asked[answers.BlockerRaised]:
        """Say what stands in the way, to the task's worker where nobody else is named."""
        return Asked(acts.RaiseBlocker(what, task, to, severity, tuple(fix)))

    @Verb
    def resolve_blocker(
        self, id: str, *, note: str | None = None
    ) -> Asked[answers.BlockerResolved]:
        """Say that it stands in the way no more."""
        return Asked(acts.ResolveBlocker(id, note))

    @Verb
    def blockers(self, task: str | None = None, *, all: bool = False) -> Asked[answers.Blockers]:
        """List what stands in the way; with `all`, also what was resolved."""
        return Asked(acts.ListBlockers(task, all))
