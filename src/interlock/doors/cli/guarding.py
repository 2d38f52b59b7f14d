"""The commands of the guards: install the git hooks, and answer the hooks."""

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
    "Nobody in particular asks here, so every claim is another's; interlock run SENDER -- git {} "
    "acts as a sender. "
)
CANNOT_ASK = (
    "Interlock's guard cannot ask whose the files are, and so lets nothing through. {} Then try "
    "again; interlock doctor says what is wrong. git {} --no-verify goes by the guard."
)


@command("guard install [--undo]", help={"undo": "take them out again"})
def install(context: Context) -> Answer:
    """Put the git hooks in place that ask before a commit and a push.

    A commit must touch nothing that another holder has claimed; the setting guard says deny, warn
    or off. Which gate guards which remote and branch stands in interlock.toml.
    """
    from interlock.agents.guards import hooks

    return hooks.undo() if context.get("undo") else hooks.install()


@command(
    "guard check [PATH...]",
    help={"path": "a file; all that are staged if absent"},
    examples=("interlock guard check src/a.py",),
)
def check(context: Context) -> Answer | int:
    """Say whether files may be changed, or another holds them.

    Exit 1 when another holder's claim is on one of them. The pre-commit hook asks it.
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
            output.lines("Nothing is staged. Stage what you mean to commit, or name files.")
            return 0
    return found


@command("guard note")
def note(context: Context) -> Answer | int:
    """Report the files of the last commit, for the post-commit hook.

    A commit made with --no-verify is noticed so: the holders of the claims are told, and interlock
    doctor names it.
    """
    from interlock.agents.guards import commits
    from interlock.local.repository import name_here

    here = commits.root(".")
    made, repo = commits.committed(here), name_here(here)
    if made is None or repo is None:
        raise Usage("There is no commit here yet.")
    commit, paths = made
    credentials = _credentials(context)
    answers = [
        context.link.call(credentials, ReportCommit(commit, some, repo, here))
        for some in _batches(paths)
    ]
    found = answers[0] | {"crossed": [each for answer in answers for each in answer["crossed"]]}
    return found if found["crossed"] or context.json else 0


@command("guard push REMOTE URL", help={"remote": "its name", "url": "where it is"})
def push(context: Context) -> Answer:
    """Say whether git may push, for the pre-push hook.

    Reads the refs as git hands them to the hook. Exit 1 when a gate has not passed, or a commit
    that is not there yet touches what another holder has claimed.
    """
    from interlock.agents.guards import commits
    from interlock.local.repository import name_here

    here = evidence.standing()
    if here is None:
        raise Usage("This is no repository, and git calls this hook only in one.")
    root, repo = here.root, name_here(here.root)
    remote, url = context.values["remote"], context.values["url"]
    pushes = commits.pushes(read_text())
    with _refusing("push"):
        warned: list[Answer] = []
        sent = [each for each in pushes if not each.deletes]
        if sent and repo is not None:
            met = _answered(context, [CheckPaths(("./",), repo, root)], "push")
            new: dict[str, None] = {}
            if met["denied"] or met["warned"]:  # without any claim, git need not be asked
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
                        "No gate passes the deletion of a branch. Ask a holder of "
                        f"{guard.gate} what to do."
                    )
                    found = {"passed": False} | GatesNotPassed(why).as_dict()
                else:
                    # The gate judged the commit that an annotated tag points to.
                    artifact = evidence.artifact(each.local_oid) or (each.local_oid, None)
                    found = context.call_as_owner(CheckGate(guard.gate, *artifact))
                row = {"gate": guard.gate, "ref": each.remote_ref} | found
                (passed if found["passed"] else missing).append(row)
        if missing:
            message = " ".join(f"{need['ref']} on {remote}: {need['message']}" for need in missing)
            raise GatesNotPassed(f"This push is guarded. {message}", allowed=False, missing=missing)
        return {"allowed": True, "passed": passed} | ({"warned": warned} if warned else {})


def _answered(context: Context, requests: list[CheckPaths], what: str) -> Answer:
    """The answers of the node as one."""
    credentials = _credentials(context)
    answers = [context.link.call(credentials, request) for request in requests]
    found = next((answer for answer in answers if not answer["allowed"]), answers[0])
    for name in ("denied", "warned"):
        found[name] = [each for answer in answers for each in answer[name]]
    if not found["allowed"] and credentials.owner:
        found["message"] = NO_SENDER.format(what) + found["message"]
    return found


def _credentials(context: Context) -> Credentials:
    """Those of the sender if there is one, because its own claims do not count against it. Without
    a sender, every claim counts."""
    try:
        return context.credentials()
    except (NoIdentity, UnknownSender):
        if context.get("from") is not None:
            raise
        return context.credentials(owner_may=True)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Explain to a user of git who refuses and what to do, because the user did not call us."""
    try:
        yield
    except NotAvailable as trouble:
        message = CANNOT_ASK.format(trouble.message, what)
        raise type(trouble)(message, **trouble.members) from None


def _batches(names: list[str]) -> list[tuple[str, ...]]:
    """The names in groups that one request may contain; one empty group if there are none."""
    starts = range(0, len(names) or 1, MAX_FILES)
    return [tuple(names[start : start + MAX_FILES]) for start in starts]
