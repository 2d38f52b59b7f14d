"""What Interlock wants in a file of a client's, and how it comes in and out again.

The file's name says what it is: TOML, or JSON with or without comments. A list of lines is what git
keeps in `info/exclude`. Whole files are those of a plugin, which nobody else writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from interlock.errors import Usage
from interlock.setup import jsonc, ours, toml
from interlock.setup.ours import Hooks, Members

BOM = "\ufeff"


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


def taken_out(document: Document, now: bytes, original: bytes | None) -> bytes | None:
    """The file as it is now without our entries; those that were like ours in the original come
    back. None where we made the file and nothing of anybody's is left in it."""
    if document.form == "whole" or not now.strip():
        return now
    if document.form == "lines":
        left = _lines(now, drop=document.lines)
    else:
        left = _reverted(document, now, original)
    return None if original is None and _is_empty(document, left) else left


def _reverted(document: Document, now: bytes, original: bytes | None) -> bytes:
    file, text = document.file, _decoded(document.file, now)
    if document.form == "toml":
        data = toml.load(_decoded(file, original))
        members = {path: jsonc.look(data, path) for path in document.members}
        return _encoded(now, _try(file, lambda: toml.changed(text, members)))
    data = jsonc.load(_decoded(file, original).strip() or "{}")
    members = {path: jsonc.look(data, path) for path in document.members}
    hooks = ours.hooks_in(data, document.client)

    def keep(path: Sequence[str]) -> bool:
        return jsonc.look(data, path) is not None

    return _encoded(
        now, _try(file, lambda: ours.changed(text, document.client, members, hooks, keep))
    )


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


def _try(file: str, change: Callable[[], str]) -> str:
    try:
        return change()
    except (jsonc.NotJson, toml.NotToml) as wrong:
        raise Usage(
            f"{file} cannot be changed: {wrong}. Put that right first; nothing was changed.",
            file=file,
        ) from None
