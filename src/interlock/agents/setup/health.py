"""Check that the clients' files on this machine still have the entries that setup writes."""

import os
import shlex
from collections.abc import Collection, Iterator, Mapping

from interlock.agents.guards.hooks import this_interlock
from interlock.agents.setup import inspect, records
from interlock.agents.setup.apply import prepared
from interlock.agents.setup.clients import USER, Invocation, client_named, place_at
from interlock.agents.setup.records import SetupRecord
from interlock.errors import Usage
from interlock.local.link import Link
from interlock.local.workspace import CredentialStore
from interlock.rooms.workspace.findings import Finding
from interlock.verbs.addresses import address


def bad_credentials(
    link: Link, joined: Collection[str], environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each client with a faulty setup for this workspace. `joined` are the
    senders of the workspace. Skip places that no longer exist."""
    for record in records.shelf(link.home, environ).every():
        if record.is_alive and (wrong := _misfit(record, link, joined, environ)) is not None:
            yield wrong


def _misfit(
    record: SetupRecord, link: Link, joined: Collection[str], environ: Mapping[str, str]
) -> Finding | None:
    sender, is_user = record.sender, record.place == USER
    directory = environ.get("HOME", os.sep) if is_user else record.place
    place = place_at(directory, environ, user=is_user)
    if is_user:
        # The user's configuration is for the workspace that it names, or for each workspace that
        # its sender has joined. Skip it if this workspace is not among them.
        named = inspect.found(record.client, place).workspace
        if named != link.place if named else sender not in joined:
            return None
    where = "your own configuration" if is_user else record.place
    about = f"{client_named(record.client).TITLE} in {where}"
    if sender not in joined:
        return Finding(
            f"{about} acts as {address(sender)}, but this sender has not joined the workspace.",
            f"interlock join {shlex.quote(sender)}",
            where,
        )
    if sender not in CredentialStore(link.home).senders():
        return Finding(
            f"{about} acts as {address(sender)}, but the workspace no longer has its credential.",
            f"interlock token mint --sender {shlex.quote(sender)} --keep",
            where,
        )
    is_plugin = any(saved.document.form == "whole" for saved in record.saved)
    plugin_at = record.place if is_plugin else None
    again = f"interlock setup {record.client} --from {shlex.quote(sender)}"
    if is_plugin:
        again = f"{again} --plugin {shlex.quote(record.place)}"
    elif is_user:
        again = f"{again} --user"
    else:
        again = f"cd {shlex.quote(record.place)} && {again}"
    try:
        if inspect.found(record.client, place, plugin_at).is_dead:
            why = "its configuration names a program or a workspace that no longer exists."
            return Finding(f"{about}: {why}", again, where)
        # The user may have named the workspace, or setup may have found it: both are correct.
        for is_repositorys in (False, True):
            caller = Invocation(this_interlock(), sender, link.place, is_repositorys)
            setting = prepared(record.client, place, link.home, caller, plugin_at)
            if all(change.after == change.before for change in setting.changes):
                return None
        why = "its configuration differs from what setup would write now."
        return Finding(f"{about}: {why}", again, where)
    except Usage as trouble:
        # Setup would fail for the same reason, so the person must fix the file first.
        file = trouble.members.get("file")
        do = again if file is None else f'"${{EDITOR:-vi}}" {shlex.quote(file)}'
        return Finding(f"{about}: {trouble.message}", do, where)
