"""One act at the head of the log: the state it meets, the log's time, who acts, and the pen.

Every verb is a function `verb(moment, act) -> answer`. Where it must write it records facts,
which are folded at once; where it refuses it raises, and whatever it recorded is undone.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from interlock.contracts.facts import Header
from interlock.kernel.settings import SETTINGS

Answer = dict[str, Any]
Row = tuple[Any, ...]


class Rows(Protocol):
    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Any: ...


class State(Protocol):
    """The folded state: a SQLite connection, of which the rulebook needs no more than this."""

    def execute(self, sql: str, bindings: Any = ...) -> Rows: ...


class Caller(NamedTuple):
    """Who acts, as the node found out from the token. `session` is what the caller said of itself,
    and not another sender's; `resource` is where alone the token is good, if it is a
    connection's; `use` says whether it is one's, or a browser's where a person has signed in."""

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


OWNER = "owner"
SYSTEM = "interlock"
OWNER_CALLER = Caller(OWNER, OWNER, "human", scopes=frozenset({"admin"}), owner=True)
SYSTEM_CALLER = Caller(SYSTEM, SYSTEM, "system")
# Somebody on the way in, of whom nothing is known but the secret that the act itself carries.
NOBODY_CALLER = Caller(SYSTEM, SYSTEM, "nobody")


class Mine(NamedTuple):
    """Whose mail is looked through: what these names received, and what those sent."""

    mailboxes: tuple[str, ...]
    senders: tuple[str, ...]


class Store(Protocol):
    """What stands beside the headers, which verbs show and folding never reads."""

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


class Request(NamedTuple):
    """The key under which an act is done once, and the request's bytes."""

    key: str
    content: bytes


class NeedsTurn(Exception):
    """A verb that only looked so far wants to record: run it again with the turn held."""


class Moment:
    """See the module. Without a `pen` the moment is for looking only; one that `leaves_no_trace`
    is for looking while nothing can be written. `settings` are those in force, where somebody has
    read them already."""

    __slots__ = (
        *("_settings", "caller", "epoch", "leaves_no_trace", "new_id", "now", "pen", "state"),
        "store",
    )

    def __init__(
        self,
        state: State,
        store: Store,
        now: int,
        epoch: int,
        caller: Caller,
        new_id: Callable[[], str],
        pen: Callable[..., Header] | None = None,
        settings: dict[str, str] | None = None,
        *,
        leaves_no_trace: bool = False,
    ) -> None:
        self.state = state
        self.store = store
        self.now = now
        self.epoch = epoch
        self.caller = caller
        self.new_id = new_id
        self.pen = pen
        self.leaves_no_trace = leaves_no_trace
        self._settings = settings

    def record(
        self,
        kind: str,
        outcome: dict[str, Any],
        body: bytes | None = None,
        *,
        sender: str | None = None,
        request: Request | None = None,
    ) -> Header:
        """Appends a fact and folds it. It stands in the log once the turn is committed."""
        if self.pen is None:
            raise NeedsTurn
        return self.pen(self, kind, outcome, body, sender or self.caller.sender, request)

    def note(self, kind: str, outcome: dict[str, Any]) -> None:
        """Records that something was looked at, if anything can be recorded."""
        if not self.leaves_no_trace:
            self.record(kind, outcome)

    def setting(self, name: str) -> str:
        """The value in force at this position."""
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


def settings_of(state: State) -> dict[str, str]:
    """The settings that somebody has changed."""
    return dict(state.execute("SELECT name, value FROM workspace_settings").fetchall())


def absent_dropped(**members: Any) -> Answer:
    """Members in the order given, without those that are None: absent means absent."""
    return {name: value for name, value in members.items() if value is not None}
