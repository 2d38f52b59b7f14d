"""Connections: clients that a person lets act as one of their senders.

A connection begins with the person's consent, which gives the client a code; the code opens it
once, within a minute. From then on it is a token of its sender's, short-lived, and a refresh token
that gives the next pair and is good once. A code or a refresh token that is shown again means that
somebody has a copy: the connection ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import AlreadyDone, BadToken, IdentityMismatch, NameTaken, NotFound, Usage
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import may_register, registered
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.people.people import (
    lock_out,
    open_invitations,
    own_agents,
    refuse_others,
    refuse_unsigned,
)
from interlock.rooms.transaction import SYSTEM, RuleAnswer, Transaction
from interlock.rooms.workspace.refusals import is_quiet, record_refusal
from interlock.verbs.addresses import address
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.people.verbs import (
        CloseConnection,
        FindConnection,
        FindGrant,
        GrantConnection,
        NameConnection,
        OpenConnection,
        RefreshConnection,
        ReportRefusal,
        RevokeConnection,
    )

ABSENT = (
    "There is no such connection. interlock connection list shows them; for tokens there is "
    "interlock token revoke."
)
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


def grant(tx: Transaction, act: GrantConnection) -> RuleAnswer:
    person = refuse_unsigned(tx)
    agent = act.agent.removeprefix("@")
    if agent not in own_agents(tx, person):
        raise IdentityMismatch(
            f"@{agent[:80]} is not yours, so no client of yours can act as it. Choose one of your "
            "own.",
            sender=address(person),
            claimed=agent[:80],
        )
    scopes = [scope for scope in BASIC_SCOPES if scope in act.scopes]
    if not scopes or len(scopes) != len(set(act.scopes)):
        raise Usage(f"A connection may have {', '.join(BASIC_SCOPES)}, and at least one of them.")
    id = "con_" + act.code_hash[:12]
    if (found := _find(tx, "id = ?", id)) is not None:
        return _granted_before(tx, found, act, person, scopes)
    kind = "human" if agent == person else "agent"
    if act.new and may_register(tx, agent, act.surface, kind)[1]:
        raise NameTaken("That name is there already. Choose it in the list, or write another one.")
    sender = registered(tx, agent, act.surface, kind)
    tx.append(
        "connection_granted",
        without_none(
            id=id,
            person=person,
            sender=sender,
            client=act.client,
            client_name=act.client_name,
            name=act.name,
            scopes=scopes,
            resource=act.resource,
            redirect_uri=act.redirect_uri,
            challenge=act.challenge,
            code_hash=act.code_hash,
            code_expires_at=tx.now + CODE_FOR_MS,
        ),
    )
    return {"id": id, "sender": sender, "address": address(sender), "scopes": scopes}


def _granted_before(
    tx: Transaction, found: Connection, act: GrantConnection, person: str, scopes: list[str]
) -> RuleAnswer:
    """The answer to a consent that is given twice, as by two clicks: the same as before, for as
    long as nobody has used it."""
    agent = act.agent.removeprefix("@")
    sender = f"{agent}-{act.surface}" if act.surface else agent
    is_same = (found.person, found.sender, found.client) == (person, sender, act.client) and (
        (found.scopes, found.resource, found.redirect_uri, found.challenge)
        == (" ".join(scopes), act.resource, act.redirect_uri, act.challenge)
    )
    if not is_same or _find(tx, "code_hash = ?", act.code_hash) is None:
        raise NameTaken("That code was made before. Make a new one.")
    is_used = found.refreshed_at is not None or found.ended_at is not None
    if is_used or found.code_expires_at <= tx.now:
        raise AlreadyDone("That was allowed before, and was used or has ended since. Begin again.")
    return {
        "id": found.id,
        "sender": found.sender,
        "address": address(found.sender),
        "scopes": found.scopes.split(),
    }


def find_grant(tx: Transaction, act: FindGrant) -> RuleAnswer:
    """What a code was given for, whatever became of it."""
    found = _find(tx, "code_hash = ?", hashed(act.code))
    if found is None:
        raise BadToken("There is no such code.")
    return _protocol_view(found)


def open_connection(tx: Transaction, act: OpenConnection) -> RuleAnswer:
    found = _find(tx, "code_hash = ?", hashed(act.code))
    if found is None or found.client != act.client:
        raise BadToken("There is no such code.")
    if found.refreshed_at is not None:
        return _ended_by(tx, found, "CODE_REPLAYED", act.code)
    if found.code_expires_at <= tx.now or found.ended_at is not None:
        raise BadToken("The code is good no more: it lasts a minute, unless the person ends it.")
    return _given(tx, "connection_opened", found, act)


def find_connection(tx: Transaction, act: FindConnection) -> RuleAnswer:
    secret = hashed(act.secret)
    found = _spent(tx, secret) or _by_token(tx, secret)
    if found is None:
        raise BadToken("There is no such token of a connection.")
    return _protocol_view(found)


def refresh(tx: Transaction, act: RefreshConnection) -> RuleAnswer:
    secret = hashed(act.refresh)
    if (spent := _spent(tx, secret)) is not None:
        return _ended_by(tx, spent, "REFRESH_REUSED", act.refresh)
    found = _find(tx, "refresh_hash = ?", secret)
    if found is None or found.client != act.client or not _lives(tx, found):
        raise BadToken("There is no such refresh token. The person must connect again.")
    return _given(tx, "connection_refreshed", found, act)


def _lives(tx: Transaction, found: Connection) -> bool:
    until = found.refresh_expires_at or found.code_expires_at
    return found.ended_at is None and until > tx.now


def _given(
    tx: Transaction, kind: str, found: Connection, act: OpenConnection | RefreshConnection
) -> RuleAnswer:
    outcome = {
        "id": found.id,
        "hash": act.token_hash,
        "refresh_hash": act.refresh_hash,
        "expires_at": tx.now + ACCESS_FOR_MS,
        "refresh_expires_at": tx.now + REFRESH_FOR_MS,
    }
    tx.append(kind, outcome, sender=found.sender)
    return _protocol_view(found) | {"expires_in": ACCESS_FOR_MS // 1000}


def _ended_by(tx: Transaction, found: Connection, code: str, secret: str) -> RuleAnswer:
    """Ends a connection of which somebody has a copy. It is an answer and no refusal, because
    what a refused act records is undone."""
    if found.ended_at is None:
        tx.append("token_revoked", {"id": found.id, "reason": code}, sender=found.sender)
    record_refusal(tx, code, hashed(secret)[:16], sender=found.sender)
    return {"refused": code}


def close(tx: Transaction, act: CloseConnection) -> RuleAnswer:
    found = _by_token(tx, hashed(act.secret))
    if found is not None and found.client == act.client and found.ended_at is None:
        tx.append("token_revoked", {"id": found.id}, sender=found.sender)
    return {}


# --- what people and admins see


def list_connections(tx: Transaction) -> RuleAnswer:
    """A person's own, where they have signed in, and the tokens that lie on their machines;
    everybody's, for the owner and admins, who list tokens by another verb."""
    person = _person(tx)
    return {
        "connections": [_view(found) for found in living(tx, person)],
        "sessions": _sessions(tx, person),
        "tokens": _tokens(tx, person) if person is not None else [],
        "invitations": open_invitations(tx) if person is None else [],
    }


def _person(tx: Transaction) -> str | None:
    """The person whose own alone may be seen; None for who may see everybody's."""
    return None if "admin" in tx.caller.scopes else refuse_others(tx)


def _sessions(tx: Transaction, person: str | None) -> list[RuleAnswer]:
    rows = tx.all(
        "SELECT id, sender, client, minted_at, expires_at FROM identity_tokens WHERE "
        "use = 'browser' AND revoked_at IS NULL AND expires_at > ? AND (?2 IS NULL OR sender = ?2) "
        "ORDER BY seq",
        tx.now,
        person,
    )
    return [
        without_none(
            id=id,
            person=address(sender),
            browser=browser,
            signed_in_at=rfc3339(minted_at),
            expires_at=rfc3339(expires_at),
            current=True if id == tx.caller.token else None,
        )
        for id, sender, browser, minted_at, expires_at in rows
    ]


def _tokens(tx: Transaction, person: str) -> list[RuleAnswer]:
    rows = tx.all(
        "SELECT t.id, t.sender, t.label, t.minted_at, t.expires_at FROM identity_tokens t "
        "JOIN identity_senders s USING (sender) WHERE t.use IS NULL AND t.revoked_at IS NULL AND "
        "(t.expires_at IS NULL OR t.expires_at > ?1) AND (s.agent = ?2 OR s.agent IN "
        "(SELECT agent FROM identity_owned WHERE person = ?2)) ORDER BY t.seq",
        tx.now,
        person,
    )
    return [
        without_none(
            id=id,
            address=address(sender),
            label=label,
            minted_at=rfc3339(minted_at),
            expires_at=rfc3339(expires_at) if expires_at is not None else None,
        )
        for id, sender, label, minted_at, expires_at in rows
    ]


def name_connection(tx: Transaction, act: NameConnection) -> RuleAnswer:
    for found in living(tx, _person(tx)):
        if found.id == act.id:
            tx.append("connection_named", {"id": found.id, "name": act.name})
            return _view(found._replace(name=act.name))
    raise NotFound(ABSENT)


def revoke(tx: Transaction, act: RevokeConnection) -> RuleAnswer:
    """Ends whatever of one's own is listed: a connection, a browser's session, a token on some
    machine; or withdraws an invitation; or, of a person who is named, all of that."""
    if act.id.startswith("@"):
        return lock_out(tx, act.id.removeprefix("@"))
    listed = list_connections(tx)
    if any(found["id"] == act.id for found in listed["invitations"]):
        tx.append("invitation_withdrawn", {"id": act.id})
    elif any(found["id"] == act.id for kind in listed.values() for found in kind):
        tx.append("token_revoked", {"id": act.id})
    else:
        raise NotFound(ABSENT)
    return {"revoked": [act.id]}


def report(tx: Transaction, act: ReportRefusal) -> RuleAnswer:
    """Keeps what a door refused: of a connection as often as any refusal, of a person or of
    anybody else once in a while, since whoever can reach the door could fill the log with it."""
    found = _find(tx, "id = ?", act.connection) if act.connection else None
    sender = found.sender if found else _person_named(tx, act.person) or SYSTEM
    if found is not None or not is_quiet(tx, act.reason, sender):
        record_refusal(tx, act.reason, act.digest, sender=sender)
    return {}


def _person_named(tx: Transaction, name: str | None) -> str | None:
    row = tx.one("SELECT name FROM identity_people WHERE name = ?", name)
    return row[0] if row else None


def behind(tx: Transaction, token: str) -> RuleAnswer | None:
    """For `explain`: the connection that a token is of, as far as its messages' readers know it."""
    found = _find(tx, "id = ?", token)
    shown = ("id", "name", "client", "person")
    return {name: value for name, value in _view(found).items() if name in shown} if found else None


def _find(tx: Transaction, where: str, value: str) -> Connection | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM identity_connections WHERE {where}", value)
    return Connection(*row) if row else None


def _spent(tx: Transaction, secret: str) -> Connection | None:
    row = tx.one("SELECT id FROM identity_spent WHERE hash = ?", secret)
    return _find(tx, "id = ?", row[0]) if row else None


def _by_token(tx: Transaction, secret: str) -> Connection | None:
    """The connection that a refresh or an access token is of."""
    row = tx.one("SELECT id FROM identity_tokens WHERE hash = ?", secret)
    return _find(tx, "refresh_hash = ?", secret) or (_find(tx, "id = ?", row[0]) if row else None)


def living(tx: Transaction, person: str | None) -> list[Connection]:
    """A person's, or everybody's."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM identity_connections WHERE ended_at IS NULL AND "
        "coalesce(refresh_expires_at, code_expires_at) > ?1 AND (?2 IS NULL OR person = ?2) "
        "ORDER BY granted_at, id",
        tx.now,
        person,
    )
    return [Connection(*row) for row in rows]


def _protocol_view(found: Connection) -> RuleAnswer:
    return {
        "id": found.id,
        "client": found.client,
        "sender": found.sender,
        "scopes": found.scopes.split(),
        "resource": found.resource,
        "redirect_uri": found.redirect_uri,
        "challenge": found.challenge,
    }


def _view(found: Connection) -> RuleAnswer:
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
