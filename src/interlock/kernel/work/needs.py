"""What is missing before a task is done, each with the command that would get on with it."""

from interlock.contracts.addresses import address
from interlock.kernel.moment import Answer, Moment
from interlock.kernel.work.gates import holders
from interlock.kernel.work.records import (
    Blocker,
    Evidence,
    Task,
    body,
    claim_on,
    evidence,
    in_force,
    open_blockers,
    tasks,
)


def missing(moment: Moment, task: Task) -> list[Answer]:
    """Empty for a task that may be completed."""
    return [
        *open_dependencies(moment, task),
        *_not_submitted(moment, task),
        *_unmet(moment, task),
        *_not_passed(moment, task),
        *_blocked(moment, task),
    ]


def open_dependencies(moment: Moment, task: Task) -> list[Answer]:
    found = []
    for id in task.depends_on.split():
        (other,) = tasks(moment, "id = ?", id)
        if other.state == "done":
            continue
        dead = other.has_ended
        found.append(
            {
                "what": "dependency",
                "task": id,
                "state": other.state,
                "message": f"It depends on {id}, which is {other.state}"
                + (", and so will never be done." if dead else "."),
                "do": f"interlock task {'cancel ' + task.id if dead else 'show ' + id}",
            }
        )
    return found


def _not_submitted(moment: Moment, task: Task) -> list[Answer]:
    if task.state == "submitted":
        return []
    claim = claim_on(moment, task.id)
    if claim is None or claim.fence != task.fence:
        why, do = "Nobody works on it.", f"interlock task take {task.id}"
    elif task.submission is not None:
        why, do = "A gate failed what was submitted.", f"interlock task submit {task.id}"
    else:
        why, do = "Nothing is submitted.", f"interlock task submit {task.id}"
    return [{"what": "submission", "message": why, "do": do}]


class Standing:
    """How each criterion of a task stands: by its last run, or by what a verdict names."""

    def __init__(self, moment: Moment, task: Task) -> None:
        self.texts: list[str] = body(moment, task.seq).get("criteria", [])
        self._task, self._gates, self._commit = task.id, task.gates.split(), on_commit(task)
        self._tree = task.tree if task.state in ("submitted", "done") else None
        self._all = evidence(moment, "task = ? AND criterion IS NOT NULL", task.id)
        # For each piece that a passing verdict names, when that was said.
        given = sorted(in_force(moment, task).values(), key=lambda verdict: verdict.seq)
        self._named = {
            id: verdict.seq
            for verdict in given
            if verdict.verdict == "pass"
            for id in verdict.evidence.split()
        }

    def of(self, number: int) -> tuple[Evidence | None, str]:
        """What meets the criterion, or None; and if none does, why not."""
        pieces = [piece for piece in self._all if piece.criterion == number]
        runs = [piece for piece in pieces if piece.kind == "run"]
        if runs and runs[-1].stands() and runs[-1].tree == self._tree:
            return runs[-1], ""
        if (said := self._said(pieces, runs)) is not None:
            return said, ""
        if runs and self._tree is None and runs[-1].stands():
            return None, "Nothing is submitted that its run could stand for."
        if runs:
            return None, f"Its last run {runs[-1].why_not(self._tree)}."
        if pieces:
            return None, "What was said for it counts when a passing verdict names it."
        return None, "It has no evidence."

    def _said(self, pieces: list[Evidence], runs: list[Evidence]) -> Evidence | None:
        """What a passing verdict names; but a run that came after it was not looked at."""
        for piece in reversed(pieces):
            named = self._named.get(piece.id)
            if named is None or piece.kind == "run" or piece.redacted:
                continue
            if not runs or runs[-1].seq < named:
                return piece
        return None

    def to_do(self, number: int) -> str:
        """The command that would get on with a criterion."""
        pieces = [piece for piece in self._all if piece.criterion == number]
        if pieces and pieces[-1].kind != "run" and self._gates:
            gate, id = self._gates[0], pieces[-1].id
            return f"interlock gate pass {self._task} {gate}{self._commit} --evidence {id}"
        return f"interlock evidence run --task {self._task} --criterion {number} -- COMMAND"

    def view(self, number: int) -> Answer:
        """A criterion as doors show it."""
        text = self.texts[number - 1] if number <= len(self.texts) else "(redacted)"
        met, why = self.of(number)
        told: Answer = {"number": number, "text": text, "met": met is not None}
        if met is not None:
            return told | {"evidence": met.id, "by": met.kind}
        return told | {"why": why}


def _unmet(moment: Moment, task: Task) -> list[Answer]:
    standing = Standing(moment, task)
    found = [standing.view(number) for number in range(1, task.criteria + 1)]
    return [
        {
            "what": "criterion",
            "criterion": view["number"],
            "text": view["text"],
            "message": f"Criterion {view['number']} is not met. {view['why']}",
            "do": standing.to_do(view["number"]),
        }
        for view in found
        if not view["met"]
    ]


def _not_passed(moment: Moment, task: Task) -> list[Answer]:
    given = in_force(moment, task)
    found = []
    for gate in task.gates.split():
        verdict = given.get(gate)
        if verdict is not None and verdict.verdict == "pass":
            continue
        names = [address(name) for name in holders(moment, gate)]
        why = "has failed it" if verdict is not None else "has not passed what is submitted"
        found.append(
            {
                "what": "gate",
                "gate": gate,
                "holders": names,
                "message": f"The gate {gate} {why}. It is held by {' '.join(names) or 'nobody'}.",
                "do": f"interlock gate pass {task.id} {gate}{on_commit(task)}",
            }
        )
    return found


def to_resolve(blocker: Blocker, task: Task | None) -> str:
    """What a gate found is settled by that gate; anything else by a word."""
    if blocker.gate is None or task is None:
        return f"interlock blocker resolve {blocker.id}"
    return f"interlock gate pass {task.id} {blocker.gate}{on_commit(task)}"


def on_commit(task: Task) -> str:
    """A verdict's flag that names what it is about, so that a later submission is not meant."""
    return f" --commit {task.commit[:12]}" if task.commit is not None else ""


def _blocked(moment: Moment, task: Task) -> list[Answer]:
    return [
        {
            "what": "blocker",
            "id": blocker.id,
            "message": f"A blocker of {address(blocker.sender)} is open."
            if blocker.gate is None
            else f"What the gate {blocker.gate} found is open until that gate passes it.",
            "do": to_resolve(blocker, task),
        }
        for blocker in open_blockers(moment, task.id)
        if blocker.severity == "stop"
    ]
