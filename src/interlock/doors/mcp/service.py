"""The MCP server: the tools over a live node, for both families of protocol revisions.

The server's middleware answers calls of tools before the SDK handles them. Our schemas check the
arguments, and our code builds the answers. A second validation by the SDK would take longer than a
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
    parameter_names,
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
from interlock.verbs.wording import one_of, renamed, worded

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
# Clients truncate longer answers.
LISTED_BYTES = READ_BYTES
MAX_STORY_ENTRIES = 40
BRIEF_BYTES = 40_000
FILE_BYTES = 32 << 20
# The members of a payload that are arguments of `send` too, by the type of the message.
PAYLOAD_MEMBERS: dict[str, tuple[str, ...]] = {
    "send": (),
    "command": ("why", "cwd", "expects"),
    "blocker": ("severity", "fix", "task_id"),
}
_LOG = logging.getLogger("interlock.mcp")


class Here(NamedTuple):
    """The name of the caller's repository, and its directory on this machine. Both are None if they
    are unknown, as over HTTP."""

    repo: str | None = None
    directory: str | None = None


ELSEWHERE = Here()
ToolFlow = Callable[[Arguments, Here], Flow[Answer]]


def server(live: LiveNode, credentials_of: CredentialsOf, here: Here = ELSEWHERE) -> Server[Any]:
    """Return a server of the tools. `credentials_of` returns the credentials of a request, and may
    refuse. `here` is the caller's repository and directory, if known."""
    tools = offered_tools()
    entries = [tool.listed for tool in tools.values()]
    listed = types.ListToolsResult.model_validate({"tools": entries})

    async def list_tools(ctx: Context, params: Any) -> types.ListToolsResult:
        return listed

    async def step(credentials: Credentials, wanted: Any) -> Any:
        """Run one step of a tool's flow."""
        if isinstance(wanted, LocalRead):
            return await asyncio.to_thread(wanted.read)
        return await live.call(credentials, wanted)

    async def run_tool(ctx: Context, tool: str, arguments: Arguments) -> Answer:
        """Run a tool. First refuse a request that names another sender."""
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
            refusal = renamed(refused, parameter_names(tools[tool]))
        except Exception as trouble:  # noqa: BLE001 - log every defect, and answer the caller
            _LOG.exception("a tool call failed", extra={"tool": tool})
            refusal = Internal(
                f"Interlock has a defect: {type(trouble).__name__}. Check whether the request was "
                "executed."
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
        get_tool_input_schema=lambda _: None,  # no argument is repeated in a header
        on_list_tools=list_tools,
    )
    app.middleware[:] = [answer_calls]
    return app


def tool_call(method: str, params: Mapping[str, Any] | None) -> tuple[str, Arguments] | None:
    """Return the tool and its arguments, or None if this is not a well-formed call of a tool. The
    SDK refuses malformed calls."""
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
    """Parse a request or a notification. Return the error for any other message. Return None for a
    response: the server sends no requests to clients, so it ignores their responses."""
    try:
        message = from_json(data, allow_inf_nan=False)
    except ValueError as trouble:
        return error(types.PARSE_ERROR, f"Parse error: {trouble}")
    if not isinstance(message, dict):
        return error(
            types.INVALID_REQUEST, "A message must be one JSON object. Batches are not supported."
        )
    if "method" not in message and ("result" in message or "error" in message):
        return None
    try:
        return (JSONRPCRequest if "id" in message else JSONRPCNotification).model_validate(message)
    except ValidationError:
        id = message.get("id")
        return error(types.INVALID_REQUEST, "The message is not valid JSON-RPC 2.0.", id)


def error(code: int, message: str, id: Any = None) -> JSONRPCError:
    data = types.ErrorData(code=code, message=message)
    return JSONRPCError(jsonrpc="2.0", id=as_request_id(id), error=data)


def cancelled(received: Received) -> RequestId | None:
    """Return the id of the request that a notification cancels, or None."""
    if received.method != "notifications/cancelled":
        return None
    return cancelled_request_id_from_params(received.params)


def encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


# --- the flow of each tool: it yields requests, and returns the answer of the tool
#
# The flow of a tool that is one verb yields that verb. FLOWS has the flows of the other tools.


def tool_flow(tool: OfferedTool, arguments: Arguments, here: Here) -> Flow[Answer]:
    """Return the flow of a call. Raises Usage for arguments that do not match the tool's schema."""
    given = checked(tool, arguments)
    if tool.verb is None:
        return FLOWS[tool.listed["name"]](given, here)
    return _verb(tool.verb, given)


def _given(given: Arguments, *names: str) -> Arguments:
    """Return the named arguments that the call has, as values of fields. A list becomes a tuple."""
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
            raise Usage(
                "The recipient is missing. Give an address in to, or a message id in reply_to.",
                member="to",
            )
        # The caller has read the message. One byte of it is enough to learn the sender.
        first = yield ReadMessage(given["reply_to"], 0, 1)
        if first["type"] == "ask" and type == "send":
            beyond = [name for name in given if name not in ("text", "type", "reply_to", "key")]
            if beyond:
                raise Usage(
                    f"The answer to an ask takes text and key, but no {beyond[0]}. Omit it. Or "
                    "give `to` as well, to send an ordinary message.",
                    member=beyond[0],
                )
            return (yield AnswerAsk(given["reply_to"], given["text"], given.get("key")))
        to = first["from"]
    payload: Answer = {MAIN_MEMBER[type]: given["text"]}
    for owner, names in PAYLOAD_MEMBERS.items():
        for name in names:
            if name in given and owner != type:
                raise Usage(
                    f"{name} needs type {owner}, but type is {type}. Omit {name}, or give type "
                    f"{owner}.",
                    member=name,
                )
            if name in given:
                payload[name] = given[name]
    fields = _given(given, "subject", "reply_to", "priority", "key", "wake")
    return (yield SendMessage(to=to, type=type, payload=payload, **fields))


def _inbox(given: Arguments, here: Here) -> Flow[Answer]:
    ways = [name for name in ("thread", "query", "wait_s") if name in given]
    if len(ways) > 1:
        raise Usage(
            f"{ways[0]} and {ways[1]} exclude each other. Give only one of them.", member=ways[1]
        )
    if "query" in given and "after" in given:
        raise Usage(
            "query and after exclude each other: a search lists the newest mail. Omit after.",
            member="after",
        )
    acked = (yield AckMessages(tuple(given["done"]))) if given.get("done") else {}
    limit, after = given.get("limit", INBOX_LIMIT), given.get("after", 0)
    if "thread" in given:
        found = yield ShowThread(given["thread"], limit, after)
    elif "query" in given:
        found = yield Search(given["query"], limit)
    else:
        found = yield ListInbox("open", limit, after, ADAPTER, given.get("wait_s"))
    # Each body gets an equal share of the answer.
    share = LISTED_BYTES // max(1, len(found["messages"]))
    return found | {"messages": [_cut(message, share) for message in found["messages"]]} | acked


def _cut(message: Answer, share: int) -> Answer:
    """Return the message with at most `share` bytes of text. A truncated message has `part`. A
    command is shown whole or not at all."""
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
                "paths needs repo, because the server does not know your repository. Give the URL "
                "of its remote in repo.",
                member="repo",
            )
        target["repo"] = repo
    return target


def release(given: Arguments, here: Here = ELSEWHERE) -> Flow[Answer]:
    if not given.get("all"):
        if "item" not in given and "paths" not in given:
            raise Usage(one_of(("item", "paths", "all")), member="item")
        return (yield ReleaseClaim(**_target(given, here)))
    if named := [name for name in ("item", "paths", "repo") if name in given]:
        raise Usage(
            f"all and {named[0]} exclude each other. Omit {named[0]} to release every claim of "
            "this session.",
            member=named[0],
        )
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
            raise Usage(f"The action {action} takes no {name}. Omit it.", member=name)
    if "id" in takes and "id" not in given and action != "create":
        what = "blocker" if action == "resolve_blocker" else "task"
        raise Usage(f"The action {action} needs the id of the {what} in id.", member="id")
    fields = _given(given, *takes)
    if action == "list":
        fields["state"] = "live"
    if action == "create" and "title" not in given:
        raise Usage("The action create needs a title. Give it in title.", member="title")
    if action == "submit":
        artifact = None
        if (place := here.directory) is not None:
            from interlock.evidence import artifact as artifact_of

            # Resolve the commit and its tree in the caller's repository.
            named = given.get("commit", "HEAD")
            artifact = yield LocalRead(lambda: artifact_of(named, place))
        if artifact is not None:
            fields["commit"], fields["tree"] = artifact
        elif "commit" not in given:
            raise Usage(
                "The commit is missing, and the server cannot read your repository. Give the full "
                "id in commit: git rev-parse HEAD prints it.",
                member="commit",
            )
    answer: Answer = yield verb(**fields)
    if action == "show":
        # Show only the end of the story. Truncate a long brief, and mark it.
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
                "brief_part": f"{size}; the whole brief: `interlock task show {given['id']}` in a "
                "shell",
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
            f"The server cannot read a {kind} on your machine. Attach it in a shell on your "
            f"machine: `interlock evidence add --task {given['task_id']} --{kind} FILE`",
            member="value",
        )
    if "\0" in value:
        raise Usage("value is not a file name: it contains a null character.", member="value")
    path = os.path.join(directory, value)

    def read() -> tuple[str | None, Answer, bytes]:
        from interlock.evidence import spool, standing
        from interlock.evidence.files import attached

        if kind == "spool":
            return spool.read(path)
        # Attach only files of the caller's repository or directory. Otherwise an agent could read
        # files through this server that its own client does not permit.
        repository = standing(directory)
        root = os.path.realpath(repository.root if repository is not None else directory)
        real = os.path.realpath(path)
        if os.path.commonpath([root, real]) != root:
            raise Usage(
                "The file in value is outside your repository. Copy it into the repository, or "
                "attach it in a shell: `interlock evidence add --task "
                f"{given['task_id']} --file FILE`",
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
