"""/openapi.json: its schemas accept the same bodies as the verbs."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import jsonschema
import pytest

from interlock.doors.http.api import Route, decoder, request_of, routes_of
from interlock.doors.http.openapi import document
from interlock.errors import Usage
from interlock.rooms import catalogue
from interlock.verbs.types import Switch
from interlock.verbs.verb import Verb, fields_of, validated
from world.furnished import filled
from world.rows import ROWS

PATHS = document()["paths"]
OMITTED = object()
GROUPED = [
    route
    for verb in catalogue.verbs()
    for route in routes_of(verb)
    if route.method == "POST" and (verb.declared.exactly_one or verb.declared.at_most_one)
]


def value_of(verb: type[Verb], name: str) -> Any:
    """Return the value of a field in a row of this verb, or of another verb with such a field. An
    id replaces the names of the furnished workspace."""
    shape = fields_of(verb)[name].shape
    rows = [row for row in ROWS if name in row.fields and row.kind != "refused"]
    rows.sort(key=lambda row: row.verb is not verb)
    given = [row.fields[name] for row in rows if fields_of(row.verb)[name].shape is shape]
    assert given, f"no row has {name} of {verb.__name__}: add one to tests/world/rows"
    names: Mapping[str, str] = defaultdict(lambda: "01890000-0000-7000-8000-000000000000")
    return filled(given[0], names)


def not_given(verb: type[Verb], name: str) -> Any:
    """Return the value of a field that counts as absent."""
    shape = fields_of(verb)[name].shape
    return [] if shape.many else False if isinstance(shape, Switch) else None


def body_of(route: Route) -> dict[str, Any]:
    described: dict[str, Any] = PATHS[route.path]["post"]["requestBody"]
    return described


@pytest.mark.parametrize("route", GROUPED, ids=lambda route: route.path)
def test_schema_accepts_the_same_combinations_of_members_as_the_verb(route: Route) -> None:
    declared, known = route.verb.declared, decoder(route)
    names = [n for group in (*declared.exactly_one, *declared.at_most_one) for n in group]
    names = [name for name in names if name in known.members]
    schema = jsonschema.Draft202012Validator(
        body_of(route)["content"]["application/json"]["schema"]
    )
    verb, verdicts = route.verb, set()
    values_of = [(value_of(verb, name), not_given(verb, name), OMITTED) for name in names]
    required = [name for name, field in known.members.items() if field.required]
    for values in product(*values_of):
        given = {n: v for n, v in zip(names, values, strict=True) if v is not OMITTED}
        needed = {name: value_of(verb, name) for name in required}
        needed |= {"repo": "example.org/code"} if given.get("paths") else {}
        path = {name: value_of(verb, name) for name in known.path}
        try:
            validated(request_of(known, path, given | needed))
            is_taken = True
        except Usage:
            is_taken = False
        assert schema.is_valid(given | needed) == is_taken, given
        verdicts.add(is_taken)
    assert verdicts == {True, False}


def test_body_is_required_if_the_verb_needs_one_of_its_members() -> None:
    required = {route.path: body_of(route)["required"] for route in GROUPED}
    assert required["/v1/claims/release"] is True
    assert required["/v1/claims/{id}/release"] is False
    assert required["/v1/mute"] is False


def test_descriptions_have_no_exit_statuses() -> None:
    operations = [operation for methods in PATHS.values() for operation in methods.values()]
    described = [operation.get("description", "") for operation in operations]
    assert not [text for text in described if "Exit" in text]
    check = PATHS["/v1/claims/check"]["post"]["description"]
    assert check.startswith("The answer names the holders.")


def test_descriptions_name_routes_and_not_commands() -> None:
    described = [
        text
        for route in PATHS.values()
        for operation in route.values()
        for text in _texts_below(operation)
    ]
    commands = [text for text in described if re.search(r"(?<!`)\binterlock [a-z]", text)]
    assert commands == []
    assert any("`POST /v1/acks`" in text for text in described)


def _texts_below(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("summary", "description"):
                yield inner
            else:
                yield from _texts_below(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_below(inner)


def test_duration_is_described_in_seconds() -> None:
    body = PATHS["/v1/claims"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["ttl_s"]["description"] == "the lease, in seconds"


def test_optional_member_may_be_null() -> None:
    body = PATHS["/v1/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    priority = body["properties"]["priority"]
    assert priority["type"] == ["string", "null"]
    assert None in priority["enum"]
    assert body["properties"]["title"]["type"] == "string"
