"""The text that a model reads. It separates Interlock's own text from the text of other senders.

Each message is in an envelope that the server makes:

    <interlock-message id="…" seq="41" type="command" from="@vera" to="@otto" at="…" size="6">
    why: "the index is stale"

    make x
    </interlock-message>

Interlock verifies the attributes of the tag. Inside are the other members of the payload as lines
of JSON, an empty line, and the text. Where the text looks like such a tag, `escaped` writes its `<`
as `&lt;`, so every tag in an answer comes from the server. A `&lt;` that the sender wrote there
becomes `&amp;lt;`. So the escaping is exact: undoing it gives the original text.
"""

import re
import unicodedata
from typing import Any

import orjson

from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

TAG = "interlock-message"
VERIFIED = (
    *("id", "seq", "type", "from", "to", "thread", "reply_to", "at", "expires_at", "priority"),
    *("size", "sha256", "taken_by", "redacted", "part", "shown", "offset", "next_offset"),
)


# These blocks of Unicode contain the Latin letters with marks, and those of other widths and faces.
_LATIN = (
    *range(0x41, 0x250),
    *range(0x1E00, 0x1F00),
    *range(0x2070, 0x2190),
    *range(0x2460, 0x2500),
    *range(0xFF00, 0xFF60),
    *range(0x1D400, 0x1D800),
    *range(0x1F110, 0x1F190),
)


def _lookalikes() -> dict[str, str]:
    """For each letter the characters that differ from it in marks, width, case or face."""
    found: dict[str, str] = {}
    for character in map(chr, _LATIN):
        parts = unicodedata.normalize("NFKD", character)
        letters = [part for part in parts if unicodedata.category(part)[0] != "M"]
        base = "".join(letters).casefold()
        found[base] = found.get(base, "") + character
    return found


# A character that is no letter, digit or plain ASCII is mostly invisible or easily overlooked. A
# model may take a tag with such characters between its letters for a real tag. The quantifiers are
# possessive, so that a long run of blanks takes linear and not quadratic time.
_OPENING = "<\u02c2\u2039\u2329\u276e\u27e8\u3008\ufe3f\ufe64\uff1c"
_UNSEEN = rf"(?:[^\w!-~{_OPENING}]|[\u115f\u1160\u3164\uffa0])*+"
_ALIKE = _lookalikes()
_NAME = _UNSEEN.join(f"[{_ALIKE[letter]}]" for letter in "interlock")
_TAIL = rf"{_UNSEEN}(?:[/\\]{_UNSEEN})?+{_NAME}"
_LIKE_A_TAG = re.compile(rf"([{_OPENING}])(?={_TAIL})|&(?=(?:amp;)*+(?:lt|\#x[0-9a-f]++);{_TAIL})")


def escaped(text: str) -> str:
    """Escape the text, so that no part of it looks like the tag of an envelope."""

    def entity(found: re.Match[str]) -> str:
        if (opening := found[1]) is None:
            return "&amp;"
        return "&lt;" if opening == "<" else f"&#x{ord(opening):x};"

    return _LIKE_A_TAG.sub(entity, text)


def answer_text(answer: Answer) -> str:
    """An answer as text: the members of Interlock's own as JSON, then the messages."""
    about = dict(answer)
    if "source" in answer:
        about, messages = {n: answer[n] for n in ("deliveries",) if n in answer}, [answer]
    elif "messages" in answer:
        messages = about.pop("messages")
    elif "answer" in answer:
        messages = [about.pop("answer")]
    else:
        return json_text(answer)
    return "\n".join([*([json_text(about)] if about else []), *map(enveloped, messages)])


def json_text(answer: Answer) -> str:
    """An answer as JSON. The texts of other senders in it, such as notes, are strings."""
    return escaped(orjson.dumps(answer).decode())


def enveloped(message: Answer) -> str:
    """A message in its envelope. After a part of a message, a line says how to read the rest."""
    tag = " ".join(f'{name}="{_attribute(message[name])}"' for name in VERIFIED if name in message)
    payload = dict(message.get("payload", {}))
    text = payload.pop(MAIN_MEMBER.get(message["type"], ""), "")
    others = ({"subject": message["subject"]} if "subject" in message else {}) | payload
    lines = [f"{name}: {orjson.dumps(value).decode()}\n" for name, value in others.items()]
    inside = escaped(f"{''.join(lines)}\n{text}\n")
    rest = ""
    if "next_offset" in message:
        first, following = message.get("offset", 0), message["next_offset"]
        shown = f"bytes {first} to {following - 1}" if following > first else "nothing"
        whole = " Do not run a part of it." if message["type"] == "command" else ""
        rest = (
            f"\n(This is {shown} of {message['size']}. For the rest, read with id {message['id']} "
            f"and offset {following}.{whole})"
        )
    return f"<{TAG} {tag}>\n{inside}</{TAG}>{rest}"


def _attribute(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return text
