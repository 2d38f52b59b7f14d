"""Whether what was set up on this machine still fits, by the clients' files as they are now."""

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from interlock.agents.guards import this_interlock
from interlock.agents.setup import inspect as looking
from interlock.agents.setup import records
from interlock.agents.setup.apply import prepared
from interlock.agents.setup.clients import Caller, client_named
from interlock.agents.setup.places import USER, Place, place_at
from interlock.agents.setup.records import Record
from interlock.errors import Usage
from interlock.rooms.workspace.findings import Finding
from interlock.verbs.addresses import address


class Workspace(NamedTuple):
    """What clients are set up for: where it is and keeps its records, who has joined it, and whose
    credentials are kept here."""

    place: str
    home: str
    joined: Collection[str]
    kept: Collection[str]


def bad_credentials(workspace: Workspace, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What no longer fits of everything that was set up for a workspace, in whichever place. What
    was set up for a place that is gone disturbs nobody."""
    for record in records.every(records.shelf(workspace.home, environ)):
        if not record.is_alive or _is_anothers(record, workspace, environ):
            continue
        if (wrong := _misfit(record, workspace, environ)) is not None:
            yield wrong


def _is_anothers(record: Record, workspace: Workspace, environ: Mapping[str, str]) -> bool:
    """Whether the user's own configuration leads to another workspace than this: to one that it
    names, or to those where its sender has joined."""
    if record.place != USER:
        return False
    place = place_at(environ.get("HOME", os.sep), environ, user=True)
    named = looking.found(record.client, place).workspace
    return named != workspace.place if named else record.sender not in workspace.joined


def _misfit(record: Record, workspace: Workspace, environ: Mapping[str, str]) -> Finding | None:
    title, sender = client_named(record.client).TITLE, record.sender
    where = "your own configuration" if record.place == USER else record.place
    about = f"{title} in {where}"
    if sender not in workspace.joined:
        return Finding(
            f"{about} acts as {address(sender)}, as whom nobody has joined this workspace.",
            f"interlock join {shlex.quote(sender)}",
            where,
        )
    if sender not in workspace.kept:
        return Finding(
            f"{about} acts as {address(sender)}, of whom no credential is kept here any more.",
            f"interlock token mint --sender {shlex.quote(sender)} --keep",
            where,
        )
    try:
        why = _difference(record, workspace, environ)
    except Usage as trouble:
        return Finding(f"{about}: {trouble.message}", _to_mend(record, trouble), where)
    return Finding(f"{about}: {why}", _again(record), where) if why else None


def _difference(record: Record, workspace: Workspace, environ: Mapping[str, str]) -> str | None:
    """What is wrong with its files, if anything is."""
    plugin_at = record.place if _is_plugin(record) else None
    is_user = record.place == USER
    place = place_at(
        environ.get("HOME", os.sep) if is_user else record.place, environ, user=is_user
    )
    if looking.found(record.client, place, plugin_at).is_dead:
        return "what its configuration calls is gone."
    if _would_change(record, place, workspace, plugin_at):
        return "its configuration is not what setup would write now."
    return None


def _would_change(
    record: Record, place: Place, workspace: Workspace, plugin_at: str | None
) -> bool:
    """Whether setup would change anything, whether or not the workspace was named by hand."""
    callers = [
        Caller(this_interlock(), record.sender, workspace.place, is_repositorys)
        for is_repositorys in (False, True)
    ]
    settings = [
        prepared(record.client, place, workspace.home, caller, plugin_at) for caller in callers
    ]
    return all(
        any(change.after != change.before for change in setting.plan.changes)
        for setting in settings
    )


def _is_plugin(record: Record) -> bool:
    return any(saved.document.form == "whole" for saved in record.saved)


def _to_mend(record: Record, trouble: Usage) -> str:
    """Setup would fail for the same reason as this look did: the file comes first."""
    file = trouble.members.get("file")
    return _again(record) if file is None else f'"${{EDITOR:-vi}}" {shlex.quote(file)}'


def _again(record: Record) -> str:
    command = f"interlock setup {record.client} --from {shlex.quote(record.sender)}"
    if _is_plugin(record):
        return f"{command} --plugin {shlex.quote(record.place)}"
    if record.place == USER:
        return f"{command} --user"
    return f"cd {shlex.quote(record.place)} && {command}"
