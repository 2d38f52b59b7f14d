"""What was set up here: which files, what was in them before, and what they were left as.

Kept in the workspace's home, for its owner's eyes: a client's configuration may hold secrets. What
was changed in the user's own configuration is kept with what else is the user's, so that it can be
taken back from wherever one stands.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.agents.setup.documents import Document
from interlock.agents.setup.files import Change, remove_empty
from interlock.agents.setup.places import USER
from interlock.local import workspace

SETUP = "setup"


class Shelf(NamedTuple):
    """Where records are kept: those of places, and the user's own."""

    workspace: str
    user: str

    def home(self, place: str) -> str:
        return self.user if place == USER else self.workspace


def shelf(home: str, environ: Mapping[str, str]) -> Shelf:
    return Shelf(home, workspace.data(environ))


class Saved(NamedTuple):
    """A file that we changed: what we wanted in it, what was in it before us, the digest of what
    we left, and the directories made for it."""

    document: Document
    original: bytes | None
    digest: str
    made: tuple[str, ...] = ()


class Record(NamedTuple):
    """One client set up in one place, which is a worktree, a plugin's directory, or the user's."""

    client: str
    place: str
    sender: str
    saved: tuple[Saved, ...]

    @property
    def is_alive(self) -> bool:
        """Whether the place is still there: nobody uses what was set up for one that is gone."""
        return self.place == USER or os.path.isdir(self.place)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load(shelf: Shelf, client: str, place: str) -> Record | None:
    # Those of the user's lay in the workspace once.
    homes = dict.fromkeys((shelf.home(place), shelf.workspace))
    found = (_read(_directory(home, client, place)) for home in homes)
    return next((record for record in found if record is not None), None)


def every(shelf: Shelf) -> Iterator[Record]:
    for home in dict.fromkeys(shelf):
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(os.path.join(home, SETUP))):
                if record := _read(os.path.join(home, SETUP, name)):
                    yield record


def others_of(shelf: Shelf, client: str, place: str) -> list[Record]:
    """What was set up for the other places that are still there."""
    return [
        record
        for record in every(shelf)
        if (record.client, record.place) != (client, place) and record.is_alive
    ]


def changes(shelf: Shelf, record: Record) -> list[Change]:
    """The files that keep the record: made together with the changes that it is about."""
    directory = _directory(shelf.home(record.place), record.client, record.place)
    files = [_row(number, saved) for number, saved in enumerate(record.saved)]
    about = {"client": record.client, "place": record.place, "sender": record.sender}
    wanted = {"record.json": json.dumps(about | {"files": files}, indent=1).encode()}
    for number, saved in enumerate(record.saved):
        if saved.original is not None:
            wanted[f"{number}.before"] = saved.original
    return [_change(os.path.join(directory, name), data) for name, data in wanted.items()]


def prepare(shelf: Shelf, record: Record) -> None:
    """Makes the record's directory, readable by its owner alone."""
    directory = _directory(shelf.home(record.place), record.client, record.place)
    os.makedirs(os.path.dirname(directory), 0o700, exist_ok=True)
    os.makedirs(directory, 0o700, exist_ok=True)


def forget(shelf: Shelf, record: Record) -> None:
    for home in dict.fromkeys((shelf.home(record.place), shelf.workspace)):
        directory = _directory(home, record.client, record.place)
        with suppress(FileNotFoundError):
            for name in os.listdir(directory):
                os.unlink(os.path.join(directory, name))
        remove_empty([directory, os.path.dirname(directory)])


def _directory(home: str, client: str, place: str) -> str:
    return os.path.join(home, SETUP, f"{client}-{digest(os.fsencode(place))[:16]}")


def _change(file: str, data: bytes) -> Change:
    with suppress(FileNotFoundError), open(file, "rb") as stream:
        return Change(file, stream.read(), data)
    return Change(file, None, data)


def _row(number: int, saved: Saved) -> dict[str, Any]:
    document = saved.document
    row: dict[str, Any] = {"file": document.file, "digest": saved.digest, "made": saved.made}
    row |= {"form": document.form, "members": list(document.members), "lines": document.lines}
    row |= {"start": document.start, "hooks": list(document.hooks)}
    return row if saved.original is None else row | {"before": f"{number}.before"}


def _read(directory: str) -> Record | None:
    try:
        with open(os.path.join(directory, "record.json"), encoding="utf-8") as file:
            stored = json.load(file)
        saved = tuple(_saved(directory, stored["client"], row) for row in stored["files"])
        return Record(stored["client"], stored["place"], stored["sender"], saved)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _saved(directory: str, client: str, row: dict[str, Any]) -> Saved:
    document = Document(
        row["file"],
        client,
        members={tuple(path): None for path in row["members"]},
        hooks={event: [] for event in row["hooks"]},
        lines=tuple(row["lines"]),
        whole=b"" if row["form"] == "whole" else None,
        start=row["start"],
    )
    original = None
    if "before" in row:
        with open(os.path.join(directory, row["before"]), "rb") as file:
            original = file.read()
    return Saved(document, original, row["digest"], tuple(row["made"]))
