"""Records of setups: the changed files, their earlier content, and the digest of the content that
setup wrote.

Records are in the workspace's home. Only their owner can read them, because a client's
configuration can contain secrets. Records about the user's own configuration are in the user's data
directory, so that an undo works from every directory.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.agents.setup.clients import USER
from interlock.agents.setup.documents import Document
from interlock.agents.setup.files import Change, read, remove_empty
from interlock.local import workspace

SETUP = "setup"


class Saved(NamedTuple):
    """A file that setup changed: the entries, the original content, the digest of the content that
    setup wrote, and the directories that it created."""

    document: Document
    original: bytes | None
    digest: str
    made: tuple[str, ...] = ()


class SetupRecord(NamedTuple):
    """One client set up in one place: a worktree, a plugin's directory, or the user's own
    configuration."""

    client: str
    place: str
    sender: str
    saved: tuple[Saved, ...]

    @property
    def is_alive(self) -> bool:
        """Return whether the place still exists."""
        return self.place == USER or os.path.isdir(self.place)


class Shelf(NamedTuple):
    """The directories of records: those of the workspace, and the user's own."""

    workspace: str
    user: str

    def load(self, client: str, place: str) -> SetupRecord | None:
        found = map(_read, self._directories(client, place))
        return next((record for record in found if record is not None), None)

    def every(self) -> Iterator[SetupRecord]:
        for home in dict.fromkeys(self):
            with suppress(FileNotFoundError):
                for name in sorted(os.listdir(os.path.join(home, SETUP))):
                    if record := _read(os.path.join(home, SETUP, name)):
                        yield record

    def others(self, client: str, place: str) -> list[SetupRecord]:
        """Return the records of other clients and places, without places that no longer exist."""
        return [
            record
            for record in self.every()
            if (record.client, record.place) != (client, place) and record.is_alive
        ]

    def changes(self, record: SetupRecord) -> list[Change]:
        """Return the changes that write the record. The caller makes them together with the changes
        that the record describes. Create the record's directory."""
        directory = self._directories(record.client, record.place)[0]
        os.makedirs(os.path.dirname(directory), 0o700, exist_ok=True)
        os.makedirs(directory, 0o700, exist_ok=True)
        contents: dict[str, bytes] = {}
        rows: list[dict[str, Any]] = []
        for number, (document, original, digest, made) in enumerate(record.saved):
            row: dict[str, Any] = {"file": document.file, "digest": digest, "made": made}
            row["form"] = document.form
            row |= {"members": list(document.members), "lines": document.lines}
            row |= {"start": document.start, "hooks": list(document.hooks)}
            if original is not None:
                row["before"] = f"{number}.before"
                contents[f"{number}.before"] = original
            rows.append(row)
        about = {"client": record.client, "place": record.place, "sender": record.sender}
        contents["record.json"] = json.dumps(about | {"files": rows}, indent=1).encode()
        paths = {os.path.join(directory, name): data for name, data in contents.items()}
        return [Change(path, read(path), data) for path, data in paths.items()]

    def forget(self, record: SetupRecord) -> None:
        for directory in self._directories(record.client, record.place):
            with suppress(FileNotFoundError):
                for name in os.listdir(directory):
                    os.unlink(os.path.join(directory, name))
            remove_empty([directory, os.path.dirname(directory)])

    def _directories(self, client: str, place: str) -> list[str]:
        """Return the possible directories of a record. Earlier versions stored the user's records
        in the workspace."""
        homes = dict.fromkeys((self.user if place == USER else self.workspace, self.workspace))
        name = f"{client}-{digest(os.fsencode(place))[:16]}"
        return [os.path.join(home, SETUP, name) for home in homes]


def shelf(home: str, environ: Mapping[str, str]) -> Shelf:
    return Shelf(home, workspace.data(environ))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(directory: str) -> SetupRecord | None:
    """Return the record in a directory; None if it does not exist or is unreadable."""
    try:
        with open(os.path.join(directory, "record.json"), encoding="utf-8") as file:
            stored = json.load(file)
        saved: list[Saved] = []
        for row in stored["files"]:
            document = Document(
                row["file"],
                stored["client"],
                members={tuple(path): None for path in row["members"]},
                hooks={event: [] for event in row["hooks"]},
                lines=tuple(row["lines"]),
                whole=b"" if row["form"] == "whole" else None,
                start=row["start"],
            )
            original = None
            if "before" in row:
                with open(os.path.join(directory, row["before"]), "rb") as stream:
                    original = stream.read()
            saved.append(Saved(document, original, row["digest"], tuple(row["made"])))
        return SetupRecord(stored["client"], stored["place"], stored["sender"], tuple(saved))
    except (OSError, ValueError, KeyError, TypeError):
        return None
