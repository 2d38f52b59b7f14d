"""Checks of what keeps the log: its engine, its clock, its nodes and its servers."""

import os
import re
import shlex
import sys
from collections.abc import Iterator

from interlock.errors import LogForked, NotAvailable
from interlock.machine.processes import space
from interlock.node import Node
from interlock.node.servers import Serving, is_named, running
from interlock.rooms.workspace.findings import Finding
from interlock.stores.recognition import pragma
from interlock.stores.sqlite import clock_ms

LAG_SUSPICIOUS = 1000
SILENT_S = 30
MAX_SHOWN = 8
APART_MS = 5_000
STARTING_MS = 10_000
# What SQLite calls `FULL`: a commit waits for the disk.
FULL = 2
# What an engine would be told by its own program.
_SETTING = re.compile(r"CONFIG SET \S+ [\w-]+")
_SYSTEM = re.compile(r"ALTER SYSTEM SET [^;]+")
IN_STEP = {
    "darwin": "sudo systemsetup -setusingnetworktime on",
    "linux": "sudo timedatectl set-ntp true",
}


def reachable(node: Node) -> Iterator[Finding]:
    if node.shared is None:
        return
    try:
        node.catch_up()
        yield from _unlike(node)
    except LogForked as trouble:
        yield Finding(trouble.message, "interlock repair")
    except NotAvailable as trouble:
        yield Finding(trouble.state, "Start the engine again, or see its address: interlock status")


def _unlike(node: Node) -> Iterator[Finding]:
    """Running nodes never read again what they have."""
    assert node.shared is not None
    engine = node.shared.engine
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


def durable(node: Node) -> Iterator[Finding]:
    hazards = _of_file(node) if node.shared is None else node.shared.remote.hazards()
    for hazard in hazards:
        what, _, mending = hazard.partition(". ")
        more, do = _typed(node, mending) if node.shared is not None else ("", mending)
        yield Finding(f"The engine may lose what it acknowledged: {what}.{more}", do)


def _typed(node: Node, mending: str) -> tuple[str, str]:
    """What puts a hazard right, as a shell takes it, and what more there is to say of that."""
    assert node.shared is not None
    where = node.shared.where
    if (found := _SETTING.match(mending)) is not None:
        return " Set it in the engine's configuration file, too.", where.typed(found[0])
    if (found := _SYSTEM.match(mending)) is not None:
        more = " After a failover: interlock repair" if "repair" in mending else ""
        return more, where.typed(found[0], "SELECT pg_reload_conf()")
    if "repair" in mending:
        return f" {mending}", "interlock repair"
    return f" {mending}", where.typed("CONFIG GET 'append*'")


def _of_file(node: Node) -> list[str]:
    """How the workspace's own file is open in this process."""
    with node.file.reading() as db:
        found = []
        if (level := pragma(db, "synchronous")) < FULL:
            found.append(f"its file is open with synchronous {level}, and not {FULL}")
        if sys.platform == "darwin" and not pragma(db, "fullfsync"):
            found.append("its file is open without fullfsync")
    return [f"{hazard}. interlock down && interlock up --detach" for hazard in found]


def set_aside(node: Node) -> Iterator[Finding]:
    count = node.shared.remote.aside() if node.shared is not None else 0
    if count:
        entries = "1 entry" if count == 1 else f"{count} entries"
        yield Finding(
            f"Somebody without the workspace's key wrote {entries} into the engine's log. That "
            "changed nothing: nobody folds it, and it is out of the log's way.",
            "Change the engine's password, and look at who has it. Then: interlock repair "
            "--discard-aside",
        )


def others(node: Node) -> Iterator[Finding]:
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


def clock(node: Node) -> Iterator[Finding]:
    """Leases and expiries go by the log's time, which goes on at half speed while the clock is
    behind it."""
    do = IN_STEP.get(sys.platform, "Set the clock of this machine by the network.")
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


def servers(node: Node) -> Iterator[Finding]:
    """Two servers for one file each believe that they alone wake, renew and serve."""
    found = running(node.directory)
    if len(found) > 1:
        shown = " and ".join(str(each.pid) for each in found)
        yield Finding(
            f"{len(found)} servers run for this workspace, as the processes {shown}: server.lock "
            "was removed while one of them ran.",
            _to_end(found[:-1]),
        )
    elif found and not is_named(node.directory, found[0]) and _has_started(found[0]):
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
    elif os.stat(path).st_nlink > 1:
        yield _twice(path)


def _twice(path: str) -> Finding:
    """A file with two names. SQLite tells those who write a file from each other by its name."""
    directory = os.path.dirname(path)
    beside = [
        entry.path
        for entry in os.scandir(directory)
        if entry.path != path and entry.inode() == os.stat(path).st_ino
    ]
    if beside:
        return Finding(
            f"{path} has another name beside it, {os.path.basename(beside[0])}: SQLite would not "
            "know of what is written under that one.",
            f"rm {shlex.quote(beside[0])}",
        )
    return Finding(
        f"{path} has another name in another directory: a server there would not know of one "
        "here, and SQLite would not know of the other's writes. Find it, and remove that name.",
        f"find / -xdev -samefile {shlex.quote(path)}",
    )


def _has_started(serving: Serving) -> bool:
    return clock_ms() - serving.since_ms > STARTING_MS


def _to_end(found: list[Serving]) -> str:
    here = [str(each.pid) for each in found if each.space == space()]
    if not here:
        return "interlock down"
    return f"kill {' '.join(here)}"
