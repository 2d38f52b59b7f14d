"""The verbs of identity: register names, manage tokens and sessions, list and mute agents.

A token belongs to exactly one sender. A sender is an agent, a person, or a surface of one of them.
A label is only display text. `names` registers senders and groups, `tokens` decides about tokens,
`imports` imports tokens of another message bus, `labels` compares labels with senders, and `fold`
writes the tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from interlock.errors import MissingScope, NameTaken, NotFound, Remedy, UnknownSender, Usage
from interlock.verbs import LazyModule
from interlock.verbs.addresses import address, check_name, near
from interlock.verbs.answers import without_none
from interlock.verbs.types import (
    LINE,
    MAX_ROWS,
    Annotated,
    Duration,
    Object,
    Query,
    Schema,
    SessionId,
    Several,
    Sha256,
    Text,
)
from interlock.verbs.verb import Tool, Verb

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.identity import imports, labels, names, tokens
    from interlock.rooms.transaction import Transaction
else:
    imports = LazyModule("interlock.rooms.identity.imports")
    labels = LazyModule("interlock.rooms.identity.labels")
    names = LazyModule("interlock.rooms.identity.names")
    tokens = LazyModule("interlock.rooms.identity.tokens")

HASH = r"[0-9a-f]{64}"
# The members of an imported row: the type of each, and its name in refusals.
ROW_MEMBERS: dict[str, tuple[type, str]] = {
    "token_hash": (str, "text"),
    "agent": (str, "text"),
    "label": (str, "text"),
    "project": (str, "text"),
    "active": (bool, "true or false"),
    "scope": (list, "text, or a list of texts"),
    "display_name": (str, "text"),
    "expires_at": (int, "a time, as 2026-11-18T09:00:00Z or in seconds since 1970"),
    "clear": (bool, "true or false"),
    "short": (bool, "true or false"),
    "odd": (dict, "an object of texts"),
}


class Row(Object):
    """A row of an imported file. A refusal does not repeat the row, which may contain a token."""

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise Usage(f"A value of {name} is not an object. Give {self.form}.", member=name)


class AgentsByLabel(Object):
    """Agents by the labels of their tokens."""

    python = "dict[str, str]"

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        for agent in value.values():
            LINE.check(name, agent)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": LINE.schema()}


# The rule checks a name, because a workspace can allow more names: see the setting names.pattern.
NAME = Text(
    "a name: lower-case letters, digits and hyphens",
    "NAME",
    "the name: lower-case letters, digits and hyphens",
)
Name = Annotated[str, NAME]
Names = Annotated[tuple[str, ...], Several(NAME)]
Surface = Annotated[
    str, Text("a surface", "S", "the surface, where the agent acts: cli, desktop, …")
]
Label = Annotated[
    str,
    Text(
        "one line of text",
        "TEXT",
        "a label for display; it grants nothing",
        max_length=280,
        line=True,
    ),
]
SCOPE = Text(
    "a scope: mail, claim, work, gate:NAME or admin",
    "SCOPE",
    "a scope; if you name mail, claim or work, the token has only the named ones of these; "
    "gate:NAME and admin come in addition",
)
Scopes = Annotated[tuple[str, ...], Several(SCOPE)]
TokenId = Annotated[
    str,
    Text(
        "the id of a token, such as tok_1f2e3d4c5b6a",
        "ID",
        "the token's id, such as tok_1f2e3d4c5b6a",
        pattern=r"[A-Za-z0-9_]{1,64}",
    ),
]
Rows = Annotated[
    tuple[dict[str, Any], ...],
    Several(
        Row(
            f"rows with {', '.join(ROW_MEMBERS)}",
            help="a row with token_hash, agent and label",
        ),
        minimum=1,
        maximum=MAX_ROWS,
        advice="Split a longer file.",
    ),
]
Map = Annotated[
    dict[str, str],
    AgentsByLabel(
        'an object of labels and agents, such as {"Neo GPT": "neo-gpt"}',
        help="the agent for the tokens of each label; it replaces the agent of the rows",
    ),
]

TOKEN_HASH = "the SHA-256 of a token that you made; by default the server makes the token"  # noqa: S105
ID_OR_SENDER = {
    "id": "the token's id, such as tok_1f2e3d4c5b6a",
    "sender": "all live tokens of this sender",
}


class Join(
    Verb,
    name="join",
    http="POST /v1/agents",
    method="join",
    scope="admin",
    owner=True,
    help={
        "kind": "whether the name is an agent or a person; by default a new name is an agent",
        "token_hash": TOKEN_HASH,
    },
):
    """Register an agent or a person, and make its first token.

    If the server makes the token, only this answer contains it. Store it."""

    name: Name
    surface: Surface | None = None
    kind: Literal["agent", "human"] | None = None
    label: Label | None = None
    scopes: Scopes = ()
    token_hash: Sha256 = ""

    def decide(self, tx: Transaction) -> answers.Joined:
        kind = self.kind or names.kind_of(tx, self.name) or "agent"
        sender, exists = names.may_register(tx, self.name, self.surface, kind)
        if exists:
            raise NameTaken(
                f"@{sender} is already registered. To mint another token for it:",
                tokens.to_mint(sender),
                name=sender,
            )
        scopes = tokens.granted_scopes(tx, self.scopes)
        names.registered(tx, self.name, self.surface, kind)
        token = tokens.mint_token(tx, sender, self.token_hash, self.label, scopes, None)
        return without_none(
            sender=sender,
            address=address(sender),
            agent=self.name,
            surface=self.surface,
            kind=kind,
            scopes=list(scopes),
            token_id=token,
        )


class CreateGroup(
    Verb,
    http="POST /v1/groups",
    cli="group create NAME --member @NAME...",
    examples=("interlock group create reviewers --member @otto --member @vera",),
    method="create_group name members",
    scope="admin",
    owner=True,
    help={
        "name": "the group's name: lower-case letters, digits and hyphens",
        "members": "a member: an agent, or one of its surfaces",
    },
):
    """Create a group, which is one name for several recipients."""

    name: Name
    members: Names = ()

    def decide(self, tx: Transaction) -> answers.GroupMade:
        name = check_name(self.name, tx.setting("names.pattern"), "group")
        taken = tx.one("SELECT 1 FROM identity_senders WHERE sender = ? OR agent = ?", name, name)
        if taken or name in names.RESERVED:
            what = "registered as a sender" if taken else "reserved"
            raise NameTaken(f"@{name} is {what}. Choose another name.", name=name)
        members = sorted({member.removeprefix("@") for member in self.members})
        if not members:
            raise Usage(f"The group @{name} has no members. Give at least one member.")
        for member in members:
            if not names.is_known(tx.state, member):
                raise NotFound(
                    f"@{member[:80]} is not registered, so it cannot be a member. List the agents:",
                    TO_LIST_AGENTS,
                    did_you_mean=near(member, names.names(tx.state)),
                )
        tx.append("group_set", {"name": name, "members": members})
        return {"name": name, "address": address(name), "members": [address(m) for m in members]}


class ListGroups(
    Verb,
    http="GET /v1/groups",
    cli="group list",
    method="groups",
    read_only=True,
    open=True,
):
    """List groups and their members."""

    def decide(self, tx: Transaction) -> answers.Groups:
        groups = tx.column("SELECT name FROM identity_groups ORDER BY name")
        return {
            "groups": [
                {
                    "address": address(group),
                    "members": [address(member) for member in names.members(tx.state, group) or ()],
                }
                for group in groups
            ]
        }


class MintToken(
    Verb,
    name="token mint",
    http="POST /v1/tokens",
    method="mint_token",
    scope="admin",
    owner=True,
    help={
        "sender": "the sender of the new token",
        "ttl_s": "when the token expires; by default never",
        "token_hash": TOKEN_HASH,
    },
):
    """Make another token for a sender.

    If the server makes the token, only this answer contains it. Store it."""

    sender: Query
    label: Label | None = None
    scopes: Scopes = ()
    ttl_s: Duration | None = None
    token_hash: Sha256 = ""

    def decide(self, tx: Transaction) -> answers.Minted:
        name = self.sender.removeprefix("@")
        senders = tx.column("SELECT sender FROM identity_senders ORDER BY sender")
        if name not in senders:
            raise UnknownSender(
                f"@{name[:80]} is not registered, and a token needs a sender. Register it:",
                Remedy("interlock join NAME", Join("NAME")),
                did_you_mean=near(name, senders),
            )
        expires_at = tx.now + self.ttl_s * 1000 if self.ttl_s is not None else None
        scopes = tokens.granted_scopes(tx, self.scopes)
        made = tokens.mint_token(tx, name, self.token_hash, self.label, scopes, expires_at)
        return tokens.show_token(tx, made)


class RotateToken(
    Verb,
    name="token rotate",
    http="POST /v1/tokens/rotate",
    method="rotate_token",
    scope="admin",
    owner=True,
    exactly_one=(("id", "sender"),),
    help={
        "id": ID_OR_SENDER["id"],
        "sender": "the sender, if it has one live token",
        "token_hash": TOKEN_HASH,
    },
):
    """Replace a token with a new one.

    The new token has the sender, the label and the scopes of the old one. The old one ends at
    once. If the server makes the new token, only this answer contains it. Store it."""

    id: Query | None = None
    sender: Query | None = None
    token_hash: Sha256 = ""

    def decide(self, tx: Transaction) -> answers.Rotated:
        chosen = tokens.tokens_named(tx, "revoked_at IS NULL ORDER BY seq", self)
        if not chosen:
            raise tokens.none_named(self, "live")
        if self.sender is not None:
            chosen = [token for token in chosen if token.use is None] or chosen
        old = chosen[0]
        if old.use is not None:
            from interlock.rooms.people.verbs import RevokeConnection

            renewed = f"a {old.use}, which gets new tokens by itself"
            if old.use == "browser":
                renewed = f"a browser where @{old.sender} signed in, and a new sign-in replaces it"
            raise Usage(
                f"The token {old.id} belongs to {renewed}. To end it:",
                Remedy(f"interlock connection revoke {old.id}", RevokeConnection(old.id)),
            )
        if len(chosen) > 1:
            raise Usage(
                f"@{old.sender} has {len(chosen)} live tokens. Give the id of one. List the "
                "tokens:",
                tokens.TO_LIST,
                tokens=[token.id for token in chosen],
            )
        # The new token has the lifetime of the old one, from now on.
        expires_at = tx.now + old.expires_at - old.minted_at if old.expires_at is not None else None
        scopes = tuple(old.scopes.split())
        made = tokens.mint_token(tx, old.sender, self.token_hash, old.label, scopes, expires_at)
        tx.append("token_revoked", {"id": old.id, "replaced_by": made})
        return tokens.show_token(tx, made) | {"replaced": [old.id]}


class RevokeToken(
    Verb,
    http="POST /v1/tokens/revoke",
    cli="token revoke (ID | --sender S)",
    method="revoke_token",
    scope="admin",
    owner=True,
    when_paused=True,
    exactly_one=(("id", "sender"),),
    help=ID_OR_SENDER,
):
    """Revoke a token, or all tokens of a sender.

    A revoked token is invalid at once."""

    id: Query | None = None
    sender: Query | None = None

    def decide(self, tx: Transaction) -> answers.Revoked:
        """Revoke tokens. For a sender, also end the codes that a client could exchange for a
        token."""
        found = tokens.tokens_named(tx, "revoked_at IS NULL ORDER BY seq", self)
        ended = [token.id for token in found]
        if self.sender is not None:
            ended += tx.column(
                "SELECT id FROM identity_connections WHERE sender = ? AND refreshed_at IS NULL AND "
                "ended_at IS NULL AND code_expires_at > ? ORDER BY id",
                self.sender.removeprefix("@"),
                tx.now,
            )
        if not ended:
            raise tokens.none_named(self, "live")
        for id in ended:
            tx.append("token_revoked", {"id": id})
        return {"revoked": ended}


class ReaffirmTokens(
    Verb,
    name="token reaffirm",
    http="POST /v1/tokens/reaffirm",
    method="reaffirm_tokens",
    scope="admin",
    owner=True,
    help={"id": ID_OR_SENDER["id"], "sender": "all suspended tokens of this sender"},
):
    """Reaffirm tokens that a restore suspended, so that they are valid again.

    Without id and sender, the server reaffirms all suspended tokens."""

    id: Query | None = None
    sender: Query | None = None

    def decide(self, tx: Transaction) -> answers.Reaffirmed:
        if self.id is None and self.sender is None:
            suspended = tokens.select(tx, "suspended ORDER BY id")
        else:
            suspended = tokens.tokens_named(tx, "suspended ORDER BY id", self)
            if not suspended:
                raise tokens.none_named(self, "suspended")
        for token in suspended:
            tx.append("token_reaffirmed", {"id": token.id})
        return {"reaffirmed": [token.id for token in suspended]}


class LabelToken(
    Verb,
    http="POST /v1/tokens/{id}/label",
    cli="token label ID LABEL",
    examples=("interlock token label tok_1f2e3d4c5b6a 'Otto, laptop'",),
    method="label_token",
    scope="admin",
    owner=True,
):
    """Change the label of a token."""

    id: TokenId
    label: Label

    def decide(self, tx: Transaction) -> answers.Token:
        if tokens.find_token(tx, self.id).label != self.label:
            tx.append("token_labelled", {"id": self.id, "label": self.label})
        return tokens.show_token(tx, self.id)


class ImportTokens(
    Verb,
    name="token import",
    http="POST /v1/tokens/import",
    method="import_tokens",
    scope="admin",
    read_only=True,
    owner=True,
    help={"apply": "import the tokens; without it, nothing changes"},
):
    """Import the tokens of another message bus, by their hashes.

    The answer has a verdict for each row. The imported tokens are valid in this workspace until you
    rotate or revoke them."""

    rows: Rows
    map: Map | None = None
    apply: bool = False

    def checked(self) -> ImportTokens:
        for number, row in enumerate(self.rows, 1):
            refuse_row(number, row)
        labels = {row.get("label") for row in self.rows}
        for label in self.map or {}:
            if label not in labels:
                raise Usage(
                    f"No row of the token file has the label {label[:80]!r}. "
                    "Copy the whole label of the row.",
                    member="map",
                )
        return self

    def decide(self, tx: Transaction) -> answers.Imported:
        return imports.import_tokens(tx, self)


class ListTokens(
    Verb,
    http="GET /v1/tokens",
    cli="token list",
    method="tokens",
    scope="admin",
    read_only=True,
    owner=True,
):
    """List tokens with their senders and scopes, without their secrets."""

    def decide(self, tx: Transaction) -> answers.Tokens:
        known = labels.Known(tx.state)
        found = tokens.select(tx, "1 ORDER BY seq")
        return {"tokens": [tokens.token_view(tx, token, known) for token in found]}


class ShowToken(
    Verb,
    http="GET /v1/tokens/{id}",
    cli="token show ID",
    method="show_token",
    scope="admin",
    read_only=True,
    owner=True,
):
    """Show a token, without its secret."""

    id: TokenId

    def decide(self, tx: Transaction) -> answers.Token:
        return tokens.show_token(tx, self.id)


class IdentifyToken(
    Verb,
    name="token identify",
    http="POST /v1/tokens/identify",
    method="identify_token",
    read_only=True,
    open=True,
    help={"token_hash": "the SHA-256 of the token, as 64 hexadecimal digits in lower case"},
):
    """Find the sender of a token, by its hash."""

    token_hash: Query

    def decide(self, tx: Transaction) -> answers.KnownToken | answers.UnknownToken:
        for token in tokens.select(tx, "hash = ?", self.token_hash):
            has_expired = token.expires_at is not None and token.expires_at <= tx.now
            is_active = token.revoked_at is None and not token.suspended and not has_expired
            answer: Any = {"known": True, "active": is_active}
            return answer | tokens.token_view(tx, token)
        return {"known": False}


class ListAgents(
    Verb,
    http="GET /v1/agents",
    cli="agents [NAME]",
    mcp=Tool(
        "agents [name]",
        "List agents and people, and how soon each would notice mail (`reach`). Copy `address` "
        "into `to`; never invent one.",
        help={"name": "only this agent"},
    ),
    method="agents",
    read_only=True,
    open=True,
    help={"name": "only this agent or person"},
):
    """List agents and people, and how to reach each of them."""

    name: Query | None = None

    def decide(self, tx: Transaction) -> answers.Agents:
        rows = tx.all(
            "SELECT s.sender, s.agent, s.surface, a.kind FROM identity_senders s "
            "JOIN identity_agents a ON a.name = s.agent ORDER BY s.sender"
        )
        if self.name is not None:
            rows = [row for row in rows if self.name.removeprefix("@") in row[:2]]
        return {"agents": [names.agent_view(tx, *row) for row in rows]}


TO_LIST_AGENTS = Remedy("interlock agents", ListAgents())


class Mute(
    Verb,
    http="POST /v1/mute",
    cli="mute [NAME] [--ttl D | --off]",
    examples=(
        "interlock mute --ttl 2h # do not wake me for two hours",
        "interlock mute @otto --off # wake otto again",
    ),
    method="mute",
    owner=True,
    at_most_one=(("ttl_s", "off"),),
    help={
        "name": "the agent; by default yourself",
        "ttl_s": "for how long; by default until you unmute",
        "off": "unmute: mail may wake the agent again",
    },
):
    """Mute an agent: mail does not wake it.

    Mail still arrives, and Interlock tells the agent about it at its next step. Every agent may
    mute itself. Only people and admins may mute another agent."""

    name: Query | None = None
    ttl_s: Duration | None = None
    off: bool = False

    def needs_sender(self) -> bool:
        return self.name is None

    def decide(self, tx: Transaction) -> answers.Muted:
        from interlock.log.times import rfc3339

        caller = tx.caller
        name = (self.name or caller.sender).removeprefix("@")
        if name not in (caller.sender, caller.agent) and not caller.is_person_or_admin:
            raise MissingScope(
                f"Only @{name[:80]} itself, a person or a token with the scope admin can mute "
                f"@{name[:80]}.",
                scope="admin",
            )
        if not names.is_known(tx.state, name):
            raise NotFound(
                f"@{name[:80]} is not registered. List the agents:",
                TO_LIST_AGENTS,
                did_you_mean=near(name, names.names(tx.state)),
            )
        until = tx.now + self.ttl_s * 1000 if self.ttl_s is not None else None
        tx.append("wakes_muted", without_none(name=name, until=until, off=self.off or None))
        return without_none(
            address=address(name),
            muted=not self.off,
            until=rfc3339(until) if until is not None and not self.off else None,
        )


class StartSession(
    Verb,
    name="session start",
    http="POST /v1/sessions",
    method="start_session",
):
    """Start a session, which is one running client of a sender."""

    id: SessionId

    def decide(self, tx: Transaction) -> answers.SessionStarted:
        row = tx.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", self.id)
        if row is not None and (row[0] != tx.caller.sender or row[1] is not None):
            raise NameTaken(
                f"The session {self.id} was used before. Choose a new id, or start the client in a "
                "new session:",
                Remedy("interlock run SENDER -- COMMAND"),
            )
        if row is None:
            tx.append("session_started", {"session": self.id})
        return {"session": self.id, "sender": tx.caller.sender}


class EndSession(
    Verb,
    name="session end",
    http="POST /v1/sessions/{id}/end",
    method="end_session",
):
    """End a session, and release its claims."""

    id: SessionId

    def decide(self, tx: Transaction) -> answers.SessionEnded:
        from interlock.rooms.claims.rules import release_session

        row = tx.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", self.id)
        if row == (tx.caller.sender, None):
            tx.append("session_ended", {"session": self.id})
        released = release_session(tx, self.id)
        return {"ended": self.id, "released": [claim.view() for claim in released]}


class FindSession(
    Verb,
    name="session find",
    http="GET /v1/sessions/{id}",
    method="find_session",
    read_only=True,
    open=True,
):
    """Find the sender of a running session."""

    id: SessionId

    def decide(self, tx: Transaction) -> answers.SessionFound:
        sender = tx.value(
            "SELECT sender FROM identity_sessions WHERE session = ? AND ended_at IS NULL", self.id
        )
        return without_none(session=self.id, sender=sender)


class KeepSession(
    Verb,
    name="session keep",
    http="POST /v1/sessions/{id}/keep",
    method="keep_session",
    read_only=True,
):
    """Renew the claims of a running session.

    The server renews a claim only when less than half of its lease is left."""

    id: SessionId

    def decide(self, tx: Transaction) -> answers.Claims:
        from interlock.rooms.claims.rules import renew_session

        return {"claims": [claim.view() for claim in renew_session(tx, self.id)]}


# --- the rows of an imported file


def refuse_row(number: int, row: dict[str, Any]) -> None:
    """Raise Usage for a row with a wrong member. The refusal does not repeat the value, which may
    be a secret."""
    for name, value in row.items():
        if name == "token":
            raise Usage(
                f"Row {number} contains a token. Give its SHA-256 as token_hash instead.",
                member="rows",
            )
        if name not in ROW_MEMBERS:
            raise Usage(
                f"Row {number} has the member {name[:80]!r}. Give only {', '.join(ROW_MEMBERS)}.",
                member="rows",
            )
        wrong = wrong_member(name, value)
        if wrong is not None:
            raise Usage(f"Row {number}: {wrong}", member="rows")
    token_hash = row.get("token_hash", "")
    if token_hash and not re.fullmatch(HASH, token_hash):
        raise Usage(
            f"Row {number}: token_hash is not a SHA-256. Give 64 hexadecimal digits in lower case.",
            member="rows",
        )


def wrong_member(name: str, value: Any) -> str | None:
    """Return a sentence about a wrong member of an imported row, or None. The sentence does not
    repeat the value."""
    from interlock.log.times import LAST_MS

    kind, form = ROW_MEMBERS[name]
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if isinstance(value, dict):
        texts = [*value, *value.values()]
    is_good = isinstance(value, kind) and all(isinstance(text, str) for text in texts)
    if not is_good or (kind is int and not 0 <= value < LAST_MS):
        return f"{name} must be {form}."
    try:
        for text in texts:
            LINE.check(name, text)
    except Usage as wrong:
        return wrong.message
    return None
