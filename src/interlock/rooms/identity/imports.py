"""Importing: tokens that another bus knows, taken over by their hashes.

Whose a token is, is what its row's agent says, or the map. The label decides nothing, so a row
that contradicts its label is imported too, and pointed out until somebody puts it right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import NameTaken, Usage
from interlock.log.times import rfc3339
from interlock.rooms.identity.labels import Known, remapped, remedy
from interlock.rooms.identity.names import kind_of, may_register
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import token_id
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.workspace.rules import refuse_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.identity.verbs import ImportTokens

# For more rows of one token than these it takes less to mend the file than to map each label.
_MAX_MAPPED = 6


class _Row(NamedTuple):
    """A row of the file, as the map leaves it. `scopes` are those words of its scope that mean
    something here, or all that do where it has no scope; `odd` says of each member that cannot be
    read what is wrong with it."""

    number: int
    label: str | None
    agent: str | None
    hash: str | None
    is_active: bool
    is_clear: bool
    is_short: bool
    is_mapped: bool
    scopes: tuple[str, ...]
    foreign: tuple[str, ...]
    project: str | None
    display: str | None
    expires_at: int | None
    odd: dict[str, str]

    @property
    def id(self) -> str:
        return token_id(self.hash or "")


class _Here(NamedTuple):
    """A token that the workspace has already."""

    id: str
    hash: str
    sender: str
    label: str | None
    is_revoked: int


class _Verdict(NamedTuple):
    """`sender` is whose the token is or will be; without one it stays where it is. What `becomes`
    of it is `new`, `moves` or nothing."""

    name: str
    message: str
    do: str | None = None
    sender: str | None = None
    becomes: str | None = None


def import_tokens(tx: Transaction, act: ImportTokens) -> RuleAnswer:
    """A verdict for each row, in the order of the file; with `apply`, what can be is imported."""
    if act.apply:
        refuse_paused(tx.state)
    file = _File(tx, act)
    judged = [(row, file.judge(row)) for row in file.rows]
    brought = [(row, verdict) for row, verdict in judged if verdict.becomes]
    if act.apply:
        for row, verdict in brought:
            file.bring(row, verdict)
    projects = sorted({row.project for row in file.rows if row.project is not None})
    told = [row for row, verdict in judged if verdict.becomes or verdict.name == "no scope"]
    foreign = sorted({scope for row in told for scope in row.foreign})
    return without_none(
        ok=all(verdict.name == "ready" for _, verdict in judged),
        applied=act.apply,
        importable=len(brought),
        imported=len(brought) if act.apply else 0,
        projects=projects if len(projects) > 1 else None,
        foreign_scopes=foreign or None,
        rows=[_view(row, verdict) for row, verdict in judged],
    )


def _view(row: _Row, verdict: _Verdict) -> RuleAnswer:
    return without_none(
        number=row.number,
        label=row.label,
        agent=row.agent,
        project=row.project,
        id=row.id if row.hash is not None else None,
        address=address(verdict.sender) if verdict.sender is not None else None,
        scopes=list(row.scopes) if verdict.becomes == "new" else None,
        expires_at=rfc3339(row.expires_at or 0)
        if verdict.becomes == "new" and row.expires_at is not None
        else None,
        verdict=verdict.name,
        message=verdict.message,
        do=verdict.do,
    )


class _File:
    """The rows, beside what the workspace knows of their tokens and their agents."""

    def __init__(self, tx: Transaction, act: ImportTokens) -> None:
        self._tx, self._applies = tx, act.apply
        self._known = Known(tx.state)
        self._displays: dict[str, str] = dict(
            tx.all("SELECT agent, display FROM identity_displays")
        )
        self._shown_here = frozenset(self._displays)
        self.rows = [_row(number, given, act.map or {}) for number, given in enumerate(act.rows, 1)]
        self._first: dict[str, _Row] = {}
        self._of_hash: dict[str, list[_Row]] = {}
        for row in self.rows:
            self._meet(row)
        for row in self.rows:
            self._show(row)

    def _meet(self, row: _Row) -> None:
        """Takes note of an agent that may be new, and of a token that stands in several rows."""
        if row.agent is not None and self._unusable(row.agent) is None:
            self._known.add(self._known.agent_of(row.agent), row.agent)
        if row.hash is not None and row.is_active and "agent" not in row.odd:
            self._of_hash.setdefault(row.hash, []).append(row)
            if not row.odd:
                self._first.setdefault(row.id, row)

    def _show(self, row: _Row) -> None:
        """Takes note of how an agent is shown to people, but for what another goes by."""
        if row.agent is None or row.display is None or row.is_mapped:
            return
        agent = self._known.agent_of(row.agent)
        if agent not in self._displays and not self._known.agents_called(row.display) - {agent}:
            self._displays[agent] = row.display
            self._known.show(agent, row.display)

    def judge(self, row: _Row) -> _Verdict:
        if not row.is_active:
            return _Verdict("inactive", "The file says that it is not active: it stays out.")
        if row.expires_at is not None and row.expires_at <= self._tx.now:
            end = rfc3339(row.expires_at)
            return _Verdict("inactive", f"The file says that it expired at {end}: it stays out.")
        if row.hash is None or row.odd:
            return self._left_out(row)
        here = self._here(row)
        taken = {token.hash for token in (here, self._first[row.id]) if token is not None}
        if taken != {row.hash} or (here is not None and here.id != row.id):
            return _Verdict("unknown hash", f"Its hash or its id, {row.id}, is another token's.")
        if here is not None and here.is_revoked:
            return _Verdict("inactive", f"{row.id} was revoked here: it stays so.")
        if here is None or row.is_mapped:
            trouble = self._nobodys(row)
            if trouble is not None:
                return _Verdict("no agent", trouble, self._whose(row))
        if here is None and not row.scopes:
            return _powerless(row)
        return self._judge_label(row, here)

    def _left_out(self, row: _Row) -> _Verdict:
        """Of a row in which something is missing or cannot be read."""
        odd = f"Row {row.number}: {' '.join(row.odd.values())} " if row.odd else ""
        if row.hash is None:
            return _Verdict(
                "unknown hash",
                f"{odd}Nothing shows which token this is: it has no SHA-256 of 64 hexadecimal "
                "digits, or one that is not its token's.",
                "Give the row the token_hash of its token.",
            )
        if "agent" in row.odd:
            return _Verdict("no agent", f"{odd}It stays out.", self._whose(row))
        return _Verdict("contradiction", f"{odd}It stays out.", "Put that right in the file.")

    def _here(self, row: _Row) -> _Here | None:
        found = self._tx.one(
            "SELECT id, hash, sender, label, revoked_at IS NOT NULL FROM identity_tokens "
            "WHERE hash = ? OR id = ?",
            row.hash,
            row.id,
        )
        return _Here(*found) if found else None

    def _nobodys(self, row: _Row) -> str | None:
        """Why nobody can say whose the row's token is, or why it cannot be theirs."""
        if self._is_disputed(row):
            return f"Row {row.number}: its token stands in several rows, with several agents."
        if row.agent is None:
            return f"Row {row.number} has no agent."
        return self._unusable(row.agent)

    def _is_disputed(self, row: _Row) -> bool:
        return len({other.agent for other in self._of_hash[row.hash or ""]}) > 1

    def _unusable(self, name: str) -> str | None:
        if self._tx.one("SELECT 1 FROM identity_senders WHERE sender = ?", name):
            return None
        try:
            may_register(self._tx, name, None, self._kind(name))
        except (Usage, NameTaken) as wrong:
            return wrong.message
        return None

    def _kind(self, agent: str) -> str:
        return kind_of(self._tx, agent) or "agent"

    def _whose(self, row: _Row) -> str:
        """What to do about a row that is nobody's."""
        if "agent" not in row.odd and self._is_disputed(row):
            return self._made_one(self._of_hash[row.hash or ""])
        if row.label is None:
            return "Write its agent into the row."
        return remapped(row.label, self._known.the_one_named(row.label) or "AGENT")

    def _made_one(self, rows: list[_Row]) -> str:
        """What to do about rows of one token that have several agents."""
        labels = dict.fromkeys(row.label for row in rows)
        if None in labels or len(rows) > _MAX_MAPPED:
            numbers = ", ".join(str(row.number) for row in rows)
            return f"Make one row of the rows {numbers}, with one agent."
        named = {row.agent for row in rows if row.agent and not self._unusable(row.agent)}
        return ". ".join(
            f"If it is {address(agent)}'s: "
            + " ".join(remapped(label, agent) for label in labels if label is not None)
            for agent in sorted(named) or ["AGENT"]
        )

    def _judge_label(self, row: _Row, here: _Here | None) -> _Verdict:
        sender, label = row.agent or "", row.label
        if here is not None:
            sender, label = sender if row.is_mapped else here.sender, here.label
        becomes, told = self._outlook(row, here, sender)
        wrong = self._known.contradiction(sender, label)
        clear = f"{_in_clear(row)} {told}" if row.is_clear else told
        if wrong is not None:
            message = f"Row {row.number}: {wrong} {clear}"
            do = self._way_out(row, sender, is_here=here is not None or self._applies)
            return _Verdict("contradiction", message, do, sender, becomes)
        if row.is_clear:
            do = f"interlock token rotate {row.id}, then delete the file."
            return _Verdict("clear-text secret", clear, do, sender, becomes)
        return _Verdict("ready", told, None, sender, becomes)

    def _outlook(self, row: _Row, here: _Here | None, sender: str) -> tuple[str | None, str]:
        """What becomes of a row's token, and how that is told."""
        whose = f"{address(sender)}'s"
        first = self._first[row.id]
        if first.number != row.number:
            return None, f"It is the same token as that of row {first.number}."
        if here is not None and here.sender == sender:
            return None, f"It is here already, {whose}."
        done = "It is" if self._applies else "It will be"
        if here is not None:
            return "moves", f"It was {address(here.sender)}'s. {done} {whose}."
        told = f"{done} {whose}, with {', '.join(row.scopes)}."
        if row.foreign:
            told += f" Of its scope, this means nothing here: {', '.join(row.foreign)}."
        return "new", told

    def _way_out(self, row: _Row, sender: str, *, is_here: bool) -> str:
        """The one field that puts a contradiction right, in either direction."""
        first = "" if is_here else "--apply, then "
        relabel = f"If it is {address(sender)}'s: {first}{remedy(row.id, sender)}"
        if row.label is None:
            return relabel
        other = self._known.the_one_named(row.label)
        if other is None:
            return f"{relabel}. If not: {remapped(row.label, 'AGENT')}"
        return f"If it is {address(other)}'s: {remapped(row.label, other)}. {relabel}"

    def bring(self, row: _Row, verdict: _Verdict) -> None:
        """Records that the token is the sender's, who joins if it has not yet."""
        sender = verdict.sender or ""
        agent = self._known.agent_of(sender)
        if not self._tx.one("SELECT 1 FROM identity_senders WHERE sender = ?", sender):
            joined = {"agent": agent, "kind": self._kind(agent), "sender": sender}
            self._tx.append("agent_joined", joined)
        if verdict.becomes == "moves":
            self._tx.append("token_rebound", {"id": row.id, "sender": sender})
            return
        said: dict[str, Any] = {"id": row.id, "hash": row.hash, "sender": sender}
        said |= without_none(label=row.label, expires_at=row.expires_at)
        said["scopes"] = list(row.scopes)
        if agent in self._displays and agent not in self._shown_here:
            said["display_name"] = self._displays[agent]
        self._tx.append("token_imported", said)


def _powerless(row: _Row) -> _Verdict:
    """Of a row that says what its token may do, and none of that can be done here."""
    said = f"is {' '.join(row.foreign)}, which means nothing" if row.foreign else "is empty"
    return _Verdict(
        "no scope",
        f"Row {row.number}: its scope {said}{' here' if row.foreign else ''}: it stays out.",
        f"Write {', '.join(BASIC_SCOPES)} or some of these into its scope, or leave that out.",
    )


def _in_clear(row: _Row) -> str:
    if row.is_short:
        return "Its token stands in the file in clear, and is so short that it can be guessed."
    return "Its token stands in the file in clear."


def _row(number: int, given: dict[str, Any], map: dict[str, str]) -> _Row:
    label, agent = given.get("label"), given.get("agent")
    is_mapped = label in map
    whose = map[label] if label is not None and is_mapped else agent
    said = tuple(dict.fromkeys(given.get("scope", BASIC_SCOPES)))
    odd = given.get("odd", {})
    return _Row(
        number=number,
        label=label,
        agent=whose.removeprefix("@") if whose is not None else None,
        hash=given.get("token_hash"),
        is_active=given.get("active", True),
        is_clear=given.get("clear", False),
        is_short=given.get("short", False),
        is_mapped=is_mapped,
        scopes=tuple(scope for scope in BASIC_SCOPES if scope in said),
        foreign=tuple(scope for scope in said if scope not in BASIC_SCOPES),
        project=given.get("project"),
        display=given.get("display_name"),
        expires_at=given.get("expires_at"),
        odd={name: odd[name] for name in odd if name != "agent" or not is_mapped},
    )
