"""What may be asked of the node: one immutable record per verb, the same for every door.

Times to live are in seconds. Token hashes come with the act, because the rulebook has no
randomness to make a token from.
"""

from typing import Any, NamedTuple

# So many files are asked about at once.
MOST_FILES = 10_000


class Credentials(NamedTuple):
    """What a caller shows. `claimed` is the sender it says it is, which decides nothing and must
    not contradict the token; `owner` is set only by a door that may write the file itself;
    `seen` is the last position of the log that it was told of, by whichever node; `audience` is
    the address at which the token was shown, where that was over HTTP; `peer` the address of
    whoever asks from another machine, which decides nothing."""

    token: str | None = None
    session: str | None = None
    claimed: str | None = None
    owner: bool = False
    seen: int = 0
    audience: str | None = None
    peer: str | None = None


# --- the workspace


class ChangeSetting(NamedTuple):
    name: str
    value: str


class ListSettings(NamedTuple):
    pass


class Pause(NamedTuple):
    reason: str | None = None


class Resume(NamedTuple):
    pass


class ShowStatus(NamedTuple):
    pass


class Review(NamedTuple):
    since_s: int = 7 * 86_400


# --- identity


class Join(NamedTuple):
    name: str
    surface: str | None = None
    kind: str | None = None
    label: str | None = None
    scopes: tuple[str, ...] = ()
    token_hash: str = ""


class CreateGroup(NamedTuple):
    name: str
    members: tuple[str, ...] = ()


class ListGroups(NamedTuple):
    pass


class MintToken(NamedTuple):
    sender: str
    label: str | None = None
    scopes: tuple[str, ...] = ()
    ttl_s: int | None = None
    token_hash: str = ""


class RotateToken(NamedTuple):
    id: str | None = None
    sender: str | None = None
    token_hash: str = ""


class RevokeToken(NamedTuple):
    id: str | None = None
    sender: str | None = None


class ReaffirmTokens(NamedTuple):
    id: str | None = None
    sender: str | None = None


class LabelToken(NamedTuple):
    id: str
    label: str


class ImportTokens(NamedTuple):
    """Tokens that another bus knows, by their hashes: what would become of each or, with `apply`,
    what does. `map` says whose those of a label are, whatever their rows say."""

    rows: tuple[dict[str, Any], ...]
    map: dict[str, str] | None = None
    apply: bool = False


class ListTokens(NamedTuple):
    pass


class ShowToken(NamedTuple):
    id: str


class IdentifyToken(NamedTuple):
    token_hash: str


class Whoami(NamedTuple):
    pass


class ListAgents(NamedTuple):
    name: str | None = None


class Mute(NamedTuple):
    """Lets nothing wake a name, the caller's own if absent, for a time or until told otherwise."""

    name: str | None = None
    ttl_s: int | None = None
    off: bool = False


# --- people, and what they let act for them


class Invite(NamedTuple):
    """Lets whoever holds the code join as a person, or as a surface on another machine. `own` are
    the agents that the person will own. Whoever is not known yet is a person."""

    name: str
    surface: str | None = None
    own: tuple[str, ...] = ()
    kind: str | None = None
    ttl_s: int | None = None
    code_hash: str = ""


class AcceptInvitation(NamedTuple):
    """Joins by an invitation, with a token that the one who joins has made."""

    code: str
    token_hash: str = ""


class ListConnections(NamedTuple):
    pass


class NameConnection(NamedTuple):
    id: str
    name: str


class RevokeConnection(NamedTuple):
    id: str


class ShowInvitation(NamedTuple):
    code: str


class Enrol(NamedTuple):
    """Joins by an invitation as a person who signs in with a password from then on."""

    code: str
    verifier: str
    token_hash: str
    label: str | None = None


class SignIn(NamedTuple):
    """`verifier` is what the password gives under the workspace's key; `token_hash` is of the
    token that the browser keeps."""

    name: str
    verifier: str
    token_hash: str
    label: str | None = None


class SignOut(NamedTuple):
    pass


class ShowPerson(NamedTuple):
    pass


class GrantConnection(NamedTuple):
    """A person lets a client act as one of their senders: `surface` of `agent`, which must not be
    there yet where it is said to be `new`."""

    agent: str
    surface: str | None
    scopes: tuple[str, ...]
    client: str
    client_name: str
    resource: str
    redirect_uri: str
    challenge: str
    code_hash: str
    name: str | None = None
    new: bool = False


class FindGrant(NamedTuple):
    code: str


class OpenConnection(NamedTuple):
    code: str
    client: str
    token_hash: str
    refresh_hash: str


class FindConnection(NamedTuple):
    """The connection that a refresh token, or an access token, is of."""

    secret: str


class RefreshConnection(NamedTuple):
    refresh: str
    client: str
    token_hash: str
    refresh_hash: str


class CloseConnection(NamedTuple):
    """Ends a connection, by a token of it that its client gives back."""

    secret: str
    client: str


class ReportRefusal(NamedTuple):
    """A door refused somebody on the way in: `reason` is one of `contracts.intrusions`."""

    reason: str
    digest: str
    connection: str | None = None


class StartSession(NamedTuple):
    id: str


class EndSession(NamedTuple):
    id: str


class FindSession(NamedTuple):
    id: str


# --- mail


class SendMessage(NamedTuple):
    to: str
    type: str
    payload: dict[str, Any]
    subject: str | None = None
    thread: str | None = None
    reply_to: str | None = None
    priority: str = "normal"
    key: str | None = None
    ttl_s: int | None = None
    wake: bool | None = None
    sha256: str = ""
    size: int = 0
    upload: str | None = None


class PutChunk(NamedTuple):
    """One chunk of a body too large to stand in a request, of `size` bytes in all. The first is
    put without an `upload`, and its answer names it."""

    data: bytes
    size: int
    number: int = 0
    upload: str | None = None


class DropUpload(NamedTuple):
    upload: str


class Ask(NamedTuple):
    """Sends an ask and waits for its first answer."""

    to: str
    question: str
    options: tuple[str, ...] = ()
    wait_s: int = 20
    timeout_s: int | None = None
    key: str | None = None


class AnswerAsk(NamedTuple):
    message: str
    text: str
    key: str | None = None


class FindAnswer(NamedTuple):
    message: str


class ListInbox(NamedTuple):
    which: str = "open"
    limit: int = 100
    after: int = 0
    adapter: str | None = None
    wait_s: int | None = None


class ListMail(NamedTuple):
    """The newest messages of everybody, or the one that is named, for the person whose workspace
    it is."""

    limit: int = 50
    message: str | None = None


class ReadMessage(NamedTuple):
    message: str
    start: int | None = None
    stop: int | None = None


class AckMessages(NamedTuple):
    messages: tuple[str, ...]
    decline: bool = False
    note: str | None = None


class ShowReceipts(NamedTuple):
    message: str


class ShowThread(NamedTuple):
    message: str
    limit: int = 100
    after: int = 0


class Search(NamedTuple):
    query: str
    limit: int = 20


class Explain(NamedTuple):
    message: str


class Redact(NamedTuple):
    message: str
    reason: str


# --- claims


class AcquireClaim(NamedTuple):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600
    wait_s: int | None = None
    everywhere: bool = False


class RenewClaim(NamedTuple):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    ttl_s: int = 3600
    fence: int | None = None
    id: str | None = None


class ReleaseClaim(NamedTuple):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    fence: int | None = None
    id: str | None = None


class TakeOverClaim(NamedTuple):
    reason: str
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600
    everywhere: bool = False


class StopWaiting(NamedTuple):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None


class CheckClaim(NamedTuple):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None


class CheckPaths(NamedTuple):
    """Whether the caller may change these files of a repository, in a worktree of it, where that
    is known. They are names from its root, and no patterns."""

    paths: tuple[str, ...]
    repo: str
    worktree: str | None = None


class ReportCommit(NamedTuple):
    """A commit that was made, and the files that it touched, as with `CheckPaths`: whether it
    crossed another's claim, which a guard that was not asked could not refuse."""

    commit: str
    paths: tuple[str, ...]
    repo: str
    worktree: str | None = None


class ListClaims(NamedTuple):
    mine: bool = False


class KeepSession(NamedTuple):
    """Renews what a living session holds, below half of each lease."""

    id: str


# --- clients

# What `interlock run` calls itself where it says which process its session is.
RUN = "run"


class Attend(NamedTuple):
    """A client's session has come to a step: `start`, `prompt`, `edit`, `tool`, `busy` (at work,
    and not to be told anything), `stop`, `rest` (stopped already), `idle` or `end`. The answer
    has what it should be told there, which is marked as told by that adapter.

    `paths`, `repo` and `worktree` are of an edit, as with `CheckPaths`. `held` is how often in a
    row it was kept from stopping. `window` says where the client runs; it is for presence, and
    believed only from this machine."""

    step: str
    adapter: str
    paths: tuple[str, ...] = ()
    repo: str | None = None
    worktree: str | None = None
    held: int = 0
    wait_s: int | None = None
    window: dict[str, Any] | None = None


# --- work


class CreateTask(NamedTuple):
    title: str
    id: str | None = None
    brief: str | None = None
    criteria: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    priority: str | None = None
    assignee: str | None = None
    labels: tuple[str, ...] = ()


class ListTasks(NamedTuple):
    """`state` may be `live`: whatever has not come to its end."""

    state: str | None = None
    mine: bool = False
    limit: int = 100
    after: int = 0


class ShowTask(NamedTuple):
    id: str


class TakeTask(NamedTuple):
    id: str
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600


class SubmitTask(NamedTuple):
    """Without a tree it is the one of a clean run at that commit, where the task has one."""

    id: str
    commit: str
    tree: str | None = None
    fence: int | None = None


class CompleteTask(NamedTuple):
    id: str
    fence: int | None = None


class FailTask(NamedTuple):
    id: str
    note: str | None = None
    fence: int | None = None


class CancelTask(NamedTuple):
    id: str
    note: str | None = None


class PrepareEvidence(NamedTuple):
    """Whether evidence would be taken, before anybody runs for an hour; with the fence to present
    when it comes."""

    task: str
    criterion: int | None = None


class AddEvidence(NamedTuple):
    """The payload is of the message type `evidence`; bytes that it has a digest of were uploaded
    before."""

    payload: dict[str, Any]
    upload: str | None = None
    fence: int | None = None


class ShowEvidence(NamedTuple):
    """With what was kept of it: the bytes [start, stop), or its end where none are named."""

    id: str
    start: int | None = None
    stop: int | None = None


class CreateGate(NamedTuple):
    name: str
    holders: tuple[str, ...]
    replace: bool = False


class ListGates(NamedTuple):
    pass


class PrepareVerdict(NamedTuple):
    """Whether a verdict of the caller would be taken, before checks are run for it."""

    task: str
    gate: str


class GiveVerdict(NamedTuple):
    """About the commit and the tree that are named, or whichever are submitted. `rules` is the
    digest of the checks that decided it, where checks did."""

    task: str
    gate: str
    verdict: str
    commit: str | None = None
    note: str | None = None
    fix: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    tree: str | None = None
    rules: str | None = None


class CheckGate(NamedTuple):
    """Whether a gate has passed a commit, in whichever task; with `tree`, that very tree of it."""

    gate: str
    commit: str
    tree: str | None = None


class RaiseBlocker(NamedTuple):
    """To the task's worker, or to whom it is addressed."""

    what: str
    task: str | None = None
    to: str | None = None
    severity: str = "stop"
    fix: tuple[str, ...] = ()


class ResolveBlocker(NamedTuple):
    id: str
    note: str | None = None


class ListBlockers(NamedTuple):
    task: str | None = None
    all: bool = False


# --- audit


class ShowLog(NamedTuple):
    after: int = 0
    limit: int = 50
    kind: str | None = None


class ListEvents(NamedTuple):
    """What happened after a position, as far as it is the caller's to see."""

    after: int = 0
    limit: int = 100


class VerifyLog(NamedTuple):
    checkpoint: str | None = None


class SignCheckpoint(NamedTuple):
    pass


class Prove(NamedTuple):
    """That an entry stands in the log, or that the log only grew since it had `since` entries."""

    seq: int | None = None
    since: int | None = None


class ProveMany(NamedTuple):
    """That entries stand in the log, against one checkpoint."""

    seqs: tuple[int, ...]


class Examine(NamedTuple):
    """The doctor's look at what is there."""


class Inspect(NamedTuple):
    """Leave to look at the log: for everybody who may look at anything."""


# --- upkeep


class ShowStorage(NamedTuple):
    pass


class ExportLog(NamedTuple):
    file: str


class Backup(NamedTuple):
    file: str


class Restore(NamedTuple):
    file: str


class Rebuild(NamedTuple):
    pass


class Maintain(NamedTuple):
    """Leave to do what only the owner may: back up, restore, rebuild."""
