"""From what a client wants to the changes of files that bring it about, and back again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from interlock.setup import files, records
from interlock.setup.documents import Document, entered, taken_out
from interlock.setup.files import Change
from interlock.setup.records import Record, Saved


class Plan(NamedTuple):
    """What would change, and what would be known about it afterwards. `left` are files of ours
    that somebody has changed, and that stay."""

    changes: list[Change]
    record: Record
    left: tuple[str, ...] = ()


def plan(
    client: str, place: str, sender: str, documents: Sequence[Document], known: Record | None
) -> Plan:
    """What it takes to have these documents; files that an earlier setup changed and that are not
    among them any more are put back."""
    changes, saved = list[Change](), list[Saved]()
    before_us = {each.document.file: each for each in known.saved} if known else {}
    for document in documents:
        now = files.read(document.file)
        after = entered(document, now)
        earlier = before_us.pop(document.file, None)
        if after == now and earlier is None and document.form != "lines":
            continue  # somebody else has put it there
        changes.append(Change(document.file, now, after))
        saved.append(_saved(document, now, after, earlier))
    gone = list(_back(before_us.values()))
    return Plan(changes + gone, Record(client, place, sender, tuple(saved)))


def reverse(record: Record, others: Sequence[Record]) -> Plan:
    """What it takes to have it as it was before us. Lines that another record needs too stay."""
    shared = {line for other in others for each in other.saved for line in each.document.lines}
    changes = list(_back(record.saved, frozenset(shared)))
    left = tuple(
        change.file
        for change, saved in zip(changes, record.saved, strict=True)
        if saved.document.form == "whole" and change.after == change.before != saved.original
    )
    return Plan(changes, record._replace(saved=()), left)


def made_directories(record: Record) -> list[str]:
    """The directories that were made for it, inner ones first."""
    made = {directory for saved in record.saved for directory in saved.made}
    return sorted(made, key=len, reverse=True)


def _saved(document: Document, now: bytes | None, after: bytes, earlier: Saved | None) -> Saved:
    """What is to be remembered. The original stays the one before our first change, with whatever
    others have changed since."""
    if earlier is None:
        made = tuple(files.missing_directories(document.file))
        return Saved(document, now, records.digest(after), made)
    return Saved(document, _original(earlier, now), records.digest(after), earlier.made)


def _original(saved: Saved, now: bytes | None) -> bytes | None:
    if now is None:
        return None
    if records.digest(now) != saved.digest:
        return taken_out(saved.document, now, saved.original)
    if saved.original is None or not saved.document.lines:
        return saved.original
    # Another record's lines may have been there already, and are not there any more.
    return taken_out(saved.document, saved.original, saved.original)


def _back(saved: Iterable[Saved], shared: frozenset[str] = frozenset()) -> Iterator[Change]:
    for each in saved:
        now = files.read(each.document.file)
        yield Change(each.document.file, now, _unshared(each, now, shared))


def _unshared(saved: Saved, now: bytes | None, shared: frozenset[str]) -> bytes | None:
    lines = tuple(line for line in saved.document.lines if line not in shared)
    if now is None or lines == saved.document.lines:
        return _original(saved, now)
    return taken_out(replace(saved.document, lines=lines), now, b"") if lines else now
