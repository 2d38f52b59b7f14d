"""The table of routes: for each act the HTTP request that asks for it.

The server decodes by this table, the client and the command encode by it, and the description at
/openapi.json is made from it, so that none of them can disagree. Members named in braces stand in
the path, the others in the query of a GET or the JSON body of a POST; `data` is a body as it is.
"""

import json
from typing import Any, NamedTuple

from interlock.contracts import acts

KEY_HEADER = "Idempotency-Key"
SESSION_HEADER = "Interlock-Session"
SENDER_HEADER = "Interlock-Sender"
OWNER_HEADER = "Interlock-Owner"
# How far the log went when a node answered. Whoever shows it to another node reads their own
# writes there.
SEEN_HEADER = "Interlock-Seq"
# What is longer is nobody's name, and need not be said to its end.
MAX_NAME_LENGTH = 1000
# --wait is the one word for waiting.
ON_THE_WIRE = {"wait_s": "wait"}


class Route(NamedTuple):
    """`local` routes name files of this machine, and are open only to its owner's own socket;
    what `anyone` may ask for carries a secret of its own."""

    act: type
    method: str
    path: str
    does: str
    local: bool = False
    anyone: bool = False


ROUTES = (
    Route(acts.SendMessage, "POST", "/v1/messages", "Send a message"),
    Route(acts.ListInbox, "GET", "/v1/inbox", "List mail, waiting for some with wait"),
    Route(acts.ReadMessage, "GET", "/v1/messages/{message}", "Read a message or a range of it"),
    Route(acts.AckMessages, "POST", "/v1/acks", "Say that messages are handled, or decline them"),
    Route(acts.ShowReceipts, "GET", "/v1/messages/{message}/receipts", "Show how far it got"),
    Route(acts.ShowThread, "GET", "/v1/messages/{message}/thread", "Show its conversation"),
    Route(acts.AnswerAsk, "POST", "/v1/messages/{message}/answer", "Answer an ask"),
    Route(acts.Explain, "GET", "/v1/messages/{message}/explain", "Show who is behind a message"),
    Route(acts.Redact, "POST", "/v1/messages/{message}/redact", "Remove its body for ever"),
    Route(acts.Ask, "POST", "/v1/asks", "Ask, and wait for the answer"),
    Route(acts.FindAnswer, "GET", "/v1/asks/{message}", "Look whether an ask was answered"),
    Route(acts.Search, "GET", "/v1/search", "Search your mail"),
    Route(acts.ListMail, "GET", "/v1/mail", "List the newest mail of everybody"),
    Route(acts.PutChunk, "POST", "/v1/blobs", "Upload a chunk of a large body"),
    Route(acts.DropUpload, "POST", "/v1/blobs/drop", "Give an upload up"),
    Route(acts.AcquireClaim, "POST", "/v1/claims", "Acquire a claim"),
    Route(acts.ListClaims, "GET", "/v1/claims", "List live claims"),
    Route(acts.CheckClaim, "POST", "/v1/claims/check", "Look who holds something"),
    Route(acts.RenewClaim, "POST", "/v1/claims/renew", "Renew a claim"),
    Route(acts.ReleaseClaim, "POST", "/v1/claims/release", "Release a claim"),
    Route(acts.CheckPaths, "POST", "/v1/claims/guard", "May these files be changed?"),
    Route(acts.ReportCommit, "POST", "/v1/claims/commits", "Report a commit, and what it touched"),
    Route(acts.TakeOverClaim, "POST", "/v1/claims/take-over", "Take a claim over, with a reason"),
    Route(acts.StopWaiting, "POST", "/v1/claims/stop-waiting", "Leave the queue for a claim"),
    Route(acts.CreateTask, "POST", "/v1/tasks", "Create a task"),
    Route(acts.ListTasks, "GET", "/v1/tasks", "List tasks"),
    Route(acts.ShowTask, "GET", "/v1/tasks/{id}", "Show a task and its whole story"),
    Route(acts.TakeTask, "POST", "/v1/tasks/{id}/take", "Take a task, by a claim on it"),
    Route(acts.SubmitTask, "POST", "/v1/tasks/{id}/submit", "Submit a commit and its tree"),
    Route(acts.CompleteTask, "POST", "/v1/tasks/{id}/complete", "Complete it, or say what lacks"),
    Route(acts.FailTask, "POST", "/v1/tasks/{id}/fail", "Give a task up for good"),
    Route(acts.CancelTask, "POST", "/v1/tasks/{id}/cancel", "Say that it is not wanted any more"),
    Route(acts.PrepareEvidence, "GET", "/v1/tasks/{task}/prepare", "Would evidence be taken?"),
    Route(acts.AddEvidence, "POST", "/v1/evidence", "Attach a run, a file, a URL or a note"),
    Route(acts.ShowEvidence, "GET", "/v1/evidence/{id}", "Show evidence, and what it kept"),
    Route(acts.CreateGate, "POST", "/v1/gates", "Make a gate with its holders"),
    Route(acts.ListGates, "GET", "/v1/gates", "List gates, their holders, and what is due"),
    Route(acts.CheckGate, "GET", "/v1/gates/{gate}/commits/{commit}", "Has it passed a commit?"),
    Route(acts.PrepareVerdict, "GET", "/v1/tasks/{task}/gates/{gate}", "Would it be taken?"),
    Route(acts.GiveVerdict, "POST", "/v1/verdicts", "Pass or fail what is submitted"),
    Route(acts.RaiseBlocker, "POST", "/v1/blockers", "Say what stands in the way"),
    Route(acts.ListBlockers, "GET", "/v1/blockers", "List blockers"),
    Route(acts.ResolveBlocker, "POST", "/v1/blockers/{id}/resolve", "It stands there no more"),
    Route(acts.Whoami, "GET", "/v1/whoami", "Show who you are here"),
    Route(acts.ListAgents, "GET", "/v1/agents", "List who has joined, and how each is reached"),
    Route(acts.Join, "POST", "/v1/agents", "Register an agent or a person"),
    Route(acts.Mute, "POST", "/v1/mute", "Let nothing wake a name, for a time"),
    Route(acts.ListGroups, "GET", "/v1/groups", "List groups"),
    Route(acts.CreateGroup, "POST", "/v1/groups", "Register a group"),
    Route(acts.ListTokens, "GET", "/v1/tokens", "List tokens"),
    Route(acts.ShowToken, "GET", "/v1/tokens/{id}", "Show a token, never its secret"),
    Route(acts.MintToken, "POST", "/v1/tokens", "Register a token by its SHA-256"),
    Route(acts.RotateToken, "POST", "/v1/tokens/rotate", "Put a new token in place of others"),
    Route(acts.RevokeToken, "POST", "/v1/tokens/revoke", "Revoke tokens"),
    Route(acts.ReaffirmTokens, "POST", "/v1/tokens/reaffirm", "Lift the suspension of a restore"),
    Route(acts.LabelToken, "POST", "/v1/tokens/{id}/label", "Write another label on a token"),
    Route(acts.ImportTokens, "POST", "/v1/tokens/import", "Take over another bus's tokens"),
    Route(acts.IdentifyToken, "POST", "/v1/tokens/identify", "Say whose a token is"),
    Route(acts.Invite, "POST", "/v1/invitations", "Invite a person, or another machine"),
    Route(
        acts.AcceptInvitation,
        "POST",
        "/v1/invitations/accept",
        "Join by an invitation",
        anyone=True,
    ),
    Route(acts.ListConnections, "GET", "/v1/connections", "List clients that people let in"),
    Route(acts.NameConnection, "POST", "/v1/connections/{id}/name", "Name a connection"),
    Route(acts.RevokeConnection, "POST", "/v1/connections/{id}/revoke", "End a connection"),
    Route(acts.StartSession, "POST", "/v1/sessions", "Start a session"),
    Route(acts.FindSession, "GET", "/v1/sessions/{id}", "Say whose a session is"),
    Route(acts.KeepSession, "POST", "/v1/sessions/{id}/keep", "Keep its claims renewed"),
    Route(acts.EndSession, "POST", "/v1/sessions/{id}/end", "End it, and give up its claims"),
    Route(acts.Attend, "POST", "/v1/attend", "Say at which step a client is, and hear what is new"),
    Route(acts.ShowStatus, "GET", "/v1/status", "Show how the workspace stands"),
    Route(acts.ShowStorage, "GET", "/v1/storage", "Show how long and how large the log is"),
    Route(acts.Examine, "GET", "/v1/doctor", "Look for what is wrong"),
    Route(acts.Review, "GET", "/v1/review", "Show what needs a person"),
    Route(acts.ListSettings, "GET", "/v1/settings", "List settings"),
    Route(acts.ChangeSetting, "POST", "/v1/settings", "Change a setting"),
    Route(acts.Pause, "POST", "/v1/pause", "Pause the workspace"),
    Route(acts.Resume, "POST", "/v1/resume", "Resume the workspace"),
    Route(acts.ListEvents, "GET", "/v1/audit/events", "List what concerns you after a position"),
    Route(acts.ShowLog, "GET", "/v1/audit/log", "Show the facts after a position"),
    Route(acts.VerifyLog, "POST", "/v1/audit/verify", "Verify the whole log"),
    Route(acts.SignCheckpoint, "GET", "/v1/audit/checkpoint", "Sign the log as it stands"),
    Route(acts.Prove, "GET", "/v1/audit/proof", "Prove an entry, or that the log only grew"),
    Route(acts.ProveMany, "POST", "/v1/audit/proofs", "Prove entries, against one checkpoint"),
    Route(acts.ExportLog, "POST", "/v1/audit/export", "Write the log into a file", local=True),
    Route(acts.Backup, "POST", "/v1/backup", "Copy the workspace into a file", local=True),
    Route(acts.Restore, "POST", "/v1/restore", "Put a backup in place of the log", local=True),
    Route(acts.Rebuild, "POST", "/v1/rebuild", "Fold the whole log again", local=True),
)

# The same acts as people would ask for them by hand: one message, one claim, in the path.
SHORTHANDS = (
    Route(acts.AckMessages, "POST", "/v1/messages/{messages}/ack", "Say that it is handled"),
    Route(acts.RenewClaim, "POST", "/v1/claims/{id}/renew", "Renew a claim by its id"),
    Route(acts.ReleaseClaim, "POST", "/v1/claims/{id}/release", "Release a claim by its id"),
    Route(acts.CheckClaim, "GET", "/v1/claims/check", "Look who holds something"),
    Route(acts.VerifyLog, "GET", "/v1/audit/verify", "Verify the whole log"),
)

_BY_ACT = {route.act: route for route in ROUTES}


class Request(NamedTuple):
    """An act as HTTP carries it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def encode(credentials: acts.Credentials, act: Any) -> Request:
    """The request that asks for an act. What has its default value is left out."""
    route = _BY_ACT[type(act)]
    defaults = act._field_defaults
    said = {
        name: value
        for name, value in act._asdict().items()
        if name not in defaults or value != defaults[name]
    }
    headers = _headers(credentials)
    if (key := said.pop("key", None)) is not None:
        headers[KEY_HEADER] = quoted(key)
    path = route.path
    for name in [name for name in said if "{" + name + "}" in path]:
        path = path.replace("{" + name + "}", quoted(str(said.pop(name))))
    said = {ON_THE_WIRE.get(name, name): value for name, value in said.items()}
    if "data" in said:
        headers["Content-Type"] = "application/octet-stream"
        return Request(route.method, _with_query(path, said, "data"), headers, said["data"])
    if route.method == "GET":
        return Request("GET", _with_query(path, said), headers, b"")
    headers["Content-Type"] = "application/json"
    return Request(route.method, path, headers, json.dumps(said, ensure_ascii=False).encode())


def _headers(credentials: acts.Credentials) -> dict[str, str]:
    headers = {}
    if credentials.token is not None:
        headers["Authorization"] = f"Bearer {quoted(credentials.token)}"
    if credentials.session is not None:
        headers[SESSION_HEADER] = quoted(credentials.session)
    if credentials.claimed is not None:
        headers[SENDER_HEADER] = quoted(credentials.claimed[:MAX_NAME_LENGTH])
    if credentials.owner:
        headers[OWNER_HEADER] = "yes"
    return headers


def _with_query(path: str, said: dict[str, Any], but: str | None = None) -> str:
    pairs: list[tuple[str, str]] = []
    for name, value in said.items():
        if name == but:
            continue
        values = value if isinstance(value, tuple) else [value]
        pairs += [(name, str(v).lower() if isinstance(v, bool) else str(v)) for v in values]
    return path + ("?" if pairs else "") + "&".join(f"{n}={quoted(v)}" for n, v in pairs)


def quoted(text: str) -> str:
    """Percent-encoded, as in a URL; the library's own costs as much time as a whole command."""
    if text.isascii() and text.isalnum():
        return text
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in text.encode())


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
