"""Files of tokens that another bus wrote: an array of rows, each with whose token it is.

What is made of a row here has no secret any more: a token that stands in it in clear leaves only
its SHA-256. Nor has it what cannot be read: that is named under `odd`, so that the row gets its
verdict in its place and the others keep theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from interlock.errors import BadToken, TooLarge, Usage
from interlock.log.encoding import decode
from interlock.log.times import read_time
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import HASH, wrong_member

MAX_FILE_BYTES = 4 << 20
_DISPLAYED = ("display_name", "displayName", "name")
_KEPT = ("agent", "label", "project", "active", "scope")
_SHOWING = ("token", "token_hash")
_ENDING = ("expires_at", "expiresAt", "expires", "expiry", "exp")
_READ = {*_SHOWING, *_KEPT, *_DISPLAYED, *_ENDING}
# What has fewer characters can be found out by whoever has its hash.
SHORTEST = 16
_TWICE = object()  # in place of a member that stands in its object more than once


class Prepared(NamedTuple):
    """Rows that can be asked about, and which members of theirs nobody here knows."""

    rows: tuple[dict[str, Any], ...]
    ignored: list[str]


def parsed(data: bytes) -> list[Any]:
    """The rows that are written in a file."""
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"A file of tokens has at most {MAX_FILE_BYTES} bytes. Split the file.")
    try:
        found = _decoded(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as wrong:
        raise Usage(
            f"The file is not JSON: {wrong}. It should be an array of rows: "
            '[{"token_hash": "…", "agent": "otto", "label": "Otto, laptop"}]'
        ) from None
    if isinstance(found, dict):
        found = found.get("tokens")
    if not isinstance(found, list):
        raise Usage('The file has no rows. It should be an array of them, or {"tokens": […]}.')
    return found


def _decoded(data: bytes) -> Any:
    """Strict JSON, in which a member that stands twice is not lost."""
    import json

    decode(data)
    return json.loads(data, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[name] = _TWICE if name in found else value
    return found


def prepared(given: list[Any]) -> Prepared:
    """The rows without secrets, and without what is not known here."""
    rows: list[dict[str, Any]] = []
    ignored: set[str] = set()
    for row in given:
        if not isinstance(row, dict):
            rows.append({"odd": {"row": "It must be an object with members such as agent."}})
            continue
        said = {name: value for name, value in row.items() if not _is_absent(name, value)}
        ignored |= said.keys() - _READ
        rows.append(_row(said))
    return Prepared(tuple(rows), sorted(ignored))


def _is_absent(name: str, value: Any) -> bool:
    """A scope that is empty is said, and is none."""
    return value is None or (name != "scope" and isinstance(value, str) and not value.strip())


def _row(said: dict[str, Any]) -> dict[str, Any]:
    row = {name: said[name] for name in (*_SHOWING, *_KEPT) if name in said}
    if "scope" in row and isinstance(row["scope"], str):
        row["scope"] = row["scope"].replace(",", " ").split()
    if "name" in said and said["name"] == said.get("label"):
        del said["name"]  # the token's own, with which every label would agree
    for display in (said[name] for name in _DISPLAYED if name in said):
        row.setdefault("display_name", display)
    ends = [read_time(said[name]) for name in _ENDING if name in said]
    if ends:
        times = [end for end in ends if end is not None]
        row["expires_at"] = min(times) if len(times) == len(ends) else None
    odd = {name: wrong for name, value in row.items() if (wrong := _wrong(name, value))}
    for name in odd:
        del row[name]
    shown = _shown(row.pop("token", None), row.pop("token_hash", None))
    if odd.keys().isdisjoint(_SHOWING):
        row |= shown
    return row | ({"odd": odd} if odd else {})


def _wrong(name: str, value: Any) -> str | None:
    if value is _TWICE:
        return f"{name} must stand there once."
    if name in _SHOWING:
        return None if isinstance(value, str) else f"{name} must be text."
    return wrong_member(name, value)


def _shown(token: str | None, given: str | None) -> dict[str, Any]:
    """The hash of a row's token. What has not the form of one may be the secret itself, and goes
    no further; so does a hash that is not its token's."""
    given = given.lower() if given is not None else ""
    known = given if HASH.fullmatch(given) else None
    if token is None:
        return {"token_hash": known} if known else {}
    try:
        own = hashed(token)
    except BadToken:
        return {"clear": True}
    short = {"short": True} if len(token) < SHORTEST else {}
    return {"clear": True} | short | ({"token_hash": own} if known in (None, own) else {})
