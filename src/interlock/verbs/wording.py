"""The remedies of messages and answers, in the words of an interface."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from interlock.errors import Message, Remedy
from interlock.verbs.credentials import Credentials
from interlock.verbs.http import encode

if TYPE_CHECKING:
    from interlock.verbs.verb import Verb

Words = Callable[[Remedy], str]


def worded(value: Any, words: Words) -> Any:
    """Return an answer or an error object with each remedy in these words."""
    match value:
        case Remedy():
            return words(value)
        case Message():
            return " ".join(worded(part, words) for part in value.parts)
        case dict():
            return {name: worded(member, words) for name, member in value.items()}
        case list() | tuple():
            return [worded(member, words) for member in value]
        case _:
            return value


def http_words(remedy: Remedy) -> str:
    """Word a remedy as a request to the HTTP API."""
    if remedy.http is not None:
        return remedy.http
    request: Verb | None = remedy.request
    if request is None or not request.declared.http or request.declared.local:
        return in_a_shell(remedy)
    encoded = encode(Credentials(), request)
    body = json.loads(encoded.body) if encoded.body else {}
    members = f" {json.dumps(body, ensure_ascii=False)}" if body else ""
    return f"`{encoded.method} {encoded.target}{members}`"


def in_a_shell(remedy: Remedy) -> str:
    """Word a remedy that only the command line offers."""
    return f"`{remedy}` in a shell"
