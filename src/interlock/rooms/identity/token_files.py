"""Files of tokens of another message bus: an array of rows, each with a token and its agent.

A prepared row contains no secret: the SHA-256 replaces a token in clear text. `odd` names malformed
members, so that their row gets its own verdict.
"""

from __future__ import annotations

import re
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
# A shorter token can be guessed from its hash.
MIN_TOKEN_LENGTH = 16
_TWICE = object()  # in place of a member that an object has twice


class Prepared(NamedTuple):
    """The rows to import, and the JSON members of the file that the import ignores."""

    rows: tuple[dict[str, Any], ...]
    ignored: list[str]


def parsed(data: bytes) -> list[Any]:
    """Return the rows of a file. Raises TooLarge or Usage."""
    import json

    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"The file has more than {MAX_FILE_BYTES} bytes. Split the file.")
    data = data.removeprefix(b"\xef\xbb\xbf")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            found[name] = _TWICE if name in found else value
        return found

    try:
        decode(data)  # stricter than json.loads
        found = json.loads(data, object_pairs_hook=members)
    except (ValueError, RecursionError) as wrong:
        raise Usage(
            f"The file is not JSON: {wrong}. Give an array of rows: "
            '[{"token_hash": "…", "agent": "otto", "label": "Otto, laptop"}]'
        ) from None
    if isinstance(found, dict):
        found = found.get("tokens")
    if not isinstance(found, list):
        raise Usage('The file has no array of rows. Give […] or {"tokens": […]}.')
    return found


def prepared(given: list[Any]) -> Prepared:
    """Return the rows without secrets, and without members that the import ignores."""
    rows: list[dict[str, Any]] = []
    ignored: set[str] = set()
    for row in given:
        if not isinstance(row, dict):
            rows.append({"odd": {"row": "The row must be an object with members such as agent."}})
            continue
        # A blank text counts as absent, but an empty scope stays: it grants nothing.
        members = {
            name: value
            for name, value in row.items()
            if value is not None
            and (name == "scope" or not isinstance(value, str) or value.strip())
        }
        ignored |= members.keys() - _READ
        rows.append(_row(members))
    return Prepared(tuple(rows), sorted(ignored))


def _row(members: dict[str, Any]) -> dict[str, Any]:
    row = {name: members[name] for name in (*_SHOWING, *_KEPT) if name in members}
    if isinstance(row.get("scope"), str):
        row["scope"] = row["scope"].replace(",", " ").split()
    if "name" in members and members["name"] == members.get("label"):
        del members["name"]  # it names the token, so every label would agree with it
    for name in _DISPLAYED:
        if name in members:
            row.setdefault("display_name", members[name])
    ends = [read_time(members[name]) for name in _ENDING if name in members]
    if ends:
        times = [end for end in ends if end is not None]
        row["expires_at"] = min(times) if len(times) == len(ends) else None

    odd: dict[str, str] = {}
    for name, value in row.items():
        wrong: str | None
        if value is _TWICE:
            wrong = f"{name} must be given only once."
        elif name in _SHOWING:
            wrong = None if isinstance(value, str) else f"{name} must be text."
        else:
            wrong = wrong_member(name, value)
        if wrong is not None:
            odd[name] = wrong
    for name in odd:
        del row[name]

    token, given = row.pop("token", None), row.pop("token_hash", "").lower()
    if odd.keys().isdisjoint(_SHOWING):
        # A text that is not a hash may be the secret itself, so the row does not keep it.
        known = given if re.fullmatch(HASH, given) else None
        if token is not None:
            row["clear"] = True
            try:
                own = hashed(token)
            except BadToken:
                known = None
            else:
                if len(token) < MIN_TOKEN_LENGTH:
                    row["short"] = True
                known = own if known in (None, own) else None
        if known is not None:
            row["token_hash"] = known
    return row | ({"odd": odd} if odd else {})
