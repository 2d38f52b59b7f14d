"""Checks of who acts and what they left: what the log says, held against who was seen."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from interlock.machine.processes import RUN
from interlock.node import Node
from interlock.rooms.claims.guard import crossings
from interlock.rooms.transaction import Transaction
from interlock.rooms.workspace import health
from interlock.rooms.workspace.findings import Finding
from interlock.stores.presence import Use

CROSSED_FOR_MS = 7 * 86_400_000
HERE = "this machine"


def crossed(node: Node) -> Iterator[Finding]:
    with node.file.reading() as db:
        tx = node.transaction(db)
        found = crossings(tx, tx.now - CROSSED_FOR_MS)
    for repo, commit, holder, sender in found:
        yield Finding(
            f"The commit {commit[:12]} in {repo}, made by @{sender} without asking the guard, "
            f"touches what @{holder} had claimed.",
            f"Look at it (git show {commit[:12]}), and settle it with @{holder}.",
        )


def claims(node: Node) -> Iterator[Finding]:
    with node.file.reading() as db:
        tx = node.transaction(db)
        holders = {row[0] for row in tx.all("SELECT sender FROM claims_held")}
        lost = {sender: node.presence.lost(sender) for sender in sorted(holders)}
        yield from list(health.claims_alive(tx, lost))


def sleepers(node: Node) -> Iterator[Finding]:
    """Whom something waits for, and who has no client with hooks, no bell and no live stream."""
    with node.file.reading() as db:
        tx = node.transaction(db)
        for name, senders, why in health.waiting(tx):
            reach, _ = tx.store.reach(senders)
            told = [w for each in senders for w in node.presence.windows(each, tx.now)]
            windows = [window for window in told if window.about.get("client") != RUN]
            if reach not in ("wakes", "working") and not windows:
                yield _asleep(tx, name, senders, why)


def _asleep(tx: Transaction, name: str, senders: list[str], why: str) -> Finding:
    """A client that a person connected has no hooks, and nothing of ours can be put there."""
    here, people = health.ways_in(tx, senders)
    if people and not here:
        text = f"Mail waits for @{name}. Please let its client look."
        return Finding(
            f"@{name} {why}, and nothing can wake it: it is a client that @{people[0]} connected, "
            "and such a one looks when its person asks it to.",
            f"interlock send @{people[0]} {shlex.quote(text)}",
            f"@{name}",
        )
    return Finding(
        f"@{name} {why}, and nothing can wake it: no client of it tells by hooks, and nothing "
        "listens for it. Set its client up, where that works.",
        f"interlock setup claude-code --from {(here or senders)[0]}",
        f"@{name}",
    )


class Shared(NamedTuple):
    """A token that is used here and there at once."""

    token: str
    sessions: list[str]
    places: list[str]


def tokens(node: Node) -> Iterator[Finding]:
    for token, sessions, places in _shared(node):
        with node.file.reading() as db:
            row = node.transaction(db).one(
                "SELECT sender, use FROM identity_tokens WHERE id = ? AND revoked_at IS NULL",
                token,
            )
        if row is None:
            continue
        sender, use = row
        # Whoever runs a connected client asks from wherever it has machines, and people travel.
        if len(places) > 1 and use is None:
            yield Finding(
                f"The token {token} of @{sender} is used from {len(places)} places at once: "
                f"{', '.join(places)}.",
                f"interlock token rotate {token}",
                token,
            )
        elif len(sessions) > 1:
            yield Finding(
                f"The token {token} of @{sender} is used in {len(sessions)} sessions at once: "
                f"{', '.join(sessions)}. Start one of them anew with a token of its own, the one "
                "that this prints, in INTERLOCK_TOKEN; ten minutes later this is forgotten.",
                f"interlock token mint --sender {sender}",
                token,
            )


def _shared(node: Node) -> list[Shared]:
    """Tokens that were used in several sessions, or from several places, by turns."""
    by_token: dict[str, list[tuple[str, Use]]] = {}
    elsewhere = node.shared.uses() if node.shared is not None else {}
    now = node.clock()
    for where, uses in [(None, node.presence.uses(now)), *elsewhere.items()]:
        for use in uses:
            by_token.setdefault(use.token, []).append((use.peer or where or HERE, use))
    found = []
    for token, uses_of in sorted(by_token.items()):
        places = _at_once([(place, use) for place, use in uses_of])
        sessions = _at_once([(use.session, use) for _, use in uses_of if use.session])
        if len(places) > 1 or len(sessions) > 1:
            found.append(Shared(token, sessions, places))
    return found


def _at_once(uses: list[tuple[str, Use]]) -> list[str]:
    """The names of those that were used while another one was, and not after it had ended."""
    spans: dict[str, tuple[int, int]] = {}
    for name, use in uses:
        since, at = spans.get(name, (use.since, use.at))
        spans[name] = min(since, use.since), max(at, use.at)
    return sorted(
        name
        for name, (since, at) in spans.items()
        if any(
            other != name and since < last and first < at for other, (first, last) in spans.items()
        )
    )
