"""From a request to an act: strict, and nothing guessed.

For each route a model is made from the act's own fields; it checks types and names and makes the
schema that /openapi.json shows. What the values may be is checked by the contracts, as everywhere.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.datastructures import QueryParams

from interlock.contracts import acts
from interlock.contracts.routes import ON_THE_WIRE, Route
from interlock.errors import Usage
from interlock.log.encoding import decode

SENDER_MEMBERS = ("from", "source", "sender")
# What a request may leave out although the act needs it.
_DEFAULTS: dict[type, dict[str, Any]] = {
    acts.SendMessage: {"type": "send"},
    acts.ListInbox: {"adapter": "http"},
}
# What the server itself fills in, or takes from a header.
_HIDDEN: dict[type, tuple[str, ...]] = dict.fromkeys(
    (acts.SendMessage, acts.Ask, acts.AnswerAsk, acts.AddEvidence), ("key",)
)


_LISTS: dict[Any, Any] = {
    tuple[str, ...]: list[str],
    tuple[int, ...]: list[int],
    tuple[dict[str, Any], ...]: list[dict[str, Any]],
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Decoder(NamedTuple):
    """How the requests of one route are read. `path` are the members in the path; `lists` those
    with several values; `raw` a body that is no JSON."""

    route: Route
    model: type[BaseModel]
    path: tuple[str, ...]
    lists: frozenset[str]
    raw: bool
    by_key: bool


def decoder(route: Route) -> Decoder:
    act: Any = route.act
    hints = get_type_hints(act)
    defaults = act._field_defaults | _DEFAULTS.get(act, {})
    hidden = _HIDDEN.get(act, ())
    path = tuple(name for name in act._fields if "{" + name + "}" in route.path)
    lists = frozenset(name for name, hint in hints.items() if hint in _LISTS)
    fields: dict[str, Any] = {}
    for name in act._fields:
        if name in hidden or name in path or name == "data":
            continue
        hint = _LISTS[hints[name]] if name in lists else hints[name]
        default = Field(default_factory=list) if name in lists else defaults.get(name, ...)
        if name in lists and name not in defaults:
            default = ...
        fields[ON_THE_WIRE.get(name, name)] = (hint, default)
    model = create_model(act.__name__, __base__=_Model, **fields)
    return Decoder(route, model, path, lists, "data" in act._fields, "key" in hidden)


def from_query(known: Decoder, query: QueryParams) -> dict[str, Any]:
    """The members in a query, each of the type that the act wants."""
    given: dict[str, Any] = {}
    for name in query:
        field = known.model.model_fields.get(name)
        values = query.getlist(name)
        if name in known.lists:
            given[name] = values
        elif len(values) > 1:
            raise Usage(f"{name} is given {len(values)} times, and can be given once.")
        else:
            given[name] = _typed(name, values[0], field.annotation if field else str)
    return given


def _typed(name: str, text: str, wanted: Any) -> Any:
    kinds = get_args(wanted) or (wanted,)
    if bool in kinds:
        if text not in ("true", "false"):
            raise Usage(f"{name} is true or false, not {text[:80]!r}.")
        return text == "true"
    if int in kinds:
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18):
            raise Usage(f"{name} is a whole number, not {text[:80]!r}.")
        return int(text)
    return text


def from_body(body: bytes) -> dict[str, Any]:
    """The members in a JSON body; no body is no members."""
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
    """Takes out whatever says who sends. It decides nothing, and must not contradict the token."""
    fields = known.model.model_fields
    said = [given.pop(n) for n in SENDER_MEMBERS if n in given and n not in fields]
    if not all(isinstance(name, str) for name in said):
        raise Usage("from, source and sender are names; better leave them out.")
    names = {name.removeprefix("agent:").removeprefix("@") for name in said}
    return " and ".join(sorted(names)) if names else None


def act_of(
    known: Decoder,
    path: Mapping[str, Any],
    given: dict[str, Any],
    *,
    data: bytes | None = None,
    key: str | None = None,
) -> Any:
    """The act that a request asks for."""
    try:
        members = known.model.model_validate(given).__dict__
    except ValidationError as wrong:
        raise _refused(wrong) from None
    values = {_FROM_THE_WIRE.get(name, name): value for name, value in members.items()}
    values |= {name: path[name] for name in known.path}
    for name in known.lists:
        value = values.get(name, ())
        values[name] = (value,) if isinstance(value, str) else tuple(value)
    if data is not None:
        values["data"] = data
    if key is not None:
        if not known.by_key:
            raise Usage("Only messages and evidence take an Idempotency-Key.")
        values["key"] = key
    return known.route.act(**values)


_FROM_THE_WIRE = {wire: name for name, wire in ON_THE_WIRE.items()}


def _refused(wrong: ValidationError) -> Usage:
    first = wrong.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the body"
    if first["type"] == "extra_forbidden":
        return Usage(f"There is no member {where[:80]!r} here. See /openapi.json.", member=where)
    if first["type"] == "missing":
        return Usage(f"The member {where!r} is missing. See /openapi.json.", member=where)
    return Usage(f"{where}: {first['msg']}.", member=where)
