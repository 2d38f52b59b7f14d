"""The MCP server: the tools over a live node, for both families of protocol revisions.

The server's middleware answers calls of tools before the SDK's own handling. Our schemas check the
arguments, and our code builds the answers; validating both once more would take longer than a
durable send. The end of the module has the JSON-RPC messages that all transports share, and the
flow of each tool.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.dispatcher import as_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, RequestId
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json

from interlock import __version__
from interlock.doors.mcp.tools import (
    INSTRUCTIONS,
    READ_BYTES,
    TASK_ACTIONS,
    Arguments,
    OfferedTool,
    checked,
    mcp_words,
    offered_tools,
    without_sender,
)
from interlock.errors import Internal, Refusal, Usage
from interlock.local.repository import named_from_afar
from interlock.node.live import LiveNode
from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ListClaims, ReleaseClaim
from interlock.rooms.envelope import answer_text, json_text
from interlock.rooms.mail.message_types import MAIN_MEMBER, clip
from interlock.rooms.mail.uploads import attach, in_pieces
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    ListInbox,
    ReadMessage,
    Search,
    SendMessage,
    ShowThread,
)
from interlock.rooms.work.verbs import AddEvidence
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials
from interlock.verbs.flows import Flow, LocalRead, run_async
from interlock.verbs.verb import Verb, fields_of
from interlock.verbs.wording import worded

Context = ServerRequestContext[Any, Any]
CredentialsOf = Callable[[Context], Credentials]
Received = JSONRPCRequest | JSONRPCNotification

LIST_TTL_MS: Final = 3_600_000
MAX_MESSAGE_BYTES: Final = 8 << 20
# Tools that wait by default, such as ask.
_WAITING: Final = frozenset(
    verb.declared.mcp.name
    for verb in catalogue.verbs()
    if verb.declared.mcp is not None
    and "wait_s" in fields_of(verb)
    and fields_of(verb)["wait_s"].default is not None
)
ADAPTER = "mcp"
INBOX_LIMIT = 10
# A share of what one answer can hold without a client cutting it.
LISTED_BYTES = READ_BYTES
MAX_STORY_ENTRIES = 40
BRIEF_BYTES = 40_000
FILE_BYTES = 32 << 20
# The members of a payload that are arguments too, by the type of message that has them.
PAYLOAD_MEMBERS: dict[str, tuple[str, ...]] = {
    "send": (),
    "command": ("why", "cwd", "expects"),
    "blocker": ("severity", "fix", "task_id"),
}
_LOG = logging.getLogger("interlock.mcp")


class Here(NamedTuple):
    """The name of the caller's repository, and its directory on this machine. Both are None where
    they are not known, as over HTTP."""

    repo: str | None = None
    directory: str | None = None


ELSEWHERE = Here()
ToolFlow = Callable[[Arguments, Here], Flow[Answer]]


def server(live: LiveNode, credentials_of: CredentialsOf, here: Here = ELSEWHERE) -> Server[Any]:
    """A server of the tools. `credentials_of` returns the credentials of a request, and may refuse;
    `here` is the callers' repository and directory, where they are known."""
    tools = offered_tools()
    entries = [tool.listed for tool in tools.values()]
    listed = types.ListToolsResult.model_validate({"tools": entries})

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return listed

    async def step(credentials: Credentials, wanted: Any) -> Any:
        """Do one step of a tool's flow."""
        if isinstance(wanted, LocalRead):
            return await asyncio.to_thread(wanted.read)
        return await live.call(credentials, wanted)

    async def run_tool(ctx: Context, tool: str, arguments: Arguments) -> Answer:
        """Run a tool. A request that names another sender is refused first."""
        credentials = credentials_of(ctx)
        arguments, claimed = without_sender(arguments)
        if claimed is not None:
            await live.call(credentials._replace(claimed=claimed), Whoami())
        return await run_async(tool_flow(tools[tool], arguments, here), partial(step, credentials))

    async def answer_calls(ctx: Context, call_next: CallNext) -> HandlerResult:
        if (called := tool_call(ctx.method, ctx.params)) is None:
            return await call_next(ctx)
        tool, arguments = called
        if tool not in tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {clip(tool)}")
        refusal: Refusal | None = None
        try:
            structured = worded(await run_tool(ctx, tool, arguments), mcp_words)
            text = answer_text(structured)
        except Refusal as refused:
            refusal = refused
        except Exception as trouble:  # noqa: BLE001 - a defect is answered too, and logged
            _LOG.exception("defect", extra={"tool": tool})
            refusal = Internal(
                f"A defect in Interlock: {type(trouble).__name__}. Look whether what you asked "
                "for was done."
            )
        if refusal is not None:
            structured = worded(refusal.as_dict(), mcp_words)
            text = json_text(structured)
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": text}],
            "structuredContent": structured,
            "isError": refusal is not None,
        }
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            result["resultType"] = "complete"
            result["_meta"] = {types.SERVER_INFO_META_KEY: app.server_info_stamp}
        return result

    app: Server[Any] = Server(
        "interlock",
        version=__version__,
        title="Interlock",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(LIST_TTL_MS, "public")},
        get_tool_input_schema=lambda _: None,  # no argument of ours is repeated in a header
        on_list_tools=list_tools,
    )
    app.middleware[:] = [answer_calls]
    return app


def tool_call(method: str, params: Mapping[str, Any] | None) -> tuple[str, Arguments] | None:
    """The tool and its arguments, if this is a well-formed call of a tool; the SDK refuses the
    others."""
    if method != "tools/call" or params is None:
        return None
    tool, arguments = params.get("name"), params.get("arguments")
    if arguments is None:
        arguments = {}
    return (tool, arguments) if isinstance(tool, str) and isinstance(arguments, dict) else None


def waits(method: str, params: Mapping[str, Any] | None) -> bool:
    """Whether a request may wait for mail, an answer or a claim."""
    called = tool_call(method, params)
    return called is not None and (called[0] in _WAITING or "wait_s" in called[1])


# --- JSON-RPC messages


def parsed(data: bytes) -> Received | JSONRPCError | None:
    """A request or a notification, or the error that answers anything else. None for a response:
    the server asks clients nothing, so it ignores their responses."""
    try:
        message = from_json(data, allow_inf_nan=False)
    except ValueError as trouble:
        return error(types.PARSE_ERROR, f"Parse error: {trouble}")
    if not isinstance(message, dict):
        return error(types.INVALID_REQUEST, "A message is one JSON object; there are no batches.")
    if "method" not in message and ("result" in message or "error" in message):
        return None
    try:
        return (JSONRPCRequest if "id" in message else JSONRPCNotification).model_validate(message)
    except ValidationError:
        id = message.get("id")
        return error(types.INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.", id)


def error(code: int, message: str, id: Any = None) -> JSONRPCError:
    data = types.ErrorData(code=code, message=message)
    return JSONRPCError(jsonrpc="2.0", id=as_request_id(id), error=data)


def cancelled(received: Received) -> RequestId | None:
    """The id of the request that a notification cancels."""
    if received.method != "notifications/cancelled":
        return None
    return cancelled_request_id_from_params(received.params)


def encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


# --- the flow of each tool: it yields requests, and returns the answer of the tool
#
# The flow of a tool that is one verb yields that verb. FLOWS has those of the other tools.


def tool_flow(tool: OfferedTool, arguments: Arguments, here: Here) -> Flow[Answer]:
    """The flow of a call. Raises Usage for arguments that do not fit the tool's schema."""
    given = checked(tool, arguments)
    if tool.verb is None:
        return FLOWS[tool.listed["name"]](given, here)
    return _verb(tool.verb, given)


def _given(given: Arguments, *names: str) -> Arguments:
    """Those of the named arguments that the call has, as values of fields: a list is a tuple."""
    found = {name: given[name] for name in names if name in given}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}


def _verb(verb: type[Verb], given: Arguments) -> Flow[Answer]:
    bind = verb.declared.bind
    fields = {bind.get(name, name): value for name, value in _given(given, *given).items()}
    return (yield verb(**fields))


def _send(given: Arguments, here: Here) -> Flow[Answer]:
    type = given.get("type", "send")
    to = given.get("to")
    if to is None:
        if "reply_to" not in given:
            raise Usage("Say to whom, in to; or what you answer, in reply_to.", member="to")
        # The caller has read the message. One byte of it is enough to learn the sender.
        first = yield ReadMessage(given["reply_to"], 0, 1)
        if first["type"] == "ask" and type == "send":
            beyond = [name for name in given if name not in ("text", "type", "reply_to", "key")]
            if beyond:
                raise Usage(
                    f"The answer to an ask has text and key, and no {beyond[0]}. Leave it out, or "
                    "give `to` as well and send an ordinary message.",
                    member=beyond[0],
                )
            return (yield AnswerAsk(given["reply_to"], given["text"], given.get("key")))
        to = first["from"]
    payload: Answer = {MAIN_MEMBER[type]: given["text"]}
    for owner, names in PAYLOAD_MEMBERS.items():
        for name in names:
            if name in given and owner != type:
                raise Usage(f"{name} goes with type {owner}, not with {type}.", member=name)
            if name in given:
                payload[name] = given[name]
    fields = _given(given, "subject", "reply_to", "priority", "key", "wake")
    return (yield SendMessage(to=to, type=type, payload=payload, **fields))


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
    # Each body has an equal share of what an answer can hold.
    share = LISTED_BYTES // max(1, len(found["messages"]))
    return found | {"messages": [_cut(message, share) for message in found["messages"]]} | acked


def _cut(message: Answer, share: int) -> Answer:
    """A message whose text has at most `share` bytes. A message that is cut says so, and a command
    is shown whole or not at all."""
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


def _claim(given: Arguments, here: Here) -> Flow[Answer]:
    if given.get("check"):
        if "item" not in given and "paths" not in given:
            return (yield ListClaims())
        return (yield CheckClaim(**_target(given, here)))
    fields = _given(given, "branch", "worktree", "note", "ttl_s", "wait_s")
    return (yield AcquireClaim(**_target(given, here), **fields))


def _target(given: Arguments, here: Here) -> Answer:
    target = _given(given, "item", "paths", "repo")
    if "paths" in given:
        repo = named_from_afar(given["repo"]) if "repo" in given else here.repo
        if repo is None:
            raise Usage(
                "Paths are relative to a repository, and it is not known which one is yours. Name "
                "it in repo, by its remote's URL.",
                member="repo",
            )
        target["repo"] = repo
    return target


def release(given: Arguments, here: Here = ELSEWHERE) -> Flow[Answer]:
    if not given.get("all"):
        return (yield ReleaseClaim(**_target(given, here)))
    if named := [name for name in ("item", "paths", "repo") if name in given]:
        raise Usage(f"all is everything: leave out {named[0]}.", member=named[0])
    who = yield Whoami()
    mine = who["claims"]
    for claim in mine:
        yield ReleaseClaim(id=claim["id"])
    return {"released": bool(mine), "claims": mine}


def _task(given: Arguments, here: Here) -> Flow[Answer]:
    action = given["action"]
    verb, takes = TASK_ACTIONS[action]
    for name in given:
        if name not in ("action", *takes):
            raise Usage(f"{action} takes no {name}.", member=name)
    if "id" in takes and "id" not in given and action != "create":
        raise Usage(f"Say which, in id, to {action.replace('_', ' ')} it.", member="id")
    fields = _given(given, *takes)
    if action == "list":
        fields["state"] = "live"
    if action == "create" and "title" not in given:
        raise Usage("A task needs a title.", member="title")
    if action == "submit":
        artifact = None
        if (place := here.directory) is not None:
            from interlock.evidence import artifact as artifact_of

            # The commit and its tree as the caller's own git knows them.
            named = given.get("commit", "HEAD")
            artifact = yield LocalRead(lambda: artifact_of(named, place))
        if artifact is not None:
            fields["commit"], fields["tree"] = artifact
        elif "commit" not in given:
            raise Usage(
                "It is not known where you stand. Give the commit's whole id, from git rev-parse "
                "HEAD.",
                member="commit",
            )
    answer: Answer = yield verb(**fields)
    if action == "show":
        # The end of the story is shown. A long brief is cut, and says so.
        story = answer["story"]
        answer = answer | {"story": story[-MAX_STORY_ENTRIES:]}
        if len(story) > MAX_STORY_ENTRIES:
            answer |= {"part": True, "earlier": len(story) - MAX_STORY_ENTRIES}
        brief = answer["task"].get("brief", "").encode()
        if len(brief) > BRIEF_BYTES:
            shown = brief[:BRIEF_BYTES].decode(errors="ignore")
            size = f"{len(shown.encode())} of {len(brief)} bytes"
            part = {
                "brief": shown,
                "brief_part": f"{size}; whole: interlock task show {given['id']}",
            }
            answer["task"] = answer["task"] | part
    return answer


def _evidence(given: Arguments, here: Here) -> Flow[Answer]:
    about = _given(given, "task_id", "criterion", "title")
    kind, value = given["kind"], given["value"]
    if kind in ("note", "url"):
        member = "text" if kind == "note" else "url"
        return (yield AddEvidence({"kind": kind, member: value} | about))
    if (directory := here.directory) is None:
        raise Usage(
            f"A {kind} is on your machine, and this server cannot see it. Use the command there: "
            f"interlock evidence add --task {given['task_id']} --{kind} FILE",
            member="value",
        )
    if "\0" in value:
        raise Usage("That is no file's name.", member="value")
    path = os.path.join(directory, value)

    def read() -> tuple[str | None, Answer, bytes]:
        from interlock.evidence import spool, standing
        from interlock.evidence.files import attached

        if kind == "spool":
            return spool.read(path)
        # Attach only files of the caller's repository or directory: the server must not read for
        # an agent what the agent's own client would not let it read.
        repository = standing(directory)
        root = os.path.realpath(repository.root if repository is not None else directory)
        real = os.path.realpath(path)
        if os.path.commonpath([root, real]) != root:
            raise Usage(
                "That file is not in the repository that you stand in. Copy it there, or attach it "
                "with the command interlock evidence add.",
                member="value",
            )
        with attached(real, FILE_BYTES) as (payload, copy):
            return None, payload, copy.read()

    key, payload, data = yield LocalRead(read)
    request = AddEvidence(payload | about, key=key)
    return (yield from attach(request, in_pieces(data), len(data)))


FLOWS: dict[str, ToolFlow] = {
    "send": _send,
    "inbox": _inbox,
    "read": _read,
    "claim": _claim,
    "release": release,
    "task": _task,
    "evidence": _evidence,
}
