"""One setting up, or taking back, from who and where to the files that were written."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import unified_diff
from typing import Any, NamedTuple

from interlock.agents.setup import files, git_hooks, planning, plugin, records
from interlock.agents.setup import inspect as looking
from interlock.agents.setup import notices as saying
from interlock.agents.setup.clients import Caller, Wanted, client_named
from interlock.agents.setup.documents import Document, without_ours
from interlock.agents.setup.files import Change
from interlock.agents.setup.places import Place, exclude_file, line_for, place_at
from interlock.agents.setup.planning import Plan
from interlock.agents.setup.records import Record, Shelf
from interlock.errors import Usage


class Setting(NamedTuple):
    """What is to be done, and what is to be said about it: changed by `apply`, or only shown."""

    shelf: Shelf
    plan: Plan
    confirm: list[str]
    notices: list[dict[str, str]]
    made_before: tuple[str, ...] = ()

    def refuse_unwritable(self) -> None:
        """Refuses what `apply` surely would: nobody need join for it."""
        files.refuse_unwritable(self.plan.changes)

    def apply(self) -> None:
        """Writes the record and the files, all or none of them. The record comes first: with one
        too many, nothing is lost."""
        record = self.plan.record
        if not record.saved:
            files.write(self.plan.changes)
            files.remove_empty(self.made_before)
            records.forget(self.shelf, record)
            return
        records.prepare(self.shelf, record)
        files.write([*records.changes(self.shelf, record), *self.plan.changes])

    def answer(self, *, with_diff: bool) -> dict[str, Any]:
        """What is or would be changed, file by file."""
        rows = [_row(change, with_diff=with_diff) for change in self.plan.changes]
        said = {"confirm": self.confirm, "notices": self.notices}
        return {"changes": rows} | {name: value for name, value in said.items() if value}


def prepared(
    client: str, place: Place, home: str, caller: Caller, plugin_at: str | None
) -> Setting:
    """What it takes to set the client up. Refused, with nothing done, where a file cannot be read
    as what it should be."""
    name, shelf = plugin_at or place.name, records.shelf(home, place.environ)
    known, others = records.load(shelf, client, name), records.others_of(shelf, client, name)
    if plugin_at is not None:
        wanted = plugin.wanted(plugin_at, caller)
        documents = _own(wanted, plugin_at, known)
        around = place_at(os.path.dirname(plugin_at), place.environ)
        documents += _hidden(around, shelf, client, [plugin_at])
    else:
        wanted = _reachable(client_named(client).wanted(place, caller), caller)
        documents = _with_exclude(wanted, place, shelf, known)
    plan = planning.plan(client, name, caller.sender, documents, known, others)
    notices = [*wanted.notices, *saying.about_setting(place, caller, documents, others)]
    return Setting(shelf, plan, wanted.to_do, notices)


def _reachable(wanted: Wanted, caller: Caller) -> Wanted:
    """A server elsewhere speaks MCP itself, with a token that we write into no file."""
    if caller.workspace is None or "://" not in caller.workspace:
        return wanted
    documents = [replace(each, members={}) for each in wanted.documents]
    about_server = (
        f"Give the client the MCP server {caller.workspace.rstrip('/')}/mcp yourself, with the "
        "token in its header: see docs/mcp.md. Hooks do without it.",
    )
    return wanted._replace(
        documents=[each for each in documents if each.hooks or each.lines],
        about_server=about_server,
    )


def reversed_setting(client: str, place: Place, home: str, plugin_at: str | None) -> Setting:
    """What it takes to take it back: what the record says, and what else is ours by its look."""
    name, shelf = plugin_at or place.name, records.shelf(home, place.environ)
    known = records.load(shelf, client, name) or Record(client, name, "", ())
    if plugin_at is None:
        known = known._replace(saved=(*known.saved, *_unrecorded(client, place, shelf, known)))
    plan = planning.reverse(known, records.others_of(shelf, client, name))
    notices = saying.about_taking_back(plan, client, place if plugin_at is None else None)
    return Setting(shelf, plan, [], notices, tuple(planning.made_directories(known)))


def git_shown(cwd: str, *, undo: bool) -> dict[str, Any]:
    """What the hooks of git would be, with the difference to what is there."""
    changes = git_hooks.changes_back(cwd) if undo else git_hooks.changes(cwd)
    return {"changes": [_row(change, with_diff=True) for change in changes]}


def _unrecorded(client: str, place: Place, shelf: Shelf, known: Record) -> Iterator[records.Saved]:
    """What is ours without a record: the repository was moved, or the workspace is gone. The lines
    that hide files from git are known from records of places that are gone."""
    have = {saved.document.file for saved in known.saved}
    documents = [each for each in looking.in_place(client, place) if each.file not in have]
    yield from planning.by_recognition(documents)
    file = exclude_file(place) if place.in_git and not place.user else None
    lines = {line for each in records.every(shelf) for line in _lines_of(each, client)}
    now = (files.read(file) or b"").decode(errors="replace").splitlines() if file else []
    here = tuple(sorted(lines.intersection(now)))
    if file and here and file not in have:
        yield records.Saved(Document(file, client, lines=here), b"", "")


def _lines_of(record: Record, client: str) -> Iterator[str]:
    if record.client == client and not record.is_alive:
        for saved in record.saved:
            yield from saved.document.lines


def _own(wanted: Wanted, directory: str, known: Record | None) -> list[Document]:
    """A plugin's files, in a directory that holds nothing else."""
    try:
        is_others = known is None and os.path.exists(directory) and bool(os.listdir(directory))
    except OSError:
        is_others = True
    if is_others or not os.path.isdir(os.path.dirname(directory)):
        raise Usage(
            f"{directory} cannot become a plugin's directory: name an empty or a new one in a "
            "directory that exists.",
            file=directory,
        )
    return wanted.documents


def _with_exclude(
    wanted: Wanted, place: Place, shelf: Shelf, known: Record | None
) -> list[Document]:
    """The documents, and the lines that hide from git those of them that we make."""
    before = {saved.document.file: saved.original for saved in known.saved} if known else {}
    made = [each.file for each in wanted.documents if _original(each, before) is None]
    hidden = _hidden(place, shelf, wanted.documents[0].client, made) if made else []
    return [*wanted.documents, *hidden]


def _hidden(place: Place, shelf: Shelf, client: str, made: list[str]) -> list[Document]:
    """The lines that hide from git what we make in a worktree."""
    file = exclude_file(place) if place.in_git else None
    if file is None:
        return []
    ours = {
        line
        for record in records.every(shelf)
        for saved in record.saved
        for line in saved.document.lines
        if saved.document.file == file or not record.is_alive
    }
    lines = tuple(line for each in made if (line := line_for(place, each, ours)))
    return [Document(file, client, lines=lines)] if lines else []


def _original(document: Document, before: Mapping[str, bytes | None]) -> bytes | None:
    """What was in the file before us, by the record or by its look."""
    if document.file in before:
        return before[document.file]
    return without_ours(document, files.read(document.file))


def _row(change: Change, *, with_diff: bool) -> dict[str, Any]:
    row = {"file": change.file, "state": _state(change)}
    return row | {"diff": _diff(change)} if with_diff and change.after != change.before else row


def _state(change: Change) -> str:
    if change.after == change.before:
        return "unchanged"
    return "created" if change.before is None else "removed" if change.after is None else "changed"


def _diff(change: Change) -> str:
    before, after = (
        (data or b"").decode(errors="replace").splitlines(keepends=True)
        for data in (change.before, change.after)
    )
    names = (
        change.file if change.before is not None else os.devnull,
        change.file if change.after is not None else os.devnull,
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(before, after, *names)
    )
