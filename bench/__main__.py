"""`make bench`: measure every promise about Interlock's speed, in one run.

Each figure is a ratio to another measurement of the same run on the same disk, so that machines can
be compared. The raw figures are next to it.
"""

import argparse
import compileall
import os
import time
from statistics import median
from typing import NamedTuple

import interlock
from bench import commands, contention, disk, hooks, large, nodes, sending, server
from bench.scene import CALLERS, scratch
from bench.table import Table, at_least, at_most


class Amounts(NamedTuple):
    """The amounts to measure.

    `sends`, `sends_alone` and `sends_slow`: sends of each caller in a round, with many callers,
    with one, and with a slow fsync. `waits`: sends of another process between two commands.
    `posts` and `calls`: requests of each connection to the server. `served`: the messages before
    the server's memory is measured. `shared_s`: the duration of each measurement of several nodes
    in a round. `followed`: the sends for which the delay to another node is measured."""

    messages: int
    rounds: int
    sends: int
    sends_alone: int
    sends_slow: int
    commands: int
    waits: int
    starts: int
    listings: int
    posts: int
    calls: int
    served: int
    idle_s: int
    shared_s: float
    followed: int


FULL = Amounts(1_000_000, 9, 100, 250, 50, 20, 10, 25, 300, 150, 40, 100_000, 10, 3, 300)
QUICK = Amounts(10_000, 2, 10, 30, 10, 3, 5, 3, 50, 10, 5, 2000, 1, 0.5, 30)


def main() -> None:
    amounts = _amounts()
    started = time.perf_counter()
    # Compile the package, so that commands run as fast as in an installed package.
    compileall.compile_dir(os.path.dirname(interlock.__file__), quiet=2)
    table = Table()
    with scratch() as directory:
        table.heading(disk.sync_ms(directory))
        sends_a_second, bare = _sending(table, directory, amounts)
        _server(table, directory, amounts, bare)
        _contention(table, directory, amounts)
        _inbox(table, directory, amounts)
        _commands(table, directory, amounts)
        _hooks(table, directory, amounts)
        _whole_log(table, directory, amounts, sends_a_second)
        for engine in nodes.SERVERS:
            _nodes(table, os.path.join(directory, engine), amounts, engine)
    print(f"\nTotal time: {time.perf_counter() - started:.0f} s. {table.verdict()}")
    if amounts.messages != FULL.messages:
        print(f"A smaller run: {amounts.messages:,} messages. The full run has {FULL.messages:,}.")


def _amounts() -> Amounts:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Interlock.")
    parser.add_argument(
        "--quick", action="store_true", help="a small run, only to test the benchmark"
    )
    parser.add_argument("--messages", type=int, help="number of messages in the large workspace")
    given = parser.parse_args()
    amounts = QUICK if given.quick else FULL
    if given.messages is not None:
        if given.messages < large.SMALL:
            parser.error(f"--messages must be at least {large.SMALL}")
        amounts = amounts._replace(messages=given.messages)
    return amounts


def _sending(table: Table, directory: str, amounts: Amounts) -> tuple[float, float]:
    """Return the sends a second of many callers without a slower fsync: Interlock's, and those of
    bare apsw. Later measurements compare with them."""
    slower = disk.slower(directory)
    many, one = f"{CALLERS} callers", "one caller"
    speeds = []
    for label, callers, sends, goal, slow in (
        (many, CALLERS, amounts.sends, 0.5, False),
        (many, CALLERS, amounts.sends_slow, 0.8, True),
        (one, 1, amounts.sends_alone, 0.6, False),
        (one, 1, amounts.sends_slow, 0.6, True),
    ):
        name = f"durable sends, {label}{', fsync + 3 ms' if slow else ''}"
        environ = slower if slow else {}
        if isinstance(environ, str):
            table.skipped(name, environ)
            continue
        table.doing(name)
        place = os.path.join(directory, f"sending-{callers}-{slow}")
        found = sending.measure(place, callers, sends, amounts.rounds, environ)
        speeds.append((found.kernel, found.bare))
        raw = f"{found.kernel:,.0f}/s; bare apsw {found.bare:,.0f}/s"
        table.ratio(name, found.ratio, at_least(goal), raw)
    return speeds[0]


def _server(table: Table, directory: str, amounts: Amounts, bare: float) -> None:
    table.doing("the server")
    with server.served(os.path.join(directory, "server")) as served:
        posts = server.sends(served, amounts.posts, amounts.rounds)
        raw = f"{posts.ours:,.0f}/s; no-op posts {posts.nothing:,.0f}/s"
        table.ratio("HTTP sends, 32 connections", posts.ratio, at_least(0.4), raw)
        raw = f"{posts.ours:,.0f}/s; bare apsw {bare:,.0f}/s"
        table.ratio("HTTP sends / bare group commit", posts.ours / bare, at_least(0.25), raw)
        one, many = server.calls(served, amounts.calls, max(1, amounts.rounds // 2))
        raw = f"p50 {one.ours:.2f} ms; a no-op tool {one.nothing:.2f} ms"
        table.ratio("MCP send, one caller", one.ratio, at_most(2.5), raw)
        raw = f"{many.ours:,.0f}/s; a no-op tool {many.nothing:,.0f}/s"
        table.ratio("MCP sends, 32 callers", many.ratio, at_least(0.6), raw)
        p50, p99 = server.seen(served, amounts.listings)
        table.figure("time from send to event", f"{p50:.1f} ms", f"p50; p99 {p99:.1f} ms")
        p50 = hooks.over_http(served, amounts.listings)
        table.figure("HTTP hook without new mail", f"{p50:.2f} ms", "p50, one caller; PostToolUse")
    table.doing("the server's memory")
    used = server.memory(directory, amounts.served, amounts.idle_s)
    raw = f"{used.started:.0f} MB after the start, {used.idle:.0f} MB after {amounts.idle_s} s idle"
    name = f"server memory (MB) after {amounts.served:,} messages"
    table.ratio(name, used.used, at_most(150), raw)


def _contention(table: Table, directory: str, amounts: Amounts) -> None:
    table.doing("writes while another process saturates the workspace")
    place = os.path.join(directory, "contention")
    found = contention.measure(place, amounts.commands, amounts.waits)
    for name, alone, waits, rest in (
        (
            "send during saturation, worst",
            found.sends_alone,
            found.sends,
            f"; the saturating process sends {found.speed:,.0f}/s",
        ),
        ("interlock send during saturation, worst", found.commands_alone, found.commands, ""),
    ):
        times = f"p50 {median(waits):.1f} ms of {len(waits)}"
        alone_times = f"alone p50 {median(alone):.1f} ms, worst {max(alone):.1f} ms"
        table.figure(name, f"{max(waits):.1f} ms", f"{times}; {alone_times}{rest}")


def _inbox(table: Table, directory: str, amounts: Amounts) -> None:
    name = f"inbox among {amounts.messages:,} messages"
    table.doing(f"creating a workspace with {amounts.messages:,} messages")
    small = large.make(os.path.join(directory, "small"), large.SMALL)
    huge = large.make(os.path.join(directory, "large"), amounts.messages)
    table.doing(name)
    found = large.inboxes(small, huge, amounts.listings)
    made = f"created in {huge.seconds:.0f} s, {huge.bytes / 1e6:,.0f} MB"
    raw = f"p50 {found.large:.2f} ms; {found.small:.2f} ms among {large.SMALL:,}; {made}"
    table.ratio(name, found.ratio, at_most(1.5), raw)


def _commands(table: Table, directory: str, amounts: Amounts) -> None:
    table.doing("whole commands")
    found = commands.measure(os.path.join(directory, "commands"), amounts.starts)
    nothing = f"python -c pass {found.nothing:.1f} ms"
    check, send = f"{found.check:.1f} ms; {nothing}", f"{found.send:.1f} ms; {nothing}"
    table.ratio("interlock claim check", found.check_ratio, at_most(5), check)
    table.ratio("interlock send", found.send_ratio, at_most(12), send)
    table.doing("whole commands through the server")
    found = commands.measure(os.path.join(directory, "served"), amounts.starts, served=True)
    nothing = f"python -c pass {found.nothing:.1f} ms"
    check, send = f"{found.check:.1f} ms; {nothing}", f"{found.send:.1f} ms; {nothing}"
    table.ratio("interlock claim check, served", found.check_ratio, at_most(4), check)
    table.ratio("interlock send, served", found.send_ratio, at_most(6), send)


def _hooks(table: Table, directory: str, amounts: Amounts) -> None:
    for way, goal, served in (("", 8, False), (", served", 4, True)):
        table.doing(f"hooks without new mail{way}")
        place = os.path.join(directory, f"hooks-{served}")
        found = hooks.measure(place, amounts.starts, served=served)
        for event, ratio in found.ratios.items():
            name = f"hook {event}{way}"
            raw = f"{found.took[event]:.1f} ms; python -c pass {found.nothing:.1f} ms"
            if event == "PreToolUse":
                table.figure(name, f"{ratio:.2f}", f"{raw}; it calls git for the file")
            else:
                table.ratio(name, ratio, at_most(goal), raw)


def _whole_log(table: Table, directory: str, amounts: Amounts, sends_a_second: float) -> None:
    messages = max(large.SMALL, amounts.messages // 10)
    table.doing(f"rebuild and audit verify of {messages:,} messages")
    made = large.make(os.path.join(directory, "whole"), messages)
    for name, measure in (("rebuild", large.rebuild), ("audit verify", large.verify)):
        speed = measure(made, min(3, amounts.rounds))
        raw = f"{speed:,.0f} facts/s, of {made.facts:,}; relative to sends with {CALLERS} callers"
        table.figure(name, f"{speed / sends_a_second:.1f}", raw)


def _nodes(table: Table, directory: str, amounts: Amounts, engine: str) -> None:
    table.doing(f"nodes on {engine}")
    rounds = max(1, amounts.rounds // 2)
    found = nodes.measure(directory, engine, amounts.shared_s, rounds, amounts.followed)
    raw = f"{found.sends:,.0f}/s; raw appends {found.raw:,.0f}/s, {found.batch:.0f} per batch"
    table.ratio(f"{engine}: sends, 64 callers", found.raw_ratio, at_least(0.3), raw)
    raw = f"{found.together:,.0f}/s; one node {found.alone:,.0f}/s"
    table.ratio(f"{engine}: sends, two nodes / one", found.together_ratio, at_least(0.5), raw)
    raw = f"p99; with one node {found.alone_p99:.0f} ms"
    table.ratio(f"{engine}: send time (ms), two nodes", found.together_p99, at_most(100), raw)
    p50, p99 = f"{found.folded_p50:.1f} ms", f"p50; p99 {found.folded_p99:.1f} ms"
    table.figure(f"{engine}: append to fold on another node", p50, p99)
    raw = f"{found.caught_up:,.0f} facts/s, of {found.facts:,}; relative to the sends of a node"
    table.figure(f"{engine}: catch-up of a new node", f"{found.caught_up / found.sends:.1f}", raw)
    raw = f"{found.reads_applying:,.0f}/s; on an idle node {found.reads_idle:,.0f}/s"
    table.figure(f"{engine}: reads while following", f"{found.reads_ratio:.2f}", raw)


if __name__ == "__main__":
    main()
