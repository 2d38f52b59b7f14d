"""The commands `guard`: install the git hooks, and run their checks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from interlock import evidence
from interlock.doors.cli import output
from interlock.doors.cli.context import Context, read_text
from interlock.doors.cli.grammar import command
from interlock.errors import GatesNotPassed, NoIdentity, NotAvailable, UnknownSender, Usage
from interlock.rooms.claims.verbs import CheckPaths, ReportCommit
from interlock.rooms.work.verbs import CheckGate
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.types import MAX_FILES

NO_SENDER = (
    "No sender is selected, so the guard checked every claim. To act as a sender: interlock run "
    "SENDER -- git {}. "
)
CANNOT_CHECK = (
    "Interlock's guard cannot check the claims, so it refuses this {what}. {why} Then try again. "
    "To find the cause: interlock doctor. To skip the guard: git {what} --no-verify"
)


@command("guard install [--undo]", help={"undo": "remove the hooks"})
def install(context: Context) -> Answer:
    """Install git hooks that check each commit and push.

    The hooks refuse a commit that touches files claimed by another holder. The setting guard
    (deny, warn or off) changes that. interlock.toml names the gate that each remote and branch
    needs before a push.
    """
    from interlock.agents.guards import hooks

    return hooks.undo() if context.get("undo") else hooks.install()


@command(
    "guard check [PATH...]",
    help={"path": "the files to check (default: all staged files)"},
    examples=("interlock guard check src/a.py",),
)
def check(context: Context) -> Answer | int:
    """Check whether another holder has claimed files.

    Exit 1: another holder has claimed one of them. The pre-commit hook runs this command.
    """
    from interlock.agents.guards import commits
    from interlock.local.repository import name_here

    here = commits.root(".")
    paths = commits.named(here, context.get("path", [])) or commits.staged(here)
    repo = name_here(here)
    assert repo is not None
    is_hook = "path" not in context.values and "GIT_INDEX_FILE" in os.environ
    with _refusing("commit") if is_hook else nullcontext():
        requests = [CheckPaths(some, repo, here) for some in _batches(paths)]
        found = _answered(context, requests, "commit")
    if found["allowed"] and not found["warned"] and not context.json:
        if is_hook:
            return 0
        if not paths:
            output.lines("No file is staged. Stage files with git add, or name them here.")
            return 0
    return found


@command("guard note")
def note(context: Context) -> Answer | int:
    """Report the files of the last commit, for the post-commit hook.

    A commit with --no-verify skips the guard. This command then tells the holders of the claims,
    and interlock doctor lists the commit.
    """
    from interlock.agents.guards import commits
    from interlock.local.repository import name_here

    here = commits.root(".")
    made, repo = commits.committed(here), name_here(here)
    if made is None or repo is None:
        raise Usage("This repository has no commit yet. Run the command after the first commit.")
    commit, paths = made
    credentials = _credentials(context)
    answers = [
        context.link.call(credentials, ReportCommit(commit, some, repo, here))
        for some in _batches(paths)
    ]
    found = answers[0] | {"crossed": [each for answer in answers for each in answer["crossed"]]}
    return found if found["crossed"] or context.json else 0


@command("guard push REMOTE URL", help={"remote": "the remote's name", "url": "the remote's URL"})
def push(context: Context) -> Answer:
    """Check whether git may push, for the pre-push hook.

    Reads the refs from standard input, as git passes them to the hook. Exit 1: a gate has not
    passed, or a commit that the remote does not have touches files claimed by another holder.
    """
    from interlock.agents.guards import commits
    from interlock.local.repository import name_here

    here = evidence.standing()
    if here is None:
        raise Usage("This directory is not in a git repository. Run the command in one.")
    root, repo = here.root, name_here(here.root)
    remote, url = context.values["remote"], context.values["url"]
    pushes = commits.pushes(read_text())
    with _refusing("push"):
        warned: list[Answer] = []
        sent = [each for each in pushes if not each.deletes]
        if sent and repo is not None:
            met = _answered(context, [CheckPaths(("./",), repo, root)], "push")
            new: dict[str, None] = {}
            if met["denied"] or met["warned"]:  # without claims, skip the slow git commands
                for each in sent:
                    new |= dict.fromkeys(commits.unpushed(root, remote, url, each))
            if new:
                requests = [CheckPaths((), repo, None, some) for some in _batches(list(new))]
                crossed = _answered(context, requests, "push")
                if not crossed["allowed"]:
                    return crossed
                warned = crossed["warned"]
        passed: list[Answer] = []
        missing: list[Answer] = []
        for each in pushes:
            for guard in commits.covering(root, remote, url, each):
                if each.deletes:
                    why = (
                        "A gate cannot pass the deletion of a branch. Ask a holder of the gate "
                        f"{guard.gate}."
                    )
                    found = {"passed": False} | GatesNotPassed(why).as_dict()
                else:
                    # The verdict is on the commit that an annotated tag points to.
                    artifact = evidence.artifact(each.local_oid) or (each.local_oid, None)
                    found = context.call_as_owner(CheckGate(guard.gate, *artifact))
                row = {"gate": guard.gate, "ref": each.remote_ref} | found
                (passed if found["passed"] else missing).append(row)
        if missing:
            message = " ".join(f"{need['ref']} on {remote}: {need['message']}" for need in missing)
            raise GatesNotPassed(
                f"This push needs a gate. {message}", allowed=False, missing=missing
            )
        return {"allowed": True, "passed": passed} | ({"warned": warned} if warned else {})


def _answered(context: Context, requests: list[CheckPaths], what: str) -> Answer:
    """Return the node's answers, merged into one."""
    credentials = _credentials(context)
    answers = [context.link.call(credentials, request) for request in requests]
    found = next((answer for answer in answers if not answer["allowed"]), answers[0])
    for name in ("denied", "warned"):
        found[name] = [each for answer in answers for each in answer[name]]
    if not found["allowed"] and credentials.owner:
        found["message"] = NO_SENDER.format(what) + found["message"]
    return found


def _credentials(context: Context) -> Credentials:
    """Return the sender's credentials, so that its own claims do not count against it. Without a
    sender, return the owner's: every claim counts."""
    try:
        return context.credentials()
    except (NoIdentity, UnknownSender):
        if context.get("from") is not None:
            raise
        return context.credentials(owner_may=True)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Tell a user of git that Interlock refuses, and what to do: the user ran git only."""
    try:
        yield
    except NotAvailable as trouble:
        message = CANNOT_CHECK.format(why=trouble.message, what=what)
        raise type(trouble)(message, **trouble.members) from None


def _batches(names: list[str]) -> list[tuple[str, ...]]:
    """Split the names into groups that fit into one request. No names make one empty group."""
    starts = range(0, len(names) or 1, MAX_FILES)
    return [tuple(names[start : start + MAX_FILES]) for start in starts]
