"""What is wrong with what the log says, over all rooms: read only, nothing is decided by it.

Every check is a function of the moment that yields what it found. Whoever was seen when is asked
of the store, as for anything that shows reach.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from interlock.log.times import DAY_MS, rfc3339
from interlock.rooms.claims.records import Claim, Target, live
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
from interlock.rooms.people.connections import Connection, living
from interlock.rooms.transaction import OWNER, SYSTEM, Transaction
from interlock.rooms.work.holders import holders, listed
from interlock.rooms.work.missing import due
from interlock.rooms.work.records import workers
from interlock.rooms.workspace.findings import Finding
from interlock.verbs.addresses import address, near

SOON_MS = 7 * DAY_MS
LATELY_MS = 7 * DAY_MS
# Mail of the first hour is nobody's neglect.
PATIENCE_MS = 60 * 60_000

_LIVE_TOKEN = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"  # noqa: S105


# --- tokens


def labels_agree(tx: Transaction) -> Iterator[Finding]:
    """Labels that do not mention whose token it is, and names of connections that mention others
    than those whose it is."""
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
            yield Finding(
                f"The connection {found.id} is called {found.name!r}, which names "
                f"{' and '.join(map(address, sorted(others)))}, but it acts as @{found.sender} for "
                f"@{found.person}. If it should not: interlock connection revoke {found.id}. If "
                f"it should: {_to_rename(found)}.",
                _to_rename(found),
                found.id,
            )


def _to_rename(found: Connection) -> str:
    return f"interlock connection name {found.id} {found.sender}"


def tokens_lasting(tx: Transaction) -> Iterator[Finding]:
    """Tokens that will end soon, or that a restore has suspended."""
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
        elif not _is_fleeting(minted_at, expires_at) and 4 * (expires_at - tx.now) <= (
            expires_at - minted_at
        ):
            yield Finding(
                f"The token {id} of @{sender} expires at {rfc3339(expires_at)}.",
                f"interlock token rotate {id}",
                id,
            )


def _is_fleeting(minted_at: int, expires_at: int) -> bool:
    """Whether a token was made for less than a day: that it ends is its nature."""
    return expires_at - minted_at < DAY_MS


# --- mail


def recipients_known(tx: Transaction) -> Iterator[Finding]:
    """Names that were written to lately, and as which nobody has joined."""
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
        yield Finding(
            f"{many} for @{name}, as whom nobody has joined; the last is {last.id}, from "
            f"@{last.sender}.{hint}",
            _to_reach(name, last, meant),
            address(name),
        )


def _to_reach(name: str, last: Message, meant: list[str] | None) -> str:
    """Whoever mistyped a name is told, and sends again."""
    if last.sender in (OWNER, SYSTEM):
        return f"interlock explain {last.id}"
    to = meant[0] if meant else "somebody who has"
    text = f"Nobody has joined as @{name}. Please send {last.id} again, to {to}."
    return f"interlock send {address(last.sender)} {shlex.quote(text)} --type wake"


def mailboxes_read(tx: Transaction) -> Iterator[Finding]:
    """Mail of more than a day, of which nobody who could read it was seen since it came."""
    for name, unread in _unread(tx):
        first = _open_mail(tx, name)
        if first is None or tx.now - first.at <= DAY_MS:
            continue
        senders = senders_of(tx.state, name)
        if _has_looked(tx, name, senders, first):
            continue
        many = "1 message is" if unread == 1 else f"{unread} messages are"
        yield Finding(
            f"{many} unread at @{name}, the first since {rfc3339(first.at)}, and nobody was seen "
            "there since.",
            f"interlock inbox --from {senders[0]}",
            address(name),
        )


def _has_looked(tx: Transaction, name: str, senders: list[str], first: Message) -> bool:
    """Whether anybody who sees this mail was seen after it came: acting, writing, or reading what
    came later."""
    _, seen = tx.store.reach(senders)
    if seen is not None and seen > first.at:
        return True
    marks = ", ".join("?" * len(senders))
    wrote = tx.one(
        f"SELECT 1 FROM mail_messages WHERE sender IN ({marks}) AND seq > ? LIMIT 1",
        *senders,
        first.seq,
    )
    read = tx.one(
        f"SELECT 1 FROM mail_deliveries WHERE recipient = ? AND seq > ? AND state NOT IN {UNREAD} "
        "AND state <> 'expired' LIMIT 1",
        name,
        first.seq,
    )
    return wrote is not None or read is not None


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
    """Who should be woken, which senders would do, and what for."""

    name: str
    senders: list[str]
    why: str


def waiting(tx: Transaction) -> Iterator[Waiting]:
    """Agents whom something waits for since an hour: mail that may wake them, or what they hold."""
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
    """Which of some senders have a token that lies on a machine, and the people whose clients act
    as the others."""
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
    """Whom the last attempt of the last day did not wake."""
    since = tx.now - DAY_MS
    before = tx.one("SELECT seq FROM mail_messages WHERE at < ? ORDER BY seq DESC LIMIT 1", since)
    for recipient, adapter, outcome, why, seq, _ in tx.all(
        "SELECT recipient, adapter, outcome, why, seq, max(at) FROM mail_wakes WHERE seq > ? "
        "GROUP BY recipient ORDER BY recipient",
        before[0] if before else 0,
    ):
        if outcome in ("failed", "unknown"):
            ended = "failed" if outcome == "failed" else "may have failed"
            yield Finding(
                f"To wake @{recipient} by {adapter} {ended}" + (f": {why}" if why else "."),
                _to_look(by_seq(tx, seq)),
                address(recipient),
            )


def _to_look(message: Message) -> str:
    """Receipts are shown to whoever sent it; of what the workspace itself says, its story."""
    if message.sender in (OWNER, SYSTEM):
        return f"interlock explain {message.id}"
    return f"interlock receipts {message.id} --from {message.sender}"


# --- claims


def claims_alive(tx: Transaction, lost: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Claims whose holder surely has gone, before the lease ends by itself. `lost` are the sessions
    of each sender whose client died."""
    for claim in live(tx):
        why = _why_dead(tx, claim, lost)
        if why is None:
            continue
        held = f"@{claim.sender} holds {claim.target} until {rfc3339(claim.expires_at)}, and {why}."
        if suspended := _suspended(tx, claim.sender):
            yield Finding(held, f"interlock token reaffirm {suspended}", claim.id)
            continue
        yield Finding(
            f"{held} Whoever takes it over holds it from then on.",
            f"interlock claim take-over {_flags(claim.target)} --reason 'its holder is gone'",
            claim.id,
        )


def _why_dead(tx: Transaction, claim: Claim, lost: Mapping[str, list[str]]) -> str | None:
    if claim.session is not None:
        if tx.one(
            "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL",
            claim.session,
        ):
            return "its session has ended"
        if claim.session in lost.get(claim.sender, ()):
            return "the client of its session has died"
    if not _has_token(tx, claim.sender):
        return "no token of it is live any more"
    return None


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


def _suspended(tx: Transaction, sender: str) -> str | None:
    """A token with which the sender would be back, were it trusted again."""
    row = tx.one(
        f"SELECT id FROM identity_tokens WHERE sender = ? AND suspended AND {_LIVE_TOKEN} "
        "ORDER BY seq",
        sender,
        tx.now,
    )
    return row[0] if row and not _has_token(tx, sender) else None


def _flags(target: Target) -> str:
    if target.item is not None:
        return f"--item {shlex.quote(target.item)}"
    paths = " ".join(f"--path {shlex.quote(path)}" for path in target.paths)
    return f"{paths} --repo {shlex.quote(target.repo or '')}"


# --- gates


def gates_held(tx: Transaction) -> Iterator[Finding]:
    """Gates that nobody can pass: nobody at all, or nobody but those whose work it is."""
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
    """A token for whoever is to hold it: suspended ones are trusted again, others made anew."""
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
    """Another holder beside those there are: a person rather than an agent."""
    rows = tx.all(
        "SELECT s.sender, s.agent FROM identity_senders s JOIN identity_agents a "
        "ON a.name = s.agent ORDER BY a.kind <> 'human', s.sender"
    )
    others = [row[0] for row in rows if row[1] not in own and _has_token(tx, row[0])]
    if not others:
        return "interlock join NAME --kind human"
    wanted = dict.fromkeys((*listed(tx, gate), others[0]))
    return f"interlock gate create {gate} --replace " + " ".join(f"--holder {n}" for n in wanted)
