"""Automatic gates: run the checks of interlock.toml on the submitted commit.

Each check runs in a fresh checkout of the commit, so that neither the holder's uncommitted work nor
another check affects it. Each check adds evidence. The verdict contains the digest of the rules, so
that a change of the rules is noticed.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Literal

from interlock import evidence, scrub
from interlock.errors import DigestMismatch, NotFound, Refusal, Usage
from interlock.local import project
from interlock.local.project import Check, Project
from interlock.log.encoding import canonical, digest
from interlock.machine.git import run_git
from interlock.rooms.mail.uploads import attach, in_chunks
from interlock.rooms.work.verbs import AddEvidence, GiveVerdict, PrepareVerdict, ShowTask
from interlock.verbs.answers import Answer
from interlock.verbs.flows import run

Call = Callable[[Any], Answer]

MAX_SEARCHED_BYTES = 64 << 20
MAX_NOTE_LENGTH = 4000
MAX_FIX_LENGTH = 4096
# The maximum number of the scrub's commands in a verdict. The evidence has all of them.
MAX_FIXES = 3
CHECKOUT_S = 1800.0


def root_here() -> str:
    here = evidence.standing()
    if here is None:
        raise Usage(
            "This directory is not in a git repository. Run the command in the repository of the "
            "checks."
        )
    return here.root


def rules_at(root: str, path: str | None) -> Project:
    """Return the rules of the repository, or of the named file. Raise NotFound or Usage."""
    if path is None:
        return project.load(root)
    try:
        with open(path, "rb") as file:
            data = file.read(project.LARGEST + 1)
    except OSError as trouble:
        raise NotFound(f"Cannot read {path}: {trouble.strerror}.") from None
    return project.decode(data, path)


class Judge:
    """Runs the checks of one task for a sender that holds its gates. `call` makes requests as that
    sender. The rules are in the file `path`, or else in the repository's file. The output of the
    checks goes to `out`."""

    def __init__(self, call: Call, task: str, root: str, path: str | None, out: BinaryIO) -> None:
        self._call, self._task, self._root, self._out = call, task, root, out
        self._rules = rules_at(root, path)
        self._file = os.path.abspath(path) if path else os.path.join(root, project.FILE)
        # The flag that a worker types to repeat the check.
        self._by = f" --rules {shlex.quote(self._file)}" if path else ""

    def judge(self, gate: str | None = None, *, new_rules: bool = False) -> list[Answer]:
        """Give a verdict for every gate of the task that has checks, or for the named gate. Raise
        Usage if no check decides a gate, or if the rules of a gate have changed and `new_rules` is
        false."""
        shown = self._call(ShowTask(self._task))["task"]
        gates = [gate] if gate is not None else [each["gate"] for each in shown["gates"]]
        checks = list(self._rules.checks)
        if all(check.name != project.SCRUB for check in checks):
            checks.append(Check(project.SCRUB, project.SCRUB))
        found = {name: [check for check in checks if check.gate == name] for name in gates}
        wanted = {name: some for name, some in found.items() if some}
        if not wanted:
            if not gates:
                raise Usage(f"{self._task} has no gates, so there is nothing to check.")
            raise Usage(
                f"{project.FILE} has no check for a gate of {self._task}: {', '.join(gates)}. "
                f'Add a check: [checks.{gates[0]}] with command = "make test"'
            )
        for name, checks in wanted.items():
            prepared = self._call(PrepareVerdict(self._task, name))
            if not new_rules and prepared.get("rules") not in (None, self._digest(checks)):
                raise Usage(
                    f"The checks of the gate {name} have changed since its last verdict. The "
                    f"submission may have changed its own rules, so review {project.FILE}. To use "
                    "other rules: --rules FILE. To accept the changed rules: --new-rules",
                    gate=name,
                )
        artifact = prepared["artifact"]
        commit = artifact["commit"]
        known = evidence.artifact(commit, self._root)
        if known is None:
            raise NotFound(
                f"The commit {commit[:12]} is not in this repository. Fetch it: git fetch"
            )
        if known[1] != artifact["tree"]:
            raise DigestMismatch(
                f"The tree of {commit[:12]} is {known[1][:12]}, but the submission names the tree "
                f"{artifact['tree'][:12]}. Fail the submission: interlock gate fail {self._task} "
                "GATE --note TEXT"
            )
        return [self._judged(name, checks, artifact) for name, checks in wanted.items()]

    def _digest(self, checks: list[Check]) -> str:
        scrub = self._rules.scrub if any(c.name == project.SCRUB for c in checks) else {}
        lists = [[list(v) if isinstance(v, tuple) else v for v in check] for check in checks]
        return digest(canonical([lists, scrub]))

    def _judged(self, gate: str, checks: list[Check], artifact: Answer) -> Answer:
        results = [self._result(check, artifact) for check in checks]
        failing = [found for found in results if not found["met"]]
        verdict: Literal["pass", "fail"] = "fail" if failing else "pass"
        fixes = dict.fromkeys(fix for found in failing for fix in found.pop("fix"))
        notes = []
        for found in results:
            shown = "" if found["met"] else f" (interlock evidence show {found['evidence']})"
            notes.append(f"{found['check']}: {found['why']}{shown}")
        note = f"Checked by interlock gate run{self._by}. {'; '.join(notes)}"
        self._call(
            GiveVerdict(
                self._task,
                gate,
                verdict,
                artifact["commit"],
                note[:MAX_NOTE_LENGTH],
                tuple(fixes),
                tuple(found["evidence"] for found in results),
                artifact["tree"],
                self._digest(checks),
            )
        )
        return {"gate": gate, "verdict": verdict, "checks": results}

    def _result(self, check: Check, artifact: Answer) -> Answer:
        """Run one check, and add its evidence."""
        words = check.command
        if not words:
            typed = f"interlock scrub{self._by}"
            named = ["--rules", self._file] if os.path.exists(self._file) else []
            # Without -P, Python would import a directory called interlock in the checkout.
            words = (sys.executable, "-P", "-m", "interlock", "scrub", *named)
        else:
            typed = words[2] if words[:2] == ("/bin/sh", "-c") else shlex.join(words)
        self._out.write(f"{check.name}: {typed}\n".encode())
        limits = evidence.Limits(time_s=check.time_limit)
        with (
            _checked_out(self._root, artifact["commit"]),
            evidence.record(
                words, limits, out=self._out, err=self._out, unstarted_too=True
            ) as recorded,
        ):
            payload = recorded.payload | {"task_id": self._task, "title": check.name}
            with open(recorded.output, "rb") as file:
                size = payload["output"]["size"]
                flow = attach(AddEvidence(payload), in_chunks(file), size)
                kept = run(flow, self._call)["evidence"]
            is_interrupted = payload.get("interrupted")
            if is_interrupted and payload.get("ended_by") != "time limit":
                raise KeyboardInterrupt  # after a signal, the run is recorded without a verdict
            why = _why_not(check, recorded, artifact)
            found = {
                "check": check.name,
                "met": why is None,
                "exit_code": payload["exit_code"],
                "evidence": kept["id"],
                "why": why or f"exited {payload['exit_code']}",
            }
            if why is None:
                return found
            # The fixes are the scrub's commands, then the check itself, which verifies them. An
            # interrupted scrub has no findings.
            fixes: list[str] = []
            if not check.command and not is_interrupted:
                with suppress(Refusal):
                    rules = scrub.rules_of(self._rules.scrub)
                    fixes = [finding.fix for finding in scrub.findings(os.getcwd(), rules)]
            short = [fix for fix in dict.fromkeys(fixes) if len(fix) <= MAX_FIX_LENGTH]
            return found | {"fix": [*short[:MAX_FIXES], typed]}


def _why_not(check: Check, recorded: evidence.Recorded, artifact: Answer) -> str | None:
    """Return why the run does not meet the check; None if it does."""
    payload = recorded.payload
    if recorded.unstarted is not None:
        return f"could not start: {recorded.unstarted}"
    if payload.get("interrupted"):
        return f"was ended by its {payload.get('ended_by', 'signal')}"
    if payload.get("tree") != artifact["tree"] or payload.get("dirty"):
        return "changed tracked files, so its result does not count for the submitted tree"
    with open(recorded.output, "rb") as file:
        text = file.read(MAX_SEARCHED_BYTES).decode(errors="replace")
    if check.meets(payload["exit_code"], text):
        return None
    if payload["exit_code"] != check.exit_code:
        return f"exited {payload['exit_code']}"
    return f"exited {payload['exit_code']}, but its output does not match {check.pattern!r}"


@contextmanager
def _checked_out(root: str, commit: str) -> Iterator[None]:
    """Change to a fresh checkout of the commit for the length of the block, then remove it."""
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
    done = run_git(root, "-c", f"core.hooksPath={os.devnull}", *words, patience_s=CHECKOUT_S)
    if done.returncode != 0:
        why = os.fsdecode(done.stderr).strip()[:300]
        raise NotFound(f"Cannot check out the submitted commit: {why}")
