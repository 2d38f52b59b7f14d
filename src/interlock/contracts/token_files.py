"""Files of tokens that another bus wrote: an array of rows, each with whose token it is.

What is made of a row here has no secret any more: a token that stands in it in clear leaves only
its SHA-256. The rest of a row's shape is checked where it is decided.
"""

import re
from typing import Any, NamedTuple

from interlock.contracts.encoding import decode
from interlock.contracts.tokens import hashed
from interlock.errors import BadToken, TooLarge, Usage

LARGEST_FILE = 4 << 20
HASH = re.compile(r"[0-9a-f]{64}")
_DISPLAYED = ("display_name", "displayName", "name")
_KEPT = ("agent", "label", "project", "active", "scope")
_READ = {"token", "token_hash", *_KEPT, *_DISPLAYED}


class Prepared(NamedTuple):
    """Rows that can be asked about, and which members of theirs nobody here knows."""

    rows: tuple[dict[str, Any], ...]
    ignored: list[str]


def parsed(data: bytes) -> list[Any]:
    """The rows that are written in a file."""
    if len(data) > LARGEST_FILE:
        raise TooLarge(f"A file of tokens has at most {LARGEST_FILE} bytes. Import it in parts.")
    try:
        found = decode(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as wrong:
        raise Usage(
            f"The file is not JSON: {wrong}. It should be an array of rows: "
            '[{"token_hash": "…", "agent": "otto", "label": "Otto, laptop"}]'
        ) from None
    if isinstance(found, dict):
        found = found.get("tokens")
    if not isinstance(found, list):
        raise Usage('The file has no rows. It should be an array of them, or {"tokens": […]}.')
    return found


def prepared(given: list[Any]) -> Prepared:
    """The rows without secrets, and without what is not known here."""
    rows, ignored = [], set()
    for number, row in enumerate(given, 1):
        if not isinstance(row, dict):
            raise Usage(f"Row {number} is not an object with members such as agent and label.")
        said = {name: value for name, value in row.items() if not _is_absent(value)}
        ignored |= said.keys() - _READ
        rows.append(_row(number, said))
    return Prepared(tuple(rows), sorted(ignored))


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _row(number: int, said: dict[str, Any]) -> dict[str, Any]:
    row = {name: said[name] for name in _KEPT if name in said}
    if "scope" in row and isinstance(row["scope"], str):
        row["scope"] = row["scope"].replace(",", " ").split()
    if "name" in said and said["name"] == said.get("label"):
        del said["name"]  # the token's own, with which every label would agree
    for display in (said[name] for name in _DISPLAYED if name in said):
        row.setdefault("display_name", display)
    return row | _shown(number, said.get("token"), said.get("token_hash"))


def _shown(number: int, token: Any, given: Any) -> dict[str, Any]:
    """The hash of a row's token. What has not the form of one may be the secret itself, and goes
    no further; so does a hash that is not its token's."""
    given = given.lower() if isinstance(given, str) else ""
    known = given if HASH.fullmatch(given) else None
    if token is None:
        return {"token_hash": known} if known else {}
    if not isinstance(token, str):
        raise Usage(f"Row {number}: token is text.")
    try:
        own = hashed(token)
    except BadToken:
        return {"clear": True}
    return {"clear": True} | ({"token_hash": own} if known in (None, own) else {})
