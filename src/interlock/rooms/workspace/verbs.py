"""The verbs of the workspace: settings, pause, overviews, client sessions, the log and its upkeep.

The node itself runs the verbs about the log, such as `VerifyLog` and `Backup` (`node.upkeep`). No
rule decides them. `Inspect` and `Maintain` are their permission checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from interlock.errors import Usage
from interlock.verbs import LazyModule
from interlock.verbs.answers import without_none
from interlock.verbs.types import (
    MAX_ROWS,
    AbsolutePath,
    Annotated,
    Duration,
    Files,
    Integer,
    Limit,
    Position,
    Query,
    Reason,
    Repository,
    Several,
    Worktree,
    one_line,
)
from interlock.verbs.verb import Tool, Verb

if TYPE_CHECKING:
    from interlock.rooms import answers, transaction
    from interlock.rooms.claims import guard
    from interlock.rooms.transaction import Transaction
    from interlock.rooms.workspace import events, overview
    from interlock.verbs.flows import Flow
else:
    events = LazyModule("interlock.rooms.workspace.events")
    overview = LazyModule("interlock.rooms.workspace.overview")
    transaction = LazyModule("interlock.rooms.transaction")
    guard = LazyModule("interlock.rooms.claims.guard")

WEEK_S = 7 * 86_400
MAX_WINDOW_BYTES = 4096

ENTRY = Integer(
    1,
    form="the position of an entry",
    metavar="SEQ",
    help="the entry's position in the log",
)

Step = Literal["start", "prompt", "edit", "tool", "busy", "stop", "rest", "idle", "end"]

Adapter = Annotated[str, one_line("A", "the adapter that reports the step", 64)]
Deadline = Annotated[
    int,
    Integer(
        0,
        form="a time of this machine's monotonic clock, in milliseconds",
        metavar="MS",
        help="when the caller stops waiting, in milliseconds of this machine's monotonic clock",
    ),
]
Entry = Annotated[int, ENTRY]
Entries = Annotated[tuple[int, ...], Several(ENTRY, 1, MAX_ROWS)]
Size = Annotated[
    int,
    Integer(
        1,
        form="a number of entries",
        metavar="SIZE",
        help="an earlier size of the log, in entries",
    ),
]


# --- settings and pause


class ChangeSetting(
    Verb,
    name="settings",
    http="POST /v1/settings",
    method="change_setting",
    scope="admin",
    owner=True,
    help={"name": "the setting", "value": "the new value"},
):
    """Change a setting of the workspace."""

    name: str
    value: str

    def decide(self, tx: Transaction) -> answers.SettingChanged:
        from interlock.rooms.workspace.settings import SETTINGS

        if self.name not in SETTINGS:
            raise Usage(
                f"There is no setting {self.name[:80]!r}. Give one of {', '.join(SETTINGS)}.",
                settings=list(SETTINGS),
            )
        known = SETTINGS[self.name]
        if not known.check(self.value):
            raise Usage(f"{self.name} is {self.value[:80]!r}. Give {known.allowed}.")
        if tx.setting(self.name) != self.value:
            tx.append("setting_changed", {"name": self.name, "value": self.value})
        return {"name": self.name, "value": self.value}


class ListSettings(
    Verb,
    name="settings list",
    http="GET /v1/settings",
    method="settings",
    read_only=True,
    open=True,
):
    """List the settings of the workspace, with their values and defaults."""

    def decide(self, tx: Transaction) -> answers.Settings:
        from interlock.rooms.workspace.settings import SETTINGS

        return {
            "settings": [
                {"name": name, "value": tx.setting(name), "default": known.default}
                for name, known in SETTINGS.items()
            ]
        }


class Pause(
    Verb,
    http="POST /v1/pause",
    cli="pause [--reason R]",
    method="pause",
    scope="admin",
    owner=True,
    when_paused=True,
):
    """Pause the workspace: refuse writes until you resume it.

    Read-only requests still work, and you can still revoke tokens and connections."""

    reason: Reason | None = None

    def decide(self, tx: Transaction) -> answers.Paused:
        tx.append("workspace_paused", without_none(reason=self.reason))
        return without_none(paused=True, reason=self.reason)


class Resume(
    Verb,
    http="POST /v1/resume",
    cli="resume",
    method="resume",
    scope="admin",
    owner=True,
    when_paused=True,
):
    """Resume the workspace: allow writes again."""

    def decide(self, tx: Transaction) -> answers.Resumed:
        if transaction.is_paused(tx.state):
            tx.append("workspace_resumed", {})
        return {"paused": False}


# --- overviews


class Whoami(
    Verb,
    http="GET /v1/whoami",
    cli="whoami",
    mcp=Tool(
        "whoami",
        "Show your identity, your open mail, and the claims and tasks you hold. Call first, and "
        "again after compaction.",
    ),
    method="whoami",
    read_only=True,
):
    """Show your identity and your open work.

    The answer has your name as a sender, the scopes of your token, the number of your open
    messages, your claims, your tasks, and the verdicts that you must give."""

    def decide(self, tx: Transaction) -> answers.Whoami:
        return overview.whoami(tx)


class ShowStatus(
    Verb,
    name="status",
    http="GET /v1/status",
    method="status",
    read_only=True,
    open=True,
):
    """Show the status of the workspace.

    The answer says whether the workspace is paused, and counts its agents, messages, claims, tasks,
    blockers and refusals."""

    def decide(self, tx: Transaction) -> answers.Status:
        return overview.status(tx)


class Review(
    Verb,
    http="GET /v1/review",
    cli="review [--since D]",
    method="review",
    read_only=True,
    owner=True,
    help={"since_s": "how far back the review goes"},
):
    """List the matters that need a person, each with the next step.

    The answer lists due verdicts, blockers, unanswered asks, expired mail, mail to unregistered
    names, expired leases and refused requests. Only people and admins may call it."""

    since_s: Duration = WEEK_S

    def decide(self, tx: Transaction) -> answers.Review:
        return overview.review(tx, self.since_s)


# --- sessions of clients


class Attend(
    Verb,
    name="attend",
    http="POST /v1/attend",
    method="attend step adapter",
    read_only=True,
    help={
        "step": "the step that the client's session has reached",
        "paths": "with step edit: the files to change",
        "repo": "with step edit: the repository of the files",
        "worktree": "with step edit: the worktree of the files",
        "held": "how many times in a row Interlock kept the client from stopping",
        "wait_s": "with step idle: wait this long for mail that may wake the client",
        "window": "where the client runs, for presence",
        "unbound": "the client's shell and tools do not know its session",
    },
):
    """Report the step of a client's session, and get the news for it.

    The answer has the news for this step, and the log records that this adapter has shown it. At
    the steps busy and rest the answer has no news. The step rest means that the client has already
    stopped. The step end releases the claims of the session.

    The server uses window and until_ms only from clients on its own machine. After until_ms it
    does not count any message as shown."""

    step: Step
    adapter: Adapter
    paths: Files = ()
    repo: Repository | None = None
    worktree: Worktree | None = None
    held: int = 0
    wait_s: Duration | None = None
    window: dict[str, Any] | None = None
    until_ms: Deadline | None = None
    unbound: bool = False

    def checked(self) -> Attend:
        if self.wait_s is not None and self.step != "idle":
            raise Usage(f"step is {self.step}. Give wait only with step idle.", member="wait_s")
        if self.step == "edit" and self.repo is None:
            raise Usage("step is edit. Give the repository of the files too.", member="repo")
        if self.step != "edit" and self.repo is not None:
            raise Usage(f"step is {self.step}. Give repo only with step edit.", member="repo")
        if self.window is not None:
            from interlock.log.encoding import canonical

            try:
                size = len(canonical(self.window))
            except (TypeError, UnicodeEncodeError):
                raise Usage("window is not valid JSON in UTF-8.", member="window") from None
            if size > MAX_WINDOW_BYTES:
                raise Usage(
                    f"window has {size} bytes, and at most {MAX_WINDOW_BYTES} are allowed.",
                    member="window",
                )
        if self.paths:
            guard.refuse_outside(self.paths)
        return self

    def decide(self, tx: Transaction) -> answers.Attended:
        return overview.attend(tx, self)


# --- the log


class ListEvents(
    Verb,
    name="events",
    http="GET /v1/audit/events",
    method="events",
    read_only=True,
    open=True,
):
    """List the events after a position that concern you, oldest first.

    Mail concerns its sender and its recipients. Refusals and tokens concern admins. Most other
    events concern every caller. If more is true in the answer, call again after the position
    reached."""

    after: Position = 0
    limit: Limit = 100

    def decide(self, tx: Transaction) -> answers.Events:
        caller = tx.caller
        viewer = events.viewer_names(caller.sender, caller.agent, caller.scopes)
        found: list[Any] = []
        reached = self.after
        for scanned, fact in enumerate(tx.store.facts(self.after)):
            if len(found) == self.limit or scanned == events.SCANNED_AT_ONCE:
                return {"events": found, "reached": reached, "more": True}
            reached = fact.seq
            event = events.event(tx.state, fact)
            if caller.owner or event.concerns(viewer):
                found.append(event.data)
        return {"events": found, "reached": reached, "more": False}


class ShowLog(
    Verb,
    name="audit show",
    http="GET /v1/audit/log",
    method="log",
    help={"kind": "only facts of this kind"},
    maintenance=True,
):
    """Show the facts of the log after a position.

    The owner sees every fact. Other callers see the facts that concern them. One call reads a part
    of the log. If the answer has next, call again after that position."""

    after: Position = 0
    limit: Limit = 50
    kind: Query | None = None

    def decide(self, tx: Transaction) -> answers.Log:
        raise NotImplementedError


def pages(request: ShowLog) -> Flow[Any]:
    """A flow that reads the log page by page, until it has as many facts as the request wants."""
    answer = yield request
    facts = list(answer["facts"])
    while len(facts) < request.limit and "next" in answer:
        answer = yield request._replace(after=answer["next"], limit=request.limit - len(facts))
        facts += answer["facts"]
    return answer | {"facts": facts}


class VerifyLog(
    Verb,
    name="audit verify",
    http="POST /v1/audit/verify",
    http_also=("GET /v1/audit/verify",),
    method="verify",
    unbounded=True,
    help={"checkpoint": "a checkpoint that you saved"},
    maintenance=True,
):
    """Verify the whole log, and name the first damaged entry.

    Exit 1: the log is damaged."""

    checkpoint: str | None = None

    def decide(self, tx: Transaction) -> answers.Verified | answers.Damaged:
        raise NotImplementedError


class SignCheckpoint(
    Verb,
    http="GET /v1/audit/checkpoint",
    cli="audit checkpoint",
    examples=("interlock audit checkpoint > interlock.checkpoint",),
    method="checkpoint",
    unbounded=True,
    maintenance=True,
):
    """Sign a checkpoint of the log: its size and its root hash.

    Store the checkpoint on another machine. With it, a verification finds any later change to the
    entries before it."""

    def decide(self, tx: Transaction) -> answers.Checkpoint:
        raise NotImplementedError


class Prove(
    Verb,
    http="GET /v1/audit/proof",
    cli="audit prove (SEQ | --since SIZE)",
    examples=("interlock audit prove 42 --json > proof.json",),
    method="prove",
    exactly_one=(("seq", "since"),),
    unbounded=True,
    maintenance=True,
):
    """Prove that an entry is in the log, or that the log only grew."""

    seq: Entry | None = None
    since: Size | None = None

    def decide(self, tx: Transaction) -> answers.Inclusion | answers.Growth:
        raise NotImplementedError


class ProveMany(
    Verb,
    name="audit prove",
    http="POST /v1/audit/proofs",
    method="prove_many",
    unbounded=True,
    maintenance=True,
):
    """Prove that several entries are in the log, against one checkpoint."""

    seqs: Entries

    def decide(self, tx: Transaction) -> answers.Proofs:
        raise NotImplementedError


class ExportLog(
    Verb,
    name="audit export",
    http="POST /v1/audit/export",
    method="export",
    local=True,
    unbounded=True,
    help={"file": "the new file"},
    maintenance=True,
):
    """Write the whole log into a new file."""

    file: AbsolutePath

    def decide(self, tx: Transaction) -> answers.Exported:
        raise NotImplementedError


class Inspect(Verb, name="audit", read_only=True, open=True):
    """Check that the caller may read the log."""

    def decide(self, tx: Transaction) -> dict[str, Any]:
        """Allow it: the node has already checked the caller."""
        return {}


# --- upkeep


class Examine(
    Verb,
    name="doctor",
    http="GET /v1/doctor",
    method="doctor",
    unbounded=True,
    maintenance=True,
):
    """Find problems of the workspace, each with the command that solves it.

    Problems with the smallest remedy come first. Exit 0: there are no problems. Exit 1: there are
    problems. The page docs/doctor.md describes each check."""

    def decide(self, tx: Transaction) -> answers.Examined:
        raise NotImplementedError


class ShowStorage(Verb, name="storage", http="GET /v1/storage", method="storage", maintenance=True):
    """Show the storage engine of the log, its entries and its bytes.

    Only the owner sees the directory and the URL of the log."""

    def decide(self, tx: Transaction) -> answers.Storage:
        raise NotImplementedError


class Backup(
    Verb,
    cli="backup FILE",
    http="POST /v1/backup",
    method="backup",
    local=True,
    unbounded=True,
    help={"file": "the new file"},
    maintenance=True,
):
    """Copy the workspace into a new file, while it is in use.

    The copy does not include credentials and signing keys."""

    file: AbsolutePath

    def decide(self, tx: Transaction) -> answers.BackedUp:
        raise NotImplementedError


class Restore(
    Verb,
    cli="restore FILE",
    http="POST /v1/restore",
    method="restore",
    local=True,
    unbounded=True,
    help={"file": "a file that backup wrote"},
    maintenance=True,
):
    """Replace the log with a backup, as a new epoch.

    Restore suspends every token. To reaffirm all of them: interlock token reaffirm --all"""

    file: AbsolutePath

    def decide(self, tx: Transaction) -> answers.Restored:
        raise NotImplementedError


class Rebuild(
    Verb,
    http="POST /v1/rebuild",
    cli="rebuild",
    method="rebuild",
    local=True,
    unbounded=True,
    maintenance=True,
):
    """Rebuild the derived tables from the log, and compare."""

    def decide(self, tx: Transaction) -> answers.Rebuilt:
        raise NotImplementedError


class Maintain(
    Verb,
    name="backup, restore, rebuild or export",
    scope="admin",
    read_only=True,
    owner=True,
):
    """Check that the caller may back up, restore, rebuild or export."""

    def decide(self, tx: Transaction) -> dict[str, Any]:
        """Allow it: the node has already checked the caller."""
        return {}
