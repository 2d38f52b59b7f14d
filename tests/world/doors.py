"""The doors of Interlock behind one interface: `call` sends a request through a door, and returns
the outcome in one form.

A request is a verb and its fields. The client's method, the route, the words of the command and the
MCP tool of one verb come from the declaration of the verb. Three parts are written by hand, without
the encoders of Interlock: the HTTP request, the MCP tools that combine verbs, and some words of
commands. `test_doors.py` has handwritten forms that check the declarations.
"""

import asyncio
import hashlib
import http.client
import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import interlock
from interlock.client import answers
from interlock.doors.cli import doctor
from interlock.doors.cli.derived import field_of
from interlock.doors.cli.grammar import Command
from interlock.doors.cli.lookup import all_commands
from interlock.doors.http.api import routes_of
from interlock.doors.mcp.tools import TASK_ACTIONS
from interlock.errors import Refusal
from interlock.rooms.claims import verbs as claims
from interlock.rooms.identity import verbs as identity
from interlock.rooms.mail import verbs as mail
from interlock.rooms.people import verbs as people
from interlock.rooms.work import verbs as work
from interlock.rooms.workspace import verbs as workspace
from interlock.verbs.verb import Tool, Verb
from world.commandline import EXIT_OF, LIMIT_S, Done, Place, check_answer, lines
from world.row import NOBODY, OWNER, Caller, Kind, Row
from world.rows import ROUTED

Fields = dict[str, Any]

# The HTTP status of each code of a refusal. Every other answer is a 200.
STATUSES = {
    400: "USAGE INVALID_RECIPIENT_SHAPE INVALID_MESSAGE UNKNOWN_TYPE USE_VERB DIGEST_MISMATCH "
    "GATE_HAS_NO_HOLDER",
    401: "NO_IDENTITY BAD_TOKEN TOKEN_EXPIRED WRONG_AUDIENCE",
    403: "UNKNOWN_SENDER IDENTITY_MISMATCH MISSING_SCOPE OWN_WORK",
    404: "NOT_FOUND",
    409: "UNKNOWN_RECIPIENT NAME_TAKEN IDEMPOTENCY_CONFLICT TOO_MANY_HOPS NOT_HOLDER STALE_FENCE "
    "ALREADY_DONE NOT_SUBMITTED",
    413: "TOO_LARGE",
    429: "RATE_LIMITED",
    503: "PAUSED ENGINE_UNAVAILABLE",
}
STATUS_OF = {code: status for status, codes in STATUSES.items() for code in codes.split()}


class Outcome(NamedTuple):
    """An answer or an error object, and its kind."""

    kind: Kind
    answer: Fields

    @property
    def code(self) -> str | None:
        return self.answer.get("code")


def answered(answer: Fields) -> Outcome:
    """Return the outcome of an answer that is not a refusal. A plain no has a code, or reports a
    holder, a failed check, or an unknown or expired token."""
    is_not = any(answer.get(name) is False for name in ("ok", "known", "active"))
    is_no = "code" in answer or answer.get("claimed") or is_not
    return Outcome("no" if is_no else "done", answer)


def refused(error: Fields) -> Outcome:
    assert {"error", "code", "message"} <= set(error), error
    return Outcome("refused", error)


class Workspace(NamedTuple):
    """A workspace with its directory, the tokens of its callers, and the address of its server."""

    place: Place
    tokens: dict[str, str]
    url: str

    def token(self, caller: Caller) -> str | None:
        """The token of a caller. The owner needs none on the workspace's machine."""
        return None if caller in (OWNER, NOBODY) else self.tokens[caller.sender or ""]

    def remote_token(self, caller: Caller) -> str | None:
        """The token of a caller over the network, where the owner needs one too."""
        return self.tokens["the owner"] if caller is OWNER else self.token(caller)


class Door(Protocol):
    """A door. The caller at a remote door may be on another machine than the server."""

    name: str
    family: str
    is_served: bool
    is_remote: bool

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome: ...


# --- the Python client

Way = Literal["directory", "url", "socket"]


class Python:
    """A Python client, on the workspace's directory or through a server. A client with the
    directory uses the socket of a running server."""

    family = "python"

    def __init__(self, way: Way = "directory", *, is_async: bool = False) -> None:
        self.way, self.is_async = way, is_async
        self.is_served = way != "directory"
        self.is_remote = way == "url"
        self.name = f"python, {way}, {'async' if is_async else 'sync'}"

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome:
        token = at.remote_token(caller) if self.way == "url" else at.token(caller)
        target = at.url if self.way == "url" else at.place.workspace
        client = interlock.connect(target, token, caller.session)
        try:
            if self.is_async:
                return answered(asyncio.run(_called_async(client, verb, fields)))
            with client:
                return answered(_called(client, verb, fields))
        except Refusal as refusal:
            return refused(refusal.as_dict())


def method_of(verb: type[Verb]) -> str:
    """The client's method of a verb."""
    return verb.declared.method.partition(" ")[0]


def _called(client: Any, verb: type[Verb], fields: Fields) -> Any:
    named = dict(fields)
    messages = named.pop("messages", ())  # `ack` takes them as its arguments
    return getattr(client, method_of(verb))(*messages, **named)


async def _called_async(client: Any, verb: type[Verb], fields: Fields) -> Any:
    async with client as twin:
        return await _called(twin, verb, fields)


# --- the command

ON_THE_FILE = "cli on the file"
# Commands of a function that does not name its verb.
PERFORMED = {
    workspace.ListSettings: "settings",
    workspace.ChangeSetting: "settings",
    workspace.ShowStatus: "status",
    workspace.ShowStorage: "status",
    workspace.Examine: "doctor",
    workspace.VerifyLog: "audit verify",
    identity.ImportTokens: "token import",
    identity.IdentifyToken: "token identify",
    people.AcceptInvitation: "join",
    mail.ReadMessage: "read",
    claims.CheckPaths: "guard check",
    claims.ReportCommit: "guard note",
    work.AddEvidence: "evidence add",
    work.ShowEvidence: "evidence show",
}


def _commands() -> dict[type[Verb], dict[str, Command]]:
    """The commands of each verb by their names."""
    by_name = {command.name: command for command in all_commands()}
    found = {verb: {name: by_name[name]} for verb, name in PERFORMED.items()}
    for command in by_name.values():
        if command.verb is not None:
            found.setdefault(command.verb, {})[command.name] = command
    return found


COMMANDS = _commands()


class CommandLine:
    """The command, on the file or through the server of the workspace."""

    family = "cli"
    is_remote = False

    def __init__(self, *, is_served: bool) -> None:
        self.is_served = is_served
        self.name = "cli through the server" if is_served else ON_THE_FILE

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome:
        done = run_command(at, caller, verb, fields, "--json")
        outcome = refused(done.json) if done.status > 1 else answered(self._own(verb, done, at))
        expected = {"done": 0, "no": 1, "refused": EXIT_OF.get(outcome.code or "")}
        assert done.status == expected[outcome.kind], done
        return outcome

    def _own(self, verb: type[Verb], done: Done, at: Workspace) -> Fields:
        """Return the part of the command's answer that the verb gives."""
        answer: Fields = done.json
        storage = set(answers.Storage.__annotations__)
        if verb is workspace.ShowStatus:
            return {n: v for n, v in answer.items() if n not in {*storage, "credentials"}}
        if verb is workspace.ShowStorage:
            return {name: answer[name] for name in storage if name in answer}
        if verb is workspace.Examine:  # the command checks files of its machine too
            return answer | {"checks": answer["checks"] - len(doctor.CHECKS)}
        if verb in (identity.Join, identity.RotateToken) and "kept" in answer:
            assert os.path.exists(answer.pop("kept")), done
        if verb is people.Invite and self.is_served:
            assert answer.pop("link") == at.url + answer["path"]
        if verb is people.AcceptInvitation:
            assert answer.pop("workspace") == at.url
            answer["token"] = json.loads(Path(answer.pop("kept")).read_text())["token"]
        return answer


def run_command(
    at: Workspace, caller: Caller, verb: type[Verb], fields: Fields, *flags: str
) -> Done:
    """Run the command of a request as its caller."""
    words = [*spelled(verb, fields, at), *flags]
    if caller.claims_to_be is not None:
        words += ["--from", caller.claims_to_be]
    place = at.place.but(INTERLOCK_TOKEN=at.token(caller), INTERLOCK_SESSION=caller.session)
    return place.run(*words)


class Words(NamedTuple):
    """A command, its arguments, and its flags, each with its value or None for a switch."""

    command: Command
    arguments: list[str]
    flags: list[tuple[str, str | None]]


def words_of(verb: type[Verb], fields: Fields, at: Workspace) -> Words:
    """Return the command of a request. Each field is a flag or an argument of the command."""
    given = _typed(verb, dict(fields), at)
    commands = COMMANDS[verb]
    verdict = given.pop("verdict", None)
    command = commands[f"gate {verdict}"] if verdict is not None else next(iter(commands.values()))
    flags = {_field(verb, flag.name, flag.key): flag.name for flag in command.flags}
    arguments = [_field(verb, argument.name, argument.key) for argument in command.arguments]
    unspelled = given.keys() - flags.keys() - {*arguments}
    assert not unspelled, f"{command.name} has no word for {unspelled}"
    words = Words(command, [], [])
    for name, value in given.items():
        if name in flags and value is True:
            words.flags.append((flags[name], None))
        elif name in flags:
            each = value if isinstance(value, list) else [value]
            words.flags.extend((flags[name], str(one)) for one in each)
    for name in arguments:
        if name in given and name not in flags:
            value = given[name]
            words.arguments.extend(map(str, value if isinstance(value, list) else [value]))
    return words


def spelled(verb: type[Verb], fields: Fields, at: Workspace) -> list[str]:
    """Return the words of a request: the command, its flags, then its arguments."""
    command, arguments, flags = words_of(verb, fields, at)
    flat = [word for flag in flags for word in flag if word is not None]
    return [*command.words, *flat, *arguments]


def _field(verb: type[Verb], text: str, key: str) -> str:
    """Return the field of an argument or a flag, or its own name if it has no field."""
    field = field_of(verb, text)
    return field.name if field is not None else key


def _typed(verb: type[Verb], given: Fields, at: Workspace) -> Fields:
    """Convert the fields to the form that people type, where the command's words differ."""
    if verb is mail.SendMessage:
        payload = given.pop("payload")
        text_alone = set(payload) == {"text"} and given.get("type", "send") == "send"
        given |= payload if text_alone else {"payload": json.dumps(payload)}
        if given.get("wake") is False:
            given["no_wake"] = not given.pop("wake")
    if verb is mail.ListInbox and "which" in given:
        given[given.pop("which")] = True
    if verb is mail.ReadMessage:
        given["id"] = given.pop("message")
    if verb in (mail.ReadMessage, work.ShowEvidence) and "start" in given:
        given["range"] = f"{given.pop('start')}-{given.pop('stop') - 1}"
    if verb is mail.Ask and "timeout_s" in given:
        assert given.pop("timeout_s") == given["wait_s"], "--wait sets both"
    if verb is identity.ReaffirmTokens and not given:
        given["all"] = True
    if verb is identity.ImportTokens:
        file = at.place.root / "tokens.json"
        file.write_text(json.dumps(given.pop("rows")))
        given |= {"file": str(file)}
        given["map"] = [f"{label}={agent}" for label, agent in given.get("map", {}).items()]
    if verb is people.AcceptInvitation:
        given["name"] = f"{at.url}/invite/{given.pop('code')}"
    if verb is work.ListTasks:
        given.setdefault("state", "all")
    if verb is claims.CheckPaths:
        given = {"paths": given["paths"]}  # the command finds the repository itself
    if verb is claims.ReportCommit:
        given = {}  # the command reads the last commit from git
    if verb is work.AddEvidence:
        given = _attached_file(given)
    if verb is workspace.VerifyLog and "checkpoint" in given:
        file = at.place.root / "kept.checkpoint"
        file.write_text(given["checkpoint"])
        given["checkpoint"] = str(file)
    return given


def _attached_file(given: Fields) -> Fields:
    """Convert evidence to the form that people type. The command uploads a file itself."""
    payload = dict(given.pop("payload"))
    given.pop("upload", None)
    value = payload.pop(_VALUE_OF[payload["kind"]])
    about = {name: payload[name] for name in ("criterion", "title") if name in payload}
    return given | {payload["kind"]: value, "task": payload["task_id"]} | about


# The member with the value, for each kind of attached evidence.
_VALUE_OF = {"note": "text", "url": "url", "file": "name"}


# --- HTTP


class Http:
    """Requests to the server's address, written by hand."""

    name = family = "http"
    is_served = is_remote = True

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome:
        route = routes_of(verb)[0]
        said, path, headers = dict(fields), route.path, bearer(at, caller)
        if caller.claims_to_be is not None and route.method == "POST":
            said["from"] = caller.claims_to_be
        elif caller.claims_to_be is not None:
            headers["Interlock-Sender"] = caller.claims_to_be
        if "key" in said:
            headers["Idempotency-Key"] = said.pop("key")
        if "wait_s" in said:
            said["wait"] = said.pop("wait_s")
        if verb is identity.IdentifyToken:
            said["token_hash"] = hashlib.sha256(said.pop("token").encode()).hexdigest()
        for name in [name for name in said if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(said.pop(name)), safe=""))
        body: bytes | None = None
        if "data" in said:
            body, headers["Content-Type"] = said.pop("data"), "application/octet-stream"
        elif route.method == "POST":
            body, headers["Content-Type"] = json.dumps(said).encode(), "application/json"
            said = {}
        query = urlencode({n: str(v).lower() if v is True else v for n, v in said.items()})
        status, answer = asked(at, route.method, path + (query and f"?{query}"), body, headers)
        if status == 200:
            if verb is not workspace.ListEvents:  # events have members as they are in the log
                check_answer(answer)
            return answered(answer)
        outcome = refused(answer)
        assert status == STATUS_OF[outcome.answer["code"]], (status, answer)
        return outcome


def bearer(at: Workspace, caller: Caller) -> dict[str, str]:
    token = at.remote_token(caller)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return headers | ({"Interlock-Session": caller.session} if caller.session is not None else {})


def asked(
    at: Workspace, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, Fields]:
    address = at.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(address, timeout=LIMIT_S)) as connection:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "application/json", response.headers
        return response.status, json.loads(response.read())


# --- MCP


REVISION = "2025-11-25"
HELLO = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "0"},
}


ToolWords = tuple[str, Callable[[Fields], Fields]]


def called(verb: type[Verb], caller: Caller, fields: Fields) -> Fields:
    """Return the parameters of a tools/call."""
    tool, translate = TOOLS[verb]
    arguments = translate(dict(fields))
    if caller.claims_to_be is not None:
        arguments["from"] = caller.claims_to_be
    return {"name": tool, "arguments": arguments}


def _mail(said: Fields) -> Fields:
    """Convert a payload: its members are arguments, and its main text is `text`."""
    payload = dict(said.pop("payload"))
    main = {"command": "command", "blocker": "what"}.get(said.get("type", "send"), "text")
    return said | {"text": payload.pop(main)} | payload


def _range(said: Fields) -> Fields:
    given = {"id": said["message"]}
    if "start" in said:
        given |= {"offset": said["start"], "limit": said["stop"] - said["start"]}
    return given


def _task(action: str) -> ToolWords:
    return "task", lambda said: {"action": action} | said


def _derived(tool: Tool, bind: Mapping[str, str]) -> ToolWords:
    """The tool of one verb. `bind` has the fields whose parameters have another name."""
    words = {word.strip("[]") for word in tool.parameters.split()}
    parameters = {field: word for word, field in bind.items() if word in words}
    return tool.name, lambda said: {parameters.get(name, name): v for name, v in said.items()}


def _listed(said: Fields) -> Fields:
    assert said == {"state": "live"}, "the tool lists live tasks"
    return {"action": "list"}


def _submitted(said: Fields) -> Fields:
    return {"action": "submit"} | {n: v for n, v in said.items() if n != "tree"}


def _attached(said: Fields) -> Fields:
    payload = said["payload"]
    about = {n: payload[n] for n in ("task_id", "kind", "criterion", "title") if n in payload}
    return about | {"value": payload[_VALUE_OF[payload["kind"]]]}


# The tool of each verb, and the function that converts the fields to arguments.
TOOLS: dict[type[Verb], ToolWords] = {
    **{verb: _task(action) for action, (verb, _) in TASK_ACTIONS.items()},
    mail.SendMessage: ("send", _mail),
    mail.AnswerAsk: ("send", lambda said: {"reply_to": said.pop("message")} | said),
    mail.ListInbox: ("inbox", dict),
    mail.ShowThread: ("inbox", lambda said: {"thread": said.pop("message")} | said),
    mail.Search: ("inbox", dict),
    mail.ReadMessage: ("read", _range),
    claims.AcquireClaim: ("claim", dict),
    claims.CheckClaim: ("claim", lambda said: said | {"check": True}),
    claims.ListClaims: ("claim", lambda said: said | {"check": True}),
    claims.ReleaseClaim: ("release", dict),
    work.ListTasks: ("task", _listed),
    work.SubmitTask: ("task", _submitted),
    work.AddEvidence: ("evidence", _attached),
    **{
        verb: _derived(verb.declared.mcp, verb.declared.bind)
        for verb in ROUTED
        if verb.declared.mcp
    },
}


def told(result: Fields) -> Outcome:
    """Return the outcome in the result of a tools/call."""
    (content,) = result["content"]
    said = result["structuredContent"]
    if not result["isError"]:
        return answered(said)
    assert json.loads(content["text"]) == said
    return refused(said)


class McpHttp:
    """Calls of tools, each in a request of its own."""

    name = "mcp http"
    family = "mcp"
    is_served = is_remote = True

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome:
        call = _request(1, "tools/call", called(verb, caller, fields))
        headers = bearer(at, caller) | {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
        }
        status, answer = asked(at, "POST", "/mcp", json.dumps(call).encode(), headers)
        if status == 200:
            return told(answer["result"])
        outcome = refused(answer)
        assert status == STATUS_OF[outcome.answer["code"]], (status, answer)
        return outcome


class McpStdio:
    """The process `interlock mcp`, which calls the server. Its environment sets the caller."""

    name = "mcp stdio"
    family = "mcp"
    is_served = True
    is_remote = False

    def call(self, at: Workspace, caller: Caller, verb: type[Verb], fields: Fields) -> Outcome:
        place = at.place.but(INTERLOCK_TOKEN=at.token(caller), INTERLOCK_SESSION=caller.session)
        said = [
            _request(0, "initialize", HELLO),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            _request(1, "tools/call", called(verb, caller, fields)),
        ]
        with place.start("mcp") as bridge:
            assert bridge.stdin is not None
            try:
                bridge.stdin.write("".join(json.dumps(line) + "\n" for line in said).encode())
                bridge.stdin.flush()
                heard = {line["id"]: line for line in map(json.loads, _two(bridge))}
                _, complaint = bridge.communicate(timeout=LIMIT_S)
            finally:
                bridge.kill()
        assert (bridge.returncode, complaint) == (0, b"")
        return told(heard[1]["result"])


def _two(bridge: Any) -> list[str]:
    heard = lines(bridge)
    return [next(heard), next(heard)]


def _request(id: int, method: str, params: Fields) -> Fields:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


WAYS: tuple[Way, ...] = ("directory", "url", "socket")
CLIENTS = [Python(way, is_async=is_async) for way in WAYS for is_async in (False, True)]
DOORS: tuple[Door, ...] = (
    Python(),
    Python("url"),
    CommandLine(is_served=False),
    CommandLine(is_served=True),
    Http(),
    McpStdio(),
    McpHttp(),
)

# The verbs of the doors that do not offer all of them. A verb without a command is a part of
# another command, of `interlock run` or of a hook, or is for programs that show mail.
OFFERED: dict[str, Collection[type[Verb]]] = {"cli": COMMANDS, "mcp": TOOLS}


def is_offered(row: Row, door: Door) -> bool:
    """Whether a door offers the verb of a row and can express the request. A verb that uses files
    of the server's machine is not for callers on other machines."""
    if row.verb not in OFFERED.get(door.family, ROUTED):
        return False
    is_excepted = {*row.not_at} & {door.family, door.name}
    return not is_excepted and not (door.is_remote and row.verb.declared.local)
