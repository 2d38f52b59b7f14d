"""The doors of Interlock behind one interface: `do` asks a door for an act, whoever asks, and gives
what it answered in one form.

Acts and their members are named as in the declarations; each door spells them in its own
way, by hand and without our own encoders. A door does not offer every act: `NOT_OFFERED` says which
it does not, and why.
"""

import hashlib
import http.client
import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import interlock
from interlock.client import answers
from interlock.doors.cli import doctor as examining
from interlock.doors.http.decoding import routes_of
from interlock.errors import Refusal
from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    CheckPaths,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    ReportCommit,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.identity.verbs import (
    CreateGroup,
    EndSession,
    FindSession,
    IdentifyToken,
    ImportTokens,
    Join,
    KeepSession,
    LabelToken,
    ListAgents,
    ListGroups,
    ListTokens,
    MintToken,
    Mute,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    ShowToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    DropUpload,
    Explain,
    FindAnswer,
    ListInbox,
    ListMail,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    Invite,
    ListConnections,
    NameConnection,
    RevokeConnection,
)
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CheckGate,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    ListBlockers,
    ListGates,
    ListTasks,
    PrepareEvidence,
    PrepareVerdict,
    RaiseBlocker,
    ResolveBlocker,
    ShowEvidence,
    ShowTask,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import (
    Attend,
    Backup,
    ChangeSetting,
    Examine,
    ExportLog,
    ListEvents,
    ListSettings,
    Pause,
    Prove,
    ProveMany,
    Rebuild,
    Restore,
    Resume,
    Review,
    ShowLog,
    ShowStatus,
    ShowStorage,
    SignCheckpoint,
    VerifyLog,
    Whoami,
)
from world.commandline import EXIT_OF, LIMIT_S, Done, Place, lines

ROUTED = [verb for verb in catalogue.verbs() if verb.declared.http]

Members = dict[str, Any]
Kind = Literal["done", "no", "refused"]

# The HTTP status of each code that refuses; every other answer is a 200.
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


class Who(NamedTuple):
    """Who asks: the sender whose token is shown, in a session; `claims_to_be` is the sender that
    the request names."""

    sender: str | None
    session: str | None = None
    claims_to_be: str | None = None


# Whoever may write the file, and whoever shows nothing at all.
OWNER = Who("the owner")
NOBODY = Who(None)


class Outcome(NamedTuple):
    """The answer or the error object, and which of them it is."""

    kind: Kind
    said: Members

    @property
    def code(self) -> str | None:
        return self.said.get("code")


def answered(said: Members) -> Outcome:
    """An answer that is no refusal: a plain no has a code, or says that there is a holder, that all
    is not well, or that a token is nobody's or has ended."""
    is_not = any(said.get(name) is False for name in ("ok", "known", "active"))
    is_no = "code" in said or said.get("claimed") or is_not
    return Outcome("no" if is_no else "done", said)


def refused(error: Members) -> Outcome:
    assert {"error", "code", "message"} <= set(error), error
    return Outcome("refused", error)


class Scene(NamedTuple):
    """Where it happens: a place, the tokens of those who are there, and where the server is."""

    place: Place
    tokens: dict[str, str]
    url: str

    def token(self, who: Who) -> str | None:
        """The token that is shown; the owner needs none where the file is."""
        return None if who in (OWNER, NOBODY) else self.tokens[who.sender or ""]


class Door(Protocol):
    name: str
    family: str
    is_served: bool

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome: ...


# --- the Python client


class Python:
    """The synchronous client on the workspace's directory."""

    name = family = "python"
    is_served = False

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome:
        said = dict(members)
        directory, token = scene.place.workspace, scene.token(who)
        with interlock.connect(directory, token, who.session) as client:
            method = getattr(client, METHODS[act])
            try:
                return answered(method(*said.pop("messages", ()), **said))
            except Refusal as refusal:
                return refused(refusal.as_dict())


METHODS = {
    SendMessage: "send",
    ListInbox: "inbox",
    ReadMessage: "read",
    AckMessages: "ack",
    ShowReceipts: "receipts",
    ShowThread: "thread",
    AnswerAsk: "answer",
    Explain: "explain",
    Redact: "redact",
    Ask: "ask",
    FindAnswer: "find_answer",
    Search: "search",
    ListMail: "mail",
    PutChunk: "put_chunk",
    DropUpload: "drop_upload",
    AcquireClaim: "acquire",
    ListClaims: "claims",
    CheckClaim: "check",
    RenewClaim: "renew",
    ReleaseClaim: "release",
    TakeOverClaim: "take_over",
    StopWaiting: "stop_waiting",
    CheckPaths: "guard",
    ReportCommit: "report_commit",
    CreateTask: "create_task",
    ListTasks: "tasks",
    ShowTask: "task",
    TakeTask: "take",
    SubmitTask: "submit",
    CompleteTask: "complete",
    FailTask: "fail",
    CancelTask: "cancel",
    PrepareEvidence: "prepare_evidence",
    AddEvidence: "add_evidence",
    ShowEvidence: "evidence",
    CreateGate: "create_gate",
    ListGates: "gates",
    CheckGate: "check_gate",
    PrepareVerdict: "prepare_verdict",
    GiveVerdict: "judge",
    RaiseBlocker: "raise_blocker",
    ListBlockers: "blockers",
    ResolveBlocker: "resolve_blocker",
    Whoami: "whoami",
    ListAgents: "agents",
    Join: "join",
    Invite: "invite",
    AcceptInvitation: "accept_invitation",
    ListConnections: "connections",
    NameConnection: "name_connection",
    RevokeConnection: "revoke_connection",
    ListGroups: "groups",
    CreateGroup: "create_group",
    ListTokens: "tokens",
    ShowToken: "show_token",
    MintToken: "mint_token",
    RotateToken: "rotate_token",
    RevokeToken: "revoke_token",
    ReaffirmTokens: "reaffirm_tokens",
    LabelToken: "label_token",
    ImportTokens: "import_tokens",
    IdentifyToken: "identify_token",
    StartSession: "start_session",
    FindSession: "find_session",
    KeepSession: "keep_session",
    EndSession: "end_session",
    Attend: "attend",
    Mute: "mute",
    ShowStatus: "status",
    ShowStorage: "storage",
    Examine: "doctor",
    Review: "review",
    ListSettings: "settings",
    ChangeSetting: "change_setting",
    Pause: "pause",
    Resume: "resume",
    ListEvents: "events",
    ShowLog: "log",
    VerifyLog: "verify",
    SignCheckpoint: "checkpoint",
    Prove: "prove",
    ProveMany: "prove_many",
    ExportLog: "export",
    Backup: "backup",
    Restore: "restore",
    Rebuild: "rebuild",
}


# --- the command

ON_THE_FILE = "cli on the file"


class Command:
    """The command, on the file or through a server, as the place has one or not."""

    family = "cli"

    def __init__(self, *, is_served: bool) -> None:
        self.is_served = is_served
        self.name = "cli through the server" if is_served else ON_THE_FILE

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome:
        words = [*spelled(act, members, scene), "--json"]
        if who.claims_to_be is not None:
            words += ["--from", who.claims_to_be]
        place = scene.place.but(INTERLOCK_TOKEN=scene.token(who), INTERLOCK_SESSION=who.session)
        done = place.run(*words)
        outcome = refused(done.json) if done.status > 1 else answered(self._own(act, done, scene))
        expected = {"done": 0, "no": 1, "refused": EXIT_OF.get(outcome.code or "")}
        assert done.status == expected[outcome.kind], done
        return outcome

    def _own(self, act: type, done: Done, scene: Scene) -> Members:
        """The act's own part of what the command says."""
        said: Members = done.json
        storage = set(answers.Storage.__annotations__)
        if act is ShowStatus:
            return {n: v for n, v in said.items() if n not in {*storage, "credentials"}}
        if act is ShowStorage:
            return {name: said[name] for name in storage if name in said}
        if act is Examine:  # the command looks at files of its machine too
            return said | {"checks": said["checks"] - len(examining.CHECKS)}
        if act in (Join, RotateToken) and "kept" in said:
            assert os.path.exists(said.pop("kept")), done
        if act is Invite and self.is_served:
            assert said.pop("link") == scene.url + said["path"]
        if act is AcceptInvitation:
            assert said.pop("workspace") == scene.url
            said["token"] = json.loads(Path(said.pop("kept")).read_text())["token"]
        return said


class Spelling(NamedTuple):
    """A command, the members that are its arguments, and those that are flags. A verdict is a word
    of its own."""

    words: str
    arguments: tuple[str, ...] = ()
    flags: Mapping[str, str] = MappingProxyType({})

    def commands(self) -> set[str]:
        return {self.words.format(verdict=verdict) for verdict in ("pass", "fail")}


_THING = {"item": "--item", "paths": "--path", "repo": "--repo"}
_WHERE = {"branch": "--branch", "worktree": "--worktree", "note": "--note", "ttl_s": "--ttl"}
_EVERYWHERE = {"everywhere": "--everywhere"}
_PAGE = {"limit": "--limit", "after": "--after"}
_TOKEN = {"label": "--label", "scopes": "--scope"}
_SENDER = {"sender": "--sender"}
_NOTE, _FENCE, _FIX = {"note": "--note"}, {"fence": "--fence"}, {"fix": "--fix"}

SPELLINGS = {
    SendMessage: Spelling(
        "send",
        ("to", "text"),
        {name: f"--{name}" for name in ("type", "payload", "subject", "thread", "priority", "key")}
        | {"reply_to": "--reply-to", "ttl_s": "--ttl", "wake": "--wake", "no_wake": "--no-wake"},
    ),
    ListInbox: Spelling(
        "inbox", (), _PAGE | {"wait_s": "--wait", "all": "--all", "sent": "--sent"}
    ),
    ReadMessage: Spelling("read", ("message",), {"range": "--range"}),
    AckMessages: Spelling("ack", ("messages",), {"decline": "--decline", "note": "--note"}),
    ShowReceipts: Spelling("receipts", ("message",)),
    ShowThread: Spelling("thread", ("message",), _PAGE),
    AnswerAsk: Spelling("answer", ("message", "text")),
    Explain: Spelling("explain", ("message",)),
    Redact: Spelling("redact", ("message",), {"reason": "--reason"}),
    Ask: Spelling("ask", ("to", "question"), {"options": "--option", "wait_s": "--wait"}),
    Search: Spelling("search", ("query",), {"limit": "--limit"}),
    AcquireClaim: Spelling(
        "claim acquire", (), _THING | _WHERE | _EVERYWHERE | {"wait_s": "--wait"}
    ),
    ListClaims: Spelling("claim list", (), {"mine": "--mine"}),
    CheckClaim: Spelling("claim check", (), _THING),
    RenewClaim: Spelling("claim renew", (), _THING | {"ttl_s": "--ttl", "fence": "--fence"}),
    ReleaseClaim: Spelling("claim release", (), _THING | {"fence": "--fence"}),
    TakeOverClaim: Spelling("claim take-over", (), _THING | _WHERE | {"reason": "--reason"}),
    CheckPaths: Spelling("guard check", ("paths",)),
    ReportCommit: Spelling("guard note"),
    CreateTask: Spelling(
        "task create",
        (),
        {name: f"--{name}" for name in ("title", "id", "brief", "priority", "assignee")}
        | {"criteria": "--criterion", "gates": "--gate", "labels": "--label"}
        | {"depends_on": "--depends-on"},
    ),
    ListTasks: Spelling("task list", (), _PAGE | {"state": "--state", "mine": "--mine"}),
    ShowTask: Spelling("task show", ("id",)),
    TakeTask: Spelling("task take", ("id",), _WHERE),
    SubmitTask: Spelling("task submit", ("id",), _FENCE | {"commit": "--commit", "tree": "--tree"}),
    CompleteTask: Spelling("task complete", ("id",), _FENCE),
    FailTask: Spelling("task fail", ("id",), _FENCE | _NOTE),
    CancelTask: Spelling("task cancel", ("id",), _NOTE),
    AddEvidence: Spelling(
        "evidence add",
        (),
        {name: f"--{name}" for name in ("task", "criterion", "title", "file", "url", "note")}
        | _FENCE,
    ),
    ShowEvidence: Spelling("evidence show", ("id",), {"range": "--range"}),
    CreateGate: Spelling("gate create", ("name",), {"holders": "--holder", "replace": "--replace"}),
    ListGates: Spelling("gate list"),
    GiveVerdict: Spelling(
        "gate {verdict}",
        ("task", "gate"),
        _NOTE | _FIX | {"commit": "--commit", "evidence": "--evidence"},
    ),
    RaiseBlocker: Spelling(
        "blocker raise", ("task", "what"), _FIX | {"severity": "--severity", "to": "--to"}
    ),
    ListBlockers: Spelling("blocker list", (), {"task": "--task", "all": "--all"}),
    ResolveBlocker: Spelling("blocker resolve", ("id",), _NOTE),
    Whoami: Spelling("whoami"),
    ListAgents: Spelling("agents", ("name",)),
    Join: Spelling("join", ("name",), {"surface": "--surface", "kind": "--kind"} | _TOKEN),
    Invite: Spelling(
        "invite",
        ("name",),
        {"surface": "--surface", "own": "--own", "kind": "--kind", "ttl_s": "--ttl"},
    ),
    AcceptInvitation: Spelling("join", ("link",)),
    ListConnections: Spelling("connection list"),
    NameConnection: Spelling("connection name", ("id", "name")),
    RevokeConnection: Spelling("connection revoke", ("id",)),
    Mute: Spelling("mute", ("name",), {"ttl_s": "--ttl", "off": "--off"}),
    ListGroups: Spelling("group list"),
    CreateGroup: Spelling("group create", ("name",), {"members": "--member"}),
    ListTokens: Spelling("token list"),
    ShowToken: Spelling("token show", ("id",)),
    MintToken: Spelling("token mint", (), _SENDER | _TOKEN | {"ttl_s": "--ttl"}),
    RotateToken: Spelling("token rotate", ("id",), _SENDER),
    RevokeToken: Spelling("token revoke", ("id",), _SENDER),
    ReaffirmTokens: Spelling("token reaffirm", ("id",), _SENDER | {"all": "--all"}),
    LabelToken: Spelling("token label", ("id", "label")),
    ImportTokens: Spelling("token import", ("file",), {"map": "--map", "apply": "--apply"}),
    IdentifyToken: Spelling("token identify", ("token",)),
    ShowStatus: Spelling("status"),
    ShowStorage: Spelling("status"),
    Examine: Spelling("doctor"),
    Review: Spelling("review", (), {"since_s": "--since"}),
    ListSettings: Spelling("settings"),
    ChangeSetting: Spelling("settings", ("name", "value")),
    Pause: Spelling("pause", (), {"reason": "--reason"}),
    Resume: Spelling("resume"),
    ShowLog: Spelling("audit show", (), _PAGE | {"kind": "--kind"}),
    VerifyLog: Spelling("audit verify", (), {"checkpoint": "--checkpoint"}),
    SignCheckpoint: Spelling("audit checkpoint"),
    Prove: Spelling("audit prove", ("seq",), {"since": "--since"}),
    ExportLog: Spelling("audit export", ("file",)),
    Backup: Spelling("backup", ("file",)),
    Restore: Spelling("restore", ("file",)),
    Rebuild: Spelling("rebuild"),
}


def spelled(act: type, members: Members, scene: Scene) -> list[str]:
    """The words for an act."""
    words, arguments, flags = SPELLINGS[act]
    said = _as_typed(act, dict(members), scene)
    typed = words.format(verdict=said.pop("verdict", None)).split()
    for name, value in said.items():
        if name in flags and value is True:
            typed.append(flags[name])
        elif name in flags:
            for one in value if isinstance(value, list) else [value]:
                typed += [flags[name], str(one)]
    for name in arguments:
        value = said.get(name, [])
        typed += map(str, value if isinstance(value, list) else [value])
    unsaid = set(said) - set(flags) - set(arguments)
    assert not unsaid, f"{words} has no word for {unsaid}"
    return typed


def _as_typed(act: type, said: Members, scene: Scene) -> Members:
    """The members in the form that people type."""
    if act is SendMessage:
        payload = said.pop("payload")
        text_alone = set(payload) == {"text"} and said.get("type", "send") == "send"
        said |= payload if text_alone else {"payload": json.dumps(payload)}
        if said.get("wake") is False:
            said["no_wake"] = not said.pop("wake")
    if act is ListInbox and "which" in said:
        said[said.pop("which")] = True
    if act in (ReadMessage, ShowEvidence) and "start" in said:
        said["range"] = f"{said.pop('start')}-{said.pop('stop') - 1}"
    if act is Ask and "timeout_s" in said:
        assert said.pop("timeout_s") == said["wait_s"], "--wait is both"
    if act is ReaffirmTokens and not said:
        said["all"] = True
    if act is ImportTokens:
        file = scene.place.root / "tokens.json"
        file.write_text(json.dumps(said.pop("rows")))
        said |= {"file": str(file)}
        said["map"] = [f"{label}={agent}" for label, agent in said.get("map", {}).items()]
    if act is AcceptInvitation:
        said["link"] = f"{scene.url}/invite/{said.pop('code')}"
    if act is ListTasks:
        said.setdefault("state", "all")
    if act is CheckPaths:
        said = {"paths": said["paths"]}  # where one stands is where they are
    if act is ReportCommit:
        said = {}  # it is the last one, and git knows which
    if act is AddEvidence:
        said = _as_attached(said)
    if act is VerifyLog and "checkpoint" in said:
        file = scene.place.root / "kept.checkpoint"
        file.write_text(said["checkpoint"])
        said["checkpoint"] = str(file)
    return said


def _as_attached(said: Members) -> Members:
    """Evidence as people attach it: a file is uploaded by the command itself."""
    payload = dict(said.pop("payload"))
    said.pop("upload", None)
    value = payload.pop(_VALUE_OF[payload["kind"]])
    given = {payload.pop("kind"): value, "task": payload.pop("task_id")}
    about = {name: payload[name] for name in ("criterion", "title") if name in payload}
    return said | given | about


# The member that says it, of each kind of evidence that can be attached; a file is one where the
# caller stands.
_VALUE_OF = {"note": "text", "url": "url", "file": "name"}


# --- HTTP


class Http:
    """Requests to the server's address, written by hand."""

    name = family = "http"
    is_served = True

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome:
        route = routes_of(act)[0]
        said, path, headers = dict(members), route.path, bearer(scene, who)
        if who.claims_to_be is not None and route.method == "POST":
            said["from"] = who.claims_to_be
        elif who.claims_to_be is not None:
            headers["Interlock-Sender"] = who.claims_to_be
        if "key" in said:
            headers["Idempotency-Key"] = said.pop("key")
        if "wait_s" in said:
            said["wait"] = said.pop("wait_s")
        if act is IdentifyToken:
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
        status, answer = asked(scene, route.method, path + (query and f"?{query}"), body, headers)
        if status == 200:
            return answered(answer)
        outcome = refused(answer)
        assert status == STATUS_OF[outcome.said["code"]], (status, answer)
        return outcome


def bearer(scene: Scene, who: Who) -> dict[str, str]:
    token = scene.tokens["the owner"] if who is OWNER else scene.token(who)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return headers | ({"Interlock-Session": who.session} if who.session is not None else {})


def asked(
    scene: Scene, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, Members]:
    address = scene.url.removeprefix("http://")
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


def called(act: type, who: Who, members: Members) -> Members:
    """The parameters of a tools/call."""
    tool, translate = TOOLS[act]
    arguments = translate(dict(members))
    if who.claims_to_be is not None:
        arguments["from"] = who.claims_to_be
    return {"name": tool, "arguments": arguments}


def _mail(said: Members) -> Members:
    """A payload's members are arguments, and its main text is `text`."""
    payload = dict(said.pop("payload"))
    main = {"command": "command", "blocker": "what"}.get(said.get("type", "send"), "text")
    return said | {"text": payload.pop(main)} | payload


def _range(said: Members) -> Members:
    given = {"id": said["message"]}
    if "start" in said:
        given |= {"offset": said["start"], "limit": said["stop"] - said["start"]}
    return given


def _task(action: str) -> tuple[str, Callable[[Members], Members]]:
    return "task", lambda said: {"action": action} | said


def _listed(said: Members) -> Members:
    assert said == {"state": "live"}, "the tool lists what has not ended"
    return {"action": "list"}


def _submitted(said: Members) -> Members:
    return {"action": "submit"} | {n: v for n, v in said.items() if n != "tree"}


def _attached(said: Members) -> Members:
    payload = said["payload"]
    about = {n: payload[n] for n in ("task_id", "kind", "criterion", "title") if n in payload}
    return about | {"value": payload[_VALUE_OF[payload["kind"]]]}


TOOLS: dict[type, tuple[str, Callable[[Members], Members]]] = {
    Whoami: ("whoami", dict),
    ListAgents: ("agents", dict),
    SendMessage: ("send", _mail),
    AnswerAsk: ("send", lambda said: {"reply_to": said.pop("message")} | said),
    ListInbox: ("inbox", dict),
    ShowThread: ("inbox", lambda said: {"thread": said.pop("message")} | said),
    Search: ("inbox", dict),
    ReadMessage: ("read", _range),
    AckMessages: ("ack", lambda said: {"ids": said.pop("messages")} | said),
    Ask: ("ask", dict),
    AcquireClaim: ("claim", dict),
    CheckClaim: ("claim", lambda said: said | {"check": True}),
    ListClaims: ("claim", lambda said: said | {"check": True}),
    ReleaseClaim: ("release", dict),
    ListTasks: ("task", _listed),
    ShowTask: _task("show"),
    CreateTask: _task("create"),
    TakeTask: _task("take"),
    SubmitTask: ("task", _submitted),
    CompleteTask: _task("complete"),
    FailTask: _task("fail"),
    CancelTask: _task("cancel"),
    ResolveBlocker: _task("resolve_blocker"),
    AddEvidence: ("evidence", _attached),
    GiveVerdict: ("verdict", lambda said: {"task_id": said.pop("task")} | said),
}


def told(result: Members) -> Outcome:
    """The outcome in the result of a tools/call."""
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
    is_served = True

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome:
        call = _request(1, "tools/call", called(act, who, members))
        headers = bearer(scene, who) | {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISION,
        }
        status, answer = asked(scene, "POST", "/mcp", json.dumps(call).encode(), headers)
        if status == 200:
            return told(answer["result"])
        outcome = refused(answer)
        assert status == STATUS_OF[outcome.said["code"]], (status, answer)
        return outcome


class McpStdio:
    """The process `interlock mcp`, which leads to the server; it is who its environment says."""

    name = "mcp stdio"
    family = "mcp"
    is_served = True

    def do(self, scene: Scene, who: Who, act: type, members: Members) -> Outcome:
        place = scene.place.but(INTERLOCK_TOKEN=scene.token(who), INTERLOCK_SESSION=who.session)
        said = [
            _request(0, "initialize", HELLO),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            _request(1, "tools/call", called(act, who, members)),
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


def _request(id: int, method: str, params: Members) -> Members:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


DOORS: tuple[Door, ...] = (
    Python(),
    Command(is_served=False),
    Command(is_served=True),
    Http(),
    McpStdio(),
    McpHttp(),
)

# --- what a door does not offer

_A_RUN = "a session is `interlock run`, which starts, keeps and ends it"
_A_HOOK = "a client's hooks say it: interlock hook CLIENT EVENT"
_WITHIN = "it is a part of another command, which does it by itself"
_FOR_PEOPLE = "it is for programs that show mail to people"
_HERE = "it names files of the server's machine, which a request must not"
_FEW_TOOLS = "agents have few tools: this is for people and programs"

NOT_OFFERED: dict[str, dict[type, str]] = {
    "python": {},
    "cli": {
        PutChunk: _WITHIN,
        DropUpload: _WITHIN,
        FindAnswer: _WITHIN,
        StopWaiting: _WITHIN,
        PrepareEvidence: _WITHIN,
        PrepareVerdict: _WITHIN,
        CheckGate: _WITHIN,
        ProveMany: _WITHIN,
        StartSession: _A_RUN,
        FindSession: _A_RUN,
        KeepSession: _A_RUN,
        EndSession: _A_RUN,
        Attend: _A_HOOK,
        ListMail: _FOR_PEOPLE,
        ListEvents: _FOR_PEOPLE,
    },
    "http": {verb: _HERE for verb in ROUTED if verb.declared.local},
    "mcp": {verb: _FEW_TOOLS for verb in ROUTED if verb not in TOOLS},
}
