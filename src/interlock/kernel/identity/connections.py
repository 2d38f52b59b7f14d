"""Connections: clients that a person lets act as one of their senders.

A connection begins with the person's consent, which gives the client a code; the code opens it
once, within a minute. From then on it is a token of its sender's, short-lived, and a refresh token
that gives the next pair and is good once. A code or a refresh token that is shown again means that
somebody has a copy: the connection ends.
"""

from interlock.contracts.acts import (
    CloseConnection,
    FindConnection,
    FindGrant,
    GrantConnection,
    ListConnections,
    NameConnection,
    OpenConnection,
    RefreshConnection,
    ReportRefusal,
    RevokeConnection,
)
from interlock.contracts.addresses import address
from interlock.contracts.times import rfc3339
from interlock.contracts.tokens import hashed
from interlock.errors import BadToken, IdentityMismatch, NameTaken, NotFound, Usage
from interlock.kernel.identity.names import registered
from interlock.kernel.identity.people import own_agents, refuse_others
from interlock.kernel.identity.tokens import BASIC_SCOPES
from interlock.kernel.moment import SYSTEM, Answer, Moment, Row, absent_dropped
from interlock.kernel.refusals import is_quiet, record_refusal

CODE_FOR_MS = 60_000
ACCESS_FOR_MS = 3_600_000
REFRESH_FOR_MS = 30 * 86_400_000
_COLUMNS = (
    "id, person, sender, client, client_name, name, scopes, resource, redirect_uri, challenge, "
    "code_expires_at, granted_at, refresh_hash, refresh_expires_at, refreshed_at, ended_at"
)


class Connection:
    """A row of the table, by name."""

    def __init__(self, row: Row) -> None:
        self.id, self.person, self.sender, self.client, self.client_name, self.name = row[:6]
        self.scopes: list[str] = row[6].split()
        self.resource, self.redirect_uri, self.challenge, self.code_expires_at = row[7:11]
        self.granted_at, self.refresh_hash, self.refresh_expires_at = row[11:14]
        self.refreshed_at, self.ended_at = row[14:]


def grant(moment: Moment, act: GrantConnection) -> Answer:
    person = refuse_others(moment)
    agent = act.agent.removeprefix("@")
    if agent not in own_agents(moment, person):
        raise IdentityMismatch(
            f"@{agent[:80]} is not yours, so no client of yours can act as it. Choose one of your "
            "own.",
            sender=address(person),
            claimed=agent[:80],
        )
    scopes = [scope for scope in BASIC_SCOPES if scope in act.scopes]
    if not scopes or len(scopes) != len(set(act.scopes)):
        raise Usage(f"A connection may have {', '.join(BASIC_SCOPES)}, and at least one of them.")
    kind = "human" if agent == person else "agent"
    sender = registered(moment, agent, act.surface, kind)
    id = "con_" + act.code_hash[:12]
    if _find(moment, "code_hash = ?", act.code_hash):
        raise NameTaken("That code was made before. Make a new one.")
    moment.record(
        "connection_granted",
        absent_dropped(
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
            code_expires_at=moment.now + CODE_FOR_MS,
        ),
    )
    return {"id": id, "sender": sender, "address": address(sender), "scopes": scopes}


def find_grant(moment: Moment, act: FindGrant) -> Answer:
    """What a code was given for, whatever became of it."""
    found = _find(moment, "code_hash = ?", hashed(act.code))
    if found is None:
        raise BadToken("There is no such code.")
    return _protocol_view(found)


def open_connection(moment: Moment, act: OpenConnection) -> Answer:
    found = _find(moment, "code_hash = ?", hashed(act.code))
    if found is None or found.client != act.client:
        raise BadToken("There is no such code.")
    if found.refreshed_at is not None or found.ended_at is not None:
        return _ended_by(moment, found, "CODE_REPLAYED", act.code)
    if found.code_expires_at <= moment.now:
        raise BadToken("The code has expired: it is good for a minute.")
    return _given(moment, "connection_opened", found, act)


def find_connection(moment: Moment, act: FindConnection) -> Answer:
    secret = hashed(act.secret)
    found = _find(moment, "refresh_hash = ?", secret) or _spent(moment, secret)
    if found is None:
        row = moment.one("SELECT id FROM identity_tokens WHERE hash = ?", secret)
        found = _find(moment, "id = ?", row[0]) if row else None
    if found is None:
        raise BadToken("There is no such token of a connection.")
    return _protocol_view(found)


def refresh(moment: Moment, act: RefreshConnection) -> Answer:
    secret = hashed(act.refresh)
    if (spent := _spent(moment, secret)) is not None:
        return _ended_by(moment, spent, "REFRESH_REUSED", act.refresh)
    found = _find(moment, "refresh_hash = ?", secret)
    if found is None or found.client != act.client or found.ended_at is not None:
        raise BadToken("There is no such refresh token. The person must connect again.")
    if found.refresh_expires_at <= moment.now or _is_suspended(moment, found):
        raise BadToken("The refresh token has expired. The person must connect again.")
    return _given(moment, "connection_refreshed", found, act)


def _given(
    moment: Moment, kind: str, found: Connection, act: OpenConnection | RefreshConnection
) -> Answer:
    outcome = {
        "id": found.id,
        "hash": act.token_hash,
        "refresh_hash": act.refresh_hash,
        "expires_at": moment.now + ACCESS_FOR_MS,
        "refresh_expires_at": moment.now + REFRESH_FOR_MS,
    }
    moment.record(kind, outcome, sender=found.sender)
    return _protocol_view(found) | {"expires_in": ACCESS_FOR_MS // 1000}


def _ended_by(moment: Moment, found: Connection, code: str, secret: str) -> Answer:
    """Ends a connection of which somebody has a copy. It is an answer and no refusal, because
    what a refused act records is undone."""
    if found.ended_at is None:
        moment.record("token_revoked", {"id": found.id, "reason": code}, sender=found.sender)
    record_refusal(moment, code, hashed(secret)[:16], sender=found.sender)
    return {"refused": code}


def _is_suspended(moment: Moment, found: Connection) -> bool:
    row = moment.one("SELECT suspended FROM identity_tokens WHERE id = ?", found.id)
    return bool(row and row[0])


def close(moment: Moment, act: CloseConnection) -> Answer:
    secret = hashed(act.secret)
    found = _find(moment, "refresh_hash = ?", secret)
    if found is None:
        row = moment.one("SELECT id FROM identity_tokens WHERE hash = ?", secret)
        found = _find(moment, "id = ?", row[0]) if row else None
    if found is not None and found.client == act.client and found.ended_at is None:
        moment.record("token_revoked", {"id": found.id}, sender=found.sender)
    return {}


# --- what people and admins see


def list_connections(moment: Moment, act: ListConnections) -> Answer:
    """A person's own, and where they have signed in; everybody's, for the owner and admins."""
    person = None if "admin" in moment.caller.scopes else refuse_others(moment)
    found = _all(moment, person)
    opened = [c for c in found if c.refreshed_at is not None or c.code_expires_at > moment.now]
    return {
        "connections": [_view(c) for c in opened if c.ended_at is None],
        "sessions": _sessions(moment, person),
    }


def _sessions(moment: Moment, person: str | None) -> list[Answer]:
    rows = moment.all(
        "SELECT id, sender, client, minted_at, expires_at FROM identity_tokens WHERE "
        "use = 'browser' AND revoked_at IS NULL AND expires_at > ? AND (?2 IS NULL OR sender = ?2) "
        "ORDER BY seq",
        moment.now,
        person,
    )
    return [
        absent_dropped(
            id=id,
            person=address(sender),
            browser=browser,
            signed_in_at=rfc3339(minted_at),
            expires_at=rfc3339(expires_at),
            current=True if id == moment.caller.token else None,
        )
        for id, sender, browser, minted_at, expires_at in rows
    ]


def name_connection(moment: Moment, act: NameConnection) -> Answer:
    found = _own(moment, act.id)
    moment.record("connection_named", {"id": found.id, "name": act.name})
    found.name = act.name
    return _view(found)


def revoke(moment: Moment, act: RevokeConnection) -> Answer:
    """Ends a connection, or where somebody has signed in."""
    person = None if "admin" in moment.caller.scopes else refuse_others(moment)
    if not any(session["id"] == act.id for session in _sessions(moment, person)):
        _own(moment, act.id)
    moment.record("token_revoked", {"id": act.id})
    return {"revoked": [act.id]}


def _own(moment: Moment, id: str) -> Connection:
    person = None if "admin" in moment.caller.scopes else refuse_others(moment)
    for found in _all(moment, person):
        if found.id == id and found.ended_at is None:
            return found
    raise NotFound("There is no such connection. interlock connection list shows them.")


def report(moment: Moment, act: ReportRefusal) -> Answer:
    """Keeps what a door refused: of somebody known as often as any refusal, of anybody else once
    in a while, since whoever can reach the door could fill the log with it."""
    found = _find(moment, "id = ?", act.connection) if act.connection else None
    sender = found.sender if found else SYSTEM
    if found is not None or not is_quiet(moment, act.reason, sender):
        record_refusal(moment, act.reason, act.digest, sender=sender)
    return {}


def _find(moment: Moment, where: str, value: str) -> Connection | None:
    row = moment.one(f"SELECT {_COLUMNS} FROM identity_connections WHERE {where}", value)
    return Connection(row) if row else None


def _spent(moment: Moment, secret: str) -> Connection | None:
    row = moment.one("SELECT id FROM identity_spent WHERE hash = ?", secret)
    return _find(moment, "id = ?", row[0]) if row else None


def _all(moment: Moment, person: str | None) -> list[Connection]:
    rows = moment.all(
        f"SELECT {_COLUMNS} FROM identity_connections WHERE ?1 IS NULL OR person = ?1 "
        "ORDER BY granted_at, id",
        person,
    )
    return [Connection(row) for row in rows]


def _protocol_view(found: Connection) -> Answer:
    return {
        "id": found.id,
        "client": found.client,
        "sender": found.sender,
        "scopes": found.scopes,
        "resource": found.resource,
        "redirect_uri": found.redirect_uri,
        "challenge": found.challenge,
    }


def _view(found: Connection) -> Answer:
    return absent_dropped(
        id=found.id,
        name=found.name or found.client_name,
        person=address(found.person),
        address=address(found.sender),
        client=found.client_name,
        client_id=found.client,
        scopes=found.scopes,
        resource=found.resource,
        granted_at=rfc3339(found.granted_at),
        refreshed_at=rfc3339(found.refreshed_at) if found.refreshed_at is not None else None,
        expires_at=rfc3339(found.refresh_expires_at) if found.refresh_expires_at else None,
    )
