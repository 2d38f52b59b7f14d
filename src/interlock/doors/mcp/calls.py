"""The flow of each tool: it yields requests, and returns the answer of the tool."""

from collections.abc import Callable

from interlock.doors.mcp import work
from interlock.doors.mcp.arguments import Arguments, checked
from interlock.doors.mcp.plans import Here
from interlock.doors.mcp.tools import READ_BYTES
from interlock.errors import Usage
from interlock.local.repository import named_from_afar
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ListClaims, ReleaseClaim
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    ListInbox,
    ReadMessage,
    Search,
    SendMessage,
    ShowThread,
)
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.flows import Flow

ADAPTER = "mcp"
INBOX_LIMIT = 10
# A share of what one answer can hold without a client cutting it.
LISTED_BYTES = READ_BYTES


def flow_of(tool: str, arguments: Arguments, here: Here) -> Flow[Answer]:
    """What a tool does with these arguments; `Usage` where they are not what it takes."""
    return FLOWS[tool](checked(tool, arguments), here)


def _whoami(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield Whoami())


def _agents(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield ListAgents(given.get("name")))


def _send(given: Arguments, here: Here) -> Flow[Answer]:
    type = given.get("type", "send")
    to = given.get("to")
    if to is None:
        if "reply_to" not in given:
            raise Usage("Say to whom, in to; or what you answer, in reply_to.", member="to")
        # Whoever answers has read it; one byte of it tells from whom it is.
        first = yield ReadMessage(given["reply_to"], 0, 1)
        if first["type"] == "ask" and type == "send":
            return (yield _answer_of(given))
        to = first["from"]
    return (
        yield SendMessage(
            to=to,
            type=type,
            payload=_payload(given, type),
            subject=given.get("subject"),
            reply_to=given.get("reply_to"),
            priority=given.get("priority", "normal"),
            key=given.get("key"),
            wake=given.get("wake"),
        )
    )


def _answer_of(given: Arguments) -> AnswerAsk:
    beyond = [name for name in given if name not in ("text", "type", "reply_to", "key")]
    if beyond:
        raise Usage(
            f"The answer to an ask has text and key, and no {beyond[0]}. Leave it out, or give "
            "`to` as well and send an ordinary message.",
            member=beyond[0],
        )
    return AnswerAsk(given["reply_to"], given["text"], given.get("key"))


# The members of a payload that are arguments too, by the type that has them.
_MEMBERS = {
    "send": (),
    "command": ("why", "cwd", "expects"),
    "blocker": ("severity", "fix", "task_id"),
}


def _payload(given: Arguments, type: str) -> Answer:
    payload: Answer = {MAIN_MEMBER[type]: given["text"]}
    for owner, names in _MEMBERS.items():
        for name in names:
            if name in given and owner != type:
                raise Usage(f"{name} goes with type {owner}, not with {type}.", member=name)
            if name in given:
                payload[name] = given[name]
    return payload


def _inbox(given: Arguments, here: Here) -> Flow[Answer]:
    ways = [name for name in ("thread", "query", "wait_s") if name in given]
    if len(ways) > 1:
        raise Usage(f"{ways[0]} and {ways[1]} do not go together.", member=ways[1])
    if "query" in given and "after" in given:
        raise Usage("A search begins with the newest; it takes no after.", member="after")
    acked = (yield AckMessages(tuple(given["done"]))) if given.get("done") else {}
    limit, after = given.get("limit", INBOX_LIMIT), given.get("after", 0)
    if "thread" in given:
        found = yield ShowThread(given["thread"], limit, after)
    elif "query" in given:
        found = yield Search(given["query"], limit)
    else:
        found = yield ListInbox("open", limit, after, ADAPTER, given.get("wait_s"))
    return fitted(found) | acked


def fitted(found: Answer) -> Answer:
    """A list whose bodies have an equal share of what an answer can hold. What is cut says so, and
    a command is shown whole or not at all."""
    messages = found["messages"]
    share = LISTED_BYTES // max(1, len(messages))
    return found | {"messages": [_within(message, share) for message in messages]}


def _within(message: Answer, share: int) -> Answer:
    main = MAIN_MEMBER.get(message["type"], "")
    text = message.get("payload", {}).get(main)
    if text is None or len(text) * 4 <= share or len(encoded := text.encode()) <= share:
        return message
    shown = "" if message["type"] == "command" else encoded[:share].decode(errors="ignore")
    rest = {name: value for name, value in message["payload"].items() if name != main}
    count = len(shown.encode())
    return message | {
        "payload": {main: shown} | rest if shown else rest,
        "part": True,
        "shown": count,
        "next_offset": count,
    }


def _read(given: Arguments, here: Here) -> Flow[Answer]:
    start = given.get("offset", 0)
    return (yield ReadMessage(given["id"], start, start + given.get("limit", READ_BYTES)))


def _ack(given: Arguments, here: Here) -> Flow[Answer]:
    return (yield AckMessages(tuple(given["ids"]), given.get("decline", False), given.get("note")))


def _ask(given: Arguments, here: Here) -> Flow[Answer]:
    fields = {name: given[name] for name in ("wait_s", "key") if name in given}
    options = tuple(given.get("options", ()))
    return (yield Ask(given["to"], given["question"], options, **fields))


def _claim(given: Arguments, here: Here) -> Flow[Answer]:
    if given.get("check"):
        if "item" not in given and "paths" not in given:
            return (yield ListClaims())
        return (yield CheckClaim(**_target(given, here)))
    named = ("branch", "worktree", "note", "ttl_s", "wait_s")
    fields = {name: given[name] for name in named if name in given}
    return (yield AcquireClaim(**_target(given, here), **fields))


def _target(given: Arguments, here: Here) -> Answer:
    if "paths" not in given:
        return {"item": given.get("item"), "repo": given.get("repo")}
    repo = named_from_afar(given["repo"]) if "repo" in given else here.repo
    if repo is None:
        raise Usage(
            "Paths are relative to a repository, and it is not known which one is yours. Name it "
            "in repo, by its remote's URL.",
            member="repo",
        )
    return {"item": given.get("item"), "paths": tuple(given["paths"]), "repo": repo}


def _release(given: Arguments, here: Here) -> Flow[Answer]:
    if not given.get("all"):
        return (yield ReleaseClaim(**_target(given, here)))
    if named := [name for name in ("item", "paths", "repo") if name in given]:
        raise Usage(f"all is everything: leave out {named[0]}.", member=named[0])
    who = yield Whoami()
    mine = who["claims"]
    for claim in mine:
        yield ReleaseClaim(id=claim["id"])
    return {"released": bool(mine), "claims": mine}


FLOWS: dict[str, Callable[[Arguments, Here], Flow[Answer]]] = {
    "whoami": _whoami,
    "agents": _agents,
    "send": _send,
    "inbox": _inbox,
    "read": _read,
    "ack": _ack,
    "ask": _ask,
    "claim": _claim,
    "release": _release,
    "task": work.task,
    "evidence": work.evidence,
    "verdict": work.verdict,
}
