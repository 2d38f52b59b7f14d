"""The import of the tokens of another message bus, by their hashes.

A token belongs to the agent of its row, or to the agent that the map gives for its label. The label
decides nothing: a token whose label contradicts its agent is imported too, and reported until the
label or the sender is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.errors import NameTaken, Remedy, Usage, message
from interlock.log.times import rfc3339
from interlock.rooms.identity.labels import Known, either, remapped, remedy
from interlock.rooms.identity.names import kind_of, may_register
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import token_id
from interlock.rooms.identity.verbs import RotateToken
from interlock.rooms.transaction import Transaction, refuse_paused
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.identity.verbs import ImportTokens

# For a token with more rows than this, correcting the file is easier than mapping each label.
MAX_MAPPED = 6


class _Row:
    """A row of the file, with the agent that the map gives it. `scopes` are the scopes of the row
    that this workspace knows, or the basic scopes for a row without a scope. `odd` has a sentence
    for each malformed member."""

    def __init__(self, number: int, given: dict[str, Any], map: dict[str, str]) -> None:
        self.number = number
        self.label: str | None = given.get("label")
        self.is_mapped = self.label in map
        agent: str | None = map.get(self.label or "") if self.is_mapped else given.get("agent")
        self.agent = agent.removeprefix("@") if agent is not None else None
        self.hash: str | None = given.get("token_hash")
        self.id = token_id(self.hash or "")
        self.is_active: bool = given.get("active", True)
        self.is_clear: bool = given.get("clear", False)
        self.is_short: bool = given.get("short", False)
        scope = dict.fromkeys(given.get("scope", BASIC_SCOPES))
        self.scopes = tuple(word for word in BASIC_SCOPES if word in scope)
        self.foreign = tuple(word for word in scope if word not in BASIC_SCOPES)
        self.project: str | None = given.get("project")
        self.display: str | None = given.get("display_name")
        self.expires_at: int | None = given.get("expires_at")
        odd: dict[str, str] = given.get("odd", {})
        self.odd = {name: odd[name] for name in odd if name != "agent" or not self.is_mapped}


class _Verdict(NamedTuple):
    """The verdict on a row. `sender` is the present or future sender of the token. The import makes
    the token `new`, `moves` it to the sender, or leaves it."""

    name: str
    message: str
    do: str | None = None
    sender: str | None = None
    becomes: str | None = None


def import_tokens(tx: Transaction, request: ImportTokens) -> answers.Imported:
    """Return a verdict for each row, in the order of the file. With `apply`, import the tokens."""
    if request.apply:
        refuse_paused(tx.state)
    file = _File(tx, request)
    judged = [(row, file.judge(row)) for row in file.rows]
    importable = [(row, verdict) for row, verdict in judged if verdict.becomes]
    if request.apply:
        for row, verdict in importable:
            file.apply(row, verdict)
    projects = sorted({row.project for row in file.rows if row.project is not None})
    foreign = {
        scope
        for row, verdict in judged
        if verdict.becomes or verdict.name == "no scope"
        for scope in row.foreign
    }
    return without_none(
        ok=all(verdict.name == "ready" for _, verdict in judged),
        applied=request.apply,
        importable=len(importable),
        imported=len(importable) if request.apply else 0,
        projects=projects if len(projects) > 1 else None,
        foreign_scopes=sorted(foreign) or None,
        rows=[_view(row, verdict) for row, verdict in judged],
    )


def _view(row: _Row, verdict: _Verdict) -> answers.ImportedRow:
    is_new = verdict.becomes == "new"
    ends = rfc3339(row.expires_at) if is_new and row.expires_at is not None else None
    return without_none(
        number=row.number,
        label=row.label,
        agent=row.agent,
        project=row.project,
        id=row.id if row.hash is not None else None,
        address=address(verdict.sender) if verdict.sender is not None else None,
        scopes=list(row.scopes) if is_new else None,
        expires_at=ends,
        verdict=verdict.name,
        message=verdict.message,
        do=verdict.do,
    )


class _File:
    """The rows of the file, with the names and tokens that the workspace knows."""

    def __init__(self, tx: Transaction, request: ImportTokens) -> None:
        self._tx, self._applies = tx, request.apply
        self._known = known = Known(tx.state)
        displays = tx.all("SELECT agent, display FROM identity_displays")
        self._displays: dict[str, str] = dict(displays)
        self._old_displays = frozenset(self._displays)
        self._first: dict[str, _Row] = {}
        self._of_hash: dict[str, list[_Row]] = {}
        self.rows = [
            _Row(number, given, request.map or {}) for number, given in enumerate(request.rows, 1)
        ]
        for row in self.rows:
            if row.agent is not None and self._why_unusable(row.agent) is None:
                known.add(known.agent_of(row.agent), row.agent)
            if row.hash is not None and row.is_active and "agent" not in row.odd:
                self._of_hash.setdefault(row.hash, []).append(row)
                if not row.odd:
                    self._first.setdefault(row.id, row)
        # An agent gets the first display name of the file that no other agent has.
        for row in self.rows:
            if row.agent is None or row.display is None or row.is_mapped:
                continue
            agent = known.agent_of(row.agent)
            if agent not in self._displays and not known.agents_called(row.display) - {agent}:
                self._displays[agent] = row.display
                known.show(agent, row.display)

    def judge(self, row: _Row) -> _Verdict:
        where = f"Row {row.number}:"
        if not row.is_active:
            return _Verdict(
                "inactive", "The file says that the token is not active. The import skips it."
            )
        if row.expires_at is not None and row.expires_at <= self._tx.now:
            end = rfc3339(row.expires_at)
            return _Verdict("inactive", f"The token expired at {end}. The import skips it.")
        odd = f"{where} {' '.join(row.odd.values())} " if row.odd else ""
        if row.hash is None:
            return _Verdict(
                "unknown hash",
                f"{odd}The row does not identify its token: it has no SHA-256 of 64 hexadecimal "
                "digits, or the SHA-256 of another token. The import skips it.",
                "Write the token_hash of the token into the row.",
            )
        if "agent" in row.odd:
            return _Verdict("no agent", f"{odd}The import skips it.", self._to_name_agent(row))
        if row.odd:
            return _Verdict(
                "contradiction", f"{odd}The import skips it.", "Correct the row in the file."
            )

        here = self._tx.one(
            "SELECT id, hash, sender, label, revoked_at IS NOT NULL FROM identity_tokens "
            "WHERE hash = ? OR id = ?",
            row.hash,
            row.id,
        )
        first = self._first[row.id]
        if first.hash != row.hash or (here is not None and here[:2] != (row.id, row.hash)):
            return _Verdict(
                "unknown hash",
                f"The hash, or the id {row.id}, belongs to another token. The import skips it.",
            )
        if here is not None and here[4]:
            return _Verdict(
                "inactive",
                f"The token {row.id} was revoked in this workspace. The import skips it.",
            )
        if here is None or row.is_mapped:
            trouble: str | None
            if len({other.agent for other in self._of_hash[row.hash]}) > 1:
                trouble = f"{where} Several rows have this token, with different agents."
            elif row.agent is None:
                trouble = f"Row {row.number} has no agent."
            else:
                trouble = self._why_unusable(row.agent)
            if trouble is not None:
                return _Verdict("no agent", trouble, self._to_name_agent(row))
        if here is None and not row.scopes:
            scope = "Its scope is empty."
            if row.foreign:
                scope = f"This workspace knows none of its scopes: {', '.join(row.foreign)}."
            return _Verdict(
                "no scope",
                f"{where} {scope} The import skips it.",
                f"Write one or more of {', '.join(BASIC_SCOPES)} into its scope, or remove the "
                "scope.",
            )

        sender, label = row.agent or "", row.label
        if here is not None:
            sender, label = sender if row.is_mapped else here[2], here[3]
        becomes = None
        if first.number != row.number:
            result = f"Row {first.number} has the same token."
        elif here is not None and here[2] == sender:
            result = f"The token is already imported, for {address(sender)}."
        elif here is not None:
            becomes = "moves"
            moved = "It now belongs" if self._applies else "It will belong"
            result = f"The token belonged to {address(here[2])}. {moved} to {address(sender)}."
        else:
            becomes = "new"
            imported = "is imported" if self._applies else "will be imported"
            result = f"The token {imported} for {address(sender)}, with {', '.join(row.scopes)}."
            if row.foreign:
                result += f" Interlock ignores these scopes: {', '.join(row.foreign)}."
        if row.is_clear:
            short = ", and the token is so short that it can be guessed" if row.is_short else ""
            result = f"The file contains the token in clear text{short}. {result}"
        wrong = self._known.contradiction(sender, label)
        if wrong is not None:
            is_here = here is not None or self._applies
            do = self._to_agree(row, sender, is_here=is_here)
            return _Verdict("contradiction", f"{where} {wrong} {result}", do, sender, becomes)
        if row.is_clear:
            rotate = Remedy(f"interlock token rotate {row.id}", RotateToken(row.id))
            do = message("Delete the file, and rotate the token:", rotate)
            return _Verdict("clear-text secret", result, do, sender, becomes)
        return _Verdict("ready", result, None, sender, becomes)

    def _why_unusable(self, name: str) -> str | None:
        """Why no sender can have this name, or None."""
        if self._tx.one("SELECT 1 FROM identity_senders WHERE sender = ?", name):
            return None
        try:
            may_register(self._tx, name, None, kind_of(self._tx, name) or "agent")
        except (Usage, NameTaken) as wrong:
            return wrong.message
        return None

    def _to_name_agent(self, row: _Row) -> str:
        """Say how to give a token its one agent: in the file, or by the map."""
        rows = self._of_hash[row.hash or ""] if "agent" not in row.odd else []
        if len({other.agent for other in rows}) <= 1:
            if row.label is None:
                return "Write its agent into the row."
            return remapped(self._known.the_one_named(row.label) or "AGENT", row.label)
        labels = dict.fromkeys(other.label for other in rows)
        if None in labels or len(rows) > MAX_MAPPED:
            numbers = ", ".join(str(other.number) for other in rows)
            return f"Combine the rows {numbers} into one row, with one agent."
        agents = {other.agent for other in rows if other.agent}
        usable = sorted(agent for agent in agents if not self._why_unusable(agent))
        mapped = [label for label in labels if label is not None]
        return either(*((agent, remapped(agent, *mapped)) for agent in usable or ["AGENT"]))

    def _to_agree(self, row: _Row, sender: str, *, is_here: bool) -> str:
        """Say how to make the label and the sender agree, by a change of either."""
        relabel: str = remedy(row.id, sender)
        if not is_here:
            relabel = message("import the token, then", relabel)
        if row.label is None:
            return either((sender, relabel))
        other = self._known.the_one_named(row.label)
        if other is None:
            return either((sender, relabel), ("AGENT", remapped("AGENT", row.label)))
        return either((other, remapped(other, row.label)), (sender, relabel))

    def apply(self, row: _Row, verdict: _Verdict) -> None:
        """Record the token as the sender's. A new sender joins."""
        sender = verdict.sender or ""
        agent = self._known.agent_of(sender)
        if not self._tx.one("SELECT 1 FROM identity_senders WHERE sender = ?", sender):
            kind = kind_of(self._tx, agent) or "agent"
            self._tx.append("agent_joined", {"agent": agent, "kind": kind, "sender": sender})
        if verdict.becomes == "moves":
            self._tx.append("token_rebound", {"id": row.id, "sender": sender})
            return
        is_new_display = agent not in self._old_displays
        imported = without_none(
            id=row.id,
            hash=row.hash,
            sender=sender,
            label=row.label,
            expires_at=row.expires_at,
            scopes=list(row.scopes),
            display_name=self._displays.get(agent) if is_new_display else None,
        )
        self._tx.append("token_imported", imported)
