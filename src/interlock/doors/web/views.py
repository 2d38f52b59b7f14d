"""Views of answers for the dashboard: shortened texts, the steps of receipts, formatted times.
live.js formats times in the same way."""

import os
import zlib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer
from interlock.verbs.spelling import visible

MAX_CHARACTERS = 280
MAX_LINES = 4
HUES = 8
STEPS = ("accepted", "woken", "shown", "read")
ENDS = ("acked", "declined", "expired")
# A message with more recipients shows only the number of recipients in each state.
MAX_NAMED = 3

REACH = {
    "wakes": "sees new mail at once: it listens, or Interlock wakes it",
    "working": "sees new mail at its next step: it is working",
    "waits": "sees new mail when prompted: it is idle, or was seen recently",
    "offline": "not seen recently",
    "unknown": "never seen in this workspace",
}
NEEDS = (
    ("verdicts_due", "verdict due", "verdicts due"),
    ("blockers", "blocker", "blockers"),
    ("unanswered", "unanswered ask", "unanswered asks"),
    ("unknown_recipients", "unregistered recipient", "unregistered recipients"),
    ("expired", "message expired unread", "messages expired unread"),
    ("dead_holders", "expired claim", "expired claims"),
    ("refusals", "refusal", "refusals"),
)


def shown(value: Any) -> Any:
    """Return a template value with hidden characters made visible. Markup stays unchanged."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# --- agents and claims


def agents(answer: Answer) -> list[Answer]:
    return [
        agent | face(agent["address"]) | {"reach_means": REACH[agent["reach"]]}
        for agent in answer["agents"]
    ]


def face(address: str) -> Answer:
    """Return the letter and the colour that mark an address."""
    return {"letter": address[1:2].upper(), "hue": zlib.crc32(address.encode()) % HUES}


def claims(answer: Answer) -> list[Answer]:
    """Return the claims, the next to expire first."""
    soonest = sorted(answer["claims"], key=lambda claim: (claim["expires_at"], claim["fence"]))
    return [claim | face(claim["holder"]) for claim in soonest]


# --- mail


def messages(answers: list[Answer]) -> list[Answer]:
    return [message(answer) for answer in answers]


def message(answer: Answer, *, whole: bool = False) -> Answer:
    """Return a message with shortened texts, or with whole texts if `whole` is true."""
    deliveries = [_delivery(each) for each in answer["deliveries"]]
    states = Counter(each["state"] for each in deliveries)
    return {
        **{name: value for name, value in answer.items() if name != "payload"},
        **content(answer, whole=whole),
        "deliveries": deliveries,
        "states": [[state, states[state]] for state in (*ENDS, *STEPS[::-1]) if state in states],
        "named": len(deliveries) <= MAX_NAMED,
        **face(answer["from"]),
    }


def content(answer: Answer, *, whole: bool) -> Answer:
    """Return the main text of a message, and its other members. `cut` is true if the text is
    shortened, `more` if another member is. A command is whole or left out, so that a reader never
    runs a part of it."""
    payload = dict(answer.get("payload", {}))
    text = payload.pop(MAIN_MEMBER.get(answer["type"], ""), None)
    shown = text if whole or text is None else beginning(text)
    cut = bool(answer.get("part")) or shown != text
    others = {name: value for name, value in payload.items() if value not in ("", [])}
    begun = others if whole else {name: _beginnings(value) for name, value in others.items()}
    view: Answer = {"cut": cut, "more": begun != others, "others": begun}
    if shown is not None and not (cut and answer["type"] == "command"):
        view |= {"text": shown, "text_size": len(shown.encode())}
    return view


def _beginnings(value: Any) -> Any:
    if isinstance(value, list):
        return [_beginnings(item) for item in value[:MAX_LINES]]
    return beginning(value) if isinstance(value, str) else value


def beginning(text: str) -> str:
    """Return the first characters and lines of a text, or all of a short text."""
    lines = text[: MAX_CHARACTERS + 1].split("\n")
    short = "\n".join(lines[:MAX_LINES])
    if len(short) <= MAX_CHARACTERS:
        return short
    cut = short[:MAX_CHARACTERS]
    at_word = cut.rfind(" ", MAX_CHARACTERS * 3 // 4)
    return cut[:at_word] if at_word > 0 else cut


def _delivery(answer: Answer) -> Answer:
    """Return a delivery with its steps: reached, skipped or pending, and at last the end state."""
    reached = {step["state"] for step in answer["history"]}
    last = max(i for i, state in enumerate(STEPS) if state in reached)
    if answer["state"] in ("acked", "declined"):
        last = len(STEPS)
    steps = [
        "reached" if state in reached else "skipped" if i < last else "pending"
        for i, state in enumerate(STEPS)
    ]
    steps.append(answer["state"] if answer["state"] in ENDS else "pending")
    states = ", then ".join(step["state"] for step in answer["history"])
    return answer | {"steps": steps, "states": states}


# --- the header


def workspace(directory: str) -> Answer:
    """Return a short name for the workspace, and its directory."""
    above, name = os.path.split(directory.rstrip("/"))
    if name in (".interlock", "interlock"):
        above = os.path.dirname(above) if os.path.basename(above) == ".git" else above
        name = os.path.basename(above) or name
    home = os.path.expanduser("~")
    shown = "~" + directory[len(home) :] if directory.startswith(home + "/") else directory
    return {"name": name, "directory": shown}


def needs(review: Answer) -> list[str]:
    """Return the number of items of each kind that need a person, as text."""
    return [count(len(review[name]), one, many) for name, one, many in NEEDS if review[name]]


# --- formatting


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def size(number: int) -> str:
    if number < 1000:
        return count(number, "byte", "bytes")
    return f"{number / 1000:,.1f} kB" if number < 1_000_000 else f"{number / 1_000_000:,.1f} MB"


def clock(at: str, now: int) -> str:
    """Return the time of day in UTC, with the date unless it is today. live.js converts it to the
    viewer's time zone."""
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
