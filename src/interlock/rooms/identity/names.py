"""Names: agents, their surfaces and groups, which share one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import NameTaken, Usage
from interlock.log.times import rfc3339
from interlock.rooms.transaction import OWNER, SYSTEM, FoldedState, Transaction
from interlock.verbs.addresses import address, check_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers

RESERVED = (OWNER, SYSTEM)


def registered(tx: Transaction, name: str, surface: str | None, kind: str) -> str:
    """Return the sender of an agent's surface. Register it if it does not exist."""
    sender, exists = may_register(tx, name, surface, kind)
    if not exists:
        joined = without_none(agent=name, surface=surface, kind=kind, sender=sender)
        tx.append("agent_joined", joined)
    return sender


def may_register(tx: Transaction, name: str, surface: str | None, kind: str) -> tuple[str, bool]:
    """Return the sender of an agent's surface, and whether it is registered.

    Raises Usage for a wrong name, and NameTaken for a name of another agent, surface or group."""
    pattern = tx.setting("names.pattern")
    sender = check_name(name, pattern)
    if surface is not None:
        sender = check_name(f"{name}-{check_name(surface, pattern, 'surface')}", pattern)
    known_kind = kind_of(tx, name)
    if known_kind not in (None, kind):
        raise NameTaken(
            f"@{name} is registered with the kind {known_kind}, not {kind}. Give the kind "
            f"{known_kind}, or choose another name.",
            name=name,
        )

    owner = "SELECT agent, surface FROM identity_senders WHERE sender = ?"
    taken = tx.one(owner, sender)
    if taken is not None and taken[0] == name:
        return sender, True
    candidate = sender
    if taken is None or taken[1] is None:
        candidate, taken = name, tx.one(owner, name) if known_kind is None else None
    if taken is not None:
        raise NameTaken(
            f"@{candidate} is the surface {taken[1]} of @{taken[0]}. Choose another name.",
            name=candidate,
        )
    for candidate in dict.fromkeys((name, sender)):
        is_group = tx.one("SELECT 1 FROM identity_groups WHERE name = ?", candidate)
        if is_group or candidate in RESERVED:
            what = "a group" if is_group else "reserved"
            raise NameTaken(f"@{candidate} is {what}. Choose another name.", name=candidate)
    if sender != name and tx.one("SELECT 1 FROM identity_agents WHERE name = ?", sender):
        raise NameTaken(f"@{sender} is another agent. Choose another surface.", name=sender)
    return sender, False


def kind_of(tx: Transaction, agent: str) -> str | None:
    """Whether a registered agent is an `agent` or a `human`."""
    kind: str | None = tx.value("SELECT kind FROM identity_agents WHERE name = ?", agent)
    return kind


def may_join(tx: Transaction, name: str) -> bool:
    """Whether an agent or a person could join by this name."""
    try:
        check_name(name, tx.setting("names.pattern"))
    except Usage:
        return False
    return name not in RESERVED


def agent_view(
    tx: Transaction, sender: str, agent: str, surface: str | None, kind: str
) -> answers.Agent:
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


def is_muted(tx: Transaction, names: tuple[str, ...]) -> bool:
    """Whether one of the names is muted."""
    marks = ", ".join("?" * len(names))
    return tx.has(
        f"SELECT 1 FROM identity_muted WHERE name IN ({marks}) AND (until IS NULL OR until > ?)",
        *names,
        tx.now,
    )


# --- lookups


def is_known(state: FoldedState, name: str) -> bool:
    row = state.execute(
        "SELECT 1 FROM identity_senders WHERE sender = ?1 UNION ALL "
        "SELECT 1 FROM identity_agents WHERE name = ?1",
        (name,),
    ).fetchone()
    return row is not None


def agent_of(state: FoldedState, sender: str) -> str:
    """The agent of a sender. An unregistered name is its own agent."""
    row = state.execute("SELECT agent FROM identity_senders WHERE sender = ?", (sender,)).fetchone()
    return str(row[0]) if row else sender


def senders_of(state: FoldedState, name: str) -> list[str]:
    """The senders that see mail for this name: one surface, or every surface of an agent."""
    rows = state.execute(
        "SELECT sender FROM identity_senders WHERE sender = ?1 OR agent = ?1 ORDER BY sender",
        (name,),
    ).fetchall()
    return [row[0] for row in rows]


def members(state: FoldedState, group: str) -> list[str] | None:
    """A group's members, or None if there is no such group."""
    rows = state.execute(
        "SELECT member FROM identity_members WHERE name = ? ORDER BY member", (group,)
    ).fetchall()
    return [row[0] for row in rows] or None


def agents(state: FoldedState) -> list[str]:
    return [row[0] for row in state.execute("SELECT name FROM identity_agents ORDER BY name")]


def names(state: FoldedState) -> list[str]:
    return sorted(
        {row[0] for row in state.execute("SELECT sender FROM identity_senders")} | {*agents(state)}
    )
