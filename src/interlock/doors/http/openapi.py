"""The OpenAPI document at /openapi.json, derived from the declarations of the verbs."""

import re
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from interlock import __version__
from interlock.doors.http.api import Decoder, decoder, routes_of
from interlock.errors import AddressUnavailable, PlainNo, Refusal, by_code
from interlock.rooms import catalogue
from interlock.verbs.http import KEY_HEADER, SESSION_HEADER
from interlock.verbs.types import SESSION_ID, Several, described
from interlock.verbs.verb import Field, Verb, notes, summary

Schema = dict[str, Any]

_COMMON = (400, 401, 403, 404, 409, 413, 429, 503)
_REF = "#/components/schemas/{model}"
_ABSENT: list[Any] = [None, False, []]
# The sentences about exit statuses in the notes of a verb are only for its command.
_EXIT = re.compile(r"\s*\bExit \d+: [^.]*\.")
# A command in a text: its words, and the arguments in upper case.
_COMMAND = re.compile(r"\binterlock((?: [a-z][a-z-]*)+)((?: [A-Z]+| --[a-z]+)*)")


def document() -> Schema:
    schemas: Schema = {
        "Error": {
            "type": "object",
            "required": ["error", "code", "message"],
            "properties": {
                "error": {"type": "string", "description": "A fixed title for the code."},
                "code": {"type": "string", "description": "A stable identifier for programs."},
                "message": {"type": "string", "description": "The cause and the remedy."},
            },
            "additionalProperties": True,
        }
    }
    paths: Schema = {}
    for verb in catalogue.verbs():
        for route in routes_of(verb) if not verb.declared.local else ():
            described = _operation(decoder(route), schemas)
            paths.setdefault(route.path, {})[route.method.lower()] = described
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    paths["/v1/events"] = {
        "get": {
            "operationId": "Events",
            "summary": "Stream live events",
            "description": "The stream resumes after `Last-Event-ID` or `after`, and skips no "
            "event.",
            "parameters": [
                _header("Last-Event-ID", "The id of the last event that the client received."),
                _parameter("query", "after", {"type": "integer", "minimum": 0})
                | {"description": "The position to start after. Default: the end of the log."},
            ],
            "responses": {"200": {"description": "Server-Sent Events", "content": stream}}
            | _refusals(*_COMMON),
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "version": __version__,
            "description": "Interlock coordinates AI coding agents with mail, claims, tasks with "
            "gates, and one verifiable log. Every refusal is an `Error` object with a stable "
            "`code`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


def _operation(known: Decoder, schemas: Schema) -> Schema:
    """Return one operation. Add the models of its answer to `schemas`."""
    route, verb = known.route, known.route.verb
    parameters = []
    for name, field in known.path.items():
        shape = field.shape.each if isinstance(field.shape, Several) else field.shape
        parameters.append(
            _parameter("path", name, shape.schema()) | {"description": _for_http(field.help)}
        )
    if known.takes_key:
        help = "A repeated request with the same key and the same body gets the first answer."
        parameters.append(_header(KEY_HEADER, help))
    pattern = f"^{SESSION_ID.pattern}$"
    parameters.append(_header(SESSION_HEADER, "The caller's session.", pattern=pattern))
    if route.method == "GET" or known.raw:
        parameters += [
            _parameter("query", name, _member(field)) | {"required": field.required}
            for name, field in known.members.items()
        ]

    answer = TypeAdapter(catalogue.answer_type(verb)).json_schema(ref_template=_REF)
    schemas |= answer.pop("$defs", {})
    done = {"description": "Done", "content": {"application/json": {"schema": answer}}}
    statuses = (*_COMMON, 408, 415) if route.method == "POST" else _COMMON
    suffix = f"By{route.method.title()}{route.path.count('{')}" if route.shorthand else ""
    operation: Schema = {
        "operationId": verb.__name__ + suffix,
        "summary": summary(verb),
        "parameters": parameters,
        "responses": {"200": done} | _refusals(*statuses),
    }
    if more := _EXIT.sub("", notes(verb)).strip():
        operation["description"] = _for_http(more)
    if verb.declared.anyone:
        operation["security"] = []
    if known.raw:
        binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": binary}
    elif route.method != "GET":
        required = [name for name, field in known.members.items() if field.required]
        body = {
            "type": "object",
            "properties": {
                name: _or_null(_member(field)) if field.optional else _member(field)
                for name, field in known.members.items()
            },
            "required": required,
            "additionalProperties": False,
        }
        if groups := _groups(known):
            body["allOf"] = groups
        exactly_one = [known.path.keys() & {*names} for names in verb.declared.exactly_one]
        is_required = bool(required) or not all(exactly_one)
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": is_required, "content": content}
    return operation


def _member(field: Field) -> Schema:
    schema = field.shape.schema()
    if field.help:
        help = _for_http(field.help)
        if field.shape.kind == "duration":
            help = described(help, ", in seconds")
        # The help of a list describes one of its values.
        schema.get("items", schema)["description"] = help
    if field.default not in (None, (), ""):
        schema["default"] = field.default
    return schema


def _for_http(text: str) -> str:
    """Name the route of each command in a text."""

    def route(found: re.Match[str]) -> str:
        # The words of the sentence may follow those of the command.
        words = found[1].split()
        for count in range(len(words), 0, -1):
            if (verb := _commands().get(" ".join(words[:count]))) is not None:
                return " ".join((f"`{verb.declared.http}`", *words[count:]))
        return f"`{found[0]}` in a shell"

    return _COMMAND.sub(route, text)


@cache
def _commands() -> dict[str, type[Verb]]:
    """The verbs with a route, by the words of their commands."""
    return {
        verb.declared.name: verb
        for verb in catalogue.verbs()
        if verb.declared.http and not verb.declared.local
    }


def _or_null(schema: Schema) -> Schema:
    """Allow null for a member. Null has the same meaning as an absent member."""
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return schema | {"type": [schema["type"], "null"]} | more


def _groups(known: Decoder) -> list[Schema]:
    """The groups of members of which a body has exactly one, or at most one."""
    declared = known.route.verb.declared
    on_wire = {field.name: name for name, field in known.members.items()}
    found: list[Schema] = []
    for group in (*declared.exactly_one, *declared.at_most_one):
        # null, false and an empty list count as absent.
        given: list[Schema] = [
            {"required": [on_wire[name]], "properties": {on_wire[name]: {"not": {"enum": _ABSENT}}}}
            for name in group
            if name in on_wire
        ]
        none_given = {"not": {"anyOf": given}}
        if any(name in known.path for name in group):
            found.append(none_given)
        else:
            may_be_none = group in declared.at_most_one
            found.append({"oneOf": [*given, none_given] if may_be_none else given})
    return found


def _parameter(where: str, name: str, schema: Schema) -> Schema:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


def _header(name: str, help: str, **more: str) -> Schema:
    return _parameter("header", name, {"type": "string"} | more) | {"description": help}


def _refusals(*statuses: int) -> Schema:
    """The responses of these statuses, each with the codes of its refusals."""
    content = {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}}
    codes: dict[int, list[str]] = {status: [] for status in statuses}
    kinds = Refusal.__subclasses__()
    for kind in kinds:  # the loop adds the subclasses of each class to the list
        kinds += kind.__subclasses__()
        if issubclass(kind, PlainNo | AddressUnavailable):
            continue  # an answer with status 200, or a server that did not start
        if kind.http in codes and "code" in vars(kind) and by_code(kind.code) is kind:
            codes[kind.http].append(kind.code)
    return {
        str(status): {
            "description": f"Refused: {', '.join(sorted(found)) or 'USAGE'}",
            "content": content,
        }
        for status, found in codes.items()
    }
