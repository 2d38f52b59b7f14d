"""Verbs over HTTP: the names of headers and fields, and the encoding of a request.

The client and the command encode a request by the route of its verb, and `doors.http.api`
decodes it. Fields in braces are in the path, the others in the query of a GET or the JSON body of a
POST. The field `data` is a body of bytes.
"""

import json
from typing import TYPE_CHECKING, Any

from interlock.verbs import Record

if TYPE_CHECKING:
    from interlock.verbs.credentials import Credentials
    from interlock.verbs.verb import Verb

KEY_HEADER = "Idempotency-Key"
SESSION_HEADER = "Interlock-Session"
SENDER_HEADER = "Interlock-Sender"
OWNER_HEADER = "Interlock-Owner"
# The interface whose words the remedies in an answer have: `cli`, or by default those of HTTP.
INTERFACE_HEADER = "Interlock-Interface"
# The position of the log when a node answered. A client that sends it to another node reads its
# own writes there.
SEEN_HEADER = "Interlock-Seq"
MAX_NAME_LENGTH = 1000
# On every interface the parameter for waiting is `wait`.
WIRE_NAMES = {"wait_s": "wait"}


class HttpRequest(Record):
    """An encoded HTTP request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def encode(credentials: "Credentials", request: "Verb") -> HttpRequest:
    """Encode a request for a verb. Fields with their default value are omitted."""
    method, path = request.declared.http.split()
    defaults = request._field_defaults
    given = {
        name: value
        for name, value in request._asdict().items()
        if name not in defaults or value != defaults[name]
    }
    headers = {INTERFACE_HEADER: "cli"}
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {quoted(credentials.token)}"
    if credentials.session is not None:
        headers[SESSION_HEADER] = quoted(credentials.session)
    if credentials.claimed is not None:
        headers[SENDER_HEADER] = quoted(credentials.claimed[:MAX_NAME_LENGTH])
    if credentials.owner:
        headers[OWNER_HEADER] = "yes"
    if (key := given.pop("key", None)) is not None:
        headers[KEY_HEADER] = quoted(key)
    for name in [name for name in given if "{" + name + "}" in path]:
        path = path.replace("{" + name + "}", quoted(str(given.pop(name))))
    given = {WIRE_NAMES.get(name, name): value for name, value in given.items()}
    if "data" in given:
        headers["Content-Type"] = "application/octet-stream"
        data: bytes = given.pop("data")
        return HttpRequest(method, path + _query(given), headers, data)
    if method == "GET":
        return HttpRequest(method, path + _query(given), headers, b"")
    headers["Content-Type"] = "application/json"
    return HttpRequest(method, path, headers, json.dumps(given, ensure_ascii=False).encode())


def _query(given: dict[str, Any]) -> str:
    pairs: list[str] = []
    for name, value in given.items():
        for one in value if isinstance(value, tuple) else (value,):
            text = str(one).lower() if isinstance(one, bool) else str(one)
            pairs.append(f"{name}={quoted(text)}")
    return "?" + "&".join(pairs) if pairs else ""


def quoted(text: str) -> str:
    """Percent-encode a text for a URL. Importing `urllib.parse` takes as long as a command."""
    if text.isascii() and text.isalnum():
        return text
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode())


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
