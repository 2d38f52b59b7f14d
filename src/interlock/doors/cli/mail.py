"""Commands about mail."""

from typing import Any

from interlock.doors.cli.context import Context
from interlock.errors import InvalidMessage, Usage
from interlock.log.encoding import decode
from interlock.rooms.mail.message_types import MAIN_MEMBER, sendable
from interlock.rooms.mail.verbs import (
    Ask,
    ListInbox,
    ReadMessage,
    SendMessage,
)
from interlock.verbs.answers import Answer

MAX_ASK_S = 86_400
WATCH_S = 25


def send(context: Context) -> Answer:
    type = context.get("type", "send")
    sendable(type)
    wake = True if context.get("wake") else False if context.get("no_wake") else None
    act = SendMessage(
        to=context.values["to"],
        type=type,
        payload=_payload(context, type),
        subject=context.get("subject"),
        thread=context.get("thread"),
        reply_to=context.get("reply_to"),
        priority=context.get("priority", "normal"),
        key=context.get("key"),
        ttl_s=context.get("ttl"),
        wake=wake,
    )
    return context.call(act)


def _payload(context: Context, type: str) -> dict[str, Any]:
    """The payload from --payload, with TEXT and --why as its members, so that nobody has to
    write JSON in a shell."""
    payload: dict[str, Any] = {}
    if (given := context.get("payload")) is not None:
        payload = _object(given)
    said = {"why": context.get("why")}
    if (text := context.get("text")) is not None:
        said[MAIN_MEMBER[type]] = context.text(text)
    for name, value in said.items():
        if value is not None and name in payload:
            raise Usage(f"{name} is given twice: in --payload and beside it.")
        if value is not None:
            payload[name] = value
    if not payload and "payload" not in context.values and type != "announce":
        raise Usage("Say what to send: TEXT, - for standard input, or --payload JSON.")
    return payload


def _object(given: str) -> dict[str, Any]:
    try:
        payload = decode(given)
    except ValueError as wrong:
        raise InvalidMessage(f"--payload is not JSON: {wrong}.") from None
    if not isinstance(payload, dict):
        raise InvalidMessage('--payload is not a JSON object, such as \'{"text": "hello"}\'.')
    return payload


def ask(context: Context) -> Answer:
    fields: dict[str, Any] = {}
    if (wait_s := context.get("wait")) is not None:
        fields = {"wait_s": wait_s, "timeout_s": min(wait_s, MAX_ASK_S)}
    return context.call(
        Ask(
            context.values["to"],
            context.text(context.values["question"]),
            tuple(context.get("option", ())),
            **fields,
        )
    )


def inbox(context: Context) -> Answer:
    which: Any = "sent" if context.get("sent") else "all" if context.get("all") else "open"
    limit, after = context.get("limit", 100), context.get("after", 0)
    return context.call(ListInbox(which, limit, after, "cli", context.get("wait")))


def read(context: Context) -> Answer:
    start, stop = byte_range(context.get("range"))
    return context.call(ReadMessage(context.values["id"], start, stop))


def byte_range(given: str | None) -> tuple[int | None, int | None]:
    if given is None:
        return None, None
    first, dash, last = given.partition("-")
    numbers = [n for n in (first, last) if n.isascii() and n.isdigit() and len(n) <= 15]
    if not dash or len(numbers) != 2 or int(first) > int(last):
        raise Usage(f"A range is FIRST-LAST in bytes, such as 0-999, not {given[:80]!r}.")
    return int(first), int(last) + 1


def watch(context: Context) -> int:
    """Prints mail as it arrives, for ever: what came after a position, or from now on."""
    from interlock.doors.cli import output
    from interlock.doors.cli.views import text

    if context.get("one_line"):
        return _point(context)
    after = context.get("after")
    if after is None:
        from interlock.rooms.workspace.verbs import ShowStorage

        after = context.call(ShowStorage())["entries"]
    while True:
        act = ListInbox(after=after, adapter="watch", wait_s=WATCH_S)
        for message in context.call(act)["messages"]:
            after = message["seq"]
            if context.json:
                output.document(message)
            else:
                output.lines(text("read", output.clean(message)))


def _point(context: Context) -> int:
    """Prints a line for whatever should wake the one who watches; many messages, one line."""
    from interlock.agents.hooks.telling import pointer
    from interlock.doors.cli import output
    from interlock.rooms.workspace.verbs import Attend

    act = Attend("idle", "watch", wait_s=WATCH_S)
    while True:
        found = context.call(act)
        if "news" in found and context.json:
            output.document({"news": found["news"], "unread": found["unread"]})
        elif "news" in found:
            output.lines(pointer(found["news"], found["unread"]))
