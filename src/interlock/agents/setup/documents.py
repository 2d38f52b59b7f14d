"""Insert Interlock's entries into a client's file, and remove them.

The file's name determines its form: TOML, or JSON with or without comments. Lines are for git's
`info/exclude`. Whole files are the files of a plugin, which only setup writes.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.agents.setup import jsonc, own_entries
from interlock.agents.setup.own_entries import Hooks, Members, is_our_server
from interlock.errors import Usage

BOM = "\ufeff"


@dataclass(frozen=True)
class Document:
    """Interlock's entries in one file. A new JSON file starts with the content `start`."""

    file: str
    client: str
    members: Members = field(default_factory=dict)
    hooks: Hooks = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    whole: bytes | None = None
    start: str = "{}\n"

    @property
    def uses(self) -> set[Sequence[str]]:
        """Return the paths of Interlock's entries. Two documents share an entry that both use."""
        return {*self.members, *([(own_entries.HOOKS,)] if self.hooks else ())}

    @property
    def form(self) -> str:
        if self.whole is not None:
            return "whole"
        return "lines" if self.lines else "toml" if self.file.endswith(".toml") else "json"


def entered(document: Document, before: bytes | None) -> bytes:
    """Return the file with Interlock's entries, and all others unchanged. Raise Usage if the file
    is unreadable."""
    if document.whole is not None:
        return document.whole
    if document.form == "lines":
        return _with_lines(before, add=document.lines)
    return _edited(document, before, document.members, document.hooks, keep=lambda _: True)


def parsed(document: Document, data: bytes | None) -> Any:
    """Return the content of a TOML or JSON file; an empty object for a missing or blank file."""
    with _naming(document.file):
        text = (data or b"").decode().removeprefix(BOM)
        load = tomllib.loads if document.form == "toml" else jsonc.load
        return load(text) if text.strip() else {}


def taken_out(document: Document, now: bytes, original: bytes | None) -> bytes | None:
    """Return the current file without Interlock's entries, with the entries that they replaced.
    Return None if setup created the file and it contains nothing else."""
    if document.form == "whole" or not now.strip():
        return now
    if document.form == "lines":
        left = _with_lines(now, drop=document.lines)
    else:
        before = parsed(document, without_ours(document, original))
        members = {path: jsonc.value_at(before, path) for path in document.members}

        def existed(path: Sequence[str]) -> bool:
            return jsonc.value_at(before, path) is not None

        left = _edited(document, now, members, {}, keep=existed)
    return None if original is None and _is_empty(document, left) else left


def without_ours(document: Document, data: bytes | None) -> bytes | None:
    """Return the file without Interlock's entries, with or without a record. Return None if it
    contains nothing else."""
    found = recognised(document, data)
    return taken_out(found, data, None) if data is not None and found.uses else data


def recognised(document: Document, data: bytes | None) -> Document:
    """Return the document with only the entries that the file contains, in the file's form."""
    found = {} if document.form in ("whole", "lines") else parsed(document, data)
    members = {path: jsonc.value_at(found, path) for path in document.members}
    ours = {path: value for path, value in members.items() if is_our_server(path, value)}
    hooks = own_entries.hooks_in(found, document.client) if document.form == "json" else {}
    return replace(document, members=ours, hooks=hooks, lines=())


def has_foreign_server(document: Document, data: bytes | None) -> bool:
    """Return whether the file has an MCP server with Interlock's name that is not Interlock's."""
    found = parsed(document, data) if document.members else {}
    values = {path: jsonc.value_at(found, path) for path in document.members}
    return any(value and not is_our_server(path, value) for path, value in values.items())


def _edited(
    document: Document,
    data: bytes | None,
    members: Members,
    hooks: Hooks,
    keep: Callable[[Sequence[str]], bool],
) -> bytes:
    """Return the TOML or JSON file with these members and hooks as Interlock's only entries."""
    with _naming(document.file):
        text = (data or b"").decode()
        bom = BOM if text.startswith(BOM) else ""
        text = text.removeprefix(BOM)
        if document.form == "toml":
            return (bom + _toml_edited(text, members)).encode()
        text = text if text.strip() else document.start
        return (bom + own_entries.changed(text, document.client, members, hooks, keep)).encode()


def _toml_edited(text: str, members: Members) -> str:
    """Return the text with these members, and comments and order unchanged. Raise ValueError for a
    file that tomlkit cannot parse or would damage: Python's own parser checks the result."""
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        return _toml_edited(text.replace("\r\n", "\n"), members).replace("\n", "\r\n")
    expected = tomllib.loads(text)
    for path, value in members.items():
        _set(expected, path, value)
    if expected == tomllib.loads(text):
        return text
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable

    try:
        document = tomlkit.parse(text if text.endswith("\n") or not text else text + "\n")
        for path, value in members.items():
            above = jsonc.value_at(document, path[:-1])
            if value is not None and above is not None:
                is_inline = isinstance(above, InlineTable)
                table = tomlkit.inline_table() if is_inline else tomlkit.table()
                table.update(value)
                value = table
            _set(document, path, value)
        after = tomlkit.dumps(document)
    except TOMLKitError as wrong:
        raise ValueError(str(wrong)) from None
    if tomllib.loads(after) != expected:
        raise ValueError("Interlock cannot safely edit the layout of its tables")
    return after


def _set(table: Any, path: Sequence[str], value: Any) -> None:
    """Set the value at the path. For None, remove the value and tables that become empty."""
    key, *below = path
    if below and key in table:
        if not isinstance(table[key], dict):
            raise ValueError(f"{key} is not a table")
        _set(table[key], below, value)
        if not table[key]:
            table.pop(key)
    elif value is None:
        table.pop(key, None)
    else:
        for name in reversed(below):
            value = {name: value}
        table[key] = value


def _with_lines(before: bytes | None, add: Sequence[str] = (), drop: Sequence[str] = ()) -> bytes:
    lines = (before or b"").splitlines(keepends=True)
    lines = [line for line in lines if line.strip().decode(errors="replace") not in drop]
    have = {line.strip().decode(errors="replace") for line in lines}
    new = [line for line in add if line not in have]
    if new and lines and not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    return b"".join(lines) + "".join(f"{line}\n" for line in new).encode()


def _is_empty(document: Document, data: bytes) -> bool:
    text = data.decode(errors="replace").removeprefix(BOM)
    if document.form != "json":
        return not text.strip()
    has_comments = "/" in text  # a new file contains no strings with a slash
    return bool(jsonc.load(text) == jsonc.load(document.start)) and not has_comments


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Turn a ValueError into a Usage that names the file."""
    try:
        yield
    except UnicodeDecodeError:
        raise Usage(f"{file} is not valid UTF-8. Nothing was changed.", file=file) from None
    except ValueError as wrong:
        raise Usage(
            f"Cannot edit {file}: {wrong}. Nothing was changed. Fix the file, then retry.",
            file=file,
        ) from None
