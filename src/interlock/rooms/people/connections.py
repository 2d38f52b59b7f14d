"""Connections: clients that a person allows to act as one of the person's senders.

The person's consent gives the client a code. The code opens the connection once, within a minute.
The client then has a short-lived token of the sender, and a refresh token that gives the next pair
once. A code or a refresh token that is used again may have been copied, so the connection ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import AlreadyDone, IdentityMismatch, NameTaken, NotFound, Remedy, Usage
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import may_register, registered
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import RevokeToken
from interlock.rooms.people.people import (
    open_invitations,
    own_agents,
    require_person,
    require_signed_in,
)
from interlock.rooms.people.verbs import ListConnections
from interlock.rooms.transaction import RuleAnswer, Transaction, record_refusal
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.people import verbs

CODE_FOR_MS = 60_000
ACCESS_FOR_MS = 3_600_000
REFRESH_FOR_MS = 30 * 86_400_000


class Connection(NamedTuple):
    """A row of the table."""

    id: str
    person: str
    sender: str
    client: str
    client_name: str
    name: str | None
    scopes: str
    resource: str
    redirect_uri: str
    challenge: str
    code_expires_at: int
    granted_at: int
    refresh_hash: str | None
    refresh_expires_at: int | None
    refreshed_at: int | None
    ended_at: int | None


_COLUMNS = ", ".join(Connection._fields)


def grant(tx: Transaction, request: verbs.GrantConnection) -> RuleAnswer:
    """Record a person's consent. The same consent given twice, as by two clicks, gets the first
    answer again, until the client uses the code.

    Raises IdentityMismatch, Usage, NameTaken, or AlreadyDone for a code that was used or ended."""
    person = require_signed_in(tx)
    agent = request.agent.removeprefix("@")
    if agent not in own_agents(tx, person):
        raise IdentityMismatch(
            f"You do not own @{agent[:80]}, so your client cannot act as it. Choose yourself, or "
            "an agent that you own.",
            sender=address(person),
            claimed=agent[:80],
        )
    scopes = [scope for scope in BASIC_SCOPES if scope in request.scopes]
    if not scopes or len(scopes) != len(set(request.scopes)):
        given = " ".join(request.scopes)[:80]
        raise Usage(f"The scopes are {given!r}. Give one or more of {', '.join(BASIC_SCOPES)}.")
    id = "con_" + request.code_hash[:12]
    if (found := by_id(tx, id)) is not None:
        sender = f"{agent}-{request.surface}" if request.surface else agent
        before = (found.person, found.sender, found.client, found.scopes, found.resource)
        wanted = (person, sender, request.client, " ".join(scopes), request.resource)
        target = (request.redirect_uri, request.challenge)
        is_same = before == wanted and (found.redirect_uri, found.challenge) == target
        if not is_same or by_code(tx, request.code_hash) is None:
            raise NameTaken("This code was made before. Make a new code.")
        is_used = found.refreshed_at is not None or found.ended_at is not None
        if is_used or found.code_expires_at <= tx.now:
            raise AlreadyDone(
                "You already allowed this connection, and its code was used or is no longer valid. "
                "Start again in the client."
            )
        return {"id": id, "sender": sender, "address": address(sender), "scopes": scopes}

    kind = "human" if agent == person else "agent"
    sender, exists = may_register(tx, agent, request.surface, kind)
    if request.new and exists:
        raise NameTaken(f"@{sender} already exists. Choose it in the list, or enter another name.")
    registered(tx, agent, request.surface, kind)
    tx.append(
        "connection_granted",
        without_none(
            id=id,
            person=person,
            sender=sender,
            client=request.client,
            client_name=request.client_name,
            name=request.name,
            scopes=scopes,
            resource=request.resource,
            redirect_uri=request.redirect_uri,
            challenge=request.challenge,
            code_hash=request.code_hash,
            code_expires_at=tx.now + CODE_FOR_MS,
        ),
    )
    return {"id": id, "sender": sender, "address": address(sender), "scopes": scopes}


def give_tokens(
    tx: Transaction,
    kind: str,
    found: Connection,
    request: verbs.OpenConnection | verbs.RefreshConnection,
) -> RuleAnswer:
    outcome = {
        "id": found.id,
        "hash": request.token_hash,
        "refresh_hash": request.refresh_hash,
        "expires_at": tx.now + ACCESS_FOR_MS,
        "refresh_expires_at": tx.now + REFRESH_FOR_MS,
    }
    tx.append(kind, outcome, sender=found.sender)
    return protocol_view(found) | {"expires_in": ACCESS_FOR_MS // 1000}


def end_copied(tx: Transaction, found: Connection, code: str, secret: str) -> RuleAnswer:
    """End a connection whose secret was copied. The result is an answer instead of a refusal,
    because the node discards the facts of a refused request."""
    if found.ended_at is None:
        tx.append("token_revoked", {"id": found.id, "reason": code}, sender=found.sender)
    record_refusal(tx, code, hashed(secret)[:16], sender=found.sender)
    return {"refused": code}


# --- views of people and admins


def list_connections(tx: Transaction) -> answers.Connections:
    """List a person's own connections, browser sessions and tokens. For the owner and admins, list
    the connections and browser sessions of everyone, and the open invitations. Another verb lists
    the tokens for them."""
    person = visible_person(tx)
    sessions = tx.all(
        "SELECT id, sender, client, minted_at, expires_at FROM identity_tokens WHERE "
        "use = 'browser' AND revoked_at IS NULL AND expires_at > ? AND (?2 IS NULL OR sender = ?2) "
        "ORDER BY seq",
        tx.now,
        person,
    )
    # Without a person no row matches.
    tokens = tx.all(
        "SELECT t.id, t.sender, t.label, t.minted_at, t.expires_at FROM identity_tokens t "
        "JOIN identity_senders s USING (sender) WHERE t.use IS NULL AND t.revoked_at IS NULL AND "
        "(t.expires_at IS NULL OR t.expires_at > ?1) AND (s.agent = ?2 OR s.agent IN "
        "(SELECT agent FROM identity_owned WHERE person = ?2)) ORDER BY t.seq",
        tx.now,
        person,
    )
    return {
        "connections": [connection_view(found) for found in living(tx, person)],
        "sessions": [
            without_none(
                id=id,
                person=address(sender),
                browser=browser,
                signed_in_at=rfc3339(minted_at),
                expires_at=rfc3339(expires_at),
                current=True if id == tx.caller.token else None,
            )
            for id, sender, browser, minted_at, expires_at in sessions
        ],
        "tokens": [
            without_none(
                id=id,
                address=address(sender),
                label=label,
                minted_at=rfc3339(minted_at),
                expires_at=rfc3339(expires_at) if expires_at is not None else None,
            )
            for id, sender, label, minted_at, expires_at in tokens
        ],
        "invitations": open_invitations(tx) if person is None else [],
    }


def visible_person(tx: Transaction) -> str | None:
    """The person who may see only their own connections; None for callers who may see all."""
    return None if "admin" in tx.caller.scopes else require_person(tx)


def absent(id: str) -> NotFound:
    """Return the refusal of an id that is not in the caller's list of connections."""
    missing = f"{id[:80]!r} was not found, or is not visible to you."
    if id.startswith("tok_"):
        revoke = Remedy(f"interlock token revoke {id}", RevokeToken(id))
        return NotFound(f"{missing} An admin can revoke any token:", revoke)
    to_list = Remedy("interlock connection list", ListConnections())
    return NotFound(f"{missing} List the connections:", to_list)


def behind(tx: Transaction, token: str) -> RuleAnswer | None:
    """The connection of a token, as `explain` shows it to readers of its messages."""
    found = by_id(tx, token)
    if found is None:
        return None
    view = connection_view(found)
    return {name: view[name] for name in ("id", "name", "person", "client")}


def by_id(tx: Transaction, id: str) -> Connection | None:
    return _found(tx, "id = ?", id)


def by_code(tx: Transaction, code_hash: str) -> Connection | None:
    return _found(tx, "code_hash = ?", code_hash)


def by_refresh_token(tx: Transaction, refresh_hash: str) -> Connection | None:
    return _found(tx, "refresh_hash = ?", refresh_hash)


def _found(tx: Transaction, where: str, value: str) -> Connection | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM identity_connections WHERE {where}", value)
    return Connection(*row) if row else None


def by_spent_secret(tx: Transaction, secret: str) -> Connection | None:
    row = tx.one("SELECT id FROM identity_spent WHERE hash = ?", secret)
    return by_id(tx, row[0]) if row else None


def by_token(tx: Transaction, secret: str) -> Connection | None:
    """The connection of a refresh token or an access token."""
    row = tx.one("SELECT id FROM identity_tokens WHERE hash = ?", secret)
    return by_refresh_token(tx, secret) or (by_id(tx, row[0]) if row else None)


def living(tx: Transaction, person: str | None) -> list[Connection]:
    """The connections that have not ended, of one person or of all."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM identity_connections WHERE ended_at IS NULL AND "
        "coalesce(refresh_expires_at, code_expires_at) > ?1 AND (?2 IS NULL OR person = ?2) "
        "ORDER BY granted_at, id",
        tx.now,
        person,
    )
    return [Connection(*row) for row in rows]


def protocol_view(found: Connection) -> RuleAnswer:
    return {
        "id": found.id,
        "client": found.client,
        "sender": found.sender,
        "scopes": found.scopes.split(),
        "resource": found.resource,
        "redirect_uri": found.redirect_uri,
        "challenge": found.challenge,
    }


def connection_view(found: Connection) -> RuleAnswer:
    return without_none(
        id=found.id,
        name=found.name or found.client_name,
        person=address(found.person),
        address=address(found.sender),
        client=found.client_name,
        client_id=found.client,
        scopes=found.scopes.split(),
        resource=found.resource,
        granted_at=rfc3339(found.granted_at),
        refreshed_at=rfc3339(found.refreshed_at) if found.refreshed_at is not None else None,
        expires_at=rfc3339(found.refresh_expires_at) if found.refresh_expires_at else None,
    )


# The codes of refusals that doors record: attempts that never reached a verb, or reached one with a
# secret that was used before. OAuth defines the answers to the client.
INTRUSIONS = {
    "CODE_REPLAYED": "A client used a code twice. Interlock ended its connection.",
    "WRONG_VERIFIER": "A client used a code that it had not requested.",
    "WRONG_CLIENT": "A client used a code or a refresh token of another client.",
    "WRONG_REDIRECT": "A client requested a redirect to an address that it did not register.",
    "PLAIN_CHALLENGE": "A client requested a weaker challenge than S256.",
    "WRONG_RESOURCE": "A client requested a token for another server.",
    "REFRESH_REUSED": "A client used a refresh token twice. Interlock ended its connection.",
    "GUESSED_PASSWORD": "Wrong passwords for one name reached the limit.",
    "FORGED_CONSENT": "A browser sent a form without the cookie that belongs to it.",
    "FRAMED_PAGE": "Another site tried to show a page of Interlock in a frame.",
    "TOKEN_IN_URL": "A request had a token in its URL, which logs and browser histories store.",
    "BAD_REGISTRATION": "A client's registration is too large or malformed.",
    "BAD_CLIENT_DOCUMENT": "A client's metadata document is at a forbidden address, or malformed.",
}
