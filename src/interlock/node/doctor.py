"""The doctor: checks a workspace, and says for each finding how to fix it.

A check is a function that yields findings. `CHECKS` and `PRIVATE` list all checks of a node: of the
engine, the clock, the nodes and servers, of the senders and their tokens, and of the files in the
workspace's directory. `rooms.workspace.health` has the checks that read only the log. The command
`doctor` checks the files of the machine that it runs on.
"""

import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator

from interlock.errors import LogDamaged, LogForked, NotAvailable
from interlock.machine.processes import RUN, space
from interlock.node import Node
from interlock.node.servers import is_named, running
from interlock.rooms.claims.guard import crossings
from interlock.rooms.transaction import Transaction
from interlock.rooms.workspace import health
from interlock.rooms.workspace.findings import Finding, finding_rows, in_order, unmade
from interlock.stores.presence import Use
from interlock.stores.recognition import pragma
from interlock.stores.sqlite import clock_ms
from interlock.verbs.answers import Answer

LAG_SUSPICIOUS = 1000
SILENT_S = 30
MAX_SHOWN = 8
APART_MS = 5_000
STARTING_MS = 10_000
CROSSED_FOR_MS = 7 * 86_400_000
# SQLite's number for `FULL`: a commit waits for the disk.
FULL = 2
HERE = "this machine"
SYNCHRONIZE_CLOCK = {
    "darwin": "sudo systemsetup -setusingnetworktime on",
    "linux": "sudo timedatectl set-ntp true",
}

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# SQLite gives the files beside the log the mode of the log's file.
SECRET = ("owner.json", "engine.json", "log.db")
BESIDE = ("log.db-wal", "log.db-shm")
OURS = (*SECRET, "keys", "credentials", "servers", "server.lock", "server.log")


def examine(node: Node, *, everything: bool = True) -> Answer:
    """Run the checks, and list the findings with the smallest change first. Without `everything`,
    leave the checks out that are about people and their tokens."""
    checks = CHECKS | (PRIVATE if everything else {})
    found: list[Answer] = []
    for name, check in checks.items():
        try:
            findings = list(check(node))
        except NotAvailable as trouble:
            # `engine-reachable` reports a shared engine that is away.
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
    """Read the engine, and compare its entries with the copy. Running nodes do not read again the
    entries that they have."""
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
                f"Somebody removed or changed {shown}{more} in the engine. This node has what was "
                "there; a new one cannot join.",
                "interlock repair --restore",
            )
    except LogForked as trouble:
        yield Finding(trouble.message, "interlock repair")
    except NotAvailable as trouble:
        yield Finding(trouble.state, "Start the engine again, or see its address: interlock status")


def engine_durable(node: Node) -> Iterator[Finding]:
    """Find settings by which the engine may lose acknowledged writes."""
    if node.shared is None:
        hazards = []
        with node.file.reading() as db:
            if (level := pragma(db, "synchronous")) < FULL:
                hazards.append(f"its file is open with synchronous {level}, and not {FULL}")
            if sys.platform == "darwin" and not pragma(db, "fullfsync"):
                hazards.append("its file is open without fullfsync")
        for hazard in hazards:
            yield Finding(
                f"The engine may lose what it acknowledged: {hazard}.",
                "interlock down && interlock up --detach",
            )
        return
    where = node.shared.where
    for hazard in node.shared.remote.hazards():
        what, _, remedy = hazard.partition(". ")
        # The remedy as a command for the shell, and what the command does not say.
        if (found := re.match(r"CONFIG SET \S+ [\w-]+", remedy)) is not None:
            more, do = " Set it in the engine's configuration file, too.", where.typed(found[0])
        elif (found := re.match(r"ALTER SYSTEM SET [^;]+", remedy)) is not None:
            more = " After a failover: interlock repair" if "repair" in remedy else ""
            do = where.typed(found[0], "SELECT pg_reload_conf()")
        else:
            more = f" {remedy}"
            do = "interlock repair" if "repair" in remedy else where.typed("CONFIG GET 'append*'")
        yield Finding(f"The engine may lose what it acknowledged: {what}.{more}", do)


def set_aside_entries(node: Node) -> Iterator[Finding]:
    count = node.shared.remote.aside() if node.shared is not None else 0
    if count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        yield Finding(
            f"Somebody without the workspace's key wrote {entries} into the engine's log. That "
            "changed nothing: nobody folds it, and it is out of the log's way.",
            "Change the engine's password, and look at who has it. Then: interlock repair "
            "--discard-aside",
        )


def nodes_level(node: Node) -> Iterator[Finding]:
    for other in node.shared.standing()["nodes"] if node.shared else ():
        if other["seen_s_ago"] > SILENT_S:
            yield Finding(
                f"The node {other['node']} was last heard of {other['seen_s_ago']} s ago, at "
                f"#{other['seq']}.",
                "Start it again there: interlock up. Or leave it: an hour later it is forgotten.",
                other["node"],
            )
        elif other["lag"] > LAG_SUSPICIOUS:
            yield Finding(
                f"The node {other['node']} is {other['lag']} entries behind.",
                "See server.log in its directory.",
                other["node"],
            )


def clock_level(node: Node) -> Iterator[Finding]:
    """Compare the clocks. Leases and expiries go by the log's time, which runs at half speed while
    the clock is behind it."""
    do = SYNCHRONIZE_CLOCK.get(sys.platform, "Set the clock of this machine by the network.")
    now = node.clock()
    if node.shared is not None:
        if not now:
            return  # the engine was not reached yet
        if abs(apart := clock_ms() - now) > APART_MS:
            side = "ahead of" if apart > 0 else "behind"
            yield Finding(
                f"The clock of this machine is {abs(apart) // 1000} s {side} the engine's.", do
            )
    with node.file.reading() as db:
        ahead = node.engine.head(db).at - now
    if ahead > APART_MS:
        whose = "the engine's clock" if node.shared is not None else "the clock of this machine"
        yield Finding(
            f"The log is {ahead // 1000} s ahead of {whose}, which was set back: its time goes on "
            "at half speed until they meet, and leases last longer.",
            do if node.shared is None else "Set the clock of the engine's machine by the network.",
        )


def one_server(node: Node) -> Iterator[Finding]:
    """Find a second server, or a second name of the file by which one could start. SQLite tells
    writers of a file apart by its name."""
    found = running(node.directory)
    if len(found) > 1:
        shown = " and ".join(str(each.pid) for each in found)
        here = [str(each.pid) for each in found[:-1] if each.space == space()]
        yield Finding(
            f"{len(found)} servers run for this workspace, as the processes {shown}: server.lock "
            "was removed while one of them ran.",
            f"kill {' '.join(here)}" if here else "interlock down",
        )
    elif (
        found
        and not is_named(node.directory, found[0])
        and clock_ms() - found[0].since_ms > STARTING_MS
    ):
        yield Finding(
            f"A server runs for this workspace, as the process {found[0].pid}, and commands do not "
            "find it: server.json does not name it.",
            "interlock down && interlock up --detach",
        )
    path = os.path.join(node.directory, "log.db")
    if os.path.islink(path):
        real = os.path.realpath(path)
        yield Finding(
            f"{path} is a link to {real}: a server there would not know of one here.",
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
            f"{path} has another name beside it, {beside[0].name}: SQLite would not know of what "
            "is written under that one.",
            f"rm {shlex.quote(beside[0].path)}",
        )
        return
    yield Finding(
        f"{path} has another name in another directory: a server there would not know of one "
        "here, and SQLite would not know of the other's writes. Find it, and remove that name.",
        f"find / -xdev -samefile {shlex.quote(path)}",
    )


# --- the senders


def commits_guarded(node: Node) -> Iterator[Finding]:
    with node.file.reading() as db:
        tx = node.transaction(db)
        found = crossings(tx, tx.now - CROSSED_FOR_MS)
    for repo, commit, holder, sender in found:
        yield Finding(
            f"The commit {commit[:12]} in {repo}, made by @{sender} without asking the guard, "
            f"touches what @{holder} had claimed.",
            f"Look at it (git show {commit[:12]}), and settle it with @{holder}.",
        )


def claims_alive(node: Node) -> Iterator[Finding]:
    with node.file.reading() as db:
        tx = node.transaction(db)
        holders = {row[0] for row in tx.all("SELECT sender FROM claims_held")}
        lost = {sender: node.presence.lost(sender) for sender in sorted(holders)}
        yield from list(health.claims_alive(tx, lost))


def agents_wakeable(node: Node) -> Iterator[Finding]:
    """Find names with waiting mail that have no client with hooks, no listener and no stream."""
    with node.file.reading() as db:
        tx = node.transaction(db)
        for name, senders, why in health.waiting(tx):
            reach, _ = tx.store.reach(senders)
            windows = [w for each in senders for w in node.presence.windows(each, tx.now)]
            has_hooks = any(window.about.get("client") != RUN for window in windows)
            if reach in ("wakes", "working") or has_hooks:
                continue
            here, people = health.ways_in(tx, senders)
            if people and not here:
                # A client that a person connected has no hooks, and none can be installed there.
                text = f"Mail waits for @{name}. Please let its client look."
                yield Finding(
                    f"@{name} {why}, and nothing can wake it: it is a client that @{people[0]} "
                    "connected, and such a one looks when its person asks it to.",
                    f"interlock send @{people[0]} {shlex.quote(text)}",
                    f"@{name}",
                )
            else:
                yield Finding(
                    f"@{name} {why}, and nothing can wake it: no client of it tells by hooks, and "
                    "nothing listens for it. Set its client up, where that works.",
                    f"interlock setup claude-code --from {(here or senders)[0]}",
                    f"@{name}",
                )


def tokens_apart(node: Node) -> Iterator[Finding]:
    """Find tokens that several sessions or several places use at the same time."""
    by_token: dict[str, list[tuple[str, Use]]] = {}
    elsewhere = node.shared.uses() if node.shared is not None else {}
    for where, uses in [(None, node.presence.uses(node.clock())), *elsewhere.items()]:
        for use in uses:
            by_token.setdefault(use.token, []).append((use.peer or where or HERE, use))
    for token, uses_of in sorted(by_token.items()):
        places = _at_once(uses_of)
        sessions = _at_once([(use.session, use) for _, use in uses_of if use.session])
        if len(places) < 2 and len(sessions) < 2:
            continue
        with node.file.reading() as db:
            row = node.transaction(db).one(
                "SELECT sender, use FROM identity_tokens WHERE id = ? AND revoked_at IS NULL",
                token,
            )
        if row is None:
            continue
        sender, purpose = row
        # The operator of a connected client may ask from many machines, and people travel.
        if len(places) > 1 and purpose is None:
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


def _at_once(uses: list[tuple[str, Use]]) -> list[str]:
    """The names whose time of use overlaps with that of another name."""
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


# --- the files


def secrets_kept(node: Node) -> Iterator[Finding]:
    """Check that the user can use the workspace's files, and that no other user can. A reader of
    the log reads all mail, and a writer of the file is its owner."""
    barred = []
    for path in _existing(node.directory, OURS):
        if not os.access(path, os.R_OK | os.W_OK | (os.X_OK if os.path.isdir(path) else 0)):
            barred.append(path)
            quoted, user = shlex.quote(path), os.geteuid()
            do = f"chmod -R u+rwX {quoted}"
            if os.stat(path).st_uid != user:
                do = f"sudo chown -R {user} {quoted} && {do}"
            yield Finding(f"The user who runs this may not read and write {path}.", do)
    trouble = node.keys.trouble()
    if isinstance(trouble, LogDamaged) or (trouble is not None and not barred):
        yield Finding(
            f"Sign-in, invitations and checkpoints are off: {trouble.message}",
            f"Put it back from a copy: {node.keys.path}",
        )
    directory = node.directory
    if _mode(directory) & OTHERS_WRITE:
        yield Finding(
            f"Others on this machine may put files into {directory}, and take them away.",
            f"chmod 700 {shlex.quote(directory)}",
        )
    is_log_private = not _mode(os.path.join(directory, "log.db")) & OTHERS
    for path in _existing(directory, (*SECRET, *(BESIDE if is_log_private else ()), "keys")):
        if _mode(path) & OTHERS:
            mode = 700 if os.path.isdir(path) else 600
            yield Finding(
                f"Others on this machine may read or write {path}.",
                f"chmod {mode} {shlex.quote(path)}",
            )


def _existing(directory: str, names: tuple[str, ...]) -> list[str]:
    """The files of these names that exist, and every file beside the key."""
    paths = [os.path.join(directory, name) for name in names]
    keys = os.path.join(directory, "keys")
    if os.access(keys, os.R_OK | os.X_OK) and os.path.isdir(keys):
        paths += [os.path.join(keys, name) for name in sorted(os.listdir(keys))]
    return [path for path in paths if os.path.exists(path)]


def _mode(path: str) -> int:
    """The mode of a file; 0 for a file that is gone by now."""
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
    "commits-guarded": commits_guarded,
}
# For the owner and for admins.
PRIVATE: dict[str, Callable[[Node], Iterator[Finding]]] = {
    "labels-agree": _of_log(health.labels_agree),
    "recipients-known": _of_log(health.recipients_known),
    "mailboxes-read": _of_log(health.mailboxes_read),
    "claims-alive": claims_alive,
    "wakes-working": _of_log(health.wakes_working),
    "tokens-lasting": _of_log(health.tokens_lasting),
    "tokens-apart": tokens_apart,
    "gates-held": _of_log(health.gates_held),
    "agents-wakeable": agents_wakeable,
    "secrets-kept": secrets_kept,
}
