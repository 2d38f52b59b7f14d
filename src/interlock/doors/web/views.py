"""Answers as the pages show them: parts of texts that say so, receipts as ladders, times as people
say them. live.js says times in the same words."""

import os
import zlib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

CHARACTERS_SHOWN = 280
LINES_SHOWN = 4
HUES = 8
LADDER = ("accepted", "woken", "shown", "read")
ENDS = ("acked", "declined", "expired")
# Recipients that are listed by name; of more, only how far they got is said at first.
NAMED = 3

REACH = {
    "wakes": "listening now, and sees mail at once",
    "working": "working, and sees mail at its next step",
    "waits": "idle, or seen lately; sees mail when it is prompted",
    "offline": "not seen for a while",
    "unknown": "never seen here",
}

# What would steer the text around it, or not be seen at all, is shown by its number.
_INVISIBLE = (
    *(code for code in range(0x20) if chr(code) not in "\n\t"),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200B, 0x200E, 0x200F, 0xFEFF),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x206A),
)
_VISIBLE = {code: f"\u27e8U+{code:04X}\u27e9" for code in _INVISIBLE}


def legible(value: Any) -> Any:
    """The same value with every control character in it made visible."""
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value
        return value.replace("\r\n", "\n").translate(_VISIBLE)
    if isinstance(value, list):
        return [legible(item) for item in value]
    if isinstance(value, dict):
        return {name: legible(item) for name, item in value.items()}
    return value


# --- agents and claims


def agents(answer: Answer) -> list[Answer]:
    return [
        legible(agent) | face(agent["address"]) | {"reach_means": REACH[agent["reach"]]}
        for agent in answer["agents"]
    ]


def face(address: str) -> Answer:
    """The letter and the colour by which an address is found again at a glance."""
    return {"letter": legible(address[1:2]).upper(), "hue": zlib.crc32(address.encode()) % HUES}


def claims(answer: Answer) -> list[Answer]:
    """Those that end first, first."""
    soonest = sorted(answer["claims"], key=lambda claim: (claim["expires_at"], claim["fence"]))
    return [legible(claim) | face(claim["holder"]) for claim in soonest]


# --- mail


def messages(answers: list[Answer]) -> list[Answer]:
    return [message(answer) for answer in answers]


def message(answer: Answer, *, whole: bool = False) -> Answer:
    """A message with the beginnings of its texts, or the `whole` of them as far as we have it."""
    view = {name: value for name, value in answer.items() if name not in ("payload", "deliveries")}
    deliveries = [delivery(each) for each in answer["deliveries"]]
    states = Counter(each["state"] for each in deliveries)
    view |= content(answer, whole=whole) | {
        "deliveries": deliveries,
        "states": [[state, states[state]] for state in (*ENDS, *LADDER[::-1]) if state in states],
        "named": len(deliveries) <= NAMED,
    }
    return {**legible(view), **face(answer["from"])}


def content(answer: Answer, *, whole: bool) -> Answer:
    """What a message says: its main text, and its other members. `cut` says that the text is a
    part, `more` that some other member is. A command is shown whole or not at all, so that nobody
    runs the half of one."""
    payload = dict(answer.get("payload", {}))
    text = payload.pop(MAIN_MEMBER.get(answer["type"], ""), None)
    shown = text if whole or text is None else beginning(text)
    cut = bool(answer.get("part")) or shown != text
    others = {name: value for name, value in payload.items() if value not in ("", [])}
    begun = others if whole else {name: beginnings(value) for name, value in others.items()}
    said: Answer = {"cut": cut, "more": begun != others, "others": begun}
    if shown is not None and not (cut and answer["type"] == "command"):
        said |= {"text": shown, "text_size": len(shown.encode())}
    return said


def beginnings(value: Any) -> Any:
    if isinstance(value, list):
        return [beginnings(item) for item in value[:LINES_SHOWN]]
    return beginning(value) if isinstance(value, str) else value


def beginning(text: str) -> str:
    """The first characters and lines of a text; all of it where it is short."""
    lines = text[: CHARACTERS_SHOWN + 1].split("\n")
    short = "\n".join(lines[:LINES_SHOWN])
    if len(short) <= CHARACTERS_SHOWN:
        return short
    cut = short[:CHARACTERS_SHOWN]
    at_word = cut.rfind(" ", CHARACTERS_SHOWN * 3 // 4)
    return cut[:at_word] if at_word > 0 else cut


def delivery(answer: Answer) -> Answer:
    """A delivery with its rungs: those it stood on, those it passed over, those ahead of it."""
    stood = {step["state"] for step in answer["history"]}
    top = max(i for i, state in enumerate(LADDER) if state in stood)
    if answer["state"] in ("acked", "declined"):
        top = len(LADDER)
    rungs = [
        "stood" if state in stood else "passed" if i < top else "ahead"
        for i, state in enumerate(LADDER)
    ]
    ended = answer["state"] if answer["state"] in ENDS else None
    way = ", then ".join(step["state"] for step in answer["history"])
    return answer | {"rungs": [*rungs, ended or "ahead"], "way": way}


# --- the header


def workspace(directory: str) -> Answer:
    """What a person would call the workspace, and where it lies."""
    above, name = os.path.split(directory.rstrip("/"))
    if name in (".interlock", "interlock"):
        above = os.path.dirname(above) if os.path.basename(above) == ".git" else above
        name = os.path.basename(above) or name
    home = os.path.expanduser("~")
    shown = "~" + directory[len(home) :] if directory.startswith(home + "/") else directory
    answer: Answer = legible({"name": name, "directory": shown})
    return answer


def needs(review: Answer) -> list[str]:
    """What needs a person, in words."""
    found = (
        (len(review["verdicts_due"]), "verdict due", "verdicts due"),
        (len(review["blockers"]), "blocker", "blockers"),
        (len(review["unanswered"]), "unanswered ask", "unanswered asks"),
        (len(review["unknown_recipients"]), "unknown recipient", "unknown recipients"),
        (len(review["expired"]), "message expired unread", "messages expired unread"),
        (len(review["dead_holders"]), "claim that lapsed", "claims that lapsed"),
        (len(review["refusals"]), "refusal", "refusals"),
    )
    return [count(number, one, many) for number, one, many in found if number]


# --- words


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def size(number: int) -> str:
    if number < 1000:
        return count(number, "byte", "bytes")
    return f"{number / 1000:,.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:,.1f} MB"


def clock(at: str, now: int) -> str:
    """The time of day, with the date where that is not today. In UTC; live.js puts it into the
    viewer's own zone."""
    then = datetime.fromisoformat(at)
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    return f"{then:%H:%M}" if then.date() == today else f"{then.day} {then:%b %H:%M}"


def ago(at: str, now: int) -> str:
    seconds = max(0, now - _ms(at)) // 1000
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60}m ago"
    return f"{seconds // 3600}h ago" if seconds < 86_400 else f"{seconds // 86_400}d ago"


def left(at: str, now: int) -> str:
    seconds = max(0, _ms(at) - now) // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds % 60:02}s"


def _ms(at: str) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)
