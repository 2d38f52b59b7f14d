"""People: how they are invited, how they sign in, and which agents are theirs.

Whoever holds an invitation may use it, once: in a browser, as a person who chooses a password, or
on another machine, which keeps a token that it made itself. A password is known by what it gives
under the workspace's key, so that the log alone lets nobody try words against it.
"""

import hashlib
from hmac import compare_digest
from typing import NamedTuple

from interlock.contracts.acts import (
    AcceptInvitation,
    ChangePassword,
    Enrol,
    Invite,
    ShowInvitation,
    ShowPerson,
    SignIn,
    SignOut,
)
from interlock.contracts.addresses import address, check_name
from interlock.contracts.scopes import BASIC_SCOPES
from interlock.contracts.times import rfc3339
from interlock.contracts.tokens import hashed, token_id
from interlock.errors import BadToken, MissingScope, NameTaken, NotFound, TokenExpired, Usage
from interlock.kernel.identity.names import kind_of, may_register, registered, senders_of
from interlock.kernel.identity.tokens import mint_token
from interlock.kernel.moment import Answer, Caller, Moment, absent_dropped

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


def invite(moment: Moment, act: Invite) -> Answer:
    name = act.name.removeprefix("@")
    kind = act.kind or kind_of(moment, name) or "human"
    sender, _ = may_register(moment, name, act.surface, kind)
    own = tuple(dict.fromkeys(agent.removeprefix("@") for agent in act.own))
    if own and kind != "human":
        raise Usage(f"@{name} is an agent, and agents own none. Invite the person who owns it.")
    for agent in own:
        _refuse_owning(moment, agent, name)
    _refuse_promised(moment, name, kind, own)
    id = "inv_" + act.code_hash[:12]
    if moment.one("SELECT 1 FROM identity_invitations WHERE id = ?", id):
        raise NameTaken("That invitation was made before. Make a new one.")
    expires_at = moment.now + (act.ttl_s * 1000 if act.ttl_s is not None else INVITED_FOR_MS)
    outcome = absent_dropped(name=name, surface=act.surface, kind=kind, own=list(own))
    moment.record(
        "person_invited", outcome | {"id": id, "hash": act.code_hash, "expires_at": expires_at}
    )
    invited = absent_dropped(id=id, name=name, sender=sender, kind=kind)
    owned = {"own": [address(agent) for agent in own]} if own else {}
    return invited | owned | {"expires_at": rfc3339(expires_at)}


def _refuse_owning(moment: Moment, agent: str, person: str) -> None:
    """An agent is one person's, or nobody's."""
    check_name(agent, moment.setting("names.pattern"))
    if agent == person or kind_of(moment, agent) not in (None, "agent"):
        raise Usage(f"@{agent} is a person, and nobody owns people. Name agents with --own.")
    surface = moment.one("SELECT agent FROM identity_senders WHERE sender = ?", agent)
    if surface and surface[0] != agent:
        raise Usage(
            f"@{agent} is a surface of @{surface[0]}, and surfaces go with their agent: "
            f"--own {surface[0]}"
        )
    may_register(moment, agent, None, "agent")
    owner = owner_of(moment, agent)
    if owner is not None and owner != person:
        raise NameTaken(f"@{agent} is @{owner}'s. An agent is one person's.", name=agent)


def _refuse_promised(moment: Moment, name: str, kind: str, own: tuple[str, ...]) -> None:
    """What another open invitation says must not be made untrue: its holder could not join."""
    rows = moment.all(
        "SELECT name, kind, own FROM identity_invitations WHERE used_at IS NULL AND "
        "expires_at > ? ORDER BY id",
        moment.now,
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


def open_invitations(moment: Moment) -> list[Answer]:
    """Those that somebody may still use."""
    rows = moment.all(
        f"SELECT {_COLUMNS} FROM identity_invitations WHERE used_at IS NULL AND expires_at > ? "
        "ORDER BY expires_at, id",
        moment.now,
    )
    return [_view(Invitation(*row)) for row in rows]


def _view(found: Invitation) -> Answer:
    return absent_dropped(
        id=found.id,
        name=found.name,
        surface=found.surface,
        kind=found.kind,
        own=[address(agent) for agent in found.own.split()] or None,
        invited_by=address(found.invited_by),
        expires_at=rfc3339(found.expires_at),
    )


def show_invitation(moment: Moment, act: ShowInvitation) -> Answer:
    found = _good(moment, act.code)
    has_password = moment.one("SELECT 1 FROM identity_people WHERE name = ?", found.name)
    return _view(found) | ({"has_password": True} if has_password else {})


def accept(moment: Moment, act: AcceptInvitation) -> Answer:
    """Joins on another machine, as the sender of the invitation."""
    found = _good(moment, act.code)
    sender = _joined(moment, found)
    made = mint_token(moment, sender, act.token_hash, None, BASIC_SCOPES, None)
    return absent_dropped(
        sender=sender,
        address=address(sender),
        agent=found.name,
        surface=found.surface,
        kind=found.kind,
    ) | {"scopes": list(BASIC_SCOPES), "token_id": made}


def enrol(moment: Moment, act: Enrol) -> Answer:
    """Joins in a browser, as a person with a password, who is signed in with that. Whoever knew a
    password that was set before may have signed in and let clients in: all of that ends."""
    found = _good(moment, act.code)
    name = found.name
    had = moment.one("SELECT 1 FROM identity_people WHERE name = ?", name)
    if found.kind != "human" or (had and found.surface is not None):
        raise Usage("This invitation is for another machine. Type there: interlock join LINK")
    _joined(moment, found)
    registered(moment, name, None, "human")
    for id in _ways_in(moment, name):
        moment.record("token_revoked", {"id": id})
    moment.record("password_set", {"person": name, "proof": _proof(act.verifier)})
    return _signed_in(moment, name, act.token_hash, act.label)


def _proof(verifier: str) -> str:
    """What the log has, from which nobody gets back to what signs in."""
    return hashlib.sha256(verifier.encode()).hexdigest()


def _good(moment: Moment, code: str) -> Invitation:
    row = moment.one(
        f"SELECT {_COLUMNS} FROM identity_invitations WHERE hash = ?",
        hashed(code),
    )
    if row is None:
        raise BadToken("There is no such invitation, or a later one took its place. Ask for one.")
    found = Invitation(*row)
    if found.used_at is not None:
        raise BadToken("This invitation was used. It is good once: ask for another.")
    if found.expires_at <= moment.now:
        end = rfc3339(found.expires_at)
        raise TokenExpired(f"This invitation expired at {end}. Ask for another.")
    return found


def _joined(moment: Moment, invitation: Invitation) -> str:
    """The sender that an invitation is for, who does what follows."""
    id, name, surface, kind, own = invitation[:5]
    moment.caller = Caller(f"{name}-{surface}" if surface else name, name, kind, surface)
    sender = registered(moment, name, surface, kind)
    for agent in own.split():
        _refuse_owning(moment, agent, name)
        registered(moment, agent, None, "agent")
        moment.record("agent_owned", {"agent": agent, "person": name})
    moment.record("invitation_accepted", {"id": id, "sender": sender})
    return sender


def sign_in(moment: Moment, act: SignIn) -> Answer:
    name = act.name.removeprefix("@")
    row = moment.one("SELECT verifier FROM identity_people WHERE name = ?", name)
    if row is None or not compare_digest(row[0], _proof(act.verifier)):
        raise BadToken("That is not the name and the password of anybody here.")
    moment.caller = Caller(name, name, "human")
    return _signed_in(moment, name, act.token_hash, act.label)


def change_password(moment: Moment, act: ChangePassword) -> Answer:
    """Sets another password for whoever knows the one before. Other browsers are signed out; what
    the person let act for them goes on, since nobody else is known to have known the password."""
    name = refuse_unsigned(moment)
    row = moment.one("SELECT verifier FROM identity_people WHERE name = ?", name)
    if row is None or not compare_digest(row[0], _proof(act.verifier)):
        raise BadToken("That is not your password. Nothing was changed.")
    ended = moment.all(
        "SELECT id FROM identity_tokens WHERE sender = ? AND use = 'browser' AND id <> ? AND "
        "revoked_at IS NULL ORDER BY seq",
        name,
        moment.caller.token,
    )
    for (id,) in ended:
        moment.record("token_revoked", {"id": id})
    moment.record("password_set", {"person": name, "proof": _proof(act.new)})
    return {"signed_out": [row[0] for row in ended]}


def _signed_in(moment: Moment, name: str, token_hash: str, label: str | None) -> Answer:
    expires_at = moment.now + SIGNED_IN_FOR_MS
    mint_token(
        moment, name, token_hash, None, BASIC_SCOPES, expires_at, use="browser", client=label
    )
    return {"sender": name, "address": address(name), "token_id": token_id(token_hash)}


def sign_out(moment: Moment, act: SignOut) -> Answer:
    refuse_unsigned(moment)
    moment.record("token_revoked", {"id": moment.caller.token})
    return {"signed_out": True}


def show_person(moment: Moment, act: ShowPerson) -> Answer:
    """Who has signed in, and whom they may let a client act as."""
    person = refuse_unsigned(moment)
    return {
        "person": address(person),
        "agents": [
            {
                "agent": agent,
                "senders": [address(sender) for sender in senders_of(moment.state, agent)],
            }
            for agent in own_agents(moment, person)
        ],
    }


def lock_out(moment: Moment, person: str) -> Answer:
    """Ends every way in of a person's: the password, where they signed in, what they let act for
    them, their own tokens, invitations to them and their agents and by them. Their agents keep
    their tokens, and are nobody's then; what they minted for others is named."""
    if "admin" not in moment.caller.scopes:
        raise MissingScope("Only the owner or an admin can lock a person out.", scope="admin")
    kind = kind_of(moment, person)
    agents = own_agents(moment, person)[1:]
    invitations = _links_of(moment, person, agents)
    if kind != "human" and (kind is not None or not invitations):
        raise NotFound(
            f"There is no person @{person[:80]}. interlock agents shows who has joined; an "
            "agent's tokens are ended with interlock token revoke."
        )
    ended = [*_ways_in(moment, person), *_machine_tokens(moment, person)]
    for id in ended:
        moment.record("token_revoked", {"id": id})
    for id in invitations:
        moment.record("invitation_withdrawn", {"id": id})
    moment.record("person_locked_out", {"person": person})
    return {
        "person": address(person),
        "revoked": [*ended, *invitations],
        "agents": [address(agent) for agent in agents],
        "minted": _minted_by(moment, person),
    }


def _links_of(moment: Moment, person: str, agents: list[str]) -> list[str]:
    """Open invitations by which a person could come back: to them, to their agents, and those
    that they have made themselves."""
    own = [address(sender) for sender in senders_of(moment.state, person)]
    return [
        found["id"]
        for found in open_invitations(moment)
        if found["name"] in (person, *agents) or found["invited_by"] in own
    ]


def _minted_by(moment: Moment, person: str) -> list[str]:
    """Live tokens that a person made, and whose secrets they may know."""
    own = senders_of(moment.state, person)
    marks = ", ".join("?" * len(own))
    rows = moment.all(
        f"SELECT id FROM identity_tokens WHERE use IS NULL AND revoked_at IS NULL AND (expires_at "
        f"IS NULL OR expires_at > ?) AND minted_by IN ({marks}) ORDER BY seq",
        moment.now,
        *own,
    )
    return [row[0] for row in rows]


# --- whose is what


def refuse_others(moment: Moment) -> str:
    """The person who acts, by whichever token."""
    if moment.caller.kind != "human" or moment.caller.owner:
        raise MissingScope(
            "Connections are seen and ended by people, each their own, and by the owner: leave "
            "--from out where the workspace lies.",
            scope="human",
        )
    return moment.caller.agent


def refuse_unsigned(moment: Moment) -> str:
    """The person who has signed in. A token that lies in a file is not enough to speak for
    somebody: whatever runs on that machine can read it."""
    if moment.caller.use != "browser":
        raise MissingScope(
            "This is for people who have signed in, in a browser: at /person of the server.",
            scope="human",
        )
    return refuse_others(moment)


def owner_of(moment: Moment, agent: str) -> str | None:
    row = moment.one("SELECT person FROM identity_owned WHERE agent = ?", agent)
    return row[0] if row else None


def own_agents(moment: Moment, person: str) -> list[str]:
    """The person, and the agents that are theirs."""
    rows = moment.all("SELECT agent FROM identity_owned WHERE person = ? ORDER BY agent", person)
    return [person, *(row[0] for row in rows)]


def _ways_in(moment: Moment, person: str) -> list[str]:
    """Where a person has signed in, and what they let act for them."""
    rows = moment.all(
        "SELECT id FROM identity_tokens WHERE sender = ?1 AND use = 'browser' AND "
        "revoked_at IS NULL UNION ALL "
        "SELECT id FROM identity_connections WHERE person = ?1 AND ended_at IS NULL ORDER BY id",
        person,
    )
    return [row[0] for row in rows]


def _machine_tokens(moment: Moment, person: str) -> list[str]:
    """The tokens of a person's own senders that no browser has."""
    rows = moment.all(
        "SELECT t.id FROM identity_tokens t JOIN identity_senders s USING (sender) WHERE "
        "s.agent = ? AND t.use IS NULL AND t.revoked_at IS NULL ORDER BY t.seq",
        person,
    )
    return [row[0] for row in rows]
