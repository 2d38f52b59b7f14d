"""Who may judge: the holders of a gate, named by it or by a token's scope."""

from interlock.errors import GateHasNoHolder
from interlock.rooms.identity import names
from interlock.rooms.transaction import Caller, Transaction
from interlock.verbs.addresses import near


def listed(tx: Transaction, gate: str) -> list[str]:
    row = tx.one("SELECT holders FROM work_gates WHERE name = ?", gate)
    return str(row[0]).split() if row else []


def holders(tx: Transaction, gate: str) -> list[str]:
    """The senders with a live token that may judge: named as holders, or by the token's scope."""
    named = listed(tx, gate)
    rows = tx.all(
        "SELECT t.sender, iif(t.resource IS NULL, s.agent, t.sender), t.scopes "
        "FROM identity_tokens t JOIN identity_senders s USING (sender) WHERE "
        "t.revoked_at IS NULL AND NOT t.suspended AND (t.expires_at IS NULL OR t.expires_at > ?) "
        "ORDER BY t.sender",
        tx.now,
    )
    able = [sender for sender, agent, scopes in rows if _holds(gate, named, sender, agent, scopes)]
    return list(dict.fromkeys(able))


def _holds(gate: str, named: list[str], sender: str, agent: str, scopes: str) -> bool:
    words = scopes.split()
    is_named = sender in named or agent in named
    return f"gate:{gate}" in words or (is_named and "work" in words)


def may_judge(tx: Transaction, caller: Caller, gate: str) -> bool:
    """A client that was let in by a person is no second reader in their place: it judges only
    where its own sender is named."""
    scopes = " ".join(caller.scopes)
    agent = caller.agent if caller.resource is None else caller.sender
    return _holds(gate, listed(tx, gate), caller.sender, agent, scopes)


def refuse_unheld(tx: Transaction, gates: tuple[str, ...], assignee: str | None) -> None:
    """A gate that nobody can hold would never be passed; nor one held by the worker alone."""
    working = names.agent_of(tx.state, assignee) if assignee is not None else None
    for gate in gates:
        able = holders(tx, gate)
        if not able:
            raise GateHasNoHolder(
                f"Nobody can hold the gate {gate}, so the task would never be done. "
                f"{'Add a holder' if listed(tx, gate) else 'Make it with its holders'}: "
                f"{to_add_holder(tx, gate)}",
                gate=gate,
                did_you_mean=_near_gates(tx, gate),
            )
        if all(names.agent_of(tx.state, sender) == working for sender in able):
            raise GateHasNoHolder(
                f"Only @{working}, to whom the task is assigned, holds the gate {gate}, and nobody "
                f"judges their own work. Add a holder: {to_add_holder(tx, gate)}",
                gate=gate,
            )


def to_add_holder(tx: Transaction, gate: str) -> str:
    """What is typed so that somebody holds a gate, beside those that it lists."""
    present = listed(tx, gate)
    replace = " --replace" if present else ""
    named = "".join(f" --holder {holder}" for holder in (*present, "SENDER"))
    return f"interlock gate create {gate}{replace}{named}"


def _near_gates(tx: Transaction, gate: str) -> list[str] | None:
    """Gates that look alike, where there is none of that name."""
    if listed(tx, gate):
        return None
    known = [row[0] for row in tx.all("SELECT name FROM work_gates ORDER BY name")]
    return [found.removeprefix("@") for found in near(gate, known) or ()] or None
