"""The remedies of messages and answers, and the names of members, in the words of an interface."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.errors import Message, Refusal, Remedy
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
            return " ".join(filter(None, (worded(part, words) for part in value.parts)))
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


def one_of(names: Sequence[str]) -> str:
    return f"Give {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}."


def only_one_of(names: Sequence[str]) -> str:
    return f"Give only one of {' and '.join(names)}."


def renamed(refusal: Refusal, names: Mapping[str, str]) -> Refusal:
    """Return the refusal with the interface's names of the members that it is about. `names` maps
    the fields of the request, and members of its message such as `payload.why`.

    The message of such a refusal begins with its `member`, or chooses between the members in
    `one_of`. A choice leaves out members that the interface does not have."""
    member: str = refusal.members.get("member", "")
    if (choice := refusal.members.get("one_of")) is not None:
        shown = [names[name] for name in choice if name in names]
        if not shown:
            return refusal
        is_too_many = refusal.message == only_one_of(choice)
        message = only_one_of(shown) if is_too_many else one_of(shown)
        changed = {"member": names.get(member, member), "one_of": shown}
        return type(refusal)(message, **refusal.members | changed)
    first, *rest = getattr(refusal.message, "parts", (refusal.message,))
    if member not in names or not re.match(rf"{re.escape(member)}(?=[ .\[])", first):
        return refusal
    rest_of_first = first.removeprefix(member)
    if names[member].startswith("--"):
        # Each value of a list has its own flag.
        rest_of_first = re.sub(r"^\[\d+\]", "", rest_of_first)
    first = names[member] + rest_of_first
    return type(refusal)(first, *rest, **refusal.members | {"member": names[member]})
