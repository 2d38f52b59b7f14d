"""How the criteria of a task stand: by the last run, or by what a passing verdict names."""

import shlex

from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.work.records import Evidence, Task, body, evidence, in_force
from interlock.verbs.addresses import address

# A command longer than this is not worth repeating.
MAX_COMMAND_LENGTH = 200


class Standing:
    """See the module. Only what is submitted can be stood for."""

    def __init__(self, tx: Transaction, task: Task) -> None:
        self.texts: list[str] = body(tx, task.seq).get("criteria", [])
        self._tx, self._task = tx, task
        self._tree = task.tree if task.state in ("submitted", "done") else None
        self._all = evidence(tx, "task = ? AND criterion IS NOT NULL", task.id)
        # For each piece that a passing verdict names, when that was said.
        given = sorted(in_force(tx, task).values(), key=lambda verdict: verdict.seq)
        self._named = {
            id: verdict.seq
            for verdict in given
            if verdict.verdict == "pass"
            for id in verdict.evidence.split()
        }

    def of(self, number: int) -> tuple[Evidence | None, str]:
        """What meets the criterion, or None; and if none does, why not."""
        pieces = self._pieces(number)
        runs = [piece for piece in pieces if piece.kind == "run"]
        if runs and runs[-1].stands() and runs[-1].tree == self._tree:
            return runs[-1], ""
        if (said := self._said(pieces, runs)) is not None:
            return said, ""
        if self._tree is None and self.has_good_run(number):
            return None, "Nothing is submitted that its run could stand for."
        if runs:
            return None, f"Its last run {runs[-1].why_not(self._tree)}."
        if pieces:
            return None, "What was said for it counts when a passing verdict names it."
        return None, "It has no evidence."

    def _pieces(self, number: int) -> list[Evidence]:
        return [piece for piece in self._all if piece.criterion == number]

    def _said(self, pieces: list[Evidence], runs: list[Evidence]) -> Evidence | None:
        """What a passing verdict names; but a run that came after it was not looked at."""
        for piece in reversed(pieces):
            named = self._named.get(piece.id)
            if named is None or piece.kind == "run" or piece.redacted:
                continue
            if not runs or runs[-1].seq < named:
                return piece
        return None

    def view(self, number: int) -> RuleAnswer:
        """A criterion as doors show it."""
        text = self.texts[number - 1] if number <= len(self.texts) else "(redacted)"
        met, why = self.of(number)
        told: RuleAnswer = {"number": number, "text": text, "met": met is not None}
        if met is not None:
            whose = "ran_by" if met.kind == "run" else "said_by"
            return told | {"evidence": met.id, "by": met.kind, whose: address(met.sender)}
        return told | {"why": why}

    def to_name(self) -> dict[int, str]:
        """By criterion that nothing meets, what was said last for it: a verdict could name it."""
        found = {}
        for number in range(1, self._task.criteria + 1):
            for last in self._pieces(number)[-1:]:
                if last.kind != "run" and not last.redacted and self.of(number)[0] is None:
                    found[number] = last.id
        return found

    def has_good_run(self, number: int) -> bool:
        """Whether its last run would meet it, were that tree submitted."""
        runs = [piece for piece in self._pieces(number) if piece.kind == "run"]
        return bool(runs) and runs[-1].stands()

    def to_run(self, number: int) -> str:
        """The command that would get on with a criterion; the one that was run before, if any."""
        pieces = self._pieces(number)
        runs = [piece for piece in pieces if piece.kind == "run" and not piece.redacted]
        said = body(self._tx, runs[-1].seq).get("command", "") if runs else ""
        words = said if isinstance(said, str) else shlex.join(said)
        shown = words if 0 < len(words) <= MAX_COMMAND_LENGTH and words.isprintable() else "COMMAND"
        return f"interlock evidence run --task {self._task.id} --criterion {number} -- {shown}"
