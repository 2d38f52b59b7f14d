"""The description at /openapi.json, derived from the declarations of the verbs."""

from typing import Any

from pydantic import TypeAdapter

from interlock import __version__
from interlock.doors.http.decoding import Decoder, decoder
from interlock.errors import Refusal, by_code
from interlock.rooms import catalogue
from interlock.verbs.http import KEY_HEADER, SESSION_HEADER, Route, routes_of
from interlock.verbs.types import SESSION_ID, Several
from interlock.verbs.verb import Field, notes, summary

_COMMON = (400, 401, 403, 404, 409, 413, 429, 503)
_REF = "#/components/schemas/{model}"


def document() -> dict[str, Any]:
    schemas: dict[str, Any] = {"Error": _error()}
    paths: dict[str, Any] = {}
    for verb in catalogue.verbs():
        for route in routes_of(verb) if not verb.declared.local else ():
            described = _operation(decoder(route), schemas)
            paths.setdefault(route.path, {})[route.method.lower()] = described
    paths["/v1/events"] = {"get": _events()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "version": __version__,
            "description": "Where the work of AI coding agents becomes coordinated, gated and "
            "auditable. Every refusal is the object Error; its code is stable.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


def _operation(known: Decoder, schemas: dict[str, Any]) -> dict[str, Any]:
    route = known.route
    verb = route.verb
    parameters = [
        _parameter("path", name, _of_path(field)) | {"description": field.help}
        for name, field in known.path.items()
    ]
    if known.takes_key:
        parameters.append(
            _header(KEY_HEADER, "the same key with the same body gives the first answer again")
        )
    pattern = f"^{SESSION_ID.pattern}$"
    parameters.append(_header(SESSION_HEADER, "the session that acts", pattern=pattern))
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": summary(verb),
        "parameters": parameters,
        "responses": _responses(route, schemas),
    }
    if more := notes(verb):
        operation["description"] = more
    if verb.declared.anyone:
        operation["security"] = []
    if route.method == "GET" or known.raw:
        parameters += [
            _parameter("query", name, _member(field)) | {"required": field.required}
            for name, field in known.members.items()
        ]
    if known.raw:
        binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": binary}
    elif route.method != "GET":
        required = [name for name, field in known.members.items() if field.required]
        schema = {
            "type": "object",
            "properties": {name: _member(field) for name, field in known.members.items()},
            "required": required,
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": bool(required), "content": content}
    return operation


def _of_path(field: Field) -> dict[str, Any]:
    shape = field.shape.each if isinstance(field.shape, Several) else field.shape
    return shape.schema()


def _member(field: Field) -> dict[str, Any]:
    schema = field.shape.schema()
    if field.help:
        schema["description"] = field.help
    if field.default not in (None, (), ""):
        schema["default"] = field.default
    return schema


def _name(route: Route) -> str:
    name = route.verb.__name__
    return f"{name}By{route.method.title()}{route.path.count('{')}" if route.shorthand else name


def _parameter(where: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


def _header(name: str, help: str, **more: str) -> dict[str, Any]:
    return _parameter("header", name, {"type": "string"} | more) | {"description": help}


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    answer = _schema(catalogue.answer_type(route.verb), schemas)
    found = {"200": {"description": "Done", "content": {"application/json": {"schema": answer}}}}
    statuses = [*_COMMON, *([408, 415] if route.method == "POST" else [])]
    return found | {str(status): _refusal(status) for status in statuses}


def _refusal(status: int) -> dict[str, Any]:
    codes = ", ".join(sorted(kind.code for kind in _kinds(Refusal) if kind.http == status))
    schema = {"$ref": _REF.format(model="Error")}
    description = f"Refused: {codes or 'USAGE'}"
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _kinds(kind: type[Refusal]) -> list[type[Refusal]]:
    found = [leaf for sub in kind.__subclasses__() for leaf in [sub, *_kinds(sub)]]
    return [leaf for leaf in found if "code" in vars(leaf) and by_code(leaf.code) is leaf]


def _error() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["error", "code", "message"],
        "properties": {
            "error": {"type": "string", "description": "a fixed title"},
            "code": {"type": "string", "description": "stable"},
            "message": {"type": "string", "description": "what was wrong, and what to do"},
        },
        "additionalProperties": True,
    }


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a model; what it is made of goes into the components."""
    found = TypeAdapter(kind).json_schema(ref_template=_REF)
    schemas |= found.pop("$defs", {})
    return found


def _events() -> dict[str, Any]:
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": "Events",
        "summary": "Live events: resumes from Last-Event-ID, or from after, without a gap",
        "parameters": [
            _header("Last-Event-ID", "the last event that was seen"),
            _parameter("query", "after", {"type": "integer", "minimum": 0}),
        ],
        "responses": {"200": {"description": "A stream", "content": stream}}
        | {str(status): _refusal(status) for status in _COMMON},
    }
