"""The doctor's checks of the state, over all rooms. They only read.

Each check is a function of the transaction that yields its findings. The store tells when a sender
was last seen.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from interlock.log.times import DAY_MS, rfc3339
from interlock.rooms.claims.records import live
from interlock.rooms.identity.labels import Known, remedy, ways_out
from interlock.rooms.identity.names import (
    agent_of,
    is_known,
    is_muted,
    may_join,
    names,
    senders_of,
)
from interlock.rooms.mail.fold import UNREAD
from interlock.rooms.mail.reading import undeliverable
from interlock.rooms.mail.records import Message, by_seq
from interlock.rooms.people.connections import living
from interlock.rooms.transaction import OWNER, SYSTEM, Transaction
from interlock.rooms.work.missing import due, holders, listed
from interlock.rooms.work.records import workers
from interlock.rooms.workspace.findings import Finding
from interlock.verbs.addresses import address, near

SOON_MS = 7 * DAY_MS
LATELY_MS = 7 * DAY_MS
# An agent may leave mail and claims alone for this long.
PATIENCE_MS = 60 * 60_000

_LIVE_TOKEN = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"  # noqa: S105


# --- tokens


def labels_agree(tx: Transaction) -> Iterator[Finding]:
    """Find labels of tokens that contradict the sender, and names of connections that name other
    agents than the sender's agent and its person."""
    known = Known(tx.state)
    for id, sender, label, seq in tx.all(
        "SELECT id, sender, label, seq FROM identity_tokens WHERE label IS NOT NULL AND "
        f"{_LIVE_TOKEN} ORDER BY seq",
        tx.now,
    ):
        if wrong := known.contradiction(sender, label):
            ways = ways_out(tx, known, id, sender, label, seq)
            yield Finding(f"{wrong} {ways}", remedy(id, sender), id)
    for found in living(tx, None):
        others = known.named(found.name or "")
        if others and others.isdisjoint((known.agent_of(found.sender), found.person)):
            rename = f"interlock connection name {found.id} {found.sender}"
            yield Finding(
                f"The connection {found.id} is called {found.name!r}, which names "
                f"{' and '.join(map(address, sorted(others)))}, but it acts as @{found.sender} for "
                f"@{found.person}. If it should not: interlock connection revoke {found.id}. If "
                f"it should: {rename}.",
                rename,
                found.id,
            )


def tokens_lasting(tx: Transaction) -> Iterator[Finding]:
    """Find tokens that a restore has suspended, or that expire soon. A token that was minted for
    less than a day is expected to expire."""
    for id, sender, minted_at, expires_at, suspended in tx.all(
        f"SELECT id, sender, minted_at, expires_at, suspended FROM identity_tokens "
        f"WHERE {_LIVE_TOKEN} AND (suspended OR (use IS NULL AND expires_at <= ?)) ORDER BY seq",
        tx.now,
        tx.now + SOON_MS,
    ):
        if suspended:
            yield Finding(
                f"The token {id} of @{sender} is suspended since a part of the log was given up, "
                "and opens nothing.",
                f"interlock token reaffirm {id}",
                id,
            )
            continue
        lifetime = expires_at - minted_at
        if lifetime >= DAY_MS and 4 * (expires_at - tx.now) <= lifetime:
            yield Finding(
                f"The token {id} of @{sender} expires at {rfc3339(expires_at)}.",
                f"interlock token rotate {id}",
                id,
            )


# --- mail


def recipients_known(tx: Transaction) -> Iterator[Finding]:
    """Find unregistered names with recent mail."""
    existing = names(tx.state)
    for (name,) in tx.all(
        "SELECT recipient FROM mail_boxes WHERE open > 0 AND recipient NOT IN "
        "(SELECT sender FROM identity_senders UNION SELECT name FROM identity_agents) "
        "ORDER BY recipient"
    ):
        lost = undeliverable(tx, name)
        if not lost or tx.now - lost[0].at > LATELY_MS:
            continue
        last, meant = lost[0], near(name, existing)
        many = "1 message waits" if len(lost) == 1 else f"{len(lost)} messages wait"
        hint = f" Did you mean {' or '.join(meant)}?" if meant else ""
        if not meant and may_join(tx, name):
            hint = f" It stays for whoever joins as that: interlock join {name}"
        do = f"interlock explain {last.id}"
        if last.sender not in (OWNER, SYSTEM):
            to = meant[0] if meant else "somebody who has"
            text = f"Nobody has joined as @{name}. Please send {last.id} again, to {to}."
            do = f"interlock send {address(last.sender)} {shlex.quote(text)} --type wake"
        yield Finding(
            f"{many} for @{name}, as whom nobody has joined; the last is {last.id}, from "
            f"@{last.sender}.{hint}",
            do,
            address(name),
        )


def mailboxes_read(tx: Transaction) -> Iterator[Finding]:
    """Find mail that is unread for more than a day, if none of its readers acted, wrote or read
    later mail since."""
    for name, unread in _unread(tx):
        first = _open_mail(tx, name)
        if first is None or tx.now - first.at <= DAY_MS:
            continue
        senders = senders_of(tx.state, name)
        _, seen = tx.store.reach(senders)
        if seen is not None and seen > first.at:
            continue
        marks = ", ".join("?" * len(senders))
        wrote = tx.one(
            f"SELECT 1 FROM mail_messages WHERE sender IN ({marks}) AND seq > ? LIMIT 1",
            *senders,
            first.seq,
        )
        read = tx.one(
            "SELECT 1 FROM mail_deliveries WHERE recipient = ? AND seq > ? AND state NOT IN "
            f"{UNREAD} AND state <> 'expired' LIMIT 1",
            name,
            first.seq,
        )
        if wrote is not None or read is not None:
            continue
        many = "1 message is" if unread == 1 else f"{unread} messages are"
        yield Finding(
            f"{many} unread at @{name}, the first since {rfc3339(first.at)}, and nobody was seen "
            "there since.",
            f"interlock inbox --from {senders[0]}",
            address(name),
        )


def _unread(tx: Transaction) -> list[tuple[str, int]]:
    rows = tx.all("SELECT recipient, unread FROM mail_boxes WHERE unread > 0 ORDER BY 1")
    return [(row[0], row[1]) for row in rows if is_known(tx.state, row[0])]


def _open_mail(tx: Transaction, name: str, also: str = "1") -> Message | None:
    """The first unread message for a name."""
    row = tx.one(
        "SELECT d.seq FROM mail_deliveries d INDEXED BY mail_open JOIN mail_messages m USING (seq) "
        f"WHERE d.recipient = ? AND closed = 0 AND state IN {UNREAD} AND {also} "
        "ORDER BY d.seq LIMIT 1",
        name,
    )
    return by_seq(tx, row[0]) if row else None


# --- waking


class Waiting(NamedTuple):
    """A name to wake, the senders of which one is enough, and the reason."""

    name: str
    senders: list[str]
    why: str


def waiting(tx: Transaction) -> Iterator[Waiting]:
    """Find agents with mail that may wake them, or with a claim, for more than an hour."""
    kinds: dict[str, str] = dict(tx.all("SELECT name, kind FROM identity_agents"))
    claims = [each for each in live(tx) if tx.now - each.acquired_at > PATIENCE_MS]
    due = {each.sender: f"holds {each.target}" for each in claims}
    for name, _ in _unread(tx):
        mail = _open_mail(tx, name, also="coalesce(m.wake, m.recipient LIKE '@%')")
        if mail is not None and tx.now - mail.at > PATIENCE_MS:
            due[name] = f"has had mail since {rfc3339(mail.at)}"
    for name, why in sorted(due.items()):
        agent = agent_of(tx.state, name)
        is_agent = kinds.get(agent) == "agent"
        if is_agent and not is_muted(tx, (name, agent)):
            yield Waiting(name, senders_of(tx.state, name), why)


def ways_in(tx: Transaction, senders: list[str]) -> tuple[list[str], list[str]]:
    """The senders that have a token on a machine, and the people whose clients act as the
    senders."""
    marks = ", ".join("?" * len(senders))
    here = tx.all(
        f"SELECT DISTINCT sender FROM identity_tokens WHERE use IS NULL AND {_LIVE_TOKEN} AND "
        f"sender IN ({marks}) ORDER BY sender",
        tx.now,
        *senders,
    )
    people = [found.person for found in living(tx, None) if found.sender in senders]
    return [row[0] for row in here], people


def wakes_working(tx: Transaction) -> Iterator[Finding]:
    """Find recipients whose last wake of the last day failed, or has an unknown outcome."""
    since = tx.now - DAY_MS
    before = tx.one("SELECT seq FROM mail_messages WHERE at < ? ORDER BY seq DESC LIMIT 1", since)
    for recipient, adapter, outcome, why, seq, _ in tx.all(
        "SELECT recipient, adapter, outcome, why, seq, max(at) FROM mail_wakes WHERE seq > ? "
        "GROUP BY recipient ORDER BY recipient",
        before[0] if before else 0,
    ):
        if outcome in ("failed", "unknown"):
            ended = "failed" if outcome == "failed" else "may have failed"
            message = by_seq(tx, seq)
            do = f"interlock receipts {message.id} --from {message.sender}"
            if message.sender in (OWNER, SYSTEM):
                do = f"interlock explain {message.id}"
            yield Finding(
                f"To wake @{recipient} by {adapter} {ended}" + (f": {why}" if why else "."),
                do,
                address(recipient),
            )


# --- claims


def claims_alive(tx: Transaction, lost: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Find claims whose holder is surely gone before the lease expires. `lost` has, for each
    sender, the sessions whose client died."""
    for claim in live(tx):
        is_ended = claim.session is not None and tx.one(
            "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL",
            claim.session,
        )
        if is_ended:
            why = "its session has ended"
        elif claim.session in lost.get(claim.sender, ()):
            why = "the client of its session has died"
        elif not _has_token(tx, claim.sender):
            why = "no token of it is live any more"
        else:
            continue
        held = f"@{claim.sender} holds {claim.target} until {rfc3339(claim.expires_at)}, and {why}."
        suspended = tx.one(
            f"SELECT id FROM identity_tokens WHERE sender = ? AND suspended AND {_LIVE_TOKEN} "
            "ORDER BY seq",
            claim.sender,
            tx.now,
        )
        if suspended and not _has_token(tx, claim.sender):
            # With a token that is trusted again, the sender is back.
            yield Finding(held, f"interlock token reaffirm {suspended[0]}", claim.id)
            continue
        item, paths, repo = claim.target.item, claim.target.paths, claim.target.repo
        if item is not None:
            flags = f"--item {shlex.quote(item)}"
        else:
            flags = " ".join(f"--path {shlex.quote(path)}" for path in paths)
            flags += f" --repo {shlex.quote(repo or '')}"
        yield Finding(
            f"{held} Whoever takes it over holds it from then on.",
            f"interlock claim take-over {flags} --reason 'its holder is gone'",
            claim.id,
        )


def _has_token(tx: Transaction, sender: str) -> bool:
    row = tx.one(
        f"SELECT 1 FROM identity_tokens WHERE sender = ? AND NOT suspended AND {_LIVE_TOKEN}",
        sender,
        tx.now,
    ) or tx.one(
        "SELECT 1 FROM identity_connections WHERE sender = ? AND ended_at IS NULL AND "
        "refresh_expires_at > ?",
        sender,
        tx.now,
    )
    return row is not None


# --- gates


def gates_held(tx: Transaction) -> Iterator[Finding]:
    """Find gates that no sender can pass, or only the workers of a task that waits for it."""
    waiting = due(tx)
    known = {row[0] for row in tx.all("SELECT name FROM work_gates")}
    for gate in sorted(known | {gate for _, gate in waiting}):
        able = holders(tx, gate)
        if not able:
            yield Finding(
                f"Nobody with a live token can hold the gate {gate}, so nothing passes it.",
                _to_hold(tx, gate),
                gate,
            )
            continue
        for task in (task for task, each in waiting if each == gate):
            own = workers(tx, task.id)
            if all(agent_of(tx.state, sender) in own for sender in able):
                yield Finding(
                    f"Only {' and '.join(map(address, able))} can hold the gate {gate}, which "
                    f"{task.id} waits for, and nobody judges their own work.",
                    _to_add(tx, gate, own),
                    gate,
                )


def _to_hold(tx: Transaction, gate: str) -> str:
    """The command that gives the gate a holder: trust a suspended token again, mint a token for a
    named holder, or add a holder."""
    scope = f"gate:{gate}"
    named = {sender for name in listed(tx, gate) for sender in senders_of(tx.state, name)}
    tokens = tx.all("SELECT id, sender, scopes, suspended FROM identity_tokens ORDER BY seq")
    able = [each for each in tokens if scope in each[2].split() or each[1] in named]
    for id, *_ in (each for each in able if each[3]):
        return f"interlock token reaffirm {id}"
    for sender in sorted(named):
        return f"interlock token mint --sender {sender} --keep"
    for _, sender, *_ in able:
        return f"interlock token mint --sender {sender} --scope {scope} --keep"
    return _to_add(tx, gate, [])


def _to_add(tx: Transaction, gate: str, own: list[str]) -> str:
    """The command that adds a holder to the gate, a person if there is one."""
    rows = tx.all(
        "SELECT s.sender, s.agent FROM identity_senders s JOIN identity_agents a "
        "ON a.name = s.agent ORDER BY a.kind <> 'human', s.sender"
    )
    others = [row[0] for row in rows if row[1] not in own and _has_token(tx, row[0])]
    if not others:
        return "interlock join NAME --kind human"
    wanted = dict.fromkeys((*listed(tx, gate), others[0]))
    return f"interlock gate create {gate} --replace " + " ".join(f"--holder {n}" for n in wanted)
