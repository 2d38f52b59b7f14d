"""The doctor: reads what is there and says what is wrong, each with what would put it right.

A check is a function that yields findings; the table below is all of them.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from interlock.errors import LogForked, NotAvailable
from interlock.kernel.claims.guarding import crossings
from interlock.kernel.moment import Answer
from interlock.node import Node

LAG_SUSPICIOUS = 1000
SILENT_S = 30
CROSSED_FOR_MS = 7 * 86_400_000


class Finding(NamedTuple):
    """What is wrong, and the command or the setting that puts it right."""

    message: str
    do: str


def examine(node: Node) -> Answer:
    findings = [
        {"check": check, "message": finding.message, "do": finding.do}
        for check, look in CHECKS.items()
        for finding in look(node)
    ]
    return {"ok": not findings, "checks": len(CHECKS), "findings": findings}


def _reachable(node: Node) -> Iterator[Finding]:
    if node.shared is None:
        return
    try:
        node.catch_up()
    except LogForked as trouble:
        yield Finding(trouble.message, "interlock repair")
    except NotAvailable as trouble:
        yield Finding(
            trouble.message, "Start the engine again, or see its address: interlock status"
        )


def _durable(node: Node) -> Iterator[Finding]:
    if node.shared is None:
        return
    try:
        for hazard in node.shared.remote.hazards():
            what, _, do = hazard.partition(". ")
            yield Finding(f"The engine may lose what it acknowledged: {what}.", do)
    except NotAvailable:
        return


def _set_aside(node: Node) -> Iterator[Finding]:
    if node.shared is None:
        return
    try:
        count = node.shared.remote.aside()
    except NotAvailable:
        return
    if count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        yield Finding(
            f"Somebody without the workspace's key wrote {entries} into the engine's log. That "
            "changed nothing: nobody folds it, and it is out of the log's way.",
            "Change the engine's password, and look at who has it.",
        )


def _others(node: Node) -> Iterator[Finding]:
    for other in node.shared.standing()["nodes"] if node.shared else ():
        if other["seen_s_ago"] > SILENT_S:
            yield Finding(
                f"The node {other['node']} was last heard of {other['seen_s_ago']} s ago, at "
                f"#{other['seq']}.",
                "Start it again there: interlock up. Or leave it: an hour later it is forgotten.",
            )
        elif other["lag"] > LAG_SUSPICIOUS:
            yield Finding(
                f"The node {other['node']} is {other['lag']} entries behind.",
                "See server.log in its directory.",
            )


def _crossed(node: Node) -> Iterator[Finding]:
    with node.file.reading() as db:
        moment = node.moment(db)
        found = crossings(moment, moment.now - CROSSED_FOR_MS)
    for repo, commit, holder, sender in found:
        yield Finding(
            f"The commit {commit[:12]} in {repo}, made by @{sender} without asking the guard, "
            f"touches what @{holder} had claimed.",
            f"Look at it (git show {commit[:12]}), and settle it with @{holder}.",
        )


CHECKS: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "engine-reachable": _reachable,
    "engine-durable": _durable,
    "set-aside-entries": _set_aside,
    "nodes-level": _others,
    "commits-guarded": _crossed,
}
