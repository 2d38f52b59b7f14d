"""`interlock doctor`: what the node finds, and what is wrong with files of this machine."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from interlock.doors.cli import credentials as kept
from interlock.doors.cli.audit import refuse_absent
from interlock.doors.cli.context import Context, here_and_now
from interlock.doors.cli.grammar import command
from interlock.errors import Usage
from interlock.local import workspace
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.workspace.findings import Finding, in_order, told, unmade
from interlock.rooms.workspace.verbs import Examine
from interlock.verbs.answers import Answer

HOOKS_LOG = "hooks.log"
LOOKED_AT = 64 << 10
SETUP = "interlock setup claude-code "


@command("doctor")
def doctor(context: Context) -> Answer:
    """Look for what is wrong, each with the command that puts it right.

    The smallest change comes first. Exit 0: nothing was found; exit 1: something was. What each
    check looks at is in docs/doctor.md.
    """
    refuse_absent(context, "data to look at")
    answer = context.call_as_owner(Examine())
    here = told("one-server", _silent(context))
    here += [row for check, look in CHECKS.items() for row in told(check, _made(context, look))]
    found = kept.add_from_flag(context, in_order([*answer["findings"], *here]))
    found = [row | {"do": _for_client(row["do"])} for row in found]
    return answer | {
        "ok": not found,
        "checks": answer["checks"] + len(CHECKS),
        "findings": [row | {"do": _in_workspace(context, row["do"])} for row in found],
    }


def _silent(context: Context) -> Iterator[Finding]:
    """A server that did not answer what the doctor asked: the file was looked at in its stead."""
    if context.silent is not None:
        yield Finding(
            f"The server, the process {context.silent}, runs and does not answer. What it was "
            "asked to write meanwhile it may do yet.",
            f"kill -9 {context.silent} && interlock up --detach",
        )


def _for_client(do: str) -> str:
    """What sets a client up, with one that is on this machine and not set up yet, if there is."""
    if not do.startswith(SETUP):
        return do
    from interlock.agents import setup

    rows = setup.detected(setup.place_at(here_and_now(), os.environ))
    here = [row for row in rows if "found" in row and row["client"] != setup.GIT]
    likely = [row for row in here if not row["set_up"]] or here
    return do.replace(SETUP, f"{likely[0]['command']} ", 1) if likely else do


def _in_workspace(context: Context, do: str) -> str:
    """A command as it must be typed by whoever named the workspace on the command line."""
    if not context.get("workspace"):
        return do
    named = f"interlock --workspace {shlex.quote(context.link.place)} "
    return " && ".join(
        named + part.removeprefix("interlock ") if part.startswith("interlock ") else part
        for part in do.split(" && ")
    )


def _made(context: Context, look: Callable[[Context], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(look(context))
    except Exception as trouble:  # noqa: BLE001 - one check must not hide the others
        return [unmade(trouble)]


def _hooks(context: Context) -> Iterator[Finding]:
    """What hooks of the last day ran into, each trouble once."""
    for home in dict.fromkeys((context.link.home, workspace.data(os.environ))):
        path = os.path.join(home, HOOKS_LOG)
        since = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
        found: dict[str, int] = {}
        for line in _last_lines(path):
            at, _, what = line.partition(" ")
            if at >= since and at[:1].isdigit() and what:
                found[what] = found.get(what, 0) + 1
        for what, count in found.items():
            often = "" if count == 1 else f" ({count} times)"
            do = f"tail -n 20 {shlex.quote(path)}"
            yield Finding(f"A hook ran into trouble within the last day{often}: {what}", do)


def _last_lines(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOOKED_AT))
            return file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _rules(context: Context) -> Iterator[Finding]:
    """A wake.toml that the server does not follow."""
    from interlock.agents.wake import configuration

    if not context.link.is_local:
        return
    try:
        configuration.read(context.link.place)
    except Usage as refusal:
        path = os.path.join(context.link.place, configuration.FILE)
        may_others = os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        do = "chmod go-w" if may_others else '"${EDITOR:-vi}"'
        yield Finding(f"{path} is not followed: {refusal.message}", f"{do} {shlex.quote(path)}")


def _clients(context: Context) -> Iterator[Finding]:
    """Clients' configurations that no longer fit."""
    from interlock.agents.setup import health

    link = context.link
    agents = context.call_as_owner(ListAgents())["agents"]
    known = [agent["address"].removeprefix("@") for agent in agents]
    here = health.Workspace(link.place, link.home, known, context.store().senders())
    yield from health.bad_credentials(here, os.environ)


CHECKS: dict[str, Callable[[Context], Iterator[Finding]]] = {
    "credentials-good": kept.bad_credentials,
    "wake-rules-followed": _rules,
    "hooks-working": _hooks,
    "clients-configured": _clients,
}
