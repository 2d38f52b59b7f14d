"""People: how they are invited, how they sign in, and which agents are theirs.

Whoever holds an invitation may use it, once: in a browser, as a person who chooses a password, or
on another machine, which keeps a token that it made itself. A password is known by what it gives
under the workspace's key, so that the log alone lets nobody try words against it.
"""

from __future__ import annotations

import hashlib
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import BadToken, MissingScope, NameTaken, NotFound, TokenExpired, Usage
from interlock.log.times import rfc3339
from interlock.rooms.identity.names import kind_of, may_register, registered, senders_of
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import hashed, token_id
from interlock.rooms.identity.tokens import mint_token
from interlock.rooms.transaction import Caller, RuleAnswer, Transaction
from interlock.verbs.addresses import address, check_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.people.verbs import (
        AcceptInvitation,
        ChangePassword,
        Enrol,
        Invite,
        ShowInvitation,
        SignIn,
    )

INVITED_FOR_MS = 3 * 86_400_000
SIGNED_IN_FOR_MS = 30 * 86_400_000


class Invitation(NamedTuple):
    """`own` are the agents that will be the person's, with blanks between them."""

    id: str
    name: str
    surface: str | None
    kind: str
    own: str
    invited_by: str
    expires_at: int
    used_at: int | None


_COLUMNS = ", ".join(Invitation._fields)


def invite(tx: Transaction, act: Invite) -> RuleAnswer:
    name = act.name.removeprefix("@")
    kind = act.kind or kind_of(tx, name) or "human"
    sender, _ = may_register(tx, name, act.surface, kind)
    own = tuple(dict.fromkeys(agent.removeprefix("@") for agent in act.own))
    if own and kind != "human":
        raise Usage(f"@{name} is an agent, and agents own none. Invite the person who owns it.")
    for agent in own:
        _refuse_owning(tx, agent, name)
    _refuse_promised(tx, name, kind, own)
    id = "inv_" + act.code_hash[:12]
    if tx.one("SELECT 1 FROM identity_invitations WHERE id = ?", id):
        raise NameTaken("That invitation was made before. Make a new one.")
    expires_at = tx.now + (act.ttl_s * 1000 if act.ttl_s is not None else INVITED_FOR_MS)
    outcome = without_none(name=name, surface=act.surface, kind=kind, own=list(own))
    tx.append(
        "person_invited", outcome | {"id": id, "hash": act.code_hash, "expires_at": expires_at}
    )
    invited = without_none(id=id, name=name, sender=sender, kind=kind)
    owned = {"own": [address(agent) for agent in own]} if own else {}
    return invited | owned | {"expires_at": rfc3339(expires_at)}


def _refuse_owning(tx: Transaction, agent: str, person: str) -> None:
    """An agent is one person's, or nobody's."""
    check_name(agent, tx.setting("names.pattern"))
    if agent == person or kind_of(tx, agent) not in (None, "agent"):
        raise Usage(f"@{agent} is a person, and nobody owns people. Name agents with --own.")
    surface = tx.one("SELECT agent FROM identity_senders WHERE sender = ?", agent)
    if surface and surface[0] != agent:
        raise Usage(
            f"@{agent} is a surface of @{surface[0]}, and surfaces go with their agent: "
            f"--own {surface[0]}"
        )
    may_register(tx, agent, None, "agent")
    owner = owner_of(tx, agent)
    if owner is not None and owner != person:
        raise NameTaken(f"@{agent} is @{owner}'s. An agent is one person's.", name=agent)


def _refuse_promised(tx: Transaction, name: str, kind: str, own: tuple[str, ...]) -> None:
    """What another open invitation says must not be made untrue: its holder could not join."""
    rows = tx.all(
        "SELECT name, kind, own FROM identity_invitations WHERE used_at IS NULL AND "
        "expires_at > ? ORDER BY id",
        tx.now,
    )
    for other, is_a, _ in rows:
        if other == name and is_a != kind:
            what = "a person" if is_a == "human" else "an agent"
            raise NameTaken(
                f"@{name} is invited as {what} already. To take that back: interlock connection "
                "list shows the invitation, and interlock connection revoke withdraws it.",
                name=name,
            )
    owners = {agent: person for person, _, agents in rows for agent in agents.split()}
    if kind == "human" and name in owners:
        raise NameTaken(
            f"@{name} will be an agent of @{owners[name]}'s, who is invited with it.", name=name
        )
    people = [person for person, is_a, _ in rows if is_a == "human"]
    for agent in own:
        if agent in people:
            raise NameTaken(f"@{agent} is invited as a person, and nobody owns people.", name=agent)
        if owners.get(agent, name) != name:
            raise NameTaken(
                f"@{agent} will be @{owners[agent]}'s, who is invited with it. An agent is one "
                "person's.",
                name=agent,
            )


def open_invitations(tx: Transaction) -> list[RuleAnswer]:
    """Those that somebody may still use."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM identity_invitations WHERE used_at IS NULL AND expires_at > ? "
        "ORDER BY expires_at, id",
        tx.now,
    )
    return [_view(Invitation(*row)) for row in rows]


def _view(found: Invitation) -> RuleAnswer:
    return without_none(
        id=found.id,
        name=found.name,
        surface=found.surface,
        kind=found.kind,
        own=[address(agent) for agent in found.own.split()] or None,
        invited_by=address(found.invited_by),
        expires_at=rfc3339(found.expires_at),
    )


def show_invitation(tx: Transaction, act: ShowInvitation) -> RuleAnswer:
    found = _good(tx, act.code)
    has_password = tx.one("SELECT 1 FROM identity_people WHERE name = ?", found.name)
    return _view(found) | ({"has_password": True} if has_password else {})


def accept(tx: Transaction, act: AcceptInvitation) -> RuleAnswer:
    """Joins on another machine, as the sender of the invitation."""
    found = _good(tx, act.code)
    sender = _joined(tx, found)
    made = mint_token(tx, sender, act.token_hash, None, BASIC_SCOPES, None)
    return without_none(
        sender=sender,
        address=address(sender),
        agent=found.name,
        surface=found.surface,
        kind=found.kind,
    ) | {"scopes": list(BASIC_SCOPES), "token_id": made}


def enrol(tx: Transaction, act: Enrol) -> RuleAnswer:
    """Joins in a browser, as a person with a password, who is signed in with that. Whoever knew a
    password that was set before may have signed in and let clients in: all of that ends."""
    found = _good(tx, act.code)
    name = found.name
    had = tx.one("SELECT 1 FROM identity_people WHERE name = ?", name)
    if found.kind != "human" or (had and found.surface is not None):
        raise Usage("This invitation is for another machine. Type there: interlock join LINK")
    _joined(tx, found)
    registered(tx, name, None, "human")
    for id in _ways_in(tx, name):
        tx.append("token_revoked", {"id": id})
    tx.append("password_set", {"person": name, "proof": _proof(act.verifier)})
    return _signed_in(tx, name, act.token_hash, act.label)


def _proof(verifier: str) -> str:
    """What the log has, from which nobody gets back to what signs in."""
    return hashlib.sha256(verifier.encode()).hexdigest()


def _good(tx: Transaction, code: str) -> Invitation:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM identity_invitations WHERE hash = ?",
        hashed(code),
    )
    if row is None:
        raise BadToken("There is no such invitation, or a later one took its place. Ask for one.")
    found = Invitation(*row)
    if found.used_at is not None:
        raise BadToken("This invitation was used. It is good once: ask for another.")
    if found.expires_at <= tx.now:
        end = rfc3339(found.expires_at)
        raise TokenExpired(f"This invitation expired at {end}. Ask for another.")
    return found


def _joined(tx: Transaction, invitation: Invitation) -> str:
    """The sender that an invitation is for, who does what follows."""
    id, name, surface, kind, own = invitation[:5]
    tx.caller = Caller(f"{name}-{surface}" if surface else name, name, kind, surface)
    sender = registered(tx, name, surface, kind)
    for agent in own.split():
        _refuse_owning(tx, agent, name)
        registered(tx, agent, None, "agent")
        tx.append("agent_owned", {"agent": agent, "person": name})
    tx.append("invitation_accepted", {"id": id, "sender": sender})
    return sender


def sign_in(tx: Transaction, act: SignIn) -> RuleAnswer:
    name = act.name.removeprefix("@")
    row = tx.one("SELECT verifier FROM identity_people WHERE name = ?", name)
    if row is None or not compare_digest(row[0], _proof(act.verifier)):
        raise BadToken("That is not the name and the password of anybody here.")
    tx.caller = Caller(name, name, "human")
    return _signed_in(tx, name, act.token_hash, act.label)


def change_password(tx: Transaction, act: ChangePassword) -> RuleAnswer:
    """Sets another password for whoever knows the one before. Other browsers are signed out; what
    the person let act for them goes on, since nobody else is known to have known the password."""
    name = refuse_unsigned(tx)
    row = tx.one("SELECT verifier FROM identity_people WHERE name = ?", name)
    if row is None or not compare_digest(row[0], _proof(act.verifier)):
        raise BadToken("That is not your password. Nothing was changed.")
    ended = tx.all(
        "SELECT id FROM identity_tokens WHERE sender = ? AND use = 'browser' AND id <> ? AND "
        "revoked_at IS NULL ORDER BY seq",
        name,
        tx.caller.token,
    )
    for (id,) in ended:
        tx.append("token_revoked", {"id": id})
    tx.append("password_set", {"person": name, "proof": _proof(act.new)})
    return {"signed_out": [row[0] for row in ended]}


def _signed_in(tx: Transaction, name: str, token_hash: str, label: str | None) -> RuleAnswer:
    expires_at = tx.now + SIGNED_IN_FOR_MS
    mint_token(tx, name, token_hash, None, BASIC_SCOPES, expires_at, use="browser", client=label)
    return {"sender": name, "address": address(name), "token_id": token_id(token_hash)}


def lock_out(tx: Transaction, person: str) -> RuleAnswer:
    """Ends every way in of a person's: the password, where they signed in, what they let act for
    them, their own tokens, invitations to them and their agents and by them. Their agents keep
    their tokens, and are nobody's then; what they minted for others is named."""
    if "admin" not in tx.caller.scopes:
        raise MissingScope("Only the owner or an admin can lock a person out.", scope="admin")
    kind = kind_of(tx, person)
    agents = own_agents(tx, person)[1:]
    invitations = _links_of(tx, person, agents)
    if kind != "human" and (kind is not None or not invitations):
        raise NotFound(
            f"There is no person @{person[:80]}. interlock agents shows who has joined; an "
            "agent's tokens are ended with interlock token revoke."
        )
    ended = [*_ways_in(tx, person), *_machine_tokens(tx, person)]
    for id in ended:
        tx.append("token_revoked", {"id": id})
    for id in invitations:
        tx.append("invitation_withdrawn", {"id": id})
    tx.append("person_locked_out", {"person": person})
    return {
        "person": address(person),
        "revoked": [*ended, *invitations],
        "agents": [address(agent) for agent in agents],
        "minted": _minted_by(tx, person),
    }


def _links_of(tx: Transaction, person: str, agents: list[str]) -> list[str]:
    """Open invitations by which a person could come back: to them, to their agents, and those
    that they have made themselves."""
    own = [address(sender) for sender in senders_of(tx.state, person)]
    return [
        found["id"]
        for found in open_invitations(tx)
        if found["name"] in (person, *agents) or found["invited_by"] in own
    ]


def _minted_by(tx: Transaction, person: str) -> list[str]:
    """Live tokens that a person made, and whose secrets they may know."""
    own = senders_of(tx.state, person)
    marks = ", ".join("?" * len(own))
    rows = tx.all(
        f"SELECT id FROM identity_tokens WHERE use IS NULL AND revoked_at IS NULL AND (expires_at "
        f"IS NULL OR expires_at > ?) AND minted_by IN ({marks}) ORDER BY seq",
        tx.now,
        *own,
    )
    return [row[0] for row in rows]


# --- whose is what


def refuse_others(tx: Transaction) -> str:
    """The person who acts, by whichever token."""
    if tx.caller.kind != "human" or tx.caller.owner:
        raise MissingScope(
            "Connections are seen and ended by people, each their own, and by the owner: leave "
            "--from out where the workspace lies.",
            scope="human",
        )
    return tx.caller.agent


def refuse_unsigned(tx: Transaction) -> str:
    """The person who has signed in. A token that lies in a file is not enough to speak for
    somebody: whatever runs on that machine can read it."""
    if tx.caller.use != "browser":
        raise MissingScope(
            "This is for people who have signed in, in a browser: at /person of the server.",
            scope="human",
        )
    return refuse_others(tx)


def owner_of(tx: Transaction, agent: str) -> str | None:
    row = tx.one("SELECT person FROM identity_owned WHERE agent = ?", agent)
    return row[0] if row else None


def own_agents(tx: Transaction, person: str) -> list[str]:
    """The person, and the agents that are theirs."""
    rows = tx.all("SELECT agent FROM identity_owned WHERE person = ? ORDER BY agent", person)
    return [person, *(row[0] for row in rows)]


def _ways_in(tx: Transaction, person: str) -> list[str]:
    """Where a person has signed in, and what they let act for them."""
    rows = tx.all(
        "SELECT id FROM identity_tokens WHERE sender = ?1 AND use = 'browser' AND "
        "revoked_at IS NULL UNION ALL "
        "SELECT id FROM identity_connections WHERE person = ?1 AND ended_at IS NULL ORDER BY id",
        person,
    )
    return [row[0] for row in rows]


def _machine_tokens(tx: Transaction, person: str) -> list[str]:
    """The tokens of a person's own senders that no browser has."""
    rows = tx.all(
        "SELECT t.id FROM identity_tokens t JOIN identity_senders s USING (sender) WHERE "
        "s.agent = ? AND t.use IS NULL AND t.revoked_at IS NULL ORDER BY t.seq",
        person,
    )
    return [row[0] for row in rows]
