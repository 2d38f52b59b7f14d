"""The text that a model reads: what Interlock says, and what others wrote, kept apart.

Each message stands in an envelope of the server's making:

    <message id="…" seq="41" type="command" from="@vera" to="@otto" at="…" size="6" sha256="…">
    why: "the index is stale"

    make x
    </message>

The tag says what Interlock vouches for. Then come the sender's other members as lines of JSON, an
empty line, and the text. Wherever text looks like such a tag its `<` is written as an entity, so
that a `<message` or `</message` in an answer is always the server's. `&lt;` that stood there
already gets one more `amp;`, which makes the escaping exact: undoing it gives the text as it was.
"""

import re
from typing import Any

import orjson

from interlock.contracts.types import MAIN_MEMBER

Answer = dict[str, Any]

VERIFIED = (
    "id",
    "seq",
    "type",
    "from",
    "to",
    "thread",
    "reply_to",
    "at",
    "expires_at",
    "priority",
    "size",
    "sha256",
    "taken_by",
    "redacted",
    "part",
    "shown",
    "offset",
    "next_offset",
)

# Blanks, and characters that are not seen: between the letters they fool a reader, not a parser.
_UNSEEN = r"[\s\x00-\x1f\x7f-\xa0\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f"
_UNSEEN += r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
_UNSEEN += r"\U000e0000-\U000e0fff]*"
_OPENING = "<\u2039\u2329\u276e\u27e8\u3008\ufe3f\ufe64\uff1c"
_SLASH = r"[/\\\u2044\u2215\u29f8\uff0f]?"
_WORD = _UNSEEN.join(f"[{c}{c.upper()}{chr(ord(c) + 0xFEE0)}{chr(ord(c) + 0xFEC0)}]" for c in "message")
_TAG = re.compile(
    rf"([{_OPENING}]|&(?=(?:amp;)*(?:lt|\#x[0-9a-f]+);))"
    rf"(?=(?:(?:amp;)*(?:lt|\#x[0-9a-f]+);)?{_UNSEEN}{_SLASH}{_UNSEEN}{_WORD})"
)


def escaped(text: str) -> str:
    """Text in which nothing looks like the tag of an envelope."""
    return _TAG.sub(_entity, text)


def _entity(found: re.Match[str]) -> str:
    character = found[1]
    if character == "&":
        return "&amp;"
    return "&lt;" if character == "<" else f"&#x{ord(character):x};"


def spoken(answer: Answer) -> str:
    """An answer as text: its messages in envelopes, and before them all else as JSON."""
    messages = [answer] if "payload" in answer or "redacted" in answer else answer.get("messages")
    if messages is None and "answer" in answer:
        messages = [answer["answer"]]
    if messages is None:
        return said(answer)
    about = {n: v for n, v in answer.items() if n not in ("messages", "answer") and n not in _OWN}
    return "\n".join(([said(about)] if about else []) + [enveloped(m) for m in messages])


def said(answer: Answer) -> str:
    """What Interlock itself says, as JSON. Notes and names that others wrote are strings in it."""
    return escaped(orjson.dumps(answer).decode())


def enveloped(message: Answer) -> str:
    """One message as data, and how to get the rest of it."""
    tag = " ".join(f'{name}="{_attribute(message[name])}"' for name in VERIFIED if name in message)
    payload = dict(message.get("payload", {}))
    text = payload.pop(MAIN_MEMBER.get(message["type"], ""), None)
    others = ({"subject": message["subject"]} if "subject" in message else {}) | payload
    lines = [f"{name}: {orjson.dumps(value).decode()}" for name, value in others.items()]
    body = "\n".join([*lines, "", *([text] if text is not None else [])])
    return f"<message {tag}>\n{escaped(body)}\n</message>{_rest(message)}"


def _attribute(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text


def _rest(message: Answer) -> str:
    if "next_offset" not in message:
        return ""
    command = " Do not run a part of it." if message["type"] == "command" else ""
    return (
        f"\n({message['shown']} of {message['size']} bytes. The rest: read with id "
        f"{message['id']} and offset {message['next_offset']}.{command})"
    )


# Members of a message that is itself the answer, all of which its envelope shows.
_OWN = frozenset((*VERIFIED, "version", "source", "subject", "payload"))
