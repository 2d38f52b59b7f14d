"""Commands about mail."""

from typing import Any

from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.errors import InvalidMessage, Usage
from interlock.log.encoding import decode
from interlock.rooms.mail.message_types import MAIN_MEMBER, sendable
from interlock.rooms.mail.verbs import Ask, ListInbox, ReadMessage, SendMessage
from interlock.verbs.answers import Answer
from interlock.verbs.types import Integer

MAX_ASK_S = 86_400
WATCH_S = 25


@command(
    "send TO [TEXT|-] [--type T] [--payload JSON] [--why W] [--subject S] [--thread ID] "
    "[--reply-to ID] [--priority low|normal|high|critical] [--key K] [--ttl D] "
    "[--wake | --no-wake]",
    SendMessage,
    help={
        "text": "the text of the message; - reads it from standard input",
        "type": "send, command, blocker, announce, wake, ask or answer (default: send)",
        "payload": "members of the payload as a JSON object, in addition to TEXT",
        "why": "with --type command: why the recipient should run the command",
        "wake": "wake an idle recipient, even for a broadcast",
        "no_wake": "do not wake the recipient; it sees the message at its next step",
    },
    examples=(
        "interlock send @vera 'The build is green.'",
        "interlock send 'AGENT:*' 'main is frozen until noon' --priority high",
        "git diff | interlock send @vera - --subject 'for review'",
        "interlock send @otto 'make test' --type command --why 'before the merge'",
    ),
)
def send(context: Context) -> Answer:
    type = context.get("type", "send")
    sendable(type)
    payload: Any = {}
    if (given := context.get("payload")) is not None:
        try:
            payload = decode(given)
        except ValueError as wrong:
            raise InvalidMessage(
                f"--payload is not JSON: {wrong}. Quote it for the shell, for example: "
                '--payload \'{"text": "hello"}\''
            ) from None
        if not isinstance(payload, dict):
            raise InvalidMessage('--payload is not a JSON object, such as \'{"text": "hello"}\'.')
    # TEXT and --why fill members of the payload, so that users need not write JSON in a shell.
    members = {"why": context.get("why")}
    if (text := context.get("text")) is not None:
        members[MAIN_MEMBER[type]] = context.text(text)
    for name, value in members.items():
        if value is not None and name in payload:
            flag = "--why" if name == "why" else "TEXT"
            raise Usage(f"{name} is given twice: in --payload and as {flag}. Give it once.")
        if value is not None:
            payload[name] = value
    if not payload and given is None and type != "announce":
        raise Usage(
            "The message has no content. Give TEXT, or - to read standard input, or --payload JSON."
        )
    wake = True if context.get("wake") else False if context.get("no_wake") else None
    return context.call(context.request(payload=payload, wake=wake))


@command(
    "ask TO QUESTION|- [--option O...] [--wait D]", Ask, help={"to": "the recipient, such as @vera"}
)
def ask(context: Context) -> Answer:
    waits = "wait" in context.values
    more = {"timeout_s": min(context.values["wait"], MAX_ASK_S)} if waits else {}
    return context.call(context.request(**more))


@command(
    "inbox [--all | --sent] [--limit N] [--after SEQ] [--wait D]",
    ListInbox,
    help={
        "all": "list acknowledged mail too",
        "sent": "list the mail that you sent, with the state of each delivery",
    },
)
def inbox(context: Context) -> Answer:
    """List open mail, oldest first.

    Mail stays open until you acknowledge it. To do so: interlock ack ID
    """
    which = "sent" if context.get("sent") else "all" if context.get("all") else "open"
    return context.call(context.request(which=which, adapter="cli"))


@command(
    "read ID [--range A-B]",
    help={
        "id": "the message: its id, a prefix of 6 or more characters, or #SEQ",
        "range": "only the bytes A to B of the body, such as 0-999",
    },
)
def read(context: Context) -> Answer:
    """Read a message, or a part of it."""
    start, stop = byte_range(context.get("range"))
    return context.call(ReadMessage(context.values["id"], start, stop))


def byte_range(given: str | None) -> tuple[int | None, int | None]:
    if given is None:
        return None, None
    first, dash, last = given.partition("-")
    numbers = [n for n in (first, last) if n.isascii() and n.isdigit() and len(n) <= 15]
    if not dash or len(numbers) != 2 or int(first) > int(last):
        raise Usage(
            f"The range {given[:80]!r} is not valid. Write FIRST-LAST in bytes, such as 0-999."
        )
    return int(first), int(last) + 1


@command(
    "watch [--after SEQ | --one-line]",
    help={
        "after": ("start after this position of the log (default: its end)", Integer()),
        "one_line": "print one line when new mail should wake you, not the mail",
    },
)
def watch(context: Context) -> int:
    """Print mail as it arrives.

    With --json, each line is one JSON document.
    """
    from interlock.agents.hooks import pointer
    from interlock.doors.cli import output
    from interlock.doors.cli.views import text
    from interlock.rooms.workspace.verbs import Attend, ShowStorage

    if context.get("one_line"):
        request = Attend("idle", "watch", wait_s=WATCH_S)
        while True:
            found = context.call(request)
            if "news" in found and context.json:
                output.document({"news": found["news"], "unread": found["unread"]})
            elif "news" in found:
                output.lines(pointer(found["news"], found["unread"]))
    after = context.get("after")
    if after is None:
        after = context.call(ShowStorage())["entries"]
    while True:
        inbox = ListInbox(after=after, adapter="watch", wait_s=WATCH_S)
        for message in context.call(inbox)["messages"]:
            after = message["seq"]
            if context.json:
                output.document(message)
            else:
                output.lines(text("read", output.clean(message)))
