"""A state machine drives tasks and gates on a node and on a plain model, and compares everything.

Agents with several surfaces and sessions, a person, and somebody with too few scopes make, take,
prove, submit, judge, block and end tasks, while leases run out on the machine's clock. After every
act the log has gained exactly the facts that the model says, so that what was refused has left
nothing but its refusal; after every rule all views agree. At the end the log verifies, and folding
it again gives the same state.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

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
from work_model import ENDED, Holder, Model, Person, Refused, Task

from interlock.contracts import acts, tokens
from interlock.contracts.acts import Credentials
from interlock.errors import Refusal
from interlock.node import Node, audit, upkeep

START = 2_000_000_000_000  # a time that no clock of a test machine shows
OWNER = Person("owner", "owner", "human", frozenset({"admin"}))

# Who has joined: name, surface, kind, scopes asked for. Rex may judge legal, and work at nothing.
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
# By a sender's name and by an agent's; the gate legal is held by scope alone.
GATES = {"athena": ("mira", "otto-desktop", "vera"), "style": ("nora",)}
HOLDERS = (
    ("vera",),
    ("otto",),
    ("@mira", "nora-web"),
    ("mira", "otto-desktop", "vera"),
    ("ghost",),
)
NAMES = ("athena", "style", "legal", "void")
TASKS = ("T-1", "T-2", "T-3", "T-4", "T-5", "T-6")
COMMITS = ("a" * 40, "b" * 40)
TREES = {"a" * 40: "1" * 40, "b" * 40: "2" * 40}
QUALITIES = ("good", "failed", "dirty", "other tree", "interrupted", "nowhere", "note")

which_task = st.sampled_from((*TASKS, "T-1", "T-2"))
which_commit = st.sampled_from(COMMITS)
actors = st.sampled_from(ACTORS)
# Whoever holds the claim, for what is done under it; at times somebody else.
workers = st.none() | st.none() | st.none() | actors
fences = st.sampled_from(("none", "none", "own", "own", "older", "later"))

Step: TypeAlias = tuple[str, dict[str, Any]]
STEPS: dict[str, list[st.SearchStrategy[Step]]] = {}
Method = TypeVar("Method", bound=Callable[..., None])


def step(room: str, weight: int = 1, **drawn: st.SearchStrategy[Any]) -> Callable[[Method], Method]:
    """Makes a method a step of the machine, that often among those of its room."""

    def register(method: Method) -> Method:
        for _ in range(weight):  # one_of counts a strategy that it is given twice only once
            drawing = st.tuples(st.just(method.__name__), st.fixed_dictionaries(drawn))
            STEPS.setdefault(room, []).append(drawing)
        return method

    return register


class Work(RuleBasedStateMachine):
    """A node and its model, side by side. `tell` is the one way to act on both."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="interlock-work-")
        self.ms = START
        self.node = Node(self.directory, clock=lambda: self.ms)
        self.model = Model()
        self.tokens: dict[str, str] = {}
        self.head = 0

    # --- acting on both, and comparing

    def tell(self, actor: Holder, act: Any) -> dict[str, Any] | None:
        """Does the act on both; the node's answer, or None where both refuse alike."""
        self.settle()
        sender, session = actor
        expected: dict[str, Any] | str
        try:
            expected = self.model.call(self.person(sender), session, act)
        except Refused as refused:
            expected = refused.code
        found = self.ask(actor, act)
        self.compare_facts()
        if isinstance(found, dict) and "missing" in found:
            found["missing"] = lacking(found["missing"])
        assert matches(expected, found), f"{found}, and the model says {expected}"
        return found if isinstance(found, dict) else None

    def person(self, sender: str) -> Person:
        return self.model.people[sender] if sender != "owner" else OWNER

    def ask(self, actor: Holder, act: Any) -> dict[str, Any] | str:
        try:
            return self.node.call(self.credentials(actor), act)
        except Refusal as refusal:
            return refusal.code

    def credentials(self, actor: Holder) -> Credentials:
        sender, session = actor
        if sender == "owner":
            return Credentials(owner=True)
        return Credentials(token=self.tokens[sender], session=session)

    def settle(self) -> None:
        """Lets both notice how late it is."""
        told = self.node.call(Credentials(owner=True), acts.ShowStatus())
        self.model.pass_time(ms(told["now"]))
        self.compare_facts()

    def compare_facts(self) -> None:
        """The log has gained what the model says, and nothing else."""
        facts = audit.show(self.node, acts.ShowLog(after=self.head, limit=1000))["facts"]
        expected, self.model.facts = self.model.facts, []
        assert [fact["kind"] for fact in facts] == [kind for kind, _ in expected]
        for fact, (_, said) in zip(facts, expected, strict=True):
            assert matches(said, fact["outcome"]), f"{fact}, and the model says {said}"
        self.head += len(facts)

    @initialize()
    def a_team_with_gates_and_tasks(self) -> None:
        for name, surface, kind, scopes in JOINED:
            token = tokens.compose(os.urandom(tokens.SECRET_BYTES))
            act = acts.Join(name, surface, kind, scopes=scopes, token_hash=tokens.hashed(token))
            joined = self.node.call(Credentials(owner=True), act)
            sender = joined["sender"]
            self.tokens[sender] = token
            self.model.people[sender] = Person(sender, name, kind, frozenset(joined["scopes"]))
        self.head = self.node.head()
        for gate, holders in GATES.items():
            self.tell(("owner", None), acts.CreateGate(gate, holders))
        vera = ("vera", None)
        self.tell(vera, acts.CreateTask("one", "T-1", criteria=("x",), gates=("athena", "legal")))
        self.tell(vera, acts.CreateTask("two", "T-2", criteria=("x", "y"), depends_on=("T-1",)))

    # --- tasks

    def task(self, id: str) -> Task:
        """The task, or one that is there."""
        return self.model.tasks.get(id) or self.model.tasks["T-1"]

    def worker(self, id: str, otherwise: Holder | None) -> Holder:
        claim = self.model.claims.get(id)
        return otherwise or (claim.holder if claim is not None else ACTORS[0])

    def fence(self, id: str, which: str) -> int | None:
        own = self.task(id).fence or 1
        return {"none": None, "own": own, "older": max(1, own - 1), "later": own + 1}[which]

    @step(
        "tasks",
        by=actors,
        id=which_task,
        criteria=st.integers(0, 2),
        gates=st.lists(st.sampled_from((*NAMES[:3], *NAMES)), max_size=2, unique=True),
        depends_on=st.lists(st.sampled_from(TASKS), max_size=2, unique=True),
        assignee=st.sampled_from((None, None, "@otto", "@nora-web", "@vera", "@ghost")),
    )
    def create(
        self,
        by: Holder,
        id: str,
        criteria: int,
        gates: list[str],
        depends_on: list[str],
        assignee: str | None,
    ) -> None:
        wanted = ("tests pass", "docs say so")[:criteria]
        after = tuple(depends_on)
        made = acts.CreateTask("work", id, None, wanted, tuple(gates), after, assignee=assignee)
        self.tell(by, made)

    @step("tasks", 3, by=actors, id=which_task, ttl_s=st.sampled_from((60, 3600)))
    def take_on(self, by: Holder, id: str, ttl_s: int) -> None:
        self.tell(by, acts.TakeTask(id, ttl_s=ttl_s))

    @step(
        "tasks",
        3,
        by=workers,
        id=which_task,
        commit=which_commit,
        tree=st.sampled_from(("its own", "its own", "not said", "another")),
        fence=fences,
    )
    def submit(self, by: Holder | None, id: str, commit: str, tree: str, fence: str) -> None:
        given = {"its own": TREES[commit], "another": "3" * 40}.get(tree)
        self.tell(self.worker(id, by), acts.SubmitTask(id, commit, given, self.fence(id, fence)))

    @step(
        "tasks",
        4,
        by=workers,
        id=which_task,
        how=st.sampled_from(("complete", "complete", "complete", "fail", "cancel")),
        fence=fences,
    )
    def end(self, by: Holder | None, id: str, how: str, fence: str) -> None:
        presented = self.fence(id, fence)
        ending = {
            "complete": acts.CompleteTask(id, presented),
            "fail": acts.FailTask(id, "it cannot be done", presented),
            "cancel": acts.CancelTask(id),
        }
        owner = ("owner", None) if how == "cancel" and fence == "later" else None
        self.tell(owner or self.worker(id, by), ending[how])

    # --- evidence and verdicts

    @step(
        "proofs",
        4,
        by=workers,
        id=which_task,
        criterion=st.sampled_from((None, 1, 1, 2, 3)),
        quality=st.sampled_from(("good", "note", *QUALITIES)),
        commit=which_commit,
        fence=fences,
    )
    def prove(
        self,
        by: Holder | None,
        id: str,
        criterion: int | None,
        quality: str,
        commit: str,
        fence: str,
    ) -> None:
        payload = evidence(quality, commit) | {"task_id": id}
        if criterion is not None:
            payload["criterion"] = criterion
        act = acts.AddEvidence(payload, fence=self.fence(id, fence))
        answer = self.tell(self.worker(id, by), act)
        if answer is not None:
            self.model.tasks[id].evidence[-1].id = answer["evidence"]["id"]

    @step(
        "proofs",
        5,
        id=which_task,
        gate=st.integers(0, 3),
        by=st.none() | st.none() | actors,
        nth=st.integers(0, 2),
        verdict=st.sampled_from(("pass", "pass", "fail")),
        naming=st.sampled_from(("nothing", "all", "another task's")),
        commit=st.sampled_from((None, None, "right", "a" * 40, "b" * 12)),
    )
    def judge(
        self,
        id: str,
        gate: int,
        by: Holder | None,
        nth: int,
        verdict: str,
        naming: str,
        commit: str | None,
    ) -> None:
        """A holder of one of the task's gates judges; or anybody judges by any gate."""
        task = self.task(id)
        name = (task.gates or NAMES)[gate % len(task.gates or NAMES)]
        able = self.model.holders(name) or ["vera"]
        actor = by or (able[nth % len(able)], None)
        if commit == "right":
            commit = task.artifact[0][:9] if task.artifact is not None else None
        self.pronounce(actor, task, name, verdict, naming, commit)

    def pronounce(
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
        act = acts.GiveVerdict(task.id, gate, verdict, commit, note, evidence=named)
        self.learn_blocker(self.tell(by, act))

    def learn_blocker(self, answer: dict[str, Any] | None) -> None:
        if answer is not None and "blocker" in answer:
            self.model.blockers[-1].id = answer["blocker"]["id"]

    @step(
        "proofs",
        by=st.just(("owner", None)) | actors,
        name=st.sampled_from(NAMES[:3]),
        holders=st.sampled_from(HOLDERS),
        replace=st.booleans(),
    )
    def make_gate(self, by: Holder, name: str, holders: tuple[str, ...], replace: bool) -> None:
        self.tell(by, acts.CreateGate(name, holders, replace))

    # --- blockers

    @step(
        "blockers",
        2,
        by=actors,
        id=st.none() | which_task,
        to=st.sampled_from((None, None, "@nora", "@ghost")),
        severity=st.sampled_from(("stop", "warn")),
    )
    def block(self, by: Holder, id: str | None, to: str | None, severity: str) -> None:
        if id is not None or to is not None:
            self.learn_blocker(self.tell(by, acts.RaiseBlocker("no disk", id, to, severity)))

    @step("blockers", 2, by=st.just(("owner", None)) | actors, which=st.integers(0, 5))
    def unblock(self, by: Holder, which: int) -> None:
        if self.model.blockers:
            latest = self.model.blockers[-1 - which % len(self.model.blockers)]
            self.tell(by, acts.ResolveBlocker(latest.id))

    # --- claims, and time

    @step(
        "claims",
        4,
        by=workers,
        item=which_task,
        how=st.sampled_from(("acquire", "release", "release", "take over", "end the session")),
    )
    def hold(self, by: Holder | None, item: str, how: str) -> None:
        actor = self.worker(item, by)
        if how == "take over":
            self.tell(by or ("mira", None), acts.TakeOverClaim("the build is red", item))
        elif how == "end the session":
            self.tell(actor, acts.EndSession(actor[1] or "s1"))
        else:
            self.tell(
                actor, {"acquire": acts.AcquireClaim, "release": acts.ReleaseClaim}[how](item)
            )

    @step("claims", 3, seconds=st.sampled_from((1, 30, 60, 61, 3600)))
    def tick(self, seconds: int) -> None:
        self.ms += seconds * 1000
        self.settle()

    # --- the way from open to done, in which something is forgotten

    @step(
        "ways",
        by=st.sampled_from(ACTORS[:7]),
        id=which_task,
        commit=which_commit,
        quality=st.sampled_from(("good", "good", "good", *QUALITIES)),
        forgets=st.sampled_from(("nothing", "nothing", "proof", "submission", "verdict", "naming")),
        judged_by=st.integers(0, 2),
    )
    def go_all_the_way(
        self, by: Holder, id: str, commit: str, quality: str, forgets: str, judged_by: int
    ) -> None:
        task = self.task(id)
        self.take_on(by, task.id, 3600)
        for number in range(1, task.criteria + 1):
            if forgets != "proof":
                self.prove(None, task.id, number, quality, commit, "own")
        if forgets != "submission":
            self.submit(None, task.id, commit, "its own", "own")
        for gate in task.gates:
            able = [
                sender
                for sender in self.model.holders(gate)
                if self.model.agent(sender) not in self.model.workers(task)
            ]
            if forgets != "verdict" and able:
                naming = "nothing" if forgets == "naming" else "all"
                self.pronounce((able[judged_by % len(able)], None), task, gate, "pass", naming)
        self.end(None, task.id, "complete", "none")

    # --- one rule a room

    @rule(steps=st.lists(st.one_of(STEPS["tasks"]), min_size=1, max_size=5))
    def see_to_tasks(self, steps: list[Step]) -> None:
        self.go(steps)

    @rule(steps=st.lists(st.one_of(STEPS["proofs"]), min_size=1, max_size=5))
    def see_to_proofs(self, steps: list[Step]) -> None:
        self.go(steps)

    @rule(steps=st.lists(st.one_of(STEPS["blockers"]), min_size=1, max_size=3))
    def see_to_blockers(self, steps: list[Step]) -> None:
        self.go(steps)

    @rule(steps=st.lists(st.one_of(STEPS["claims"]), min_size=1, max_size=3))
    def see_to_claims(self, steps: list[Step]) -> None:
        self.go(steps)

    @rule(step=st.one_of(STEPS["ways"]))
    def see_to_the_end(self, step: Step) -> None:
        self.go([step])

    def go(self, steps: list[Step]) -> None:
        for name, drawn in steps:
            getattr(self, name)(**drawn)

    # --- what always holds

    def look(self, actor: Holder, act: Any) -> dict[str, Any]:
        return self.node.call(self.credentials(actor), act)

    @invariant()
    def every_task_stands_where_the_model_has_it(self) -> None:
        for task in self.model.tasks.values():
            shown = self.look(("owner", None), acts.ShowTask(task.id))
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
    def nothing_is_done_that_lacks_something(self) -> None:
        """Told apart from the model's `missing`, and by what can no longer change."""
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
    def everybody_sees_what_is_theirs_to_do(self) -> None:
        for actor in ACTORS:
            who = self.look(actor, acts.Whoami())
            assert [task["id"] for task in who["tasks"]] == self.model.works_on(actor)
            due = [(due["task"], due["gate"]) for due in who["verdicts_due"]]
            assert due == self.model.due(self.model.people[actor[0]])

    @invariant()
    def gates_and_blockers_are_as_the_model_has_them(self) -> None:
        owner = ("owner", None)
        for gate in self.look(owner, acts.ListGates())["gates"]:
            able = [f"@{sender}" for sender in self.model.holders(gate["name"])]
            assert gate["can_judge"] == able
        for name in NAMES:
            for commit in COMMITS:
                passed = self.look(owner, acts.CheckGate(name, commit))["passed"]
                assert passed == self.model.has_passed(name, commit)
        listed = self.look(owner, acts.ListBlockers(all=True))["blockers"]
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
    """What came of a run at that commit, or what was only said."""
    if quality == "note":
        return {"kind": "note", "text": "I have looked at it"}
    ran: dict[str, Any] = {
        "kind": "run",
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": 1 if quality == "failed" else 0,
        "duration_ms": 5,
        "output": {"sha256": "0" * 64, "size": 0},
    }
    if quality != "nowhere":
        tree = "3" * 40 if quality == "other tree" else TREES[commit]
        ran |= {"commit": commit, "tree": tree, "dirty": quality == "dirty"}
    return ran | ({"interrupted": True} if quality == "interrupted" else {})


def lacking(missing: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """What is missing, in the model's words. Each says what to do about it."""
    member = {"dependency": "task", "criterion": "criterion", "gate": "gate", "blocker": "id"}
    assert all(need["do"].startswith("interlock ") and need["message"] for need in missing)
    return [(need["what"], need.get(member.get(need["what"], ""))) for need in missing]


def ms(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def matches(expected: Any, found: Any) -> bool:
    """Whether everything expected is there; None is expected to be absent."""
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
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_tasks_and_gates_do_what_the_model_says() -> None:
    run(examples=40, steps=20)


@pytest.mark.long
def test_tasks_and_gates_do_what_the_model_says_in_long_runs() -> None:
    run(examples=150, steps=60)
