"""What may be asked of the node: one immutable record per verb, the same for every door.

Times to live are in seconds. Token hashes come with the act, because the rulebook has no
randomness to make a token from.
"""

from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform

# So many files are asked about at once.
MAX_FILES = 10_000


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


@dataclass_transform(frozen_default=True)
class Act:
    """What all acts are: immutable records, with those members of a NamedTuple that are of use. A
    NamedTuple itself takes ten times as long to define, and every command defines a hundred."""

    _fields: ClassVar[tuple[str, ...]]
    _names: ClassVar[frozenset[str]]
    _field_defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)
        cls._names = frozenset(cls._fields)
        cls._field_defaults = {name: vars(cls)[name] for name in cls._fields if name in vars(cls)}

    def __init__(self, *values: Any, **named: Any) -> None:
        in_order = dict(zip(self._fields, values, strict=False))
        members = self._field_defaults | in_order | named
        is_twice = len(values) > len(self._fields) or not named.keys().isdisjoint(in_order)
        if is_twice or members.keys() != self._names:
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields)}.")
        vars(self).update(members)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"An act does not change; {name} is given when it is made.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *self._asdict().values()))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({said})"

    def _asdict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changes: Any) -> Self:
        if not changes.keys() <= self._names:
            raise TypeError(f"{type(self).__name__} has {', '.join(self._fields)}.")
        other = object.__new__(type(self))
        vars(other).update(vars(self), **changes)
        return other


# --- the workspace


class ChangeSetting(Act):
    name: str
    value: str


class ListSettings(Act):
    pass


class Pause(Act):
    reason: str | None = None


class Resume(Act):
    pass


class ShowStatus(Act):
    pass


class Review(Act):
    since_s: int = 7 * 86_400


# --- identity


class Join(Act):
    name: str
    surface: str | None = None
    kind: str | None = None
    label: str | None = None
    scopes: tuple[str, ...] = ()
    token_hash: str = ""


class CreateGroup(Act):
    name: str
    members: tuple[str, ...] = ()


class ListGroups(Act):
    pass


class MintToken(Act):
    sender: str
    label: str | None = None
    scopes: tuple[str, ...] = ()
    ttl_s: int | None = None
    token_hash: str = ""


class RotateToken(Act):
    id: str | None = None
    sender: str | None = None
    token_hash: str = ""


class RevokeToken(Act):
    id: str | None = None
    sender: str | None = None


class ReaffirmTokens(Act):
    id: str | None = None
    sender: str | None = None


class LabelToken(Act):
    id: str
    label: str


class ImportTokens(Act):
    """Tokens that another bus knows, by their hashes: what would become of each or, with `apply`,
    what does. `map` says whose those of a label are, whatever their rows say."""

    rows: tuple[dict[str, Any], ...]
    map: dict[str, str] | None = None
    apply: bool = False


class ListTokens(Act):
    pass


class ShowToken(Act):
    id: str


class IdentifyToken(Act):
    token_hash: str


class Whoami(Act):
    pass


class ListAgents(Act):
    name: str | None = None


class Mute(Act):
    """Lets nothing wake a name, the caller's own if absent, for a time or until told otherwise."""

    name: str | None = None
    ttl_s: int | None = None
    off: bool = False


# --- people, and what they let act for them


class Invite(Act):
    """Lets whoever holds the code join as a person, or as a surface on another machine. `own` are
    the agents that the person will own. Whoever is not known yet is a person."""

    name: str
    surface: str | None = None
    own: tuple[str, ...] = ()
    kind: str | None = None
    ttl_s: int | None = None
    code_hash: str = ""


class AcceptInvitation(Act):
    """Joins by an invitation, with a token that the one who joins has made."""

    code: str
    token_hash: str = ""


class ListConnections(Act):
    pass


class NameConnection(Act):
    id: str
    name: str


class RevokeConnection(Act):
    """`id` is of a connection, a browser's session, a token or an invitation; or `@NAME` for all
    by which a person gets in."""

    id: str


class ShowInvitation(Act):
    code: str


class Enrol(Act):
    """Joins by an invitation as a person who signs in with a password from then on."""

    code: str
    verifier: str
    token_hash: str
    label: str | None = None


class SignIn(Act):
    """`verifier` is what the password gives under the workspace's key; `token_hash` is of the
    token that the browser keeps."""

    name: str
    verifier: str
    token_hash: str
    label: str | None = None


class ChangePassword(Act):
    """A person who has signed in gives another password; both are said as for `SignIn`."""

    verifier: str
    new: str


class SignOut(Act):
    pass


class ShowPerson(Act):
    pass


class GrantConnection(Act):
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


class FindGrant(Act):
    code: str


class OpenConnection(Act):
    code: str
    client: str
    token_hash: str
    refresh_hash: str


class FindConnection(Act):
    """The connection that a refresh token, or an access token, is of."""

    secret: str


class RefreshConnection(Act):
    refresh: str
    client: str
    token_hash: str
    refresh_hash: str


class CloseConnection(Act):
    """Ends a connection, by a token of it that its client gives back."""

    secret: str
    client: str


class ReportRefusal(Act):
    """A door refused somebody on the way in: `reason` is one of `contracts.intrusions`. It is about
    a connection, or about a person by the name that was given, who may not exist; or about nobody
    known."""

    reason: str
    digest: str
    connection: str | None = None
    person: str | None = None


class StartSession(Act):
    id: str


class EndSession(Act):
    id: str


class FindSession(Act):
    id: str


# --- mail


class SendMessage(Act):
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


class PutChunk(Act):
    """One chunk of a body too large to stand in a request, of `size` bytes in all. The first is
    put without an `upload`, and its answer names it."""

    data: bytes
    size: int
    number: int = 0
    upload: str | None = None


class DropUpload(Act):
    upload: str


class Ask(Act):
    """Sends an ask and waits for its first answer."""

    to: str
    question: str
    options: tuple[str, ...] = ()
    wait_s: int = 20
    timeout_s: int | None = None
    key: str | None = None


class AnswerAsk(Act):
    message: str
    text: str
    key: str | None = None


class FindAnswer(Act):
    message: str


class ListInbox(Act):
    which: str = "open"
    limit: int = 100
    after: int = 0
    adapter: str | None = None
    wait_s: int | None = None


class ListMail(Act):
    """The newest messages of everybody, or the one that is named, for the person whose workspace
    it is."""

    limit: int = 50
    message: str | None = None


class ReadMessage(Act):
    message: str
    start: int | None = None
    stop: int | None = None


class AckMessages(Act):
    messages: tuple[str, ...]
    decline: bool = False
    note: str | None = None


class ShowReceipts(Act):
    message: str


class ShowThread(Act):
    message: str
    limit: int = 100
    after: int = 0


class Search(Act):
    query: str
    limit: int = 20


class Explain(Act):
    message: str


class Redact(Act):
    message: str
    reason: str


# --- claims


class AcquireClaim(Act):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600
    wait_s: int | None = None
    everywhere: bool = False


class RenewClaim(Act):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    ttl_s: int = 3600
    fence: int | None = None
    id: str | None = None


class ReleaseClaim(Act):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    fence: int | None = None
    id: str | None = None


class TakeOverClaim(Act):
    reason: str
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600
    everywhere: bool = False


class StopWaiting(Act):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None


class CheckClaim(Act):
    item: str | None = None
    paths: tuple[str, ...] = ()
    repo: str | None = None


class CheckPaths(Act):
    """Whether the caller may change these files of a repository, in a worktree of it, where that
    is known. They are names from its root, and no patterns; one that ends with / is a directory
    with all that is in it, and `./` the whole repository.

    Given `commits`, it is about those of the files that one of them was reported to have changed
    under another's claim, whoever asks from wherever."""

    paths: tuple[str, ...]
    repo: str
    worktree: str | None = None
    commits: tuple[str, ...] = ()


class ReportCommit(Act):
    """A commit that was made, and the files that it touched, as with `CheckPaths`: whether it
    crossed another's claim, which a guard that was not asked could not refuse."""

    commit: str
    paths: tuple[str, ...]
    repo: str
    worktree: str | None = None


class ListClaims(Act):
    mine: bool = False


class KeepSession(Act):
    """Renews what a living session holds, below half of each lease."""

    id: str


# --- clients

# What `interlock run` calls itself where it says which process its session is.
RUN = "run"


class Attend(Act):
    """A client's session has come to a step: `start`, `prompt`, `edit`, `tool`, `busy` (at work,
    and not to be told anything), `stop`, `rest` (stopped already), `idle` or `end`. The answer
    has what it should be told there, which is marked as told by that adapter.

    `paths`, `repo` and `worktree` are of an edit, as with `CheckPaths`. `held` is how often in a
    row it was kept from stopping. `unbound` says that the client's shell and tools do not know its
    session. `window` says where the client runs, for presence; `until_ms` is
    the moment of this machine's monotonic clock after which nobody waits for the answer, and so
    nothing may count as told. Both are believed only from this machine."""

    step: str
    adapter: str
    paths: tuple[str, ...] = ()
    repo: str | None = None
    worktree: str | None = None
    held: int = 0
    wait_s: int | None = None
    window: dict[str, Any] | None = None
    until_ms: int | None = None
    unbound: bool = False


# --- work


class CreateTask(Act):
    title: str
    id: str | None = None
    brief: str | None = None
    criteria: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    priority: str | None = None
    assignee: str | None = None
    labels: tuple[str, ...] = ()


class ListTasks(Act):
    """`state` may be `live`: whatever has not come to its end."""

    state: str | None = None
    mine: bool = False
    limit: int = 100
    after: int = 0


class ShowTask(Act):
    id: str


class TakeTask(Act):
    id: str
    branch: str | None = None
    worktree: str | None = None
    note: str | None = None
    ttl_s: int = 3600


class SubmitTask(Act):
    """Without a tree it is the one of a clean run at that commit, where the task has one."""

    id: str
    commit: str
    tree: str | None = None
    fence: int | None = None


class CompleteTask(Act):
    id: str
    fence: int | None = None


class FailTask(Act):
    id: str
    note: str | None = None
    fence: int | None = None


class CancelTask(Act):
    id: str
    note: str | None = None


class PrepareEvidence(Act):
    """Whether evidence would be taken, before anybody runs for an hour; with the fence to present
    when it comes. A fence that is given is presented already."""

    task: str
    criterion: int | None = None
    fence: int | None = None


class AddEvidence(Act):
    """The payload is of the message type `evidence`; bytes that it has a digest of were uploaded
    before. Under one key it is kept once, however often it is handed over."""

    payload: dict[str, Any]
    upload: str | None = None
    fence: int | None = None
    key: str | None = None


class ShowEvidence(Act):
    """With what was kept of it: the bytes [start, stop), or its end where none are named."""

    id: str
    start: int | None = None
    stop: int | None = None


class CreateGate(Act):
    name: str
    holders: tuple[str, ...]
    replace: bool = False


class ListGates(Act):
    pass


class PrepareVerdict(Act):
    """Whether a verdict of the caller would be taken, before checks are run for it."""

    task: str
    gate: str


class GiveVerdict(Act):
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


class CheckGate(Act):
    """Whether a gate has passed a commit, in whichever task; with `tree`, that very tree of it."""

    gate: str
    commit: str
    tree: str | None = None


class RaiseBlocker(Act):
    """To whom it is addressed; else to the task's worker, or from that to whoever asked for it or
    could judge it."""

    what: str
    task: str | None = None
    to: str | None = None
    severity: str = "stop"
    fix: tuple[str, ...] = ()


class ResolveBlocker(Act):
    id: str
    note: str | None = None


class ListBlockers(Act):
    task: str | None = None
    all: bool = False


# --- audit


class ShowLog(Act):
    after: int = 0
    limit: int = 50
    kind: str | None = None


class ListEvents(Act):
    """What happened after a position, as far as it is the caller's to see."""

    after: int = 0
    limit: int = 100


class VerifyLog(Act):
    checkpoint: str | None = None


class SignCheckpoint(Act):
    pass


class Prove(Act):
    """That an entry stands in the log, or that the log only grew since it had `since` entries."""

    seq: int | None = None
    since: int | None = None


class ProveMany(Act):
    """That entries stand in the log, against one checkpoint."""

    seqs: tuple[int, ...]


class Examine(Act):
    """The doctor's look at what is there."""


class Inspect(Act):
    """Leave to look at the log: for everybody who may look at anything."""


# --- upkeep


class ShowStorage(Act):
    pass


class ExportLog(Act):
    file: str


class Backup(Act):
    file: str


class Restore(Act):
    file: str


class Rebuild(Act):
    pass


class Maintain(Act):
    """Leave to do what only the owner may: back up, restore, rebuild."""
