"""The doctor: reads what is there and says what is wrong, each with what would put it right.

A check is a function that yields findings; the tables below are all that a node can make.
`engine` looks at what keeps the log, `acting` at who acts and what they left, `files` at what lies
in the workspace's directory; what only the log says is the kernel's. Files of the machine that asks
are for the command to look at.
"""

from collections.abc import Callable, Iterator

from interlock.errors import NotAvailable
from interlock.node import Node
from interlock.node.doctor import acting, engine, files
from interlock.rooms.transaction import Transaction
from interlock.rooms.workspace import health
from interlock.rooms.workspace.findings import Finding, in_order, told, unmade
from interlock.verbs.answers import Answer


def examine(node: Node, *, everything: bool = True) -> Answer:
    """What was found, the smallest change first. What is about people and their tokens is not for
    everybody."""
    checks = CHECKS | (PRIVATE if everything else {})
    found = [row for check, look in checks.items() for row in told(check, _made(node, look))]
    return {"ok": not found, "checks": len(checks), "findings": in_order(found)}


def _made(node: Node, look: Callable[[Node], Iterator[Finding]]) -> list[Finding]:
    """What a check finds, or that it cannot be made. That the engine is away is one finding."""
    try:
        return list(look(node))
    except NotAvailable as trouble:
        return [] if node.shared is not None else [unmade(trouble)]
    except Exception as trouble:  # noqa: BLE001 - one check must not hide the others
        return [unmade(trouble)]


def _of_log(
    look: Callable[[Transaction], Iterator[Finding]],
) -> Callable[[Node], Iterator[Finding]]:
    def looked(node: Node) -> Iterator[Finding]:
        with node.file.reading() as db:
            yield from list(look(node.transaction(db)))

    return looked


# For everybody who may ask at all.
CHECKS: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "engine-reachable": engine.reachable,
    "engine-durable": engine.durable,
    "set-aside-entries": engine.set_aside,
    "nodes-level": engine.others,
    "clock-level": engine.clock,
    "one-server": engine.servers,
    "commits-guarded": acting.crossed,
}
# For the owner and for admins.
PRIVATE: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "labels-agree": _of_log(health.labels_agree),
    "recipients-known": _of_log(health.recipients_known),
    "mailboxes-read": _of_log(health.mailboxes_read),
    "claims-alive": acting.claims,
    "wakes-working": _of_log(health.wakes_working),
    "tokens-lasting": _of_log(health.tokens_lasting),
    "tokens-apart": acting.tokens,
    "gates-held": _of_log(health.gates_held),
    "agents-wakeable": acting.sleepers,
    "secrets-kept": files.secrets,
}
