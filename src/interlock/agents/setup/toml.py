"""TOML with its comments and its order, changed in place by tomlkit.

What comes of it is read again by Python's own reader and compared: a file that tomlkit would bend
is refused, and left to its owner.
"""

import tomllib
from typing import Any

from interlock.agents.setup.own_entries import Members


class NotToml(Exception):
    """The text is no TOML, or cannot be changed safely; says what is wrong."""


def load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as wrong:
        raise NotToml(str(wrong)) from None


def changed(text: str, members: Members) -> str:
    """The text with these members; one that is None is taken out, and so is a table that is left
    empty by that."""
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        return changed(text.replace("\r\n", "\n"), members).replace("\n", "\r\n")
    before = load(text)
    expected = _plainly(before, members)
    if expected == before:
        return text
    after = _edited(text, members)
    if load(after) != expected:
        raise NotToml("its tables are laid out in a way that cannot be changed safely")
    return after


def _edited(text: str, members: Members) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text if text.endswith("\n") or not text else text + "\n")
        for path, value in members.items():
            _set(document, path, value)
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError) as wrong:
        raise NotToml(str(wrong)) from None


def _set(document: Any, path: tuple[str, ...], value: Any) -> None:
    import tomlkit
    from tomlkit.items import InlineTable

    *above, name = path
    tables = [document]
    for key in above:
        if key not in tables[-1]:
            tables[-1][key] = tomlkit.table(is_super_table=True)
        tables.append(tables[-1][key])
    if value is not None:
        is_inline = isinstance(tables[-1], InlineTable)
        table = tomlkit.inline_table() if is_inline else tomlkit.table()
        table.update(value)
        tables[-1][name] = table
        return
    tables[-1].pop(name, None)
    for key, holder, table in reversed(list(zip(above, tables, tables[1:], strict=False))):
        if not table:
            holder.pop(key)


def _plainly(data: dict[str, Any], members: Members) -> dict[str, Any]:
    """What the change means, without regard to how it is written."""
    for (*above, name), value in members.items():
        data = _with(data, above, name, value)
    return data


def _with(data: dict[str, Any], above: list[str], name: str, value: Any) -> dict[str, Any]:
    if not above:
        return {k: v for k, v in data.items() if k != name} | ({name: value} if value else {})
    inner = data.get(above[0], {})
    if not isinstance(inner, dict):
        raise NotToml(f"{above[0]} is no table")
    inner = _with(inner, above[1:], name, value)
    return {k: v for k, v in data.items() if k != above[0]} | ({above[0]: inner} if inner else {})
