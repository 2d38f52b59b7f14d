"""Automatic gates: the checks of interlock.toml on what is submitted, and the scrub."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from interlock import evidence, project
from interlock.contracts import acts
from interlock.contracts.uploads import attached, taken
from interlock.doors.cli import output
from interlock.doors.cli.context import Answer, Context
from interlock.doors.cli.proving import file_chunks
from interlock.errors import GatesNotPassed, NotFound, Usage
from interlock.project import Check

LOOKED_AT = 64 << 20


def run(context: Context) -> Answer:
    """Runs the checks of each gate on the submitted commit. Each leaves evidence, and each gate a
    verdict."""
    root = _root()
    task = context.values["task"]
    by_gate = _wanted(context, root)
    artifacts = [context.call(acts.PrepareVerdict(task, gate))["artifact"] for gate in by_gate]
    with _checked_out(root, artifacts[0]):
        judged = [
            _judged(context, root, gate, checks, artifacts[0]) for gate, checks in by_gate.items()
        ]
    failed = [found["gate"] for found in judged if found["verdict"] == "fail"]
    if not failed:
        return {"task": task, "gates": judged}
    refusal = GatesNotPassed(f"Failed: {', '.join(failed)}. Its worker was told.")
    return {"task": task, "gates": judged} | refusal.as_dict()


def _root() -> str:
    here = evidence.standing()
    if here is None:
        raise Usage("Stand in the repository whose checks are to be run.")
    return here.root


def _wanted(context: Context, root: str) -> dict[str, list[Check]]:
    """The checks of the task's gates, or of the one that was named."""
    shown = context.call(acts.ShowTask(context.values["task"]))["task"]
    gates = [gate["gate"] for gate in shown["gates"]]
    if (named := context.get("gate")) is not None:
        gates = [gate for gate in gates if gate == named] or [named]
    checks = project.load(root).checks
    shipped = Check(project.SCRUB, project.SCRUB)
    if all(check.name != shipped.name for check in checks):
        checks = (*checks, shipped)
    found = {gate: [check for check in checks if check.gate == gate] for gate in gates}
    found = {gate: some for gate, some in found.items() if some}
    if not found:
        raise Usage(
            f"No check in {project.FILE} decides a gate of {shown['id']} "
            f"({', '.join(gates) or 'it has none'}). Write one: [checks.{(gates or ['NAME'])[0]}] "
            'with command = "make test"'
        )
    return found


@contextmanager
def _checked_out(root: str, artifact: Answer) -> Iterator[None]:
    """Stands where exactly the submitted tree lies: here, where it is clean and the same, or in a
    worktree of its own that is gone afterwards."""
    here = evidence.standing(root)
    before = os.getcwd()
    if here is not None and not here.dirty and here.tree == artifact["tree"]:
        try:
            os.chdir(root)
            yield
        finally:
            os.chdir(before)
        return
    with tempfile.TemporaryDirectory(prefix="interlock-check-") as own:
        place = os.path.join(own, os.path.basename(root) or "tree")
        _git(root, "worktree", "add", "--quiet", "--detach", place, artifact["commit"])
        try:
            os.chdir(place)
            yield
        finally:
            os.chdir(before)
            _git(root, "worktree", "remove", "--force", place)


def _git(root: str, *words: str) -> None:
    done = subprocess.run(  # noqa: S603 - words of ours, no shell
        ["git", "-C", root, *words],  # noqa: S607 - the user's own git
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NotFound(
            f"What is submitted cannot be checked out here: {done.stderr.strip()[:300]} Fetch it "
            "first."
        )


def _judged(
    context: Context, root: str, gate: str, checks: list[Check], artifact: Answer
) -> Answer:
    results = [_result(context, root, check) for check in checks]
    failing = [check for check, met in zip(checks, results, strict=True) if not met["met"]]
    note = "; ".join(f"{found['check']}: {found['why']}" for found in results)
    verdict = "fail" if failing else "pass"
    context.call(
        acts.GiveVerdict(
            context.values["task"],
            gate,
            verdict,
            artifact["commit"],
            f"Checked by interlock gate run. {note}"[:4000],
            tuple(_line(check) for check in failing),
            tuple(found["evidence"] for found in results),
        )
    )
    return {"gate": gate, "verdict": verdict, "checks": results}


def _line(check: Check) -> str:
    """The check as its worker would type it."""
    words = check.command
    if not words:
        return "interlock scrub"
    return words[2] if words[:2] == ("/bin/sh", "-c") else shlex.join(words)


def _result(context: Context, root: str, check: Check) -> Answer:
    """Runs one check, and keeps what came of it."""
    limits = evidence.Limits(time_s=check.time_limit)
    output.remark(f"{check.name}: {_line(check)}")
    try:
        with evidence.record(
            _command(check, root), limits, out=sys.stderr.buffer, err=sys.stderr.buffer
        ) as recorded:
            payload = recorded.payload | {"task_id": context.values["task"], "title": check.name}
            size = payload["output"]["size"]
            steps = attached(acts.AddEvidence(payload), file_chunks(recorded.output), size)
            kept = taken(steps, context.call)["evidence"]
            met = check.meets(payload["exit_code"], _text(recorded.output))
    except evidence.NotStarted as trouble:
        raise Usage(f"The check {check.name} cannot be run: {trouble}.") from None
    met = met and not payload.get("interrupted", False)
    return {
        "check": check.name,
        "met": met,
        "exit_code": payload["exit_code"],
        "evidence": kept["id"],
        "why": _why(check, payload, met=met),
    }


def _command(check: Check, root: str) -> list[str]:
    if check.command:
        return list(check.command)
    rules = os.path.join(root, project.FILE)
    named = ["--rules", rules] if os.path.exists(rules) else []
    # Without -P a directory called interlock in what is judged would be taken for us.
    return [sys.executable, "-P", "-m", "interlock", "scrub", *named]


def _text(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(LOOKED_AT).decode(errors="replace")


def _why(check: Check, payload: Answer, *, met: bool) -> str:
    if payload.get("interrupted"):
        return f"was ended ({payload.get('ended_by', 'interrupted')})"
    if met or payload["exit_code"] != check.exit_code:
        return f"exited {payload['exit_code']}"
    return f"exited {payload['exit_code']}, and its output lacks {check.pattern!r}"


def scrub(context: Context) -> Answer:
    """What keeps this repository from being opened to the public."""
    from interlock.scrub import findings, rules_of

    root = _root()
    rules = rules_of(_rules(context, root).scrub)
    found = [finding.view() for finding in findings(root, rules)]
    if not found:
        return {"clean": True, "findings": []}
    many = "1 finding" if len(found) == 1 else f"{len(found)} findings"
    refusal = GatesNotPassed(f"{many}: it cannot be opened to the public yet.")
    return {"clean": False, "findings": found} | refusal.as_dict()


def _rules(context: Context, root: str) -> project.Project:
    if (path := context.get("rules")) is None:
        return project.load(root)
    try:
        with open(path, "rb") as file:
            return project.decode(file.read(project.LARGEST + 1), path)
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
