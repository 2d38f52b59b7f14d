"""What Interlock wants in a file of a client's, and how it comes in and out again.

The file's name says what it is: TOML, or JSON with or without comments. A list of lines is what git
keeps in `info/exclude`. Whole files are those of a plugin, which nobody else writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from interlock.agents.setup import jsonc, toml
from interlock.agents.setup import own_entries as ours
from interlock.agents.setup.own_entries import Hooks, Members
from interlock.errors import Usage

BOM = "\ufeff"
T = TypeVar("T")


@dataclass(frozen=True)
class Document:
    """What we want in one file. `start` is what a file begins with that is not there yet."""

    file: str
    client: str
    members: Members = field(default_factory=dict)
    hooks: Hooks = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    whole: bytes | None = None
    start: str = "{}\n"

    @property
    def uses(self) -> set[Sequence[str]]:
        """Which entries of the file are ours: two documents with one of them in common share it."""
        return {*self.members, *([(ours.HOOKS,)] if self.hooks else ())}

    @property
    def form(self) -> str:
        if self.whole is not None:
            return "whole"
        return "lines" if self.lines else "toml" if self.file.endswith(".toml") else "json"


def entered(document: Document, before: bytes | None) -> bytes:
    """The file with our entries, and with everything else as it is."""
    if document.whole is not None:
        return document.whole
    if document.form == "lines":
        return _lines(before, add=document.lines)
    blank = before is None or not before.strip()
    text = _decoded(document.file, before)
    if document.form == "toml":
        return _encoded(before, _try(document.file, lambda: toml.changed(text, document.members)))
    begun = document.start if blank else text
    return _encoded(
        before,
        _try(
            document.file,
            lambda: ours.changed(
                begun, document.client, document.members, document.hooks, lambda _: True
            ),
        ),
    )


def parsed(document: Document, data: bytes | None) -> Any:
    """What a file of TOML or JSON says; nothing where it is missing or blank."""
    text = _decoded(document.file, data)
    read = toml.load if document.form == "toml" else jsonc.load
    return _try(document.file, lambda: read(text)) if text.strip() else {}


def taken_out(document: Document, now: bytes, original: bytes | None) -> bytes | None:
    """The file as it is now without our entries; others that stood in their place in the original
    come back. None where we made the file and nothing of anybody's is left in it."""
    if document.form == "whole" or not now.strip():
        return now
    if document.form == "lines":
        left = _lines(now, drop=document.lines)
    else:
        data = parsed(document, without_ours(document, original))
        members = {path: jsonc.look(data, path) for path in document.members}
        left = _reverted(document, now, members, data)
    return None if original is None and _is_empty(document, left) else left


def without_ours(document: Document, data: bytes | None) -> bytes | None:
    """The file without what is Interlock's by the look of it, whoever put it there and when. None
    where there is nothing else in it."""
    found = recognised(document, data)
    if data is None or not found.uses:
        return data
    left = _reverted(document, data, dict.fromkeys(found.members), {})
    return None if _is_empty(document, left) else left


def recognised(document: Document, data: bytes | None) -> Document:
    """The document with what of it stands in the file, as it stands there."""
    found = {} if document.form in ("whole", "lines") else parsed(document, data)
    members = {path: jsonc.look(found, path) for path in document.members}
    ours_of_them = {k: v for k, v in members.items() if ours.is_our_server(k, v)}
    hooks = ours.hooks_in(found, document.client) if document.form == "json" else {}
    return replace(document, members=ours_of_them, hooks=hooks, lines=())


def anothers_server(document: Document, data: bytes | None) -> bool:
    """Whether a server of our name stands in the file that is not ours."""
    if not document.members:
        return False
    found = parsed(document, data)
    values = {path: jsonc.look(found, path) for path in document.members}
    return any(value and not ours.is_our_server(path, value) for path, value in values.items())


def _reverted(document: Document, now: bytes, members: Members, before: Any) -> bytes:
    """The file with these members and without our hooks. What was there before is not taken out
    for being empty."""
    file, text = document.file, _decoded(document.file, now)
    if document.form == "toml":
        return _encoded(now, _try(file, lambda: toml.changed(text, members)))

    def keep(path: Sequence[str]) -> bool:
        return jsonc.look(before, path) is not None

    return _encoded(now, _try(file, lambda: ours.changed(text, document.client, members, {}, keep)))


def _is_empty(document: Document, data: bytes) -> bool:
    text = _decoded(document.file, data)
    if document.form == "json":
        has_comments = "/" in text  # there are no strings in what we start with
        return bool(jsonc.load(text) == jsonc.load(document.start)) and not has_comments
    return not text.strip()


def _lines(before: bytes | None, add: Sequence[str] = (), drop: Sequence[str] = ()) -> bytes:
    kept = (before or b"").splitlines(keepends=True)
    kept = [line for line in kept if line.strip().decode(errors="replace") not in drop]
    have = {line.strip().decode(errors="replace") for line in kept}
    new = [line for line in add if line not in have]
    if new and kept and not kept[-1].endswith(b"\n"):
        kept[-1] += b"\n"
    return b"".join(kept) + "".join(f"{line}\n" for line in new).encode()


def _decoded(file: str, data: bytes | None) -> str:
    try:
        return (data or b"").decode().removeprefix(BOM)
    except UnicodeDecodeError:
        raise Usage(f"{file} is not UTF-8 text. Nothing was changed.", file=file) from None


def _encoded(before: bytes | None, text: str) -> bytes:
    return ((BOM if (before or b"").startswith(BOM.encode()) else "") + text).encode()


def _try(file: str, change: Callable[[], T]) -> T:
    try:
        return change()
    except (jsonc.NotJson, toml.NotToml) as wrong:
        raise Usage(
            f"{file} cannot be changed: {wrong}. Put that right first; nothing was changed.",
            file=file,
        ) from None
