"""Commands about guards: the git hook, and what it asks."""

import os
from typing import TYPE_CHECKING

from interlock import evidence
from interlock.contracts import acts
from interlock.contracts.acts import MOST_FILES
from interlock.doors.cli import output
from interlock.doors.cli.context import Answer, Context, read_text
from interlock.errors import GatesNotPassed, Usage

if TYPE_CHECKING:
    from interlock.guards import Push


NOBODY = (
    "Nobody in particular asks here, so every claim is another's; interlock run SENDER -- git "
    "commit acts as a sender. "
)


def install(context: Context) -> Answer:
    from interlock import guards

    return dict(guards.undo() if context.get("undo") else guards.install())


def check(context: Context) -> Answer | int:
    """Whether another holder's claim is on any of these files, or of those that are staged. A hook
    that has nothing to say says nothing; git tells it which index is meant."""
    from interlock import guards
    from interlock.repository import name_here

    here = guards.root(".")
    paths = guards.named(here, context.get("path", [])) or guards.staged(here)
    repo = name_here(here)
    assert repo is not None
    found = _together(
        [context.call_as_somebody(acts.CheckPaths(some, repo, here)) for some in _some(paths)]
    )
    if not found["allowed"] and context.is_nobody:
        found["message"] = NOBODY + found["message"]
    if found["allowed"] and not found["warned"] and not context.json:
        if "path" not in context.values and "GIT_INDEX_FILE" in os.environ:
            return 0
        if not paths:
            output.lines("Nothing is staged. Stage what you mean to commit, or name files.")
            return 0
    return found


def note(context: Context) -> Answer | int:
    """What the post-commit hook says: what was committed, whoever was asked before."""
    from interlock import guards
    from interlock.repository import name_here

    here = guards.root(".")
    made, repo = guards.committed(here), name_here(here)
    if made is None or repo is None:
        raise Usage("There is no commit here yet.")
    commit, paths = made
    answers = [
        context.call_as_somebody(acts.ReportCommit(commit, some, repo, here))
        for some in _some(paths)
    ]
    found = answers[0] | {"crossed": [each for answer in answers for each in answer["crossed"]]}
    return found if found["crossed"] or context.json else 0


def _some(paths: list[str]) -> list[tuple[str, ...]]:
    """As many files at a time as may be asked about; none is asked about too."""
    starts = range(0, len(paths) or 1, MOST_FILES)
    return [tuple(paths[start : start + MOST_FILES]) for start in starts]


def _together(answers: list[Answer]) -> Answer:
    found = next((answer for answer in answers if not answer["allowed"]), answers[0])
    for name in ("denied", "warned"):
        found[name] = [each for answer in answers for each in answer[name]]
    return found


def push(context: Context) -> Answer:
    """Whether every gate that guards what is pushed has passed it. A guard that cannot be asked
    lets nothing through."""
    from interlock import guards

    here = evidence.standing()
    if here is None:
        raise Usage("This is no repository, and git calls this hook only in one.")
    remote, url = context.values["remote"], context.values["url"]
    passed: list[Answer] = []
    missing: list[Answer] = []
    for push in guards.pushes(read_text()):
        for guard in guards.covering(here.root, remote, url, push):
            found = _asked(context, guard.gate, push)
            (passed if found["passed"] else missing).append(
                {"gate": guard.gate, "ref": push.remote_ref} | found
            )
    if not missing:
        return {"allowed": True, "passed": passed}
    told = " ".join(f"{need['ref']} on {remote}: {need['message']}" for need in missing)
    raise GatesNotPassed(f"This push is guarded. {told}", allowed=False, missing=missing)


def _asked(context: Context, gate: str, push: "Push") -> Answer:
    if push.deletes:
        why = f"No gate passes the deletion of a branch. Ask a holder of {gate} what to do."
        return {"passed": False} | GatesNotPassed(why).as_dict()
    # What an annotated tag points to is what was judged.
    artifact = evidence.artifact(push.local_oid) or (push.local_oid, None)
    return context.call_as_owner(acts.CheckGate(gate, *artifact))
