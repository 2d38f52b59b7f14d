"""Plan a setup or an undo, and apply it.

A plan is complete before setup writes a file, so `--print` can show it instead. An undo restores a
file byte for byte if it is unchanged since setup. Otherwise the undo removes only Interlock's
entries. Worktrees can share a file: the undo of the last worktree removes the entries.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import unified_diff
from typing import Any, NamedTuple

from interlock.agents.setup import files, inspect, records
from interlock.agents.setup.clients import (
    USER,
    Invocation,
    SetupTarget,
    client_named,
    exclude_file,
    exclude_line,
    place_at,
)
from interlock.agents.setup.documents import (
    Document,
    entered,
    has_foreign_server,
    recognised,
    taken_out,
    without_ours,
)
from interlock.agents.setup.files import Change
from interlock.agents.setup.own_entries import SERVER
from interlock.agents.setup.records import Saved, SetupRecord, Shelf
from interlock.errors import Usage
from interlock.verbs.addresses import address
from interlock.verbs.spelling import listed

Notice = dict[str, str]


class SetupPlan(NamedTuple):
    """A planned setup or undo.

    `record` is the record after the changes. `confirm` are tasks for the person. An undo removes
    the directories `made_before` if they are empty."""

    shelf: Shelf
    changes: list[Change]
    record: SetupRecord
    confirm: list[str]
    notices: list[Notice]
    made_before: Sequence[str] = ()

    def apply(self) -> None:
        """Write the record and the files, all or none of them. The record is first, because a
        record without changes does no harm."""
        if self.record.saved:
            files.write([*self.shelf.changes(self.record), *self.changes])
            return
        files.write(self.changes)
        files.remove_empty(self.made_before)
        self.shelf.forget(self.record)

    def answer(self, *, with_diff: bool) -> dict[str, Any]:
        rows = shown(self.changes, with_diff=with_diff)
        remarks = {"confirm": self.confirm, "notices": self.notices}
        return {"changes": rows} | {name: value for name, value in remarks.items() if value}


def prepared(
    client: str, place: SetupTarget, home: str, caller: Invocation, plugin_at: str | None
) -> SetupPlan:
    """Plan the setup of a client. Raise Usage if one of its files is unreadable.

    Restore files that an earlier setup changed and that the client no longer needs."""
    name, shelf = plugin_at or place.name, records.shelf(home, place.environ)
    known, others = shelf.load(client, name), shelf.others(client, name)
    earlier = {saved.document.file: saved for saved in known.saved} if known else {}
    if plugin_at is not None:
        from interlock.agents.claude_code import plugin

        _refuse_foreign_directory(plugin_at, is_known=known is not None)
        wanted = plugin.wanted(plugin_at, caller)
        around, made = place_at(os.path.dirname(plugin_at), place.environ), [plugin_at]
    else:
        wanted = client_named(client).wanted(place, caller)
        if caller.workspace is not None and "://" in caller.workspace:
            # The remote server speaks MCP itself, but needs a token, and setup writes none.
            about_server = (
                f"Add the MCP server {caller.workspace.rstrip('/')}/mcp to the client yourself, "
                "with the token in its header: see docs/mcp.md. The hooks work without it."
            )
            hooks = [replace(each, members={}) for each in wanted.documents if each.hooks]
            wanted = wanted._replace(documents=hooks, about_server=(about_server,))
        around = place
        originals = {
            each.file: earlier[each.file].original
            if each.file in earlier
            else without_ours(each, files.read(each.file))
            for each in wanted.documents
        }
        made = [file for file, original in originals.items() if original is None]
    documents = [*wanted.documents, *_exclude_lines(around, shelf, client, made)]
    changes: list[Change] = []
    saved: list[Saved] = []
    for document in documents:
        now = files.read(document.file)
        after = entered(document, now)
        changes.append(Change(document.file, now, after))
        before = earlier.pop(document.file, None) or next(
            (each for other in others for each in other.saved if _shares(document, each)), None
        )
        # `original` is the content before the first setup, with later changes by other programs.
        if before is not None:
            original, directories = _original(before, now), before.made
        else:
            original = without_ours(document, now)
            is_ours = original is None and now is not None
            missing = files.missing_directories(document.file)
            directories = _own_directory(document) if is_ours else tuple(missing)
        saved.append(Saved(document, original, records.digest(after), directories))
    changes += _restored(earlier.values(), others)
    record = SetupRecord(client, name, caller.sender, tuple(saved))
    notices = [*wanted.notices, *_setup_notices(place, caller, documents, others)]
    return SetupPlan(shelf, changes, record, [*wanted.about_server, *wanted.confirm], notices)


def undo_plan(client: str, place: SetupTarget, home: str, plugin_at: str | None) -> SetupPlan:
    """Plan the undo of the files in the record, and of other entries that are Interlock's."""
    name, shelf = plugin_at or place.name, records.shelf(home, place.environ)
    known, others = shelf.load(client, name), shelf.others(client, name)
    saved = list(known.saved) if known else []
    if plugin_at is None:
        saved += _unrecorded(client, place, shelf, {each.document.file for each in saved})
    changes = list(_restored(saved, others))
    notices: list[Notice] = []
    for change, each in zip(changes, saved, strict=True):
        if each.document.form == "whole" and change.after == change.before != each.original:
            message = f"{change.file} has changed since setup wrote it, so the undo keeps it."
            notices.append({"code": "CHANGED_SINCE", "message": message})
    for each in saved:
        if users := _users_of(each.document, others):
            message = (
                f"{each.document.file} stays unchanged, because other setups use it too: "
                f"{_places(users)}. The last undo removes Interlock's entries from it."
            )
            notices.append({"code": "SHARED_FILE", "message": message})
    changed = {change.file for change in changes if change.after != change.before}
    if plugin_at is None and not place.user and inspect.is_users(client, place, but=changed):
        message = (
            "Your own configuration also has Interlock's entries, for every project. To remove "
            f"them: interlock setup {client} --user --undo"
        )
        notices.append({"code": "USERS_CONFIGURATION", "message": message})
    made = {directory for each in saved for directory in each.made}
    innermost_first = sorted(made, key=len, reverse=True)
    nothing = SetupRecord(client, name, "", ())
    return SetupPlan(shelf, changes, nothing, [], notices, innermost_first)


def shown(changes: Sequence[Change], *, with_diff: bool) -> list[dict[str, Any]]:
    """Return a row for each change, with its diff if `with_diff` is true."""
    rows: list[dict[str, Any]] = []
    for file, before, after in changes:
        if after == before:
            rows.append({"file": file, "state": "unchanged"})
            continue
        state = "created" if before is None else "removed" if after is None else "changed"
        rows.append({"file": file, "state": state})
        if with_diff:
            old, new = (
                (data or b"").decode(errors="replace").splitlines(keepends=True)
                for data in (before, after)
            )
            old_name, new_name = (
                file if data is not None else os.devnull for data in (before, after)
            )
            rows[-1]["diff"] = "".join(
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in unified_diff(old, new, old_name, new_name)
            )
    return rows


def _refuse_foreign_directory(directory: str, *, is_known: bool) -> None:
    """Raise Usage unless the directory is new, empty, or a plugin that setup wrote."""
    try:
        is_others = not is_known and os.path.exists(directory) and bool(os.listdir(directory))
    except OSError:
        is_others = True
    if is_others or not os.path.isdir(os.path.dirname(directory)):
        raise Usage(
            f"Cannot write a plugin into {directory}. Name an empty directory, or a new one in a "
            "directory that exists.",
            file=directory,
        )


def _exclude_lines(
    place: SetupTarget, shelf: Shelf, client: str, made: list[str]
) -> list[Document]:
    """Return the lines for `info/exclude` that hide from git the files that setup creates."""
    file = exclude_file(place) if made and place.in_git else None
    if file is None:
        return []
    ours = {
        line
        for record in shelf.every()
        for saved in record.saved
        for line in saved.document.lines
        if saved.document.file == file or not record.is_alive
    }
    lines = tuple(line for each in made if (line := exclude_line(place, each, ours)))
    return [Document(file, client, lines=lines)] if lines else []


def _setup_notices(
    place: SetupTarget,
    caller: Invocation,
    documents: Sequence[Document],
    others: Sequence[SetupRecord],
) -> Iterator[Notice]:
    renamed = [other for other in others if other.sender != caller.sender]
    for document in documents:
        if users := _users_of(document, renamed):
            message = (
                f"Other setups use {document.file} too: {_places(users)}. From now on, its entries "
                f"act as {address(caller.sender)} there as well."
            )
            yield {"code": "SHARED_FILE", "message": message}
    for document in documents:
        if has_foreign_server(document, files.read(document.file)):
            message = (
                f"{document.file} has another MCP server called {SERVER}. Setup replaces it, and "
                "--undo restores it."
            )
            yield {"code": "OTHERS_SERVER", "message": message}
    if place.user and caller.is_repositorys:
        message = (
            "This workspace belongs to one repository, so setup writes no workspace into your own "
            "configuration. In each project, the client uses that project's workspace, and acts "
            f"as {address(caller.sender)} if that sender has joined it."
        )
        yield {"code": "WORKSPACE_OF_ONE_REPOSITORY", "message": message}


def _places(users: Sequence[str]) -> str:
    return listed(["your own configuration" if user == USER else user for user in users])


def _unrecorded(
    client: str, place: SetupTarget, shelf: Shelf, recorded: set[str]
) -> Iterator[Saved]:
    """Find Interlock's entries in files without a record, after the repository was moved or the
    workspace was deleted. Records of places that no longer exist name the lines in git's exclude
    file."""
    for document in inspect.in_place(client, place):
        if document.file not in recorded:
            found = recognised(document, files.read(document.file))
            if found.uses:
                yield Saved(found, None, "", _own_directory(found))
    file = exclude_file(place) if place.in_git and not place.user else None
    if file is None or file in recorded:
        return
    gone = [each for each in shelf.every() if each.client == client and not each.is_alive]
    lines = {line for each in gone for saved in each.saved for line in saved.document.lines}
    now = (files.read(file) or b"").decode(errors="replace").splitlines()
    if here := tuple(sorted(lines.intersection(now))):
        yield Saved(Document(file, client, lines=here), b"", "")


def _restored(saved: Iterable[Saved], others: Sequence[SetupRecord]) -> Iterator[Change]:
    """Yield the changes that restore the files, except for entries that other records need."""
    needed = {
        (each.document.file, line)
        for other in others
        for each in other.saved
        for line in each.document.lines
    }
    for each in saved:
        document = each.document
        now = files.read(document.file)
        lines = tuple(line for line in document.lines if (document.file, line) not in needed)
        if now is None or _users_of(document, others):
            after = now
        elif lines == document.lines:
            after = _original(each, now)
        elif lines:
            after = taken_out(replace(document, lines=lines), now, b"")
        else:
            after = now
        yield Change(document.file, now, after)


def _original(saved: Saved, now: bytes | None) -> bytes | None:
    """Return the content without Interlock's entries, with later changes by other programs."""
    if now is None:
        return None
    if records.digest(now) != saved.digest:
        return taken_out(saved.document, now, saved.original)
    if saved.original is None or not saved.document.lines:
        return saved.original
    # The original can contain lines of a record that no longer exists.
    return taken_out(saved.document, saved.original, saved.original)


def _users_of(document: Document, others: Sequence[SetupRecord]) -> list[str]:
    """Return the other places that need the same entries of the same file."""
    return [
        record.place for record in others if any(_shares(document, each) for each in record.saved)
    ]


def _shares(document: Document, saved: Saved) -> bool:
    is_same = saved.document.file == document.file
    return is_same and not document.uses.isdisjoint(saved.document.uses)


def _own_directory(document: Document) -> tuple[str, ...]:
    """Return the client's own directory, which an undo removes if it is empty."""
    directory, own = os.path.dirname(document.file), f".{client_named(document.client).NAME}"
    return (directory,) if os.path.basename(directory) == own else ()
