"""The transaction of one request: the state that a rule reads, and the facts that it appends.

A verb's `decide` reads the state, appends facts, and returns the answer. The node folds each
appended fact at once, so the rule reads its own effect. To refuse, a rule raises a Refusal. The
node then undoes the facts of the request.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from interlock.errors import TO_RESUME, IdempotencyConflict, Paused
from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.workspace.settings import SETTINGS

# An answer that a rule builds member by member. The return type of `decide` states its type.
RuleAnswer = Any
Row = tuple[Any, ...]
MAX_REFUSALS_PER_MINUTE = 20
QUIET_MS = 600_000


class Rows(Protocol):
    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Any: ...


class FoldedState(Protocol):
    """The folded state: the part of a SQLite connection that rules use."""

    def execute(self, sql: str, bindings: Any = ...) -> Rows: ...


class Caller(NamedTuple):
    """The authenticated caller. The token decides `sender`. The caller names its own `session`, and
    the node refuses the session of another sender. `resource` is the only address where a
    connection's token is valid. `use` says whether the token belongs to a connection or to a
    browser where a person signed in."""

    sender: str
    agent: str
    kind: str
    surface: str | None = None
    scopes: frozenset[str] = frozenset()
    session: str | None = None
    token: str | None = None
    owner: bool = False
    resource: str | None = None
    use: str | None = None

    @property
    def is_person_or_admin(self) -> bool:
        """Whether the caller may change things of other senders, such as their claims."""
        return self.kind == "human" or "admin" in self.scopes


OWNER = "owner"
SYSTEM = "interlock"
OWNER_CALLER = Caller(OWNER, OWNER, "human", scopes=frozenset({"admin"}), owner=True)
SYSTEM_CALLER = Caller(SYSTEM, SYSTEM, "system")
# A caller without authentication. The request contains a secret that the rule checks.
ANONYMOUS_CALLER = Caller(SYSTEM, SYSTEM, "anonymous")


class Mine(NamedTuple):
    """The mail that a caller may search: received by `mailboxes`, or sent by `senders`."""

    mailboxes: tuple[str, ...]
    senders: tuple[str, ...]


class Store(Protocol):
    """The data outside the headers: bodies, blobs, presence, the search index. No fold reads it."""

    def facts(self, after: int) -> Iterable[Header]: ...

    def body(self, seq: int) -> bytes | None: ...

    def same_request(self, seq: int, request: bytes) -> bool: ...

    def blob(self, sha256: str, start: int, stop: int) -> bytes: ...

    def put_chunk(self, upload: str, number: int, data: bytes) -> None: ...

    def drop_upload(self, upload: str) -> None: ...

    def keep_blob(self, upload: str, sha256: str, seq: int) -> int: ...

    def forget(self, seq: int) -> None: ...

    def reach(
        self, names: Iterable[str], may_wake: Callable[[], bool] = ...
    ) -> tuple[str, int | None]: ...

    def search(self, query: str, mine: Mine) -> Iterable[int]: ...


class KeyedRequest(NamedTuple):
    """The idempotency key of a request, and the request's bytes."""

    key: str
    content: bytes


Fold = Callable[[FoldedState, Header], None]
# Returns the names of the callers who get the event of a fact, or None for every caller.
Audience = Callable[[FoldedState, Header], frozenset[str] | None]
# In an audience, this name stands for every caller with the scope admin.
ADMINS = "scope:admin"


def everyone(state: FoldedState, fact: Header) -> None:
    """The audience of facts that concern every caller."""


def admins(state: FoldedState, fact: Header) -> frozenset[str]:
    """The audience of refusals, tokens and people."""
    return frozenset({ADMINS})


class FactKind(NamedTuple):
    """A kind of fact, as the `fold.py` of its room declares it.

    `meaning` explains it to auditors, in docs/audit.md. `audience` has no default, because an
    author who forgot it would show the event to every caller. Events omit the `hidden` members,
    which are hashes of secrets, or of no use to callers. After a fact that `reauthenticates`, the
    node authenticates the callers who follow the events again."""

    meaning: str
    audience: Audience
    fold: Fold
    hidden: tuple[str, ...] = ()
    reauthenticates: bool = False


class NeedsWrite(Exception):
    """A read-only transaction had to append a fact. Decide the request again in a write
    transaction."""


class Transaction:
    """The state at one position of the log, its time, and the caller.

    Without `writer` the transaction is read-only, and `append` raises `NeedsWrite`. A `stale`
    transaction serves reads while the engine is unavailable. `settings` are the values in force,
    where the node has already read them."""

    __slots__ = (
        *("_settings", "_writer", "caller", "epoch", "new_id"),
        *("now", "stale", "state", "store"),
    )

    def __init__(
        self,
        state: FoldedState,
        store: Store,
        now: int,
        epoch: int,
        caller: Caller,
        new_id: Callable[[], str],
        writer: Callable[..., Header] | None = None,
        settings: dict[str, str] | None = None,
        *,
        stale: bool = False,
    ) -> None:
        self.state = state
        self.store = store
        self.now = now
        self.epoch = epoch
        self.caller = caller
        self.new_id = new_id
        self.stale = stale
        self._writer = writer
        self._settings = settings

    def append(
        self,
        kind: str,
        outcome: dict[str, Any],
        body: bytes | None = None,
        *,
        sender: str | None = None,
        keyed: KeyedRequest | None = None,
    ) -> Header:
        """Append a fact and fold it. The fact is durable after COMMIT."""
        if self._writer is None:
            raise NeedsWrite
        return self._writer(self, kind, outcome, body, sender or self.caller.sender, keyed)

    def append_if_writable(self, kind: str, outcome: dict[str, Any]) -> None:
        """Append a fact, such as a receipt, unless the engine is unavailable."""
        if not self.stale:
            self.append(kind, outcome)

    def setting(self, name: str) -> str:
        """The value of a setting at this position of the log."""
        if self._settings is None:
            self._settings = settings_of(self.state)
        return self._settings.get(name, SETTINGS[name].default)

    def one(self, sql: str, *bindings: Any) -> Row | None:
        """The first row, or None."""
        row: Row | None = self.state.execute(sql, bindings).fetchone()
        return row

    def all(self, sql: str, *bindings: Any) -> list[Row]:
        rows: list[Row] = self.state.execute(sql, bindings).fetchall()
        return rows

    def column(self, sql: str, *bindings: Any) -> list[Any]:
        """The first column of each row."""
        return [row[0] for row in self.state.execute(sql, bindings)]

    def value(self, sql: str, *bindings: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.one(sql, *bindings)
        return row[0] if row else None

    def has(self, sql: str, *bindings: Any) -> bool:
        """Whether there is a row."""
        return self.one(sql, *bindings) is not None


def settings_of(state: FoldedState) -> dict[str, str]:
    """The settings that were changed from their defaults."""
    return dict(state.execute("SELECT name, value FROM workspace_settings").fetchall())


def sql_fold(*statements: str, optional: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Fold:
    """Return a fold that executes SQL statements. Their parameters are the members of the fact's
    outcome, and those of its header as :fact_seq, :fact_at and so on. An `optional` member that the
    outcome omits is NULL. Any other missing member raises KeyError. The members in `words` are
    lists, which the fold joins by spaces."""
    nulls = dict.fromkeys(optional)

    def fold(state: FoldedState, fact: Header) -> None:
        members = {
            **nulls,
            **fact.outcome,
            "fact_seq": fact.seq,
            "fact_at": fact.at,
            "fact_sender": fact.sender,
            "fact_session": fact.session,
            "fact_token": fact.token,
            "fact_epoch": fact.epoch,
            "fact_workspace": fact.workspace,
        }
        for name in words:
            members[name] = " ".join(members[name])
        for statement in statements:
            state.execute(statement, members)

    return fold


# --- rules for the requests of every room: the pause, repeated requests, and recorded refusals
#
# The log records a refusal that matters to an auditor, such as a forged sender or a stale fence. It
# has the code, the sender and a digest of the request, never a body. A limit prevents callers from
# filling the log.


def is_paused(state: FoldedState) -> bool:
    row = state.execute("SELECT paused_at FROM workspace_self").fetchone()
    return bool(row and row[0] is not None)


def refuse_paused(state: FoldedState) -> None:
    """Raise Paused while the workspace is paused."""
    row = state.execute("SELECT paused_at, paused_by, pause_reason FROM workspace_self").fetchone()
    if row and row[0] is not None:
        why = f" ({row[2]})" if row[2] else ""
        raise Paused(
            f"@{row[1]} paused the workspace{why}. It accepts no writes until the owner or an "
            "admin resumes it.",
            TO_RESUME,
            since=rfc3339(row[0]),
            reason=row[2],
        )


def done_before(tx: Transaction, keyed: KeyedRequest | None) -> int | None:
    """The position of the fact that an earlier request with this key appended, or None.

    Raises IdempotencyConflict for a different request with the same key. Raises it also if the
    first body was redacted, because the two requests cannot be compared any more.
    """
    if keyed is None:
        return None
    first = "SELECT seq FROM workspace_acts WHERE sender = ? AND key = ?"
    seq: int | None = tx.value(first, tx.caller.sender, keyed.key)
    if seq is None:
        return None
    if not tx.store.same_request(seq, keyed.content):
        raise IdempotencyConflict(
            f"The key {keyed.key!r} was used before, at #{seq}, with another body. Use a new "
            "key for a new request.",
            key=keyed.key,
            seq=seq,
        )
    return seq


def record_refusal(tx: Transaction, code: str, digest: str, sender: str | None = None) -> None:
    """Record a refusal, up to MAX_REFUSALS_PER_MINUTE for each sender."""
    sender = sender or tx.caller.sender
    lately = "SELECT count(*) FROM refusals WHERE sender = ? AND at > ?"
    if tx.value(lately, sender, tx.now - 60_000) < MAX_REFUSALS_PER_MINUTE:
        tx.append("request_refused", {"code": code, "digest": digest}, sender=sender)


def is_quiet(tx: Transaction, code: str, sender: str) -> bool:
    """Whether the log has the same refusal of this sender within the last QUIET_MS."""
    same = "SELECT 1 FROM refusals WHERE sender = ? AND at > ? AND code = ?"
    return tx.has(same, sender, tx.now - QUIET_MS, code)
