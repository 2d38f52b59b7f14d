"""People: invitations, signing in, and the agents that a person owns.

The holder of an invitation uses it once. A person uses it in a browser, and chooses a password. Or
another machine uses it, and stores a token that it made itself. The log has a proof that is derived
from the password and the workspace's key. So a reader of the log alone cannot guess passwords.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import (
    BadToken,
    MissingScope,
    NameTaken,
    NotFound,
    Remedy,
    TokenExpired,
    Usage,
)
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import kind_of, may_register, registered, senders_of
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import hashed, token_id
from interlock.rooms.identity.tokens import mint_token
from interlock.rooms.identity.verbs import TO_LIST_AGENTS, RevokeToken
from interlock.rooms.people.verbs import RevokeConnection
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.verbs.addresses import address, check_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.people import verbs

INVITED_FOR_MS = 3 * 86_400_000
SIGNED_IN_FOR_MS = 30 * 86_400_000


class Invitation(NamedTuple):
    """A row of the table. `own` has the agents that the person will own, separated by spaces."""

    id: str
    name: str
    surface: str | None
    kind: str
    own: str
    invited_by: str
    expires_at: int
    used_at: int | None


_COLUMNS = ", ".join(Invitation._fields)


def invite(tx: Transaction, request: verbs.Invite) -> answers.Invited:
    """Invite a person or an agent. Raises Usage. Raises NameTaken if the invitation contradicts the
    state or another open invitation, because its holder could not join."""
    name = request.name.removeprefix("@")
    kind = request.kind or kind_of(tx, name) or "human"
    sender, _ = may_register(tx, name, request.surface, kind)
    own = tuple(dict.fromkeys(agent.removeprefix("@") for agent in request.own))
    if own and kind != "human":
        raise Usage(f"@{name} is an agent, and an agent cannot own agents. Invite a person.")
    for agent in own:
        _refuse_owning(tx, agent, name)

    rows = tx.all(
        "SELECT id, name, kind, own FROM identity_invitations WHERE used_at IS NULL AND "
        "expires_at > ? ORDER BY id",
        tx.now,
    )
    for id, other, is_a, _ in rows:
        if other == name and is_a != kind:
            what = "a person" if is_a == "human" else "an agent"
            raise NameTaken(
                f"@{name} is already invited as {what}. To withdraw that invitation:",
                Remedy(f"interlock connection revoke {id}", RevokeConnection(id)),
                name=name,
            )
    owners = {agent: person for _, person, _, agents in rows for agent in agents.split()}
    if kind == "human" and name in owners:
        raise NameTaken(
            f"@{name} is an agent that @{owners[name]}, who is invited, will own. Choose another "
            "name.",
            name=name,
        )
    people = [person for _, person, is_a, _ in rows if is_a == "human"]
    for agent in own:
        if agent in people:
            raise NameTaken(
                f"@{agent} is invited as a person, and people have no owner. Name an agent.",
                name=agent,
            )
        if owners.get(agent, name) != name:
            raise NameTaken(
                f"@{owners[agent]}, who is invited, will own @{agent}. An agent has at most one "
                "owner.",
                name=agent,
            )

    id = "inv_" + request.code_hash[:12]
    if tx.one("SELECT 1 FROM identity_invitations WHERE id = ?", id):
        raise NameTaken(f"The invitation {id} was made before. Make a new code.")
    expires_at = tx.now + (request.ttl_s * 1000 if request.ttl_s is not None else INVITED_FOR_MS)
    outcome = without_none(name=name, surface=request.surface, kind=kind, own=list(own))
    tx.append(
        "person_invited", outcome | {"id": id, "hash": request.code_hash, "expires_at": expires_at}
    )
    return without_none(
        id=id,
        name=name,
        sender=sender,
        kind=kind,
        own=[address(agent) for agent in own] or None,
        expires_at=rfc3339(expires_at),
    )


def _refuse_owning(tx: Transaction, agent: str, person: str) -> None:
    """Refuse an agent that the person cannot own. An agent has at most one owner."""
    check_name(agent, tx.setting("names.pattern"))
    if agent == person or kind_of(tx, agent) not in (None, "agent"):
        raise Usage(f"@{agent} is a person, and people have no owner. Name an agent.")
    surface = tx.one("SELECT agent FROM identity_senders WHERE sender = ?", agent)
    if surface and surface[0] != agent:
        raise Usage(
            f"@{agent} is a surface of @{surface[0]}, and a person owns an agent with all its "
            "surfaces. Name the agent:",
            Remedy(f"--own {surface[0]}", http=f'`"own": ["{surface[0]}"]`'),
        )
    may_register(tx, agent, None, "agent")
    owner = tx.one("SELECT person FROM identity_owned WHERE agent = ?", agent)
    if owner and owner[0] != person:
        raise NameTaken(f"@{owner[0]} owns @{agent}. An agent has at most one owner.", name=agent)


def open_invitations(tx: Transaction) -> list[RuleAnswer]:
    """The invitations that are neither used nor expired."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM identity_invitations WHERE used_at IS NULL AND expires_at > ? "
        "ORDER BY expires_at, id",
        tx.now,
    )
    return [invitation_view(Invitation(*row)) for row in rows]


def invitation_view(found: Invitation) -> RuleAnswer:
    return without_none(
        id=found.id,
        name=found.name,
        surface=found.surface,
        kind=found.kind,
        own=[address(agent) for agent in found.own.split()] or None,
        invited_by=address(found.invited_by),
        expires_at=rfc3339(found.expires_at),
    )


def proof_of(verifier: str) -> str:
    """Return the form of a verifier that the log stores. It does not reveal the verifier."""
    return hashlib.sha256(verifier.encode()).hexdigest()


def is_password(tx: Transaction, person: str, verifier: str) -> bool:
    row = tx.one("SELECT verifier FROM identity_people WHERE name = ?", person)
    return row is not None and compare_digest(row[0], proof_of(verifier))


def valid_invitation(tx: Transaction, code: str) -> Invitation:
    row = tx.one(f"SELECT {_COLUMNS} FROM identity_invitations WHERE hash = ?", hashed(code))
    if row is None:
        raise BadToken(
            "This invitation does not exist, was withdrawn, or was replaced by a newer one. Ask "
            "for a new invitation."
        )
    found = Invitation(*row)
    if found.used_at is not None:
        raise BadToken("This invitation was used. It is valid only once. Ask for a new invitation.")
    if found.expires_at <= tx.now:
        end = rfc3339(found.expires_at)
        raise TokenExpired(f"This invitation expired at {end}. Ask for a new invitation.")
    return found


def join_invited(tx: Transaction, invitation: Invitation) -> str:
    """Register the sender of an invitation and its agents. The sender is the caller from here
    on."""
    id, name, surface, kind, own = invitation[:5]
    tx.caller = Caller(f"{name}-{surface}" if surface else name, name, kind, surface)
    sender = registered(tx, name, surface, kind)
    for agent in own.split():
        _refuse_owning(tx, agent, name)
        registered(tx, agent, None, "agent")
        tx.append("agent_owned", {"agent": agent, "person": name})
    tx.append("invitation_accepted", {"id": id, "sender": sender})
    return sender


def start_browser_session(
    tx: Transaction, name: str, token_hash: str, label: str | None
) -> RuleAnswer:
    expires_at = tx.now + SIGNED_IN_FOR_MS
    mint_token(tx, name, token_hash, None, BASIC_SCOPES, expires_at, use="browser", client=label)
    return {"sender": name, "address": address(name), "token_id": token_id(token_hash)}


def lock_out(tx: Transaction, person: str) -> answers.LockedOut:
    """End every access of a person: the password, browser sessions, connections and own tokens.
    Withdraw the invitations of the person, of the person's agents, and those that the person made.

    The agents keep their tokens, and have no owner afterwards. The answer names the tokens that the
    person minted for others. Raises MissingScope or NotFound."""
    if "admin" not in tx.caller.scopes:
        raise MissingScope(
            "Only the owner or an admin can lock a person out. Ask one of them.", scope="admin"
        )
    kind = kind_of(tx, person)
    agents = own_agents(tx, person)[1:]
    senders = senders_of(tx.state, person)
    invitations = [
        found["id"]
        for found in open_invitations(tx)
        if found["name"] in (person, *agents)
        or found["invited_by"] in [address(sender) for sender in senders]
    ]
    if kind != "human" and (kind is not None or not invitations):
        if kind is None:
            raise NotFound(
                f"@{person[:80]} is not registered. List agents and people:", TO_LIST_AGENTS
            )
        raise NotFound(
            f"@{person} is not a person, and only people can be locked out. To revoke the tokens "
            f"of @{person}:",
            Remedy(f"interlock token revoke --sender {person}", RevokeToken(sender=person)),
        )
    own_tokens = tx.column(
        "SELECT t.id FROM identity_tokens t JOIN identity_senders s USING (sender) WHERE "
        "s.agent = ? AND t.use IS NULL AND t.revoked_at IS NULL ORDER BY t.seq",
        person,
    )
    ended = [*sign_ins(tx, person), *own_tokens]
    for id in ended:
        tx.append("token_revoked", {"id": id})
    for id in invitations:
        tx.append("invitation_withdrawn", {"id": id})
    tx.append("person_locked_out", {"person": person})
    marks = ", ".join("?" * len(senders))
    minted = tx.column(
        f"SELECT id FROM identity_tokens WHERE use IS NULL AND revoked_at IS NULL AND (expires_at "
        f"IS NULL OR expires_at > ?) AND minted_by IN ({marks}) ORDER BY seq",
        tx.now,
        *senders,
    )
    return {
        "person": address(person),
        "revoked": [*ended, *invitations],
        "agents": [address(agent) for agent in agents],
        "minted": minted,
    }


def sign_ins(tx: Transaction, person: str) -> list[str]:
    """The browser sessions and the connections of a person."""
    return tx.column(
        "SELECT id FROM identity_tokens WHERE sender = ?1 AND use = 'browser' AND "
        "revoked_at IS NULL UNION ALL "
        "SELECT id FROM identity_connections WHERE person = ?1 AND ended_at IS NULL ORDER BY id",
        person,
    )


def require_person(tx: Transaction) -> str:
    """Return the person who calls, with any token. Raises MissingScope for other callers."""
    if tx.caller.kind != "human" or tx.caller.owner:
        raise MissingScope(
            f"@{tx.caller.sender} is not a person. Only people, admins and the owner can list and "
            "change connections.",
            Remedy(
                "To act as the owner, omit --from.",
                http="Use the token of a person or an admin.",
                mcp="Ask your user.",
            ),
            scope="human",
        )
    return tx.caller.agent


def require_signed_in(tx: Transaction) -> str:
    """Return the person who has signed in. Raises MissingScope for other callers. A token in a file
    is not enough, because every program on that machine can read it."""
    if tx.caller.use != "browser":
        raise MissingScope(
            "Only a person who has signed in with a browser can do this. Sign in at /person of the "
            "server.",
            scope="human",
        )
    return require_person(tx)


def own_agents(tx: Transaction, person: str) -> list[str]:
    """The person, and the agents that the person owns."""
    owned = "SELECT agent FROM identity_owned WHERE person = ? ORDER BY agent"
    return [person, *tx.column(owned, person)]
