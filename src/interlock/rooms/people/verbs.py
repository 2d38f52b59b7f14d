"""The verbs of people: invite, sign in, and connect clients that act for a person.

A person joins by an invitation, chooses a password, and owns agents. A client that a person
connects acts as one of that person's senders. Only the sign-in pages and the OAuth endpoints call
the verbs without a route. `people` has the longer rules about invitations and passwords, and
`connections` those about connected clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from interlock.errors import BadToken, Remedy, Usage
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.verbs import LazyModule
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none
from interlock.verbs.types import Annotated, Duration, Query, Several, Sha256, Text, one_line
from interlock.verbs.verb import Verb

if TYPE_CHECKING:
    from interlock.rooms import answers, transaction
    from interlock.rooms.identity import names, token_format, tokens
    from interlock.rooms.people import connections, people
    from interlock.rooms.transaction import RuleAnswer, Transaction
else:
    names = LazyModule("interlock.rooms.identity.names")
    token_format = LazyModule("interlock.rooms.identity.token_format")
    tokens = LazyModule("interlock.rooms.identity.tokens")
    connections = LazyModule("interlock.rooms.people.connections")
    people = LazyModule("interlock.rooms.people.people")
    transaction = LazyModule("interlock.rooms.transaction")

MAX_OWN = 100
MAX_CLIENT_LENGTH = 4096

Surface = Annotated[
    str, Text("a surface", "S", "the surface, where the sender acts: laptop, desktop, …")
]
Own = Annotated[
    tuple[str, ...],
    Several(Text("an agent", "AGENT", "an agent that the person will own"), maximum=MAX_OWN),
]
ConnectionId = Annotated[
    str,
    Text(
        "the id of a connection, such as con_1f2e3d4c5b6a",
        "ID",
        "the connection, such as con_1f2e3d4c5b6a",
        pattern=r"[A-Za-z0-9_]{1,64}",
    ),
]
Revocable = Annotated[
    str,
    Text(
        "an id, such as con_1f2e3d4c5b6a, or @NAME of a person",
        "ID",
        "con_…, tok_… or inv_… from interlock connection list, or @NAME of a person",
        pattern=r"@[\s\S]{0,999}|[A-Za-z0-9_]{1,64}",
    ),
]
DisplayName = Annotated[str, one_line("NAME", "the name that lists show", 80)]
Browser = Annotated[str, one_line("TEXT", "the browser", 280)]
# The id of an OAuth client is the address of its metadata, or the text that it registered.
ClientId = Annotated[str, one_line("ID", "the client", MAX_CLIENT_LENGTH)]
RedirectUri = Annotated[
    str, one_line("URL", "the client's address for the code", MAX_CLIENT_LENGTH)
]


class Invite(
    Verb,
    name="invite",
    http="POST /v1/invitations",
    method="invite",
    scope="admin",
    owner=True,
    help={
        "name": "the person or the agent to invite",
        "kind": "whether the name is an agent or a person; by default a new name is a person",
        "ttl_s": "how long the link is valid; by default 3d",
        "code_hash": "the SHA-256 of a code that you made; by default the server makes the code",
    },
):
    """Invite a person or another machine with a link.

    The link is valid once. A person opens it in a browser and chooses a password. On another
    machine, the command `join` takes it."""

    name: Query
    surface: Surface | None = None
    own: Own = ()
    kind: Literal["agent", "human"] | None = None
    ttl_s: Duration | None = None
    code_hash: Sha256 = ""

    def decide(self, tx: Transaction) -> answers.Invited:
        return people.invite(tx, self)


class AcceptInvitation(
    Verb,
    name="join by invitation",
    http="POST /v1/invitations/accept",
    method="accept_invitation",
    anyone=True,
    help={
        "code": "the code at the end of the invitation's link",
        "token_hash": "the SHA-256 of a token that you made; by default the server makes the token",
    },
):
    """Join by an invitation.

    If the server makes the token, only this answer contains it. Store it."""

    code: Query
    token_hash: Sha256 = ""

    def decide(self, tx: Transaction) -> answers.Joined:
        found = people.valid_invitation(tx, self.code)
        sender = people.join_invited(tx, found)
        made = tokens.mint_token(tx, sender, self.token_hash, None, BASIC_SCOPES, None)
        return without_none(
            sender=sender,
            address=address(sender),
            agent=found.name,
            surface=found.surface,
            kind=found.kind,
            scopes=list(BASIC_SCOPES),
            token_id=made,
        )


class ListConnections(
    Verb,
    http="GET /v1/connections",
    cli="connection list",
    method="connections",
    read_only=True,
    owner=True,
):
    """List connected clients, browser sessions, tokens, and open invitations.

    A person sees their own connections, sessions and tokens. The owner and admins see all
    connections, sessions and invitations."""

    def decide(self, tx: Transaction) -> answers.Connections:
        return connections.list_connections(tx)


class NameConnection(
    Verb,
    http="POST /v1/connections/{id}/name",
    cli="connection name ID NAME",
    examples=("interlock connection name con_1f2e3d4c5b6a 'claude.ai on my phone'",),
    method="name_connection",
    owner=True,
):
    """Name a connection."""

    id: ConnectionId
    name: DisplayName

    def decide(self, tx: Transaction) -> answers.Connection:
        for found in connections.living(tx, connections.visible_person(tx)):
            if found.id == self.id:
                tx.append("connection_named", {"id": found.id, "name": self.name})
                return connections.connection_view(found._replace(name=self.name))
        raise connections.absent(self.id)


class RevokeConnection(
    Verb,
    http="POST /v1/connections/{id}/revoke",
    cli="connection revoke ID",
    method="revoke_connection",
    owner=True,
    when_paused=True,
):
    """Revoke a connection, session, token or invitation, or lock out a person.

    With @NAME, the person's password, browser sessions, connections, tokens and invitations end at
    once. The person's agents have no owner afterwards. To invite the person again: interlock invite
    NAME"""

    id: Revocable

    def decide(self, tx: Transaction) -> answers.Revoked | answers.LockedOut:
        """A caller may revoke an id that `list_connections` shows to it."""
        if self.id.startswith("@"):
            return people.lock_out(tx, self.id.removeprefix("@"))
        listed: Any = connections.list_connections(tx)
        if any(found["id"] == self.id for found in listed["invitations"]):
            tx.append("invitation_withdrawn", {"id": self.id})
        elif any(found["id"] == self.id for kind in listed.values() for found in kind):
            tx.append("token_revoked", {"id": self.id})
        else:
            raise connections.absent(self.id)
        return {"revoked": [self.id]}


# --- the pages where people sign in


class ShowInvitation(Verb, name="invitation", read_only=True, anyone=True):
    """Show the invitation of a code."""

    code: str

    def decide(self, tx: Transaction) -> RuleAnswer:
        found = people.valid_invitation(tx, self.code)
        has_password = tx.one("SELECT 1 FROM identity_people WHERE name = ?", found.name)
        return people.invitation_view(found) | ({"has_password": True} if has_password else {})


class Enrol(Verb, name="enrol", anyone=True):
    """Join by an invitation, as a person with a password.

    This signs the person in, and ends the person's earlier browser sessions and connections. The
    fields are as in `SignIn`."""

    code: str
    verifier: str
    token_hash: Sha256
    label: Browser | None = None

    def decide(self, tx: Transaction) -> RuleAnswer:
        """Others may have known an earlier password, so the browser sessions and connections that
        it allowed end."""
        found = people.valid_invitation(tx, self.code)
        name = found.name
        had = tx.one("SELECT 1 FROM identity_people WHERE name = ?", name)
        if found.kind != "human" or (had and found.surface is not None):
            raise Usage(
                "This invitation is for another machine. Run there:", Remedy("interlock join LINK")
            )
        people.join_invited(tx, found)
        names.registered(tx, name, None, "human")
        for id in people.sign_ins(tx, name):
            tx.append("token_revoked", {"id": id})
        tx.append("password_set", {"person": name, "proof": people.proof_of(self.verifier)})
        return people.start_browser_session(tx, name, self.token_hash, self.label)


class SignIn(Verb, name="sign in", anyone=True):
    """Sign a person in.

    The door derives `verifier` from the password and the workspace's key. `token_hash` is the hash
    of the token that the browser stores."""

    name: str
    verifier: str
    token_hash: Sha256
    label: Browser | None = None

    def decide(self, tx: Transaction) -> RuleAnswer:
        name = self.name.removeprefix("@")
        if not people.is_password(tx, name, self.verifier):
            raise BadToken("The name or the password is wrong.")
        tx.caller = transaction.Caller(name, name, "human")
        return people.start_browser_session(tx, name, self.token_hash, self.label)


class ChangePassword(Verb, name="password"):
    """Change the password of the person who is signed in.

    `verifier` belongs to the current password, and `new` to the new one. The person's other
    browsers are signed out. Connections stay."""

    verifier: str
    new: str

    def decide(self, tx: Transaction) -> RuleAnswer:
        """Connections stay, because nothing says that another person knew the password."""
        name = people.require_signed_in(tx)
        if not people.is_password(tx, name, self.verifier):
            raise BadToken("The current password is wrong. Nothing was changed.")
        ended = tx.column(
            "SELECT id FROM identity_tokens WHERE sender = ? AND use = 'browser' AND id <> ? AND "
            "revoked_at IS NULL ORDER BY seq",
            name,
            tx.caller.token,
        )
        for id in ended:
            tx.append("token_revoked", {"id": id})
        tx.append("password_set", {"person": name, "proof": people.proof_of(self.new)})
        return {"signed_out": ended}


class SignOut(Verb, name="sign out", when_paused=True):
    """Sign a person out of this browser."""

    def decide(self, tx: Transaction) -> RuleAnswer:
        people.require_signed_in(tx)
        tx.append("token_revoked", {"id": tx.caller.token})
        return {"signed_out": True}


class ShowPerson(Verb, name="person", read_only=True):
    """Show the person who is signed in, and the senders that the person's clients can act as."""

    def decide(self, tx: Transaction) -> RuleAnswer:
        person = people.require_signed_in(tx)
        return {
            "person": address(person),
            "agents": [
                {
                    "agent": agent,
                    "senders": [address(sender) for sender in names.senders_of(tx.state, agent)],
                }
                for agent in people.own_agents(tx, person)
            ],
        }


# --- the consent page and the OAuth endpoints


class GrantConnection(Verb, name="connect"):
    """Allow a client to act as one of the person's senders.

    The sender is the `surface` of the `agent`. With `new`, the sender must not exist yet."""

    agent: str
    surface: str | None
    scopes: tuple[str, ...]
    client: ClientId
    client_name: DisplayName
    resource: str
    redirect_uri: RedirectUri
    challenge: str
    code_hash: Sha256
    name: DisplayName | None = None
    new: bool = False

    def decide(self, tx: Transaction) -> RuleAnswer:
        return connections.grant(tx, self)


class FindGrant(Verb, name="code", read_only=True, anyone=True):
    """Find the connection of a code, whether or not the code is still valid."""

    code: str

    def decide(self, tx: Transaction) -> RuleAnswer:
        found = connections.by_code(tx, token_format.hashed(self.code))
        if found is None:
            raise BadToken("This code does not exist.")
        return connections.protocol_view(found)


class OpenConnection(Verb, name="connection open", anyone=True):
    """Open a connection with its code.

    A code that was used before ends the connection, because it may have been copied."""

    code: str
    client: str
    token_hash: Sha256
    refresh_hash: Sha256

    def decide(self, tx: Transaction) -> RuleAnswer:
        found = connections.by_code(tx, token_format.hashed(self.code))
        if found is None or found.client != self.client:
            raise BadToken("This code does not exist.")
        if found.refreshed_at is not None:
            return connections.end_copied(tx, found, "CODE_REPLAYED", self.code)
        if found.code_expires_at <= tx.now or found.ended_at is not None:
            raise BadToken(
                "The code is not valid any more. It expires after a minute, or when the person "
                "revokes it."
            )
        return connections.give_tokens(tx, "connection_opened", found, self)


class FindConnection(Verb, name="connection", read_only=True, anyone=True):
    """Find the connection of a refresh token or an access token."""

    secret: str

    def decide(self, tx: Transaction) -> RuleAnswer:
        secret = token_format.hashed(self.secret)
        found = connections.by_spent_secret(tx, secret) or connections.by_token(tx, secret)
        if found is None:
            raise BadToken("No connection has this token.")
        return connections.protocol_view(found)


class RefreshConnection(Verb, name="connection refresh", anyone=True):
    """Replace the tokens of a connection, with its refresh token.

    A refresh token that was used before ends the connection, because it may have been copied."""

    refresh: str
    client: str
    token_hash: Sha256
    refresh_hash: Sha256

    def decide(self, tx: Transaction) -> RuleAnswer:
        secret = token_format.hashed(self.refresh)
        if (spent := connections.by_spent_secret(tx, secret)) is not None:
            return connections.end_copied(tx, spent, "REFRESH_REUSED", self.refresh)
        found = connections.by_refresh_token(tx, secret)
        if (
            found is None
            or found.client != self.client
            or found.ended_at is not None
            or (found.refresh_expires_at or found.code_expires_at) <= tx.now
        ):
            raise BadToken("This refresh token is not valid. The person must connect again.")
        return connections.give_tokens(tx, "connection_refreshed", found, self)


class CloseConnection(Verb, name="connection close", when_paused=True, anyone=True):
    """End a connection with one of its tokens, which its client returns."""

    secret: str
    client: str

    def decide(self, tx: Transaction) -> RuleAnswer:
        found = connections.by_token(tx, token_format.hashed(self.secret))
        if found is not None and found.client == self.client and found.ended_at is None:
            tx.append("token_revoked", {"id": found.id}, sender=found.sender)
        return {}


class ReportRefusal(Verb, name="report", anyone=True):
    """Record that a door refused an attempt to sign in or to connect.

    `reason` is a code of `connections.INTRUSIONS`. `connection` or `person` names the target of the
    attempt, if the door knows it. A person of that name need not exist."""

    reason: str
    digest: str
    connection: str | None = None
    person: str | None = None

    def decide(self, tx: Transaction) -> RuleAnswer:
        """Record an attempt that a door refused. The log stores each attempt on a connection, like
        any refusal. Any caller can cause the others, so the log stores one of them per period."""
        found = connections.by_id(tx, self.connection) if self.connection else None
        person = tx.one("SELECT name FROM identity_people WHERE name = ?", self.person)
        sender = found.sender if found else person[0] if person else transaction.SYSTEM
        if found is not None or not transaction.is_quiet(tx, self.reason, sender):
            transaction.record_refusal(tx, self.reason, self.digest, sender=sender)
        return {}
