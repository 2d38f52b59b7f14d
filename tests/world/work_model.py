"""A model of tasks, gates, evidence and blockers with plain lists and dictionaries.

The model gets the time, the caller and the request, and returns the answer and the new facts of the
log. It shares no code with the rules. It cannot predict ids, so the test gives it the ids.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim, TakeOverClaim
from interlock.rooms.identity.verbs import EndSession
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    RaiseBlocker,
    ResolveBlocker,
    SubmitTask,
    TakeTask,
)

Answer: TypeAlias = dict[str, Any]
Holder: TypeAlias = tuple[str, str | None]  # sender and session

RECORDED = {"MISSING_SCOPE", "OWN_WORK", "STALE_FENCE"}
REFUSALS_A_MINUTE = 20
ENDED = {"done", "failed", "cancelled"}
NEEDS = {
    CreateGate: "admin",
    CancelTask: None,
    GiveVerdict: None,
    ResolveBlocker: None,
    EndSession: None,
    AcquireClaim: "claim",
    ReleaseClaim: "claim",
    TakeOverClaim: "claim",
}


class Refused(Exception):
    """The model refuses the request with this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Person:
    """A registered sender: its agent, and the scopes of its token."""

    sender: str
    agent: str
    kind: str = "agent"
    scopes: frozenset[str] = frozenset({"mail", "claim", "work"})


@dataclass
class Claim:
    holder: Holder
    fence: int
    expires_at: int


@dataclass(eq=False)
class Piece:
    """A piece of evidence."""

    criterion: int | None
    is_run: bool
    good: bool = False  # a completed run with exit status 0 on a clean tree
    clean: bool = False
    commit: str | None = None
    tree: str | None = None
    agent: str = ""
    made: int = 0
    id: str = ""


@dataclass
class Blocker:
    task: str | None
    gate: str | None
    sender: str
    to: str
    stops: bool
    resolved_by: str | None = None
    id: str = ""


@dataclass
class Task:
    id: str
    maker: str
    criteria: int
    gates: tuple[str, ...]
    depends_on: tuple[str, ...]
    state: str = "open"
    taken: list[Holder] = field(default_factory=list)
    fence: int | None = None
    artifact: tuple[str, str] | None = None  # commit and tree
    # By gate: pass or fail, the named evidence, and the number of pieces at that time.
    verdicts: dict[str, tuple[str, tuple[str, ...], int]] = field(default_factory=dict)
    evidence: list[Piece] = field(default_factory=list)


@dataclass
class CommitVerdict:
    """A verdict on a commit, for the guard of a remote. A new submission clears it."""

    task: str
    gate: str
    commit: str
    passed: bool
    cleared: bool = False


class Model:
    """`call` returns the answer or raises `Refused`. `facts` are the expected facts of the log."""

    def __init__(self) -> None:
        self.now = 0
        self.people: dict[str, Person] = {}
        self.gates: dict[str, tuple[str, ...]] = {}
        self.tasks: dict[str, Task] = {}
        self.claims: dict[str, Claim] = {}
        self.blockers: list[Blocker] = []
        self.commit_verdicts: list[CommitVerdict] = []
        self.fences = 0
        self.refusals: list[tuple[str, int]] = []
        self.facts: list[tuple[str, Answer]] = []

    # --- the path of a request

    def pass_time(self, now: int) -> None:
        self.now = now
        for item, claim in list(self.claims.items()):
            if claim.expires_at <= now:
                del self.claims[item]
                self.record("claim_expired")

    def call(self, by: Person, session: str | None, act: Any) -> Answer:
        self.by, self.me = by, (by.sender, session)
        before = len(self.facts)
        try:
            if (scope := NEEDS.get(type(act), "work")) is not None and scope not in by.scopes:
                raise Refused("MISSING_SCOPE")
            return _VERBS[type(act)](self, act)
        except Refused as refused:
            assert len(self.facts) == before
            self.refuse(refused.code)
            raise

    def refuse(self, code: str) -> None:
        recent = [
            at for who, at in self.refusals if who == self.by.sender and at > self.now - 60_000
        ]
        if code in RECORDED and len(recent) < REFUSALS_A_MINUTE:
            self.refusals.append((self.by.sender, self.now))
            self.record("request_refused", code=code)

    def record(self, fact: str, **said: Any) -> None:
        self.facts.append((fact, said))

    def post(self, to: str, type: str, **said: Any) -> None:
        self.record("message_sent", type=type, to=f"@{to}", **said)

    def tell(self, name: str, type: str) -> None:
        """Notify a sender, unless its agent is the caller's."""
        if self.agent(name) != self.by.agent:
            self.post(name, type, wake=False)

    # --- lookups

    def agent(self, name: str) -> str:
        return self.people[name].agent if name in self.people else name

    def task(self, id: str) -> Task:
        if id not in self.tasks:
            raise Refused("NOT_FOUND")
        return self.tasks[id]

    def live(self, id: str) -> Task:
        task = self.task(id)
        if task.state in ENDED:
            raise Refused("ALREADY_DONE")
        return task

    def workers(self, task: Task) -> set[str]:
        return {self.agent(sender) for sender, _ in task.taken}

    def holds(self, person: Person, gate: str) -> bool:
        named = {person.sender, person.agent} & set(self.gates.get(gate, ()))
        return f"gate:{gate}" in person.scopes or bool(named and "work" in person.scopes)

    def holders(self, gate: str) -> list[str]:
        return sorted(p.sender for p in self.people.values() if self.holds(p, gate))

    def is_under_claim(self, task: Task, holder: Holder) -> bool:
        claim = self.claims.get(task.id)
        return claim is not None and (claim.holder, claim.fence) == (holder, task.fence)

    def under_claim(self, task: Task, fence: int | None) -> None:
        if self.is_under_claim(task, self.me) and fence in (None, task.fence):
            return
        claim = self.claims.get(task.id)
        if claim is not None and claim.holder == self.me and fence in (None, claim.fence):
            raise Refused("NOT_HOLDER")  # the caller holds the item, but never took the task
        lost = fence is not None or self.me in task.taken
        raise Refused("STALE_FENCE" if lost else "NOT_HOLDER")

    # --- open requirements

    def met(self, task: Task, number: int) -> bool:
        pieces = [piece for piece in task.evidence if piece.criterion == number]
        runs = [piece for piece in pieces if piece.is_run]
        tree = task.artifact[1] if task.artifact is not None else None
        if task.state in ("submitted", "done") and runs and runs[-1].good and runs[-1].tree == tree:
            return True
        last_run = task.evidence.index(runs[-1]) if runs else -1
        return any(
            verdict == "pass" and last_run < seen and not piece.is_run and piece.id in named
            for piece in pieces
            for verdict, named, seen in task.verdicts.values()
        )

    def open_dependencies(self, task: Task) -> list[tuple[str, Any]]:
        waiting = [id for id in task.depends_on if self.tasks[id].state != "done"]
        return [("dependency", id) for id in waiting]

    def missing(self, task: Task) -> list[tuple[str, Any]]:
        if task.state in ENDED:
            return []
        found = self.open_dependencies(task)
        if task.state != "submitted":
            found.append(("submission", None))
        for number in range(1, task.criteria + 1):
            if not self.met(task, number):
                found.append(("criterion", number))
        for gate in task.gates:
            if task.verdicts.get(gate, ("",))[0] != "pass":
                found.append(("gate", gate))
        return found + [("blocker", b.id) for b in self.open_blockers(task.id) if b.stops]

    def open_blockers(self, task: str) -> list[Blocker]:
        return [b for b in self.blockers if b.task == task and b.resolved_by is None]

    def due(self, person: Person) -> list[tuple[str, str]]:
        return [
            (task.id, gate)
            for task in self.tasks.values()
            for gate in task.gates
            if task.state == "submitted"
            and gate not in task.verdicts
            and self.holds(person, gate)
            and person.agent not in self.workers(task)
        ]

    def works_on(self, holder: Holder) -> list[str]:
        return [
            task.id
            for task in self.tasks.values()
            if task.state not in ENDED and self.is_under_claim(task, holder)
        ]

    def has_passed(self, gate: str, commit: str) -> bool:
        found = [v for v in self.commit_verdicts if (v.gate, v.commit) == (gate, commit)]
        valid = [verdict for verdict in found if not verdict.cleared]
        return bool(valid) and valid[-1].passed

    # --- tasks

    def create(self, act: CreateTask) -> Answer:
        assert act.id is not None
        if act.id in self.tasks:
            raise Refused("NAME_TAKEN")
        if act.id in act.depends_on:
            raise Refused("USAGE")
        if not set(act.depends_on) <= set(self.tasks):
            raise Refused("NOT_FOUND")
        worker = self.agent(act.assignee[1:]) if act.assignee is not None else None
        for gate in act.gates:
            if all(self.agent(sender) == worker for sender in self.holders(gate)):
                raise Refused("GATE_HAS_NO_HOLDER")
        made = Task(act.id, self.by.sender, len(act.criteria), act.gates, act.depends_on)
        self.tasks[act.id] = made
        self.record("task_created", task=act.id)
        if act.assignee is not None:
            self.tell(act.assignee[1:], "task_created")
        return {"task": {"id": act.id, "state": "open"}}

    def take(self, act: TakeTask) -> Answer:
        task = self.live(act.id)
        if waiting := self.open_dependencies(task):
            return {"taken": False, "code": "GATES_NOT_PASSED", "missing": waiting}
        if not self.acquire(AcquireClaim(act.id, ttl_s=act.ttl_s))["acquired"]:
            return {"taken": False, "code": "CLAIM_HELD"}
        if self.claims[task.id].fence != task.fence:
            keeps = task.state == "submitted" and self.agent(task.taken[-1][0]) == self.by.agent
            if not keeps:
                task.state, task.artifact, task.verdicts = "taken", None, {}
            task.taken.append(self.me)
            task.fence = self.claims[task.id].fence
            self.record("task_taken", task=task.id, state=task.state, fence=task.fence)
            self.tell(task.maker, "task_claimed")
        return {"taken": True, "task": {"state": task.state}, "claim": {"fence": task.fence}}

    def submit(self, act: SubmitTask) -> Answer:
        task = self.live(act.id)
        self.under_claim(task, act.fence)
        own = self.own_trees(act.commit)
        if act.tree is None and not own:
            raise Refused("USAGE")
        tree = act.tree or own[-1]
        if own and tree not in own:
            raise Refused("DIGEST_MISMATCH")
        known = task.artifact == (act.commit, tree) and not task.verdicts
        task.state, task.artifact, task.verdicts = "submitted", (act.commit, tree), {}
        for each in self.commit_verdicts:
            each.cleared |= (each.task, each.commit) == (task.id, act.commit)
        self.record("task_submitted", task=task.id, commit=act.commit, tree=tree, fence=task.fence)
        judges = [sender for gate in task.gates for sender in self.holders(gate)]
        for sender in dict.fromkeys(judges if not known else []):
            if self.agent(sender) not in self.workers(task):
                self.post(sender, "wake", wake=True)
        return {"submitted": True, "missing": self.missing(task)}

    def own_trees(self, commit: str) -> list[str]:
        """Return the trees of the caller's own clean runs at a commit, in their order."""
        pieces = sorted((p for t in self.tasks.values() for p in t.evidence), key=lambda p: p.made)
        mine = [p for p in pieces if p.is_run and p.clean and p.agent == self.by.agent]
        return [p.tree for p in mine if p.commit == commit and p.tree is not None]

    def complete(self, act: CompleteTask) -> Answer:
        task = self.live(act.id)
        if task.taken or act.fence is not None:
            self.under_claim(task, act.fence)
        if lacking := self.missing(task):
            return {"completed": False, "code": "GATES_NOT_PASSED", "missing": lacking}
        return {"completed": True} | self.end(task, "done")

    def fail(self, act: FailTask) -> Answer:
        task = self.live(act.id)
        self.under_claim(task, act.fence)
        return self.end(task, "failed")

    def cancel(self, act: CancelTask) -> Answer:
        task = self.live(act.id)
        allowed = self.agent(task.maker) == self.by.agent or self.by.kind == "human"
        if not allowed and "admin" not in self.by.scopes:
            raise Refused("MISSING_SCOPE")
        return self.end(task, "cancelled")

    def end(self, task: Task, state: str) -> Answer:
        task.state = state
        self.record("task_ended", task=task.id, status=state)
        claim = self.claims.get(task.id)
        if claim is not None and claim.fence == task.fence:
            del self.claims[task.id]
            self.record("claim_released")
        for name in dict.fromkeys([task.maker, *(sender for sender, _ in task.taken[-1:])]):
            self.tell(name, "task_completed")
        return {"task": {"state": state, "claim": None}}

    # --- evidence, gates and blockers

    def add_evidence(self, act: AddEvidence) -> Answer:
        said = act.payload
        task = self.live(said["task_id"])
        if act.fence is not None or self.by.agent in self.workers(task):
            self.under_claim(task, act.fence)
        number = said.get("criterion")
        if number is not None and number > task.criteria:
            raise Refused("USAGE")
        clean = said.get("dirty") is False
        ran_well = said.get("exit_code") == 0 and not said.get("interrupted", False)
        tree = said.get("tree")
        good = ran_well and clean and tree is not None
        ran = said["kind"] == "run"
        made = Piece(number, ran, good, clean, said.get("commit"), tree, self.by.agent)
        made.made = sum(len(each.evidence) for each in self.tasks.values())
        task.evidence.append(made)
        self.record("evidence_added", task=task.id, kind=said["kind"])
        fits = task.state != "submitted" or task.artifact is None or task.artifact[1] == tree
        return {"counts": good and fits and number is not None}

    def create_gate(self, act: CreateGate) -> Answer:
        agents = {person.agent for person in self.people.values()}
        wanted = tuple(sorted({holder.removeprefix("@") for holder in act.holders}))
        if not set(wanted) <= agents | set(self.people):
            raise Refused("GATE_HAS_NO_HOLDER")
        before = self.gates.get(act.name)
        if before not in (None, wanted) and not act.replace:
            raise Refused("NAME_TAKEN")
        if before != wanted:
            self.gates[act.name] = wanted
            self.record("gate_created", name=act.name, holders=list(wanted))
        return {"gate": {"holders": [f"@{name}" for name in wanted]}}

    def give_verdict(self, act: GiveVerdict) -> Answer:
        task = self.live(act.task)
        if self.by.agent in self.workers(task):
            raise Refused("OWN_WORK")
        if act.gate not in task.gates:
            raise Refused("NOT_FOUND")
        if not self.holds(self.by, act.gate):
            raise Refused("MISSING_SCOPE")
        still_open = task.state == "taken" and act.gate not in task.verdicts
        if task.artifact is None or not (task.state == "submitted" or still_open):
            raise Refused("NOT_SUBMITTED")
        commit = task.artifact[0]
        if act.commit is not None and not commit.startswith(act.commit):
            raise Refused("NOT_SUBMITTED")
        if not set(act.evidence) <= {piece.id for piece in task.evidence}:
            raise Refused("NOT_FOUND")
        passed = act.verdict == "pass"
        task.verdicts[act.gate] = (act.verdict, act.evidence, len(task.evidence))
        self.commit_verdicts.append(CommitVerdict(task.id, act.gate, commit, passed))
        self.record("verdict_given", gate=act.gate, verdict=act.verdict, commit=commit)
        self.tell_the_worker(task, act.gate, passed)
        return {"task": {"state": task.state}, "verdict": {"verdict": act.verdict}}

    def tell_the_worker(self, task: Task, gate: str, passed: bool) -> None:
        """Raise a blocker for a failing verdict. A pass of the same gate resolves it."""
        worker = task.taken[-1][0]
        if not passed:
            task.state = "taken"
            self.blockers.append(Blocker(task.id, gate, self.by.sender, f"@{worker}", True))
            self.post(worker, "blocker", wake=True)
            return
        for blocker in self.open_blockers(task.id):
            if blocker.gate == gate:
                blocker.resolved_by = "@interlock"
                self.record("blocker_resolved", id=blocker.id)
        self.post(worker, "gate_verdict")

    def raise_blocker(self, act: RaiseBlocker) -> Answer:
        task = self.live(act.task) if act.task is not None else None
        to = act.to
        if to is None:
            assert task is not None
            stuck = not task.taken or self.by.agent in self.workers(task)
            first = task.maker if stuck else task.taken[-1][0]
            able = [first, *(name for gate in task.gates for name in self.holders(gate))]
            others = [name for name in able if self.agent(name) != self.by.agent]
            to = f"@{(others or [self.by.sender])[0]}"
        stops = act.severity == "stop"
        self.blockers.append(Blocker(act.task, None, self.by.sender, to, stops))
        self.record("message_sent", type="blocker", to=to, wake=True)
        return {"blocker": {"to": to, "by": f"@{self.by.sender}"}}

    def resolve(self, act: ResolveBlocker) -> Answer:
        (found,) = (blocker for blocker in self.blockers if blocker.id == act.id)
        if found.resolved_by is None:
            own = found.task is not None and self.by.agent in self.workers(self.tasks[found.task])
            judges = found.gate is not None and self.holds(self.by, found.gate)
            above = self.by.kind == "human" or "admin" in self.by.scopes
            if self.agent(found.sender) != self.by.agent:
                if own:
                    raise Refused("OWN_WORK")
                if not judges and not above:
                    raise Refused("MISSING_SCOPE")
            found.resolved_by = f"@{self.by.sender}"
            self.record("blocker_resolved", id=found.id)
        return {"blocker": {"id": found.id, "resolved_by": found.resolved_by}}

    # --- claims on tasks

    def grant(self, item: str, ttl_s: int) -> Answer:
        self.fences += 1
        self.claims[item] = Claim(self.me, self.fences, self.now + ttl_s * 1000)
        self.record("claim_granted", item=item, fence=self.fences)
        return {"acquired": True, "claim": {"fence": self.fences}}

    def acquire(self, act: AcquireClaim) -> Answer:
        assert act.item is not None
        claim = self.claims.get(act.item)
        if claim is None:
            return self.grant(act.item, act.ttl_s)
        if claim.holder != self.me:
            return {"acquired": False, "code": "CLAIM_HELD"}
        claim.expires_at = max(claim.expires_at, self.now + act.ttl_s * 1000)
        self.record("claim_extended")
        return {"acquired": True, "claim": {"fence": claim.fence}}

    def release(self, act: ReleaseClaim) -> Answer:
        assert act.item is not None
        if act.item not in self.claims:
            return {"released": False}
        if self.claims[act.item].holder != self.me:
            raise Refused("NOT_HOLDER")
        del self.claims[act.item]
        self.record("claim_released")
        return {"released": True}

    def take_over(self, act: TakeOverClaim) -> Answer:
        assert act.item is not None
        if self.by.kind != "human" and "admin" not in self.by.scopes:
            raise Refused("MISSING_SCOPE")
        if act.item not in self.claims:
            raise Refused("NOT_FOUND")
        before = self.claims.pop(act.item).holder
        self.record("claim_released", taken_over=True)
        if before != self.me:
            self.post(before[0], "send")
        return self.grant(act.item, act.ttl_s)

    def end_session(self, act: EndSession) -> Answer:
        for item, claim in list(self.claims.items()):
            if claim.holder == (self.by.sender, act.id):
                del self.claims[item]
                self.record("claim_released")
        return {"ended": act.id}


_VERBS: dict[type, Callable[[Model, Any], Answer]] = {
    CreateTask: Model.create,
    TakeTask: Model.take,
    SubmitTask: Model.submit,
    CompleteTask: Model.complete,
    FailTask: Model.fail,
    CancelTask: Model.cancel,
    AddEvidence: Model.add_evidence,
    CreateGate: Model.create_gate,
    GiveVerdict: Model.give_verdict,
    RaiseBlocker: Model.raise_blocker,
    ResolveBlocker: Model.resolve,
    AcquireClaim: Model.acquire,
    ReleaseClaim: Model.release,
    TakeOverClaim: Model.take_over,
    EndSession: Model.end_session,
}
