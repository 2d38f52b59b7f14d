"""A state machine drives tasks and gates on a node and on a plain model, and compares everything.

The callers are agents with several surfaces and sessions, a person, and an agent with too few
scopes. They create, take, prove, submit, pass, block and end tasks. Leases expire. After every
request the log has exactly the facts that the model expects, so a refused request has appended no
other fact than its refusal. After every rule all views agree. At the end the log verifies, and
folding it again gives the same state.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from interlock.errors import Refusal
from interlock.node import Node, audit, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, ReleaseClaim, TakeOverClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import EndSession, Join
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
    RaiseBlocker,
    ResolveBlocker,
    ShowTask,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import ShowLog, ShowStatus, Whoami
from interlock.verbs.credentials import Credentials
from world.work_model import ENDED, Holder, Model, Person, Refused, Task

START = 2_000_000_000_000  # a time that no clock of a test machine shows
OWNER = Person("owner", "owner", "human", frozenset({"admin"}))

# The name, surface, kind and requested scopes of each sender. Rex holds the gate legal, and has no
# scope for work.
JOINED = (
    ("otto", "cli", "agent", ()),
    ("otto", "desktop", "agent", ()),
    ("vera", None, "agent", ()),
    ("nora", None, "agent", ()),
    ("nora", "web", "agent", ()),
    ("mal", None, "agent", ("gate:legal",)),
    ("rex", None, "agent", ("mail", "gate:legal")),
    ("mira", None, "human", ()),
)
ACTORS: tuple[Holder, ...] = (
    *(("otto-cli", None), ("otto-cli", "s1"), ("otto-cli", "s2"), ("otto-desktop", None)),
    *(("vera", None), ("nora", None), ("nora-web", "s3"), ("mal", None), ("rex", None)),
    ("mira", None),
)
# The holders of athena are senders, that of style is an agent. A scope alone holds the gate legal.
GATES = {"athena": ("mira", "otto-desktop", "rex", "vera"), "style": ("nora",)}
HOLDERS = (
    ("rex", "vera"),
    ("vera",),
    ("otto",),
    ("@mira", "nora-web"),
    ("mira", "otto-desktop", "vera"),
    ("ghost",),
)
NAMES = ("athena", "style", "legal", "void")
COMMITS = ("a" * 40, "b" * 40)
TREES = {"a" * 40: "1" * 40, "b" * 40: "2" * 40, "c" * 40: "3" * 40}
QUALITIES = ("good", "failed", "dirty", "changed", "other tree", "interrupted", "nowhere", "note")

# Below ANY the number selects a live task, below NONE any task. NONE selects an unknown id.
which_task = st.integers(0, 19)
ANY, NONE = 14, 19
which_commit = st.sampled_from(COMMITS)
actors = st.sampled_from(ACTORS)
# None stands for the holder of the claim. Sometimes another actor makes the worker's request.
workers = st.sampled_from((*[None] * 20, *ACTORS))
judges = st.sampled_from((*["a holder"] * 10, "a worker", "a worker", *ACTORS))
fences = st.sampled_from((*["none"] * 4, *["own"] * 4, "older", "later"))

Step: TypeAlias = tuple[str, dict[str, Any]]
STEPS: list[st.SearchStrategy[Step]] = []
Method = TypeVar("Method", bound=Callable[..., None])


def step(weight: int, **drawn: st.SearchStrategy[Any]) -> Callable[[Method], Method]:
    """Make a method a step of the machine. `weight` is its share among all steps."""

    def register(method: Method) -> Method:
        for _ in range(weight):  # one_of ignores a second copy of the same strategy
            drawing = st.tuples(st.just(method.__name__), st.fixed_dictionaries(drawn))
            STEPS.append(drawing)
        return method

    return register


class Work(RuleBasedStateMachine):
    """A node and its model. `submit_to_both` sends a request to both."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="interlock-work-")
        self.ms = START
        self.node = Node(self.directory, clock=lambda: self.ms)
        # This test does not check durability, and syncs to the disk would make it slow.
        self.node.file.writer.execute("PRAGMA synchronous = OFF")
        self.model = Model()
        self.tokens: dict[str, str] = {}
        self.head = 0

    # --- requests to both, and the comparison

    def submit_to_both(self, actor: Holder, request: Any) -> dict[str, Any] | None:
        """Return the node's answer, or None if both refuse with the same code."""
        self.settle()
        sender, session = actor
        expected: dict[str, Any] | str
        try:
            expected = self.model.call(self.person(sender), session, request)
        except Refused as refused:
            expected = refused.code
        found = self.ask(actor, request)
        self.compare_facts()
        if isinstance(found, dict) and "missing" in found:
            found["missing"] = lacking(found["missing"])
        assert matches(expected, found), f"{found}, but the model expects {expected}"
        return found if isinstance(found, dict) else None

    def person(self, sender: str) -> Person:
        return self.model.people[sender] if sender != "owner" else OWNER

    def ask(self, actor: Holder, request: Any) -> dict[str, Any] | str:
        try:
            return self.node.call(self.credentials(actor), request)
        except Refusal as refusal:
            return refusal.code

    def credentials(self, actor: Holder) -> Credentials:
        sender, session = actor
        if sender == "owner":
            return Credentials(owner=True)
        return Credentials(token=self.tokens[sender], session=session)

    def settle(self) -> None:
        """Let the node and the model notice the expired leases."""
        status = self.node.call(Credentials(owner=True), ShowStatus())
        self.model.pass_time(ms(status["now"]))
        self.compare_facts()

    def compare_facts(self) -> None:
        """Check that the new facts in the log are those of the model."""
        facts = audit.show(self.node, ShowLog(after=self.head, limit=1000))["facts"]
        expected, self.model.facts = self.model.facts, []
        assert [fact["kind"] for fact in facts] == [kind for kind, _ in expected]
        for fact, (_, outcome) in zip(facts, expected, strict=True):
            assert matches(outcome, fact["outcome"]), f"{fact}, but the model expects {outcome}"
        self.head += len(facts)

    @initialize()
    def a_team_with_gates_and_tasks(self) -> None:
        for name, surface, kind, scopes in JOINED:
            token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
            request = Join(
                name, surface, cast(Any, kind), scopes=scopes, token_hash=token_format.hashed(token)
            )
            joined = self.node.call(Credentials(owner=True), request)
            sender = joined["sender"]
            self.tokens[sender] = token
            self.model.people[sender] = Person(sender, name, kind, frozenset(joined["scopes"]))
        self.head = self.node.head()
        for gate, holders in GATES.items():
            self.submit_to_both(("owner", None), CreateGate(gate, holders))
        vera = ("vera", None)
        self.submit_to_both(
            vera, CreateTask("one", "T-1", criteria=("x",), gates=("athena", "legal"))
        )
        self.submit_to_both(
            vera, CreateTask("two", "T-2", criteria=("x", "y"), depends_on=("T-1",))
        )
        self.submit_to_both(vera, CreateTask("three", "T-3", criteria=("x",), gates=("style",)))

    # --- tasks

    def chosen(self, which: int) -> str:
        """The id of the task that `which_task` selects."""
        every = list(self.model.tasks)
        live = [id for id in every if self.model.tasks[id].state not in ENDED]
        if which == NONE:
            return "T-0"
        return live[which % len(live)] if live and which < ANY else every[which % len(every)]

    def worker(self, id: str, otherwise: Holder | None) -> Holder:
        claim = self.model.claims.get(id)
        last = self.model.tasks[id].taken[-1:] if id in self.model.tasks else []
        return otherwise or (claim.holder if claim is not None else (*last, ACTORS[0])[0])

    def fence(self, id: str, which: str) -> int | None:
        own = (self.model.tasks[id].fence if id in self.model.tasks else None) or 1
        return {"none": None, "own": own, "older": max(1, own - 1), "later": own + 1}[which]

    @step(
        2,
        by=actors,
        taken=which_task,
        criteria=st.integers(0, 2),
        gates=st.lists(st.sampled_from((*NAMES[:3], *NAMES)), max_size=2, unique=True),
        depends_on=st.lists(which_task, max_size=1),
        assignee=st.sampled_from((None, None, "@otto", "@nora-web", "@vera", "@ghost")),
    )
    def create(
        self,
        by: Holder,
        taken: int,
        criteria: int,
        gates: list[str],
        depends_on: list[int],
        assignee: str | None,
    ) -> None:
        """Create a task with a new id, a used id, or the id of its own dependency."""
        number = len(self.model.tasks) + 1
        id = f"T-{number}" if taken < NONE - 1 else self.chosen(taken)
        wanted = ("tests pass", "docs say so")[:criteria]
        after = tuple(self.chosen(which) for which in depends_on)
        made = CreateTask("work", id, None, wanted, tuple(gates), after, assignee=assignee)
        self.submit_to_both(by, made)

    @step(3, by=actors, which=which_task, ttl_s=st.sampled_from((60, 3600)))
    def take_on(self, by: Holder, which: int, ttl_s: int) -> None:
        self.submit_to_both(by, TakeTask(self.chosen(which), ttl_s=ttl_s))

    @step(
        3,
        by=workers,
        which=which_task,
        commit=which_commit,
        gives_tree=st.booleans(),
        fence=fences,
    )
    def submit(
        self, by: Holder | None, which: int, commit: str, gives_tree: bool, fence: str
    ) -> None:
        id = self.chosen(which)
        tree = TREES[commit] if gives_tree else None
        self.submit_to_both(
            self.worker(id, by), SubmitTask(id, commit, tree, self.fence(id, fence))
        )

    @step(
        4,
        by=workers,
        which=which_task,
        how=st.sampled_from((*["complete"] * 6, "fail", "fail", "cancel")),
        fence=fences,
    )
    def end(self, by: Holder | None, which: int, how: str, fence: str) -> None:
        id = self.chosen(which)
        presented = self.fence(id, fence)
        ending = {
            "complete": CompleteTask(id, presented),
            "fail": FailTask(id, "it cannot be done", presented),
            "cancel": CancelTask(id),
        }
        owner = ("owner", None) if how == "cancel" and fence == "later" else None
        self.submit_to_both(owner or self.worker(id, by), ending[how])

    # --- evidence and verdicts

    @step(
        4,
        by=workers,
        which=which_task,
        criterion=st.sampled_from((None, 1, 1, 1, 1, 2, 2, 3)),
        quality=st.sampled_from(("good", "note", *QUALITIES)),
        commit=which_commit,
        fence=fences,
    )
    def prove(
        self,
        by: Holder | None,
        which: int,
        criterion: int | None,
        quality: str,
        commit: str,
        fence: str,
    ) -> None:
        id = self.chosen(which)
        payload = evidence(quality, commit)
        self.add(self.worker(id, by), id, criterion, payload, self.fence(id, fence))

    def add(
        self, by: Holder, id: str, criterion: int | None, payload: dict[str, Any], fence: int | None
    ) -> None:
        payload = payload | {"task_id": id}
        if criterion is not None:
            payload["criterion"] = criterion
        answer = self.submit_to_both(by, AddEvidence(payload, fence=fence))
        if answer is not None:
            self.model.tasks[id].evidence[-1].id = answer["evidence"]["id"]

    @step(
        5,
        which=which_task,
        by=judges,
        gate=st.integers(0, 9),
        nth=st.integers(0, 2),
        verdict=st.sampled_from(("pass", "pass", "fail")),
        naming=st.sampled_from((*["nothing"] * 3, *["all"] * 3, "another task's")),
        commit=st.sampled_from((*[None] * 5, "right", "right", "a" * 40, "b" * 12)),
    )
    def judge(
        self,
        which: int,
        by: str | Holder,
        gate: int,
        nth: int,
        verdict: str,
        naming: str,
        commit: str | None,
    ) -> None:
        """Give a verdict on a submitted task, or on T-1."""
        due = [task for task in self.model.tasks.values() if task.state == "submitted"]
        task = due[which % len(due)] if due and which < ANY else self.model.tasks["T-1"]
        names = task.gates if task.gates and gate < 9 else NAMES
        name = names[gate % len(names)]
        if commit == "right":
            commit = task.artifact[0][:9] if task.artifact is not None else None
        actor = (self.judge_of(task, name, by, nth), None) if isinstance(by, str) else by
        self.give_verdict(actor, task, name, verdict, naming, commit)

    def judge_of(self, task: Task, gate: str, who: str, nth: int) -> str:
        """A holder that may give a verdict, or a surface of an agent that worked on the task."""
        of_workers = [
            sender
            for sender in self.tokens
            if (self.model.agent(sender) in self.model.workers(task)) == (who == "a worker")
        ]
        holders = [sender for sender in of_workers if sender in self.model.holders(gate)]
        found = holders or of_workers or ["vera"]
        return found[nth % len(found)]

    def give_verdict(
        self,
        by: Holder,
        task: Task,
        gate: str,
        verdict: str,
        naming: str = "nothing",
        commit: str | None = None,
    ) -> None:
        others = [piece.id for t in self.model.tasks.values() if t != task for piece in t.evidence]
        own = [piece.id for piece in task.evidence]
        named = {"nothing": (), "all": tuple(own[-5:])}.get(naming, tuple(others[:1]))
        note = "not yet" if verdict == "fail" else None
        request = GiveVerdict(task.id, gate, cast(Any, verdict), commit, note, evidence=named)
        self.learn_blocker(self.submit_to_both(by, request))

    def learn_blocker(self, answer: dict[str, Any] | None) -> None:
        if answer is not None and "blocker" in answer:
            self.model.blockers[-1].id = answer["blocker"]["id"]

    @step(
        1,
        by=st.just(("owner", None)) | actors,
        name=st.sampled_from(NAMES[:3]),
        holders=st.sampled_from(HOLDERS),
        replace=st.booleans(),
    )
    def make_gate(self, by: Holder, name: str, holders: tuple[str, ...], replace: bool) -> None:
        self.submit_to_both(by, CreateGate(name, holders, replace))

    # --- blockers

    @step(
        2,
        by=actors,
        which=st.none() | which_task,
        to=st.sampled_from((None, None, "@nora", "@ghost")),
        severity=st.sampled_from(("stop", "warn")),
    )
    def block(self, by: Holder, which: int | None, to: str | None, severity: Any) -> None:
        id = self.chosen(which) if which is not None else None
        if id is not None or to is not None:
            self.learn_blocker(self.submit_to_both(by, RaiseBlocker("no disk", id, to, severity)))

    @step(
        4,
        by=st.sampled_from((*["raiser", "worker"] * 6, ("owner", None), *ACTORS)),
        which=st.integers(0, 5),
        nth=st.integers(0, 2),
    )
    def unblock(self, by: str | Holder, which: int, nth: int) -> None:
        """Resolve a blocker as a surface of its raiser or of a worker, or as any actor."""
        if not self.model.blockers:
            return
        found = self.model.blockers[-1 - which % len(self.model.blockers)]
        agents = {self.model.agent(found.sender)}
        if by == "worker" and found.task is not None:
            agents = self.model.workers(self.model.tasks[found.task])
        able = [sender for sender in self.tokens if self.model.agent(sender) in agents] or ["mal"]
        actor = (able[nth % len(able)], None) if isinstance(by, str) else by
        self.submit_to_both(actor, ResolveBlocker(found.id))

    # --- claims, and time

    @step(
        4,
        by=workers,
        which=which_task,
        how=st.sampled_from(("acquire", "release", "release", "take over", "end the session")),
    )
    def hold(self, by: Holder | None, which: int, how: str) -> None:
        item = self.chosen(which)
        actor = self.worker(item, by)
        holding = {
            "acquire": AcquireClaim(item),
            "release": ReleaseClaim(item),
            "take over": TakeOverClaim("the build is red", item),
            "end the session": EndSession(actor[1] or "s1"),
        }
        self.submit_to_both(
            ("mira", None) if how == "take over" and by is None else actor, holding[how]
        )

    @step(2, seconds=st.sampled_from((1, 30, 60, 61, 3600)))
    def tick(self, seconds: int) -> None:
        self.ms += seconds * 1000
        self.settle()

    # --- the steps from open to done, with one of them left out

    @step(
        8,
        by=st.sampled_from(ACTORS[:7]),
        which=which_task,
        commit=which_commit,
        quality=st.sampled_from((*["good"] * 4, *["note"] * 3, *QUALITIES)),
        forgets=st.sampled_from(
            ("nothing", "proof", "submission", "verdict", "naming", "completion", "completion")
        ),
        nth=st.integers(0, 2),
    )
    def work_from_take_to_completion(
        self, by: Holder, which: int, commit: str, quality: str, forgets: str, nth: int
    ) -> None:
        id = self.chosen(which)
        if id not in self.model.tasks:
            return
        task = self.model.tasks[id]
        self.submit_to_both(by, TakeTask(id))
        worker = self.worker(id, None)
        for number in range(1, task.criteria + 1):
            if forgets != "proof":
                self.add(worker, id, number, evidence(quality, commit), task.fence)
        if forgets != "submission":
            self.submit_to_both(worker, SubmitTask(id, commit, TREES[commit], task.fence))
        for gate in task.gates if forgets != "verdict" else ():
            naming = "nothing" if forgets == "naming" else "all"
            self.give_verdict(self.able(task, gate, nth), task, gate, "pass", naming)
        if forgets != "completion":
            self.submit_to_both(worker, CompleteTask(id))

    @step(
        5,
        which=which_task,
        fails=st.integers(0, 1),
        naming=st.sampled_from(("nothing", "all")),
        submits_again=st.booleans(),
        nth=st.integers(0, 2),
        other=actors,
    )
    def fail_and_fix(
        self, which: int, fails: int, naming: str, submits_again: bool, nth: int, other: Holder
    ) -> None:
        """One gate fails the submission, an actor raises a blocker, and the gates pass it."""
        due = [t for t in self.model.tasks.values() if t.state == "submitted" and t.gates]
        if not due:
            return
        task = due[which % len(due)]
        artifact = task.artifact or ("", "")
        failing = task.gates[fails % len(task.gates)]
        for gate in task.gates:
            verdict = "fail" if gate == failing else "pass"
            self.give_verdict(self.able(task, gate, nth), task, gate, verdict, naming)
        self.unblock("worker", 0, nth)
        self.learn_blocker(self.submit_to_both(other, RaiseBlocker("no disk", task.id, "@nora")))
        if submits_again:
            self.submit_to_both(self.worker(task.id, None), SubmitTask(task.id, *artifact))
        for gate in task.gates:
            self.give_verdict(self.able(task, gate, nth), task, gate, "pass", naming)

    def able(self, task: Task, gate: str, nth: int) -> Holder:
        return self.judge_of(task, gate, "a holder", nth), None

    @step(
        3,
        which=which_task,
        how=st.sampled_from(("release", "take over", "time", "nothing")),
        by=actors,
        fence=fences,
        commit=which_commit,
    )
    def lose_claim_and_continue(
        self, which: int, how: str, by: Holder, fence: str, commit: str
    ) -> None:
        """A worker loses its claim, another takes the task, and the first continues."""
        id = self.chosen(which)
        worker = self.worker(id, None)
        if how == "time":
            self.tick(3600)
        elif how != "nothing":
            self.hold(None, which, how)
        self.submit_to_both(by, TakeTask(id))
        self.submit_to_both(worker, SubmitTask(id, commit, TREES[commit], self.fence(id, fence)))
        self.submit_to_both(worker, CompleteTask(id, self.fence(id, fence)))

    # With a rule for each step, many runs would leave out some of the steps.
    @rule(steps=st.lists(st.one_of(STEPS), min_size=3, max_size=8))
    def run_steps(self, steps: list[Step]) -> None:
        for name, drawn in steps:
            getattr(self, name)(**drawn)

    # --- invariants

    def read(self, actor: Holder, request: Any) -> dict[str, Any]:
        return self.node.call(self.credentials(actor), request)

    @invariant()
    def every_task_has_the_state_of_the_model(self) -> None:
        for task in self.model.tasks.values():
            shown = self.read(("owner", None), ShowTask(task.id))
            view = shown["task"]
            assert view["state"] == task.state
            assert lacking(shown["missing"]) == self.model.missing(task)
            given = task.verdicts
            waits = "due" if task.state == "submitted" else "waits"
            expected = [(gate, given[gate][0] if gate in given else waits) for gate in task.gates]
            assert [(gate["gate"], gate["state"]) for gate in view["gates"]] == expected
            met = [self.model.met(task, number + 1) for number in range(task.criteria)]
            assert [criterion["met"] for criterion in view["criteria"]] == met
            artifact = view.get("artifact", {})
            assert tuple(artifact.values()) == (task.artifact or ())

    @invariant()
    def every_done_task_met_its_requirements(self) -> None:
        """Check this without the model's `missing`, by facts that can no longer change."""
        for task in self.model.tasks.values():
            if task.state == "done":
                assert all(self.model.tasks[id].state == "done" for id in task.depends_on)
                assert [task.verdicts[gate][0] for gate in task.gates] == ["pass"] * len(task.gates)
                assert all(self.model.met(task, n + 1) for n in range(task.criteria))
            if task.state in ENDED:
                assert task.id not in self.model.works_on(
                    task.taken[-1] if task.taken else ("", "")
                )

    @invariant()
    def every_actor_gets_its_tasks_and_due_verdicts(self) -> None:
        for actor in ACTORS:
            who = self.read(actor, Whoami())
            assert [task["id"] for task in who["tasks"]] == self.model.works_on(actor)
            due = [(due["task"], due["gate"]) for due in who["verdicts_due"]]
            assert due == self.model.due(self.model.people[actor[0]])

    @invariant()
    def gates_and_blockers_match_the_model(self) -> None:
        owner = ("owner", None)
        for gate in self.read(owner, ListGates())["gates"]:
            able = [f"@{sender}" for sender in self.model.holders(gate["name"])]
            assert gate["can_judge"] == able
        for name in NAMES:
            for commit in COMMITS:
                passed = self.read(owner, CheckGate(name, commit))["passed"]
                assert passed == self.model.has_passed(name, commit)
        listed = self.read(owner, ListBlockers(all=True))["blockers"]
        assert [(b["id"], b.get("task"), b.get("resolved_by")) for b in listed] == [
            (b.id, b.task, b.resolved_by) for b in self.model.blockers
        ]

    def teardown(self) -> None:
        try:
            self.settle()
            verified = audit.verify(self.node)
            assert verified["ok"], verified
            assert verified["entries"] == self.head == self.node.head()
            digest = upkeep.state_digest(self.node)
            rebuilt = upkeep.rebuild(self.node, Credentials(owner=True))
            assert (rebuilt["changed"], rebuilt["digest"]) == (False, digest)
        finally:
            self.node.close()
            shutil.rmtree(self.directory)


def evidence(quality: str, commit: str) -> dict[str, Any]:
    """The payload of a run at that commit, or of a note."""
    if quality == "note":
        return {"kind": "note", "text": "I have reviewed it"}
    ran: dict[str, Any] = {
        "kind": "run",
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": 1 if quality == "failed" else 0,
        "duration_ms": 5,
        "output": {"sha256": "0" * 64, "size": 0},
    }
    if quality != "nowhere":
        if quality == "other tree":
            commit = "c" * 40
        tree = "4" * 40 if quality == "changed" else TREES[commit]
        ran |= {"commit": commit, "tree": tree, "dirty": quality in ("dirty", "changed")}
    return ran | ({"interrupted": True} if quality == "interrupted" else {})


def lacking(missing: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """The open requirements in the form of the model. Each must have a message and a command."""
    member = {"dependency": "task", "criterion": "criterion", "gate": "gate", "blocker": "id"}
    assert all(need["do"].startswith("interlock ") and need["message"] for need in missing)
    return [(need["what"], need.get(member.get(need["what"], ""))) for need in missing]


def ms(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def matches(expected: Any, found: Any) -> bool:
    """Whether the expected members are found. An expected None means an absent member."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(
            name not in found if value is None else matches(value, found.get(name))
            for name, value in expected.items()
        )
    return bool(expected == found)


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Work,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_tasks_and_gates_match_the_model() -> None:
    run(examples=12, steps=20)


@pytest.mark.long
def test_tasks_and_gates_match_the_model_in_long_runs() -> None:
    run(examples=150, steps=40)
