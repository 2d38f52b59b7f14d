"""Automatic gates: the checks of interlock.toml, run on exactly what was submitted.

Each check has a checkout of its own, made from the commit by git and gone afterwards, so that
neither the holder's uncommitted work nor another check can help it along. It leaves evidence, and
its gate a verdict, with the digest of the rules: a gate does not change its rules unnoticed.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Literal, NamedTuple

from interlock import evidence, scrub
from interlock.errors import DigestMismatch, NotFound, Refusal, Usage
from interlock.local import project
from interlock.local.project import Check, Project
from interlock.log.encoding import canonical, digest
from interlock.machine.git import asked
from interlock.rooms.mail.uploads import attach, in_chunks
from interlock.rooms.work.verbs import AddEvidence, GiveVerdict, PrepareVerdict, ShowTask
from interlock.verbs.answers import Answer
from interlock.verbs.flows import run

Call = Callable[[Any], Answer]

LOOKED_AT = 64 << 20
MAX_NOTE_LENGTH = 4000
MAX_FIX_LENGTH = 4096
# So many of the commands that a scrub names go to the worker; the evidence has all.
MAX_FIXES = 3
# A large repository takes its time.
CHECKOUT_S = 1800.0


class Told(Exception):
    """Somebody told us to stop: what ran is on record, and nothing was judged."""


def root_here() -> str:
    here = evidence.standing()
    if here is None:
        raise Usage("Stand in the repository whose checks are to be run.")
    return here.root


class Rules(NamedTuple):
    """What checks there are, and the file that says so; whether that was `named`, or is the
    repository's own."""

    project: Project
    file: str
    named: bool = False


def rules_at(root: str, path: str | None = None) -> Rules:
    """The rules of the repository, or of the file that is named instead."""
    if path is None:
        return Rules(project.load(root), os.path.join(root, project.FILE))
    try:
        with open(path, "rb") as file:
            data = file.read(project.LARGEST + 1)
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
    return Rules(project.decode(data, path), os.path.abspath(path), named=True)


class Judge:
    """The checks of one task, for a sender that holds its gates. `call` does acts as that sender;
    what checks print goes to `out`."""

    def __init__(self, call: Call, task: str, root: str, rules: Rules, out: BinaryIO) -> None:
        self._call, self._task, self._root, self._out = call, task, root, out
        self._rules, self._file, is_named = rules
        # As a worker would type it.
        self._by = f" --rules {shlex.quote(self._file)}" if is_named else ""

    def judge(self, gate: str | None = None, *, new_rules: bool = False) -> list[Answer]:
        """Judges every gate of the task that has checks, or the one that is named."""
        wanted = self._wanted(gate)
        for name, checks in wanted.items():
            prepared = self._call(PrepareVerdict(self._task, name))
            if not new_rules:
                self._refuse_new_rules(name, prepared.get("rules"), self._digest(checks))
        artifact = prepared["artifact"]
        self._refuse_untrue(artifact)
        return [self._judged(name, checks, artifact) for name, checks in wanted.items()]

    def _wanted(self, named: str | None) -> dict[str, list[Check]]:
        shown = self._call(ShowTask(self._task))["task"]
        gates = [named] if named is not None else [gate["gate"] for gate in shown["gates"]]
        checks = list(self._rules.checks)
        if all(check.name != project.SCRUB for check in checks):
            checks.append(Check(project.SCRUB, project.SCRUB))
        found = {gate: [check for check in checks if check.gate == gate] for gate in gates}
        found = {gate: some for gate, some in found.items() if some}
        if not found:
            example = (gates or ["NAME"])[0]
            raise Usage(
                f"No check in {project.FILE} decides a gate of {self._task} "
                f"({', '.join(gates) or 'it has none'}). Write one: [checks.{example}] with "
                'command = "make test"'
            )
        return found

    def _digest(self, checks: list[Check]) -> str:
        scrub = self._rules.scrub if any(c.name == project.SCRUB for c in checks) else {}
        said = [[list(v) if isinstance(v, tuple) else v for v in check] for check in checks]
        return digest(canonical([said, scrub]))

    def _refuse_new_rules(self, gate: str, before: str | None, now: str) -> None:
        if before not in (None, now):
            raise Usage(
                f"The checks of {gate} are not those by which it judged before. A submission that "
                "changes its own rules looks like this: look at the change of "
                f"{project.FILE}, then give --rules FILE for the ones that hold, or accept these "
                "with --new-rules.",
                gate=gate,
            )

    def _refuse_untrue(self, artifact: Answer) -> None:
        commit = artifact["commit"]
        found = evidence.artifact(commit, self._root)
        if found is None:
            raise NotFound(f"The commit {commit[:12]} is not in this repository. Fetch it first.")
        if found[1] != artifact["tree"]:
            raise DigestMismatch(
                f"The tree of {commit[:12]} is {found[1][:12]}, and {artifact['tree'][:12]} was "
                f"submitted with it. Fail it: interlock gate fail {self._task} GATE --note TEXT"
            )

    def _judged(self, gate: str, checks: list[Check], artifact: Answer) -> Answer:
        results = [self._result(check, artifact) for check in checks]
        failing = [found for found in results if not found["met"]]
        note = "; ".join(_told(found) for found in results)
        verdict: Literal["pass", "fail"] = "fail" if failing else "pass"
        fixes = dict.fromkeys(fix for found in failing for fix in found.pop("fix"))
        self._call(
            GiveVerdict(
                self._task,
                gate,
                verdict,
                artifact["commit"],
                f"Checked by interlock gate run{self._by}. {note}"[:MAX_NOTE_LENGTH],
                tuple(fixes),
                tuple(found["evidence"] for found in results),
                artifact["tree"],
                self._digest(checks),
            )
        )
        return {"gate": gate, "verdict": verdict, "checks": results}

    def _result(self, check: Check, artifact: Answer) -> Answer:
        """Runs one check, and keeps what came of it."""
        self._out.write(f"{check.name}: {self._typed(check)}\n".encode())
        limits = evidence.Limits(time_s=check.time_limit)
        command = self._command(check)
        with (
            _checked_out(self._root, artifact["commit"]),
            evidence.record(
                command, limits, out=self._out, err=self._out, unstarted_too=True
            ) as recorded,
        ):
            payload = recorded.payload | {"task_id": self._task, "title": check.name}
            with open(recorded.output, "rb") as file:
                size = payload["output"]["size"]
                flow = attach(AddEvidence(payload), in_chunks(file), size)
                kept = run(flow, self._call)["evidence"]
            if payload.get("interrupted") and payload.get("ended_by") != "time limit":
                raise Told
            why = _why_not(check, recorded, artifact)
            fix = self._fixes(check, recorded) if why is not None else []
        found = {
            "check": check.name,
            "met": why is None,
            "exit_code": payload["exit_code"],
            "evidence": kept["id"],
            "why": why or f"exited {payload['exit_code']}",
        }
        return found if why is None else found | {"fix": fix}

    def _fixes(self, check: Check, recorded: evidence.Recorded) -> list[str]:
        """What would put it right: the scrub's own commands, and the check itself, to see that it
        is met then. One that did not come to its end found nothing to speak of."""
        found: list[str] = []
        if not check.command and not recorded.payload.get("interrupted"):
            with suppress(Refusal):
                rules = scrub.rules_of(self._rules.scrub)
                found = [finding.fix for finding in scrub.findings(os.getcwd(), rules)]
        short = [fix for fix in dict.fromkeys(found) if len(fix) <= MAX_FIX_LENGTH]
        return [*short[:MAX_FIXES], self._typed(check)]

    def _command(self, check: Check) -> list[str]:
        if check.command:
            return list(check.command)
        named = ["--rules", self._file] if os.path.exists(self._file) else []
        # Without -P a directory called interlock in what is judged would be taken for us.
        return [sys.executable, "-P", "-m", "interlock", "scrub", *named]

    def _typed(self, check: Check) -> str:
        """The check as its worker would type it."""
        words = check.command
        if not words:
            return f"interlock scrub{self._by}"
        return words[2] if words[:2] == ("/bin/sh", "-c") else shlex.join(words)


def _told(found: Answer) -> str:
    """A check in the note of a verdict; where it is not met, with what shows that."""
    told = f"{found['check']}: {found['why']}"
    return told if found["met"] else f"{told} (interlock evidence show {found['evidence']})"


def _why_not(check: Check, recorded: evidence.Recorded, artifact: Answer) -> str | None:
    """Why the run is not what the check expects; None where it is."""
    payload = recorded.payload
    if recorded.unstarted is not None:
        return f"cannot be run: {recorded.unstarted}"
    if payload.get("interrupted"):
        return f"was ended by its {payload.get('ended_by', 'signal')}"
    if payload.get("tree") != artifact["tree"] or payload.get("dirty"):
        return "changed files of the tree, and so says nothing about it"
    with open(recorded.output, "rb") as file:
        text = file.read(LOOKED_AT).decode(errors="replace")
    if check.meets(payload["exit_code"], text):
        return None
    if payload["exit_code"] != check.exit_code:
        return f"exited {payload['exit_code']}"
    return f"exited {payload['exit_code']}, and its output lacks {check.pattern!r}"


@contextmanager
def _checked_out(root: str, commit: str) -> Iterator[None]:
    """Stands in a fresh checkout of the commit, which is gone afterwards."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="interlock-check-") as own:
        place = os.path.join(own, os.path.basename(root) or "tree")
        _git(root, "worktree", "add", "--quiet", "--detach", place, commit)
        try:
            os.chdir(place)
            yield
        finally:
            os.chdir(before)
            _git(root, "worktree", "remove", "--force", place)


def _git(root: str, *words: str) -> None:
    done = asked(root, "-c", f"core.hooksPath={os.devnull}", *words, patience_s=CHECKOUT_S)
    if done.returncode != 0:
        why = os.fsdecode(done.stderr).strip()[:300]
        raise NotFound(f"What is submitted cannot be checked out here: {why}")
