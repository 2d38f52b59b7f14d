"""From what a client wants to the changes of files that bring it about, and back again.

Worktrees may share a file: the last of them to go takes the entries out.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from interlock.agents.setup import files, records
from interlock.agents.setup.clients import client_named
from interlock.agents.setup.documents import Document, entered, recognised, taken_out, without_ours
from interlock.agents.setup.files import Change
from interlock.agents.setup.records import Record, Saved


class Plan(NamedTuple):
    """What would change, and what would be known about it afterwards. `left` are files of ours
    that somebody has changed, and that stay; `shared` those that stay for other places."""

    changes: list[Change]
    record: Record
    left: tuple[str, ...] = ()
    shared: tuple[tuple[str, list[str]], ...] = ()


def plan(
    client: str,
    place: str,
    sender: str,
    documents: Sequence[Document],
    known: Record | None,
    others: Sequence[Record],
) -> Plan:
    """What it takes to have these documents; files that an earlier setup changed and that are not
    among them any more are put back."""
    changes, saved = list[Change](), list[Saved]()
    before_us = {each.document.file: each for each in known.saved} if known else {}
    for document in documents:
        now = files.read(document.file)
        after = entered(document, now)
        earlier = before_us.pop(document.file, None) or _by_another(document, others)
        changes.append(Change(document.file, now, after))
        saved.append(_saved(document, now, after, earlier))
    gone = list(_back(before_us.values(), others))
    return Plan(changes + gone, Record(client, place, sender, tuple(saved)))


def reverse(record: Record, others: Sequence[Record]) -> Plan:
    """What it takes to have it as it was before us. What another record needs too stays."""
    changes = list(_back(record.saved, others))
    left = tuple(
        change.file
        for change, saved in zip(changes, record.saved, strict=True)
        if saved.document.form == "whole" and change.after == change.before != saved.original
    )
    shared = tuple(
        (saved.document.file, users)
        for saved in record.saved
        if (users := users_of(saved.document, others))
    )
    return Plan(changes, record._replace(saved=()), left, shared)


def by_recognition(documents: Iterable[Document]) -> tuple[Saved, ...]:
    """What there is of ours in these files, without knowing how it came there."""
    found = (recognised(document, files.read(document.file)) for document in documents)
    return tuple(
        Saved(document, None, "", made_for(document)) for document in found if document.uses
    )


def users_of(document: Document, others: Sequence[Record]) -> list[str]:
    """The other places that need the same entries of the same file."""
    return [
        record.place for record in others if any(_shares(document, each) for each in record.saved)
    ]


def made_directories(record: Record) -> list[str]:
    """The directories that were made for it, inner ones first."""
    made = {directory for saved in record.saved for directory in saved.made}
    return sorted(made, key=len, reverse=True)


def made_for(document: Document) -> tuple[str, ...]:
    """The client's own directory that the file lies in: it goes with the last file in it."""
    directory, own = os.path.dirname(document.file), client_named(document.client).DIRECTORY
    return (directory,) if os.path.basename(directory) == own else ()


def _shares(document: Document, saved: Saved) -> bool:
    is_same = saved.document.file == document.file
    return is_same and not document.uses.isdisjoint(saved.document.uses)


def _by_another(document: Document, others: Sequence[Record]) -> Saved | None:
    every = (saved for record in others for saved in record.saved)
    return next((saved for saved in every if _shares(document, saved)), None)


def _saved(document: Document, now: bytes | None, after: bytes, earlier: Saved | None) -> Saved:
    """What is to be remembered. The original stays the one before our first change, with whatever
    others have changed since; entries of ours that nobody knows of were never part of it."""
    digest = records.digest(after)
    if earlier is not None:
        return Saved(document, _original(earlier, now), digest, earlier.made)
    original = without_ours(document, now)
    if original is None and now is not None:
        return Saved(document, None, digest, made_for(document))
    return Saved(document, original, digest, tuple(files.missing_directories(document.file)))


def _original(saved: Saved, now: bytes | None) -> bytes | None:
    if now is None:
        return None
    if records.digest(now) != saved.digest:
        return taken_out(saved.document, now, saved.original)
    if saved.original is None or not saved.document.lines:
        return saved.original
    # Another record's lines may have been there already, and are not there any more.
    return taken_out(saved.document, saved.original, saved.original)


def _back(saved: Iterable[Saved], others: Sequence[Record]) -> Iterator[Change]:
    lines = {line for other in others for each in other.saved for line in each.document.lines}
    for each in saved:
        now = files.read(each.document.file)
        is_shared = bool(users_of(each.document, others))
        yield Change(each.document.file, now, now if is_shared else _unshared(each, now, lines))


def _unshared(saved: Saved, now: bytes | None, shared: set[str]) -> bytes | None:
    lines = tuple(line for line in saved.document.lines if line not in shared)
    if now is None or lines == saved.document.lines:
        return _original(saved, now)
    return taken_out(replace(saved.document, lines=lines), now, b"") if lines else now
