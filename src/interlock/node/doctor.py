"""The doctor: checks a workspace, and gives each finding a command that fixes it.

A check is a function that yields findings. `CHECKS` and `PRIVATE` list all checks of a node. They
cover the engine, the clock, nodes, servers, senders, tokens, mail, claims, gates, and the files in
the workspace's directory. `_of_log` opens the read transaction for a check of the state. The
command `doctor` checks the files of the machine that it runs on.
"""

import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator

from interlock.errors import LogDamaged, LogForked, NotAvailable, message
from interlock.log.times import DAY_MS, rfc3339
from interlock.machine.processes import RUN, space
from interlock.node import Node
from interlock.node.servers import is_named, running
from interlock.rooms.claims.rules import live
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
from interlock.rooms.workspace.findings import Finding, finding_rows, in_order, unmade
from interlock.stores.presence import Use
from interlock.stores.recognition import pragma
from interlock.stores.sqlite import clock_ms
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import Answer

LAG_SUSPICIOUS = 1000
SILENT_S = 30
MAX_SHOWN = 8
APART_MS = 5_000
STARTING_MS = 10_000
SOON_MS = 7 * DAY_MS
LATELY_MS = 7 * DAY_MS
# An agent may leave its mail and claims untouched for this long.
PATIENCE_MS = 60 * 60_000
CROSSED_FOR_MS = 7 * 86_400_000
# SQLite's value of `synchronous` with which a commit waits for the disk.
FULL = 2
HERE = "this machine"
_LIVE_TOKEN = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"  # noqa: S105
SYNCHRONIZE_CLOCK = {
    "darwin": "sudo systemsetup -setusingnetworktime on",
    "linux": "sudo timedatectl set-ntp true",
}

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# SQLite creates the files in BESIDE with the mode of log.db.
SECRET = ("owner.json", "engine.json", "log.db")
BESIDE = ("log.db-wal", "log.db-shm")
OURS = (*SECRET, "keys", "credentials", "servers", "server.lock", "server.log")


def examine(node: Node, *, everything: bool = True) -> Answer:
    """Run the checks, and list the findings with the smallest change first. Without `everything`,
    skip the checks in `PRIVATE`."""
    checks = CHECKS | (PRIVATE if everything else {})
    found: list[Answer] = []
    for name, check in checks.items():
        try:
            findings = list(check(node))
        except NotAvailable as trouble:
            # `engine-reachable` reports an unavailable shared engine.
            findings = [] if node.shared is not None else [unmade(trouble)]
        except Exception as trouble:  # noqa: BLE001 - one check must not hide the others
            findings = [unmade(trouble)]
        found += finding_rows(name, findings)
    return {"ok": not found, "checks": len(checks), "findings": in_order(found)}


def _of_log(
    check: Callable[[Transaction], Iterator[Finding]],
) -> Callable[[Node], Iterator[Finding]]:
    def checked(node: Node) -> Iterator[Finding]:
        with node.file.reading() as db:
            yield from list(check(node.transaction(db)))

    return checked


# --- the engine


def engine_reachable(node: Node) -> Iterator[Finding]:
    """Read the engine, and compare its entries with this node's copy. Otherwise a running node does
    not read the entries again that it has copied."""
    if node.shared is None:
        return
    engine = node.shared.engine
    try:
        node.catch_up()
        with node.file.reading() as db:
            found = engine.unlike(db, engine.head(db).seq)
        if found:
            shown = ", ".join(f"#{seq}" for seq in found[:MAX_SHOWN])
            more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
            yield Finding(
                f"The entries {shown}{more} are missing or changed in the engine. This node has "
                "the originals. New nodes cannot join until the entries are restored.",
                "interlock repair --restore",
            )
    except LogForked as trouble:
        yield Finding(trouble.message, "interlock repair")
    except NotAvailable as trouble:
        yield Finding(trouble.state, "Start the engine. To see its address: interlock status")


def engine_durable(node: Node) -> Iterator[Finding]:
    """Find settings with which the engine may lose acknowledged writes."""
    if node.shared is None:
        hazards = []
        with node.file.reading() as db:
            if (level := pragma(db, "synchronous")) < FULL:
                hazards.append(f"its file is open with synchronous {level} instead of {FULL}")
            if sys.platform == "darwin" and not pragma(db, "fullfsync"):
                hazards.append("its file is open without fullfsync")
        for hazard in hazards:
            yield Finding(
                f"The engine may lose acknowledged writes: {hazard}.",
                "interlock down && interlock up --detach",
            )
        return
    where = node.shared.where
    for hazard in node.shared.remote.hazards():
        what, _, remedy = hazard.partition(". ")
        # `do` is the remedy as a shell command. `more` is the part that the command does not cover.
        if (found := re.match(r"CONFIG SET \S+ [\w-]+", remedy)) is not None:
            more, do = " Set it in the engine's configuration file too.", where.typed(found[0])
        elif (found := re.match(r"ALTER SYSTEM SET [^;]+", remedy)) is not None:
            more = " After a failover: interlock repair" if "repair" in remedy else ""
            do = where.typed(found[0], "SELECT pg_reload_conf()")
        else:
            more = f" {remedy}"
            do = "interlock repair" if "repair" in remedy else where.typed("CONFIG GET 'append*'")
        yield Finding(f"The engine may lose acknowledged writes: {what}.{more}", do)


def set_aside_entries(node: Node) -> Iterator[Finding]:
    count = node.shared.remote.aside() if node.shared is not None else 0
    if count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        yield Finding(
            f"A writer without the workspace's key wrote {entries} into the engine's log. "
            "Interlock ignores such entries and sets them aside.",
            "Change the engine's password, and check who has it. Then delete the entries: "
            "interlock repair --discard-aside",
        )


def nodes_level(node: Node) -> Iterator[Finding]:
    for other in node.shared.standing(node)["nodes"] if node.shared else ():
        if other["seen_s_ago"] > SILENT_S:
            yield Finding(
                f"The node {other['node']} sent its last report {other['seen_s_ago']} s ago, at "
                f"entry #{other['seq']}.",
                "Start it on its machine: interlock up. Interlock forgets a node that is silent "
                "for an hour.",
                other["node"],
            )
        elif other["lag"] > LAG_SUSPICIOUS:
            yield Finding(
                f"The node {other['node']} is {other['lag']} entries behind.",
                "Read server.log in its directory.",
                other["node"],
            )


def clock_level(node: Node) -> Iterator[Finding]:
    """Compare the clocks. Leases expire by log time, which runs at half speed while the clock is
    behind it."""
    do = SYNCHRONIZE_CLOCK.get(
        sys.platform, "Synchronize the clock of this machine with the network."
    )
    now = node.clock()
    if node.shared is not None:
        if not now:
            return  # this node has not reached the engine yet
        if abs(apart := clock_ms() - now) > APART_MS:
            side = "ahead of" if apart > 0 else "behind"
            yield Finding(
                f"The clock of this machine is {abs(apart) // 1000} s {side} the engine's clock.",
                do,
            )
    with node.file.reading() as db:
        ahead = node.engine.head(db).at - now
    if ahead > APART_MS:
        whose = "the engine's clock" if node.shared is not None else "the clock of this machine"
        yield Finding(
            f"Log time is {ahead // 1000} s ahead of {whose}, which was set back. Until the clock "
            "catches up, log time runs at half speed, and leases last longer.",
            do
            if node.shared is None
            else "Synchronize the clock of the engine's machine with the network.",
        )


def one_server(node: Node) -> Iterator[Finding]:
    """Find a second server, or a second path of the log's file through which one could start.
    SQLite coordinates the writers of one path only."""
    found = running(node.directory)
    if len(found) > 1:
        shown = " and ".join(str(each.pid) for each in found)
        here = [str(each.pid) for each in found[:-1] if each.space == space()]
        yield Finding(
            f"{len(found)} servers run for this workspace: the processes {shown}. The file "
            "server.lock was removed while one of them ran.",
            f"kill {' '.join(here)}" if here else "interlock down",
        )
    elif (
        found
        and not is_named(node.directory, found[0])
        and clock_ms() - found[0].since_ms > STARTING_MS
    ):
        yield Finding(
            f"A server runs for this workspace, the process {found[0].pid}. Commands do not find "
            "it, because server.json does not name it.",
            "interlock down && interlock up --detach",
        )
    path = os.path.join(node.directory, "log.db")
    if os.path.islink(path):
        real = os.path.realpath(path)
        yield Finding(
            f"{path} is a link to {real}. A server for each of the two paths could start, and "
            "neither would notice the other.",
            f"interlock --workspace {shlex.quote(os.path.dirname(real))} up --detach",
        )
        return
    file = os.stat(path)
    if file.st_nlink <= 1:  # some file systems count no links
        return
    beside = [
        entry
        for entry in list(os.scandir(node.directory))
        if entry.path != path and entry.inode() == file.st_ino
    ]
    if beside:
        yield Finding(
            f"{path} has a second hard link in the same directory, {beside[0].name}. SQLite does "
            "not notice writes through that link.",
            f"rm {shlex.quote(beside[0].path)}",
        )
        return
    yield Finding(
        f"{path} has a second hard link in another directory. A server for that directory could "
        "start, and neither server would notice the other's writes. Find the link, and remove it.",
        f"find / -xdev -samefile {shlex.quote(path)}",
    )


# --- the senders, their mail, claims and tokens


def commits_guarded(tx: Transaction) -> Iterator[Finding]:
    for repo, commit, holder, sender in tx.all(
        'SELECT repo, "commit", holder, sender FROM claims_crossed WHERE at >= ? ORDER BY seq',
        tx.now - CROSSED_FOR_MS,
    ):
        yield Finding(
            f"@{sender} made the commit {commit[:12]} in {repo} without the guard. The commit "
            f"changes files that @{holder} had claimed.",
            f"Read the commit (git show {commit[:12]}), and agree with @{holder} on its changes.",
        )


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
            hint = f" Interlock delivers the mail when that name joins: interlock join {name}"
        do = f"interlock explain {last.id}"
        if last.sender not in (OWNER, SYSTEM):
            to = meant[0] if meant else "a registered name"
            text = f"@{name} is not registered. Please send {last.id} again, to {to}."
            do = f"interlock send {address(last.sender)} {shlex.quote(text)} --type wake"
        yield Finding(
            f"{many} for @{name}, which is not registered. The last one is {last.id}, from "
            f"@{last.sender}.{hint}",
            do,
            address(name),
        )


def mailboxes_read(tx: Transaction) -> Iterator[Finding]:
    """Find mail that is unread for more than a day, if no recipient was active, wrote mail or read
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
        many = "1 unread message" if unread == 1 else f"{unread} unread messages"
        yield Finding(
            f"@{name} has {many}, the first since {rfc3339(first.at)}, and was not active since.",
            f"interlock inbox --from {senders[0]}",
            address(name),
        )


def _unread(tx: Transaction) -> list[tuple[str, int]]:
    rows = tx.all("SELECT recipient, unread FROM mail_boxes WHERE unread > 0 ORDER BY 1")
    return [(row[0], row[1]) for row in rows if is_known(tx.state, row[0])]


def _open_mail(tx: Transaction, name: str, also: str = "1") -> Message | None:
    """The first unread message for a name that also meets the SQL condition."""
    row = tx.one(
        "SELECT d.seq FROM mail_deliveries d INDEXED BY mail_open JOIN mail_messages m USING (seq) "
        f"WHERE d.recipient = ? AND closed = 0 AND state IN {UNREAD} AND {also} "
        "ORDER BY d.seq LIMIT 1",
        name,
    )
    return by_seq(tx, row[0]) if row else None


def claims_alive(node: Node) -> Iterator[Finding]:
    """Find claims whose holder has certainly ended before the lease expires."""
    with node.file.reading() as db:
        tx = node.transaction(db)
        claims = live(tx)
        lost = {sender: node.presence.lost(sender) for sender in {c.sender for c in claims}}
        for claim in claims:
            is_ended = claim.session is not None and tx.one(
                "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL",
                claim.session,
            )
            if is_ended:
                why = "its session has ended"
            elif claim.session in lost[claim.sender]:
                why = "the client of its session has died"
            elif not _has_token(tx, claim.sender):
                why = "it has no valid token"
            else:
                continue
            until = rfc3339(claim.expires_at)
            held = f"@{claim.sender} holds {claim.target} until {until}, but {why}."
            suspended = tx.one(
                f"SELECT id FROM identity_tokens WHERE sender = ? AND suspended AND {_LIVE_TOKEN} "
                "ORDER BY seq",
                claim.sender,
                tx.now,
            )
            if suspended and not _has_token(tx, claim.sender):
                # The sender can use its claim again once its token is reaffirmed.
                yield Finding(held, f"interlock token reaffirm {suspended[0]}", claim.id)
                continue
            item, paths, repo = claim.target.item, claim.target.paths, claim.target.repo
            if item is not None:
                flags = f"--item {shlex.quote(item)}"
            else:
                flags = " ".join(f"--path {shlex.quote(path)}" for path in paths)
                flags += f" --repo {shlex.quote(repo or '')}"
            yield Finding(
                f"{held} The sender of the command then holds the claim.",
                f"interlock claim take-over {flags} --reason 'its holder has ended'",
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


def agents_wakeable(node: Node) -> Iterator[Finding]:
    """Find agents that Interlock cannot wake, because they have no client with hooks, no listener
    and no stream. Report an agent that has had a claim, or mail that may wake it, for an hour."""
    with node.file.reading() as db:
        tx = node.transaction(db)
        kinds: dict[str, str] = dict(tx.all("SELECT name, kind FROM identity_agents"))
        claims = [each for each in live(tx) if tx.now - each.acquired_at > PATIENCE_MS]
        reasons = {each.sender: f"holds {each.target}" for each in claims}
        for name, _ in _unread(tx):
            mail = _open_mail(tx, name, also="coalesce(m.wake, m.recipient LIKE '@%')")
            if mail is not None and tx.now - mail.at > PATIENCE_MS:
                reasons[name] = f"has had unread mail since {rfc3339(mail.at)}"
        for name, why in sorted(reasons.items()):
            agent = agent_of(tx.state, name)
            if kinds.get(agent) != "agent" or is_muted(tx, (name, agent)):
                continue
            senders = senders_of(tx.state, name)
            reach, _ = tx.store.reach(senders)
            windows = [w for each in senders for w in node.presence.windows(each, tx.now)]
            has_hooks = any(window.about.get("client") != RUN for window in windows)
            if reach in ("wakes", "working") or has_hooks:
                continue
            # The senders that have a token on a machine, and the people whose clients act as them.
            here = _with_own_token(tx, senders)
            people = [found.person for found in living(tx, None) if found.sender in senders]
            if people and not here:
                # A client that a person connected has no hooks, and none can be installed there.
                text = f"@{name} has unread mail. Please tell its client to read it."
                yield Finding(
                    f"@{name} {why}, and Interlock cannot wake it. It is a client that "
                    f"@{people[0]} connected. Such a client reads mail when its person prompts it.",
                    f"interlock send @{people[0]} {shlex.quote(text)}",
                    f"@{name}",
                )
            else:
                yield Finding(
                    f"@{name} {why}, and Interlock cannot wake it. None of its clients has hooks "
                    "or listens for mail. Set up its client on the machine where it works.",
                    f"interlock setup claude-code --from {(here or senders)[0]}",
                    f"@{name}",
                )


def _with_own_token(tx: Transaction, senders: list[str]) -> list[str]:
    """The senders that have a token on a machine."""
    marks = ", ".join("?" * len(senders))
    return tx.column(
        f"SELECT DISTINCT sender FROM identity_tokens WHERE use IS NULL AND {_LIVE_TOKEN} AND "
        f"sender IN ({marks}) ORDER BY sender",
        tx.now,
        *senders,
    )


def wakes_working(tx: Transaction) -> Iterator[Finding]:
    """Find recipients whose last wake-up of the last day failed or has an unknown outcome."""
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
                f"The wake-up of @{recipient} by {adapter} {ended}" + (f": {why}" if why else "."),
                do,
                address(recipient),
            )


def labels_agree(tx: Transaction) -> Iterator[Finding]:
    """Find labels of tokens that contradict the sender. Find names of connections that mention
    neither the sender's agent nor its person, but another agent."""
    known = Known(tx.state)
    for id, sender, label, seq in tx.all(
        "SELECT id, sender, label, seq FROM identity_tokens WHERE label IS NOT NULL AND "
        f"{_LIVE_TOKEN} ORDER BY seq",
        tx.now,
    ):
        if wrong := known.contradiction(sender, label):
            ways = ways_out(tx, known, id, sender, label, seq)
            yield Finding(message(wrong, ways), remedy(id, sender), id)
    for found in living(tx, None):
        others = known.named(found.name or "")
        if others and others.isdisjoint((known.agent_of(found.sender), found.person)):
            rename = f"interlock connection name {found.id} {found.sender}"
            yield Finding(
                f"The name of the connection {found.id}, {found.name!r}, mentions "
                f"{' and '.join(map(address, sorted(others)))}, but the connection acts as "
                f"@{found.sender} for @{found.person}. If that is wrong, end the connection: "
                f"interlock connection revoke {found.id}. If that is right, rename it: {rename}.",
                rename,
                found.id,
            )


def tokens_lasting(tx: Transaction) -> Iterator[Finding]:
    """Find tokens that a restore has suspended, or that expire soon. Skip tokens with a lifetime of
    less than a day, because they are meant to expire."""
    for id, sender, minted_at, expires_at, suspended in tx.all(
        f"SELECT id, sender, minted_at, expires_at, suspended FROM identity_tokens "
        f"WHERE {_LIVE_TOKEN} AND (suspended OR (use IS NULL AND expires_at <= ?)) ORDER BY seq",
        tx.now,
        tx.now + SOON_MS,
    ):
        if suspended:
            yield Finding(
                f"The token {id} of @{sender} is suspended, because a restore or a repair dropped "
                "a part of the log. The token is not valid until an admin reaffirms it.",
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


def tokens_apart(node: Node) -> Iterator[Finding]:
    """Find tokens that several sessions or several hosts use at the same time."""
    by_token: dict[str, list[tuple[str, Use]]] = {}
    elsewhere = node.shared.uses() if node.shared is not None else {}
    for where, uses in [(None, node.presence.uses(node.clock())), *elsewhere.items()]:
        for use in uses:
            by_token.setdefault(use.token, []).append((use.peer or where or HERE, use))
    for token, uses_of in sorted(by_token.items()):
        hosts = _at_once(uses_of)
        sessions = _at_once([(use.session, use) for _, use in uses_of if use.session])
        if len(hosts) < 2 and len(sessions) < 2:
            continue
        with node.file.reading() as db:
            row = node.transaction(db).one(
                "SELECT sender, use FROM identity_tokens WHERE id = ? AND revoked_at IS NULL",
                token,
            )
        if row is None:
            continue
        sender, purpose = row
        # The operator of a connected client may call from many machines, and people travel.
        if len(hosts) > 1 and purpose is None:
            yield Finding(
                f"The token {token} of @{sender} is in use on {len(hosts)} hosts at once: "
                f"{', '.join(hosts)}.",
                f"interlock token rotate {token}",
                token,
            )
        elif len(sessions) > 1:
            yield Finding(
                f"The token {token} of @{sender} is in use in {len(sessions)} sessions at once: "
                f"{', '.join(sessions)}. Restart one of them with a token of its own: the command "
                "prints a token for INTERLOCK_TOKEN. This finding ends ten minutes later.",
                f"interlock token mint --sender {sender}",
                token,
            )


def _at_once(uses: list[tuple[str, Use]]) -> list[str]:
    """The names whose time of use overlaps with the time of use of another name."""
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


# --- gates


def gates_held(tx: Transaction) -> Iterator[Finding]:
    """Find gates that no sender can hold, or that only the workers of a waiting task can hold."""
    waiting = due(tx)
    known = tx.column("SELECT name FROM work_gates")
    for gate in sorted({*known, *(gate for _, gate in waiting)}):
        able = holders(tx, gate)
        if not able:
            yield Finding(
                f"No sender with a valid token can hold the gate {gate}, so no task can pass it.",
                _to_hold(tx, gate),
                gate,
            )
            continue
        for task in (task for task, each in waiting if each == gate):
            own = workers(tx, task.id)
            if all(agent_of(tx.state, sender) in own for sender in able):
                yield Finding(
                    f"{task.id} waits for a verdict of the gate {gate}. Only "
                    f"{' and '.join(map(address, able))} can hold this gate, but a worker cannot "
                    "give a verdict on its own task.",
                    _to_add(tx, gate, own),
                    gate,
                )


def _to_hold(tx: Transaction, gate: str) -> str:
    """The command that gives the gate a holder: reaffirm a suspended token, mint a token for a
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
    """The command that adds a holder to the gate, if possible a person."""
    rows = tx.all(
        "SELECT s.sender, s.agent FROM identity_senders s JOIN identity_agents a "
        "ON a.name = s.agent ORDER BY a.kind <> 'human', s.sender"
    )
    others = [row[0] for row in rows if row[1] not in own and _has_token(tx, row[0])]
    if not others:
        return "interlock join NAME --kind human"
    wanted = dict.fromkeys((*listed(tx, gate), others[0]))
    return f"interlock gate create {gate} --replace " + " ".join(f"--holder {n}" for n in wanted)


# --- the files


def secrets_kept(node: Node) -> Iterator[Finding]:
    """Check that the user can use the workspace's files, and that other users cannot. A user who
    can read the log can read all mail. A user who can write it is its owner."""
    barred = []
    for path in _existing(node.directory, OURS):
        if not os.access(path, os.R_OK | os.W_OK | (os.X_OK if os.path.isdir(path) else 0)):
            barred.append(path)
            quoted, user = shlex.quote(path), os.geteuid()
            do = f"chmod -R u+rwX {quoted}"
            if os.stat(path).st_uid != user:
                do = f"sudo chown -R {user} {quoted} && {do}"
            yield Finding(f"The user who runs Interlock cannot read and write {path}.", do)
    trouble = node.keys.trouble()
    if isinstance(trouble, LogDamaged) or (trouble is not None and not barred):
        yield Finding(
            f"Sign-in, invitations and checkpoints are off: {trouble.message}",
            f"Restore this file from a copy: {node.keys.path}",
        )
    directory = node.directory
    if _mode(directory) & OTHERS_WRITE:
        yield Finding(
            f"Other users of this machine can create and delete files in {directory}.",
            f"chmod 700 {shlex.quote(directory)}",
        )
    is_log_private = not _mode(os.path.join(directory, "log.db")) & OTHERS
    for path in _existing(directory, (*SECRET, *(BESIDE if is_log_private else ()), "keys")):
        if _mode(path) & OTHERS:
            mode = 700 if os.path.isdir(path) else 600
            yield Finding(
                f"Other users of this machine can read or write {path}.",
                f"chmod {mode} {shlex.quote(path)}",
            )


def _existing(directory: str, names: tuple[str, ...]) -> list[str]:
    """The existing files with these names, and every file in the directory of the key."""
    paths = [os.path.join(directory, name) for name in names]
    keys = os.path.join(directory, "keys")
    if os.access(keys, os.R_OK | os.X_OK) and os.path.isdir(keys):
        paths += [os.path.join(keys, name) for name in sorted(os.listdir(keys))]
    return [path for path in paths if os.path.exists(path)]


def _mode(path: str) -> int:
    """The mode of a file, or 0 if the file no longer exists."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return 0


# For every caller.
CHECKS: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "engine-reachable": engine_reachable,
    "engine-durable": engine_durable,
    "set-aside-entries": set_aside_entries,
    "nodes-level": nodes_level,
    "clock-level": clock_level,
    "one-server": one_server,
    "commits-guarded": _of_log(commits_guarded),
}
# For the owner and for admins.
PRIVATE: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "labels-agree": _of_log(labels_agree),
    "recipients-known": _of_log(recipients_known),
    "mailboxes-read": _of_log(mailboxes_read),
    "claims-alive": claims_alive,
    "wakes-working": _of_log(wakes_working),
    "tokens-lasting": _of_log(tokens_lasting),
    "tokens-apart": tokens_apart,
    "gates-held": _of_log(gates_held),
    "agents-wakeable": agents_wakeable,
    "secrets-kept": secrets_kept,
}
