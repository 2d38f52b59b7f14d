"""Names: agents, their surfaces and groups, which share one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import MissingScope, NameTaken, NotFound, Usage
from interlock.log.times import rfc3339
from interlock.rooms.identity.token_format import token_id
from interlock.rooms.identity.tokens import granted_scopes, mint_token
from interlock.rooms.transaction import OWNER, SYSTEM, RuleAnswer, State, Transaction
from interlock.verbs.addresses import address, check_name, near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.identity.verbs import CreateGroup, Join, Mute

RESERVED = (OWNER, SYSTEM)


def join(tx: Transaction, act: Join) -> RuleAnswer:
    kind = act.kind or kind_of(tx, act.name) or "agent"
    sender, is_there = may_register(tx, act.name, act.surface, kind)
    if is_there:
        raise NameTaken(
            f"@{sender} has joined already. For another token of it: interlock token mint "
            f"--sender {sender} --keep",
            name=sender,
        )
    scopes = granted_scopes(tx, act.scopes)
    registered(tx, act.name, act.surface, kind)
    mint_token(tx, sender, act.token_hash, act.label, scopes, None)
    return without_none(
        sender=sender, address=address(sender), agent=act.name, surface=act.surface, kind=kind
    ) | {"scopes": list(scopes), "token_id": token_id(act.token_hash)}


def _refuse_taken(tx: Transaction, name: str, sender: str, *, known_agent: bool) -> None:
    """A name must not be what another agent's surface is called, nor the reverse."""
    taken = tx.one("SELECT agent, surface FROM identity_senders WHERE sender = ?", sender)
    if taken and taken[1] is not None:
        raise NameTaken(
            f"@{sender} is the surface {taken[1]} of @{taken[0]}. Choose another name.", name=sender
        )
    if not known_agent:
        owner = tx.one("SELECT agent, surface FROM identity_senders WHERE sender = ?", name)
        if owner:
            raise NameTaken(
                f"@{name} is the surface {owner[1]} of @{owner[0]}. Choose another name.", name=name
            )
    for candidate in dict.fromkeys((name, sender)):
        group = tx.one("SELECT 1 FROM identity_groups WHERE name = ?", candidate)
        if group or candidate in RESERVED:
            what = "a group" if group else "reserved"
            raise NameTaken(f"@{candidate} is {what}. Choose another name.", name=candidate)
    if sender != name and tx.one("SELECT 1 FROM identity_agents WHERE name = ?", sender):
        raise NameTaken(f"@{sender} is an agent of its own. Choose another surface.", name=sender)


def registered(tx: Transaction, name: str, surface: str | None, kind: str) -> str:
    """The sender that is this surface of an agent, registered if it is not yet."""
    sender, is_there = may_register(tx, name, surface, kind)
    if not is_there:
        joined = without_none(agent=name, surface=surface, kind=kind)
        tx.append("agent_joined", joined | {"sender": sender})
    return sender


def may_register(tx: Transaction, name: str, surface: str | None, kind: str) -> tuple[str, bool]:
    """The sender that would be this surface of an agent, and whether it is registered already."""
    pattern = tx.setting("names.pattern")
    sender = check_name(name, pattern)
    if surface is not None:
        sender = check_name(f"{name}-{check_name(surface, pattern, 'surface')}", pattern)
    is_a = kind_of(tx, name)
    if is_a not in (None, kind):
        raise NameTaken(f"@{name} is registered as {is_a}, not {kind}.", name=name)
    known = tx.one("SELECT agent FROM identity_senders WHERE sender = ?", sender)
    if known is not None and known[0] == name:
        return sender, True
    _refuse_taken(tx, name, sender, known_agent=is_a is not None)
    return sender, False


def kind_of(tx: Transaction, agent: str) -> str | None:
    """What an agent is registered as, if it is."""
    row = tx.one("SELECT kind FROM identity_agents WHERE name = ?", agent)
    return str(row[0]) if row else None


def may_join(tx: Transaction, name: str) -> bool:
    """Whether somebody could be called so."""
    try:
        check_name(name, tx.setting("names.pattern"))
    except Usage:
        return False
    return name not in RESERVED


def agent_view(
    tx: Transaction, sender: str, agent: str, surface: str | None, kind: str
) -> RuleAnswer:
    muted = is_muted(tx, (sender, agent))
    reach, seen = tx.store.reach([sender], lambda: not muted)
    return without_none(
        address=address(sender),
        agent=agent,
        surface=surface,
        kind=kind,
        reach=reach,
        muted=True if muted else None,
        last_seen=rfc3339(seen) if seen is not None else None,
    )


def mute(tx: Transaction, act: Mute) -> RuleAnswer:
    """Lets nothing wake a name. One's own is everybody's to mute; another's, a person's."""
    caller = tx.caller
    name = (act.name or caller.sender).removeprefix("@")
    if (
        name not in (caller.sender, caller.agent)
        and caller.kind != "human"
        and "admin" not in caller.scopes
    ):
        raise MissingScope(
            f"Muting @{name} is for itself, for a person, or for a token with the scope admin.",
            scope="admin",
        )
    if not is_known(tx.state, name):
        raise NotFound(
            f"Nobody has joined as @{name[:80]}. To mute an agent, name it: interlock mute @NAME",
            did_you_mean=near(name, names(tx.state)),
        )
    until = tx.now + act.ttl_s * 1000 if act.ttl_s is not None else None
    said = without_none(name=name, until=until, off=True if act.off else None)
    tx.append("wakes_muted", said)
    return without_none(
        address=address(name),
        muted=not act.off,
        until=rfc3339(until) if until is not None and not act.off else None,
    )


def is_muted(tx: Transaction, names: tuple[str, ...]) -> bool:
    """Whether nothing may wake whoever goes by these names."""
    marks = ", ".join("?" * len(names))
    row = tx.one(
        f"SELECT 1 FROM identity_muted WHERE name IN ({marks}) AND (until IS NULL OR until > ?)",
        *names,
        tx.now,
    )
    return row is not None


def create_group(tx: Transaction, act: CreateGroup) -> RuleAnswer:
    name = check_name(act.name, tx.setting("names.pattern"), "group")
    taken = tx.one("SELECT 1 FROM identity_senders WHERE sender = ? OR agent = ?", name, name)
    if taken or name in RESERVED:
        raise NameTaken(f"@{name} is an agent. Choose another name.", name=name)
    members = sorted({member.removeprefix("@") for member in act.members})
    if not members:
        raise Usage("A group needs members: --member @otto --member @vera")
    for member in members:
        if not is_known(tx.state, member):
            raise NotFound(
                f"Nobody has joined as @{member[:80]}, so it cannot be a member.",
                did_you_mean=near(member, names(tx.state)),
            )
    tx.append("group_set", {"name": name, "members": members})
    return {"name": name, "address": address(name), "members": [address(m) for m in members]}


# --- what other rooms ask of this one


def is_known(state: State, name: str) -> bool:
    row = state.execute(
        "SELECT 1 FROM identity_senders WHERE sender = ?1 UNION ALL "
        "SELECT 1 FROM identity_agents WHERE name = ?1",
        (name,),
    ).fetchone()
    return row is not None


def agent_of(state: State, sender: str) -> str:
    row = state.execute("SELECT agent FROM identity_senders WHERE sender = ?", (sender,)).fetchone()
    return str(row[0]) if row else sender


def senders_of(state: State, name: str) -> list[str]:
    """The senders that see mail for this name: one surface, or every surface of an agent."""
    rows = state.execute(
        "SELECT sender FROM identity_senders WHERE sender = ?1 OR agent = ?1 ORDER BY sender",
        (name,),
    ).fetchall()
    return [row[0] for row in rows]


def members(state: State, group: str) -> list[str] | None:
    """A group's members, or None if there is no such group."""
    rows = state.execute(
        "SELECT member FROM identity_members WHERE name = ? ORDER BY member", (group,)
    ).fetchall()
    return [row[0] for row in rows] or None


def agents(state: State) -> list[str]:
    return [row[0] for row in state.execute("SELECT name FROM identity_agents ORDER BY name")]


def names(state: State) -> list[str]:
    return sorted(
        {row[0] for row in state.execute("SELECT sender FROM identity_senders")} | {*agents(state)}
    )
