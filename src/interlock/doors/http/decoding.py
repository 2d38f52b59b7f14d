"""From an HTTP request to a request for a verb. Decoding is strict and guesses nothing.

Decoding checks the names of members and turns the text of a query into values. The node checks the
values, as it does for every door.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from interlock.errors import Usage
from interlock.log.encoding import decode
from interlock.verbs.http import WIRE_NAMES
from interlock.verbs.types import Binary, Integer, Several, Shape, Switch
from interlock.verbs.verb import Field, Verb, fields_of

SENDER_MEMBERS = ("from", "source", "sender")
ADAPTER = "http"
MAX_DIGITS = 18


class Route(NamedTuple):
    """A method and a path that lead to a verb. A shorthand is for requests written by hand."""

    verb: type[Verb]
    method: str
    path: str
    shorthand: bool = False


class Decoder(NamedTuple):
    """Decodes the requests of one route. `members` are the fields of the query or the body, by
    their names on the wire; `path` those of the path. A `raw` body is bytes."""

    route: Route
    members: dict[str, Field]
    path: dict[str, Field]
    raw: bool
    takes_key: bool


def routes_of(verb: type[Verb]) -> list[Route]:
    """The routes of a verb, its own first."""
    declared = verb.declared
    routes = []
    for line in [declared.http, *declared.http_also] if declared.http else []:
        method, path = line.split()
        routes.append(Route(verb, method, path, shorthand=line != declared.http))
    return routes


def decoder(route: Route) -> Decoder:
    fields = fields_of(route.verb)
    path = {name: field for name, field in fields.items() if "{" + name + "}" in route.path}
    raw = any(isinstance(field.shape, Binary) for field in fields.values())
    members = {
        WIRE_NAMES.get(name, name): field
        for name, field in fields.items()
        if name not in path and name != "key" and not isinstance(field.shape, Binary)
    }
    return Decoder(route, members, path, raw, "key" in fields)


def from_query(known: Decoder, query: QueryParams) -> dict[str, Any]:
    """The members of a query, each of the type of its field."""
    given: dict[str, Any] = {}
    for name in query:
        field = known.members.get(name)
        values = query.getlist(name)
        if field is not None and isinstance(field.shape, Several):
            each = field.shape.each
            given[name] = [_from_text(name, value, each) for value in values]
        elif len(values) > 1:
            raise Usage(f"{name} is given {len(values)} times. Give it once.", member=name)
        else:
            given[name] = _from_text(name, values[0], field.shape) if field else values[0]
    return given


def _from_text(name: str, text: str, shape: Shape) -> Any:
    if isinstance(shape, Switch):
        if text not in ("true", "false"):
            raise Usage(f"{name} is {text[:80]!r}. Give true or false.", member=name)
        return text == "true"
    if isinstance(shape, Integer):
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= MAX_DIGITS):
            raise Usage(f"{name} is {text[:80]!r}. Give a whole number.", member=name)
        return int(text)
    return text


def from_body(body: bytes) -> dict[str, Any]:
    """The members of a JSON body. An empty body has no members."""
    if not body:
        return {}
    try:
        given = decode(body)
    except ValueError as wrong:
        raise Usage(f"The body is not JSON: {wrong}.") from None
    if not isinstance(given, dict):
        raise Usage("The body is not a JSON object.")
    return given


def claimed_sender(known: Decoder, given: dict[str, Any]) -> str | None:
    """Remove the members that name a sender. They decide nothing, and must not contradict the
    token."""
    named = [given.pop(n) for n in SENDER_MEMBERS if n in given and n not in known.members]
    if not all(isinstance(name, str) for name in named):
        raise Usage("from, source and sender are names. Leave them out: the token decides.")
    names = {name.removeprefix("agent:").removeprefix("@") for name in named}
    return " and ".join(sorted(names)) if names else None


def request_of(
    known: Decoder,
    path: Mapping[str, str],
    given: dict[str, Any],
    *,
    data: bytes | None = None,
    key: str | None = None,
) -> Verb:
    """The request for the route's verb. Raises Usage for unknown and missing members."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = known.members.get(name)
        if field is None:
            raise Usage(
                f"There is no member {name[:80]!r} here. See /openapi.json.", member=name[:80]
            )
        is_list = isinstance(field.shape, Several) and isinstance(value, list)
        values[field.name] = tuple(value) if is_list else value
    for name, field in known.path.items():
        value = _from_text(name, path[name], field.shape)
        values[name] = (value,) if isinstance(field.shape, Several) else value
    for name, field in known.members.items():
        if field.required and field.name not in values:
            raise Usage(f"The member {name!r} is missing. See /openapi.json.", member=name)
    if "adapter" in known.members and values.get("adapter") is None:
        values["adapter"] = ADAPTER
    if data is not None:
        values["data"] = data
    if key is not None:
        if not known.takes_key:
            raise Usage("Only messages and evidence take an Idempotency-Key.")
        values["key"] = key
    return known.route.verb(**values)
