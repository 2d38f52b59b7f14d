"""Every act at every door: the same outcome and the same error object, from one table.

A row is played at each door that offers its act, in a workspace of its own, and what the doors
answer must be the same to the last member. `test_every_act_has_a_row_that_works` fails where an act
has none.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock import errors
from interlock.client import Client
from interlock.client.asking import Method
from interlock.doors.cli.lookup import all_commands
from interlock.doors.mcp.tools import offered_tools
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
from interlock.rooms.people import verbs as people
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
    Inspect,
    ListEvents,
    ListSettings,
    Maintain,
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
from world.chosen import restores
from world.doors import (
    DOORS,
    METHODS,
    NOBODY,
    NOT_OFFERED,
    ON_THE_FILE,
    OWNER,
    SPELLINGS,
    TOOLS,
    Who,
)
from world.fork_server import Servers
from world.playing import (
    BROWSER,
    CONNECTION,
    DORA,
    KEPT,
    LATE,
    LENA,
    MIRA,
    NOTHING,
    NOVA,
    OTTO,
    PROOF,
    PROVED,
    RAN,
    STRANGER,
    TYPO,
    VERA,
    Meanwhile,
    Played,
    Row,
    Stages,
    Step,
    Town,
)

pytestmark = pytest.mark.every_engine

ROUTED = [verb for verb in catalogue.verbs() if verb.declared.http]

ABSENT = "00000000-0000-4000-8000-000000000000"
NO_WORD = "the door has no word for it"
Members = Mapping[str, Any]
HELLO = {"to": "@vera", "payload": {"text": "hi"}}


def refused(
    code: str, name: str, act: type, who: Who, members: Members = NOTHING, **about: Any
) -> Row:
    return Row(name, act, who, members, "refused", code, **about)


def no(
    code: str | None, name: str, act: type, who: Who, members: Members = NOTHING, **about: Any
) -> Row:
    return Row(name, act, who, members, "no", code, **about)


def done(name: str, act: type, who: Who, members: Members = NOTHING, **about: Any) -> Row:
    return Row(name, act, who, members, **about)


def setting(name: str, value: str) -> Step:
    return Step(OWNER, ChangeSetting, {"name": name, "value": value})


def sent(who: Who, to: str, text: str, keeps: str = "it", **more: Any) -> Step:
    members = {"to": to, "type": "send", "payload": {"text": text}, **more}
    return Step(who, SendMessage, members, {keeps: "message.id", f"{keeps}_seq": "message.seq"})


def held(who: Who, item: str, **more: Any) -> Step:
    return Step(who, AcquireClaim, {"item": item, **more}, {"held": "claim.fence"})


def _newest_ask(owner: Client) -> str | None:
    newest = owner.mail(limit=1)["messages"][0]
    return newest["id"] if newest["payload"].get("question") == "free?" else None


def _is_waiting(address: str) -> Any:
    def look(owner: Client) -> bool:
        return any(
            a["address"] == address and a["reach"] == "wakes" for a in owner.agents()["agents"]
        )

    return look


ANSWERED = Meanwhile(_newest_ask, Step(VERA, AnswerAsk, {"message": "$seen", "text": "yes"}))
LIMITED = "--wait is how long to wait, and the question's time limit as well"
PAUSED = Step(OWNER, Pause, {"reason": "lunch"})
OLD = {"token_hash": "a" * 64, "agent": "nova", "label": "Nova, at work", "scope": ["mail"]}
OLD_NEO = {"token_hash": "b" * 64, "agent": "nova", "label": "Neo GPT"}
SHAPES = [
    "AGENT:* (everyone; the asterisk is required)",
    "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
]

MAIL = (
    done(
        "a message is accepted",
        SendMessage,
        OTTO,
        {**HELLO, "subject": "s", "priority": "high"},
    ),
    done("a message of a session", SendMessage, Who("otto-cli", "s-1"), HELLO),
    done(
        "a broadcast",
        SendMessage,
        VERA,
        {"to": "AGENT:*", "payload": {"text": "all"}, "wake": True},
    ),
    done("mail for a group", SendMessage, NOVA, {"to": "@team", "payload": {"text": "team"}}),
    done(
        "mail for a name that nobody has is kept and said",
        SendMessage,
        OTTO,
        {"to": "@ver", "payload": {"text": "hi"}, "wake": False},
        has={"accepted": True},
    ),
    done(
        "the same key and body give the first answer",
        SendMessage,
        OTTO,
        {**HELLO, "key": "k"},
        first=(sent(OTTO, "@vera", "hi", key="k"),),
    ),
    done(
        "a command has its reason",
        SendMessage,
        VERA,
        {
            "to": "@otto-cli",
            "type": "command",
            "payload": {
                "command": "make test",
                "why": "before the merge",
                "cwd": "/w",
                "expects": "ok",
            },
        },
    ),
    done(
        "a blocker has its fix",
        SendMessage,
        VERA,
        {
            "to": "@otto-cli",
            "type": "blocker",
            "payload": {"what": "red", "severity": "warn", "fix": ["make fix"], "task_id": "T-1"},
        },
    ),
    done(
        "a blocker on a task that is not there",
        SendMessage,
        VERA,
        {
            "to": "@otto-cli",
            "type": "blocker",
            "payload": {"what": "red", "severity": "stop", "task_id": "t-99"},
        },
        has={"accepted": True},
    ),
    done(
        "an ask by hand",
        SendMessage,
        OTTO,
        {
            "to": "@vera",
            "type": "ask",
            "payload": {"question": "which?", "options": ["a", "b"], "timeout_s": 60},
        },
        but={"mcp": "the tool ask asks"},
    ),
    done(
        "an announcement",
        SendMessage,
        OTTO,
        {"to": "AGENT:*", "type": "announce", "payload": {"client": "c", "pid": 7}},
        but={"mcp": NO_WORD},
    ),
    done(
        "a reply",
        SendMessage,
        VERA,
        {"to": "@otto-cli", "reply_to": "$mail", "payload": {"text": "r"}},
    ),
    done(
        "a message in a thread",
        SendMessage,
        VERA,
        {"to": "@otto-cli", "thread": "$mail", "payload": {"text": "t"}},
        but={"mcp": NO_WORD},
    ),
    done("mail that expires", SendMessage, OTTO, {**HELLO, "ttl_s": 3600}, but={"mcp": NO_WORD}),
    done("a large body", SendMessage, OTTO, {"to": "@vera", "payload": {"text": "ä" * 600_000}}),
    refused(
        "INVALID_RECIPIENT_SHAPE",
        "a recipient of neither shape",
        SendMessage,
        OTTO,
        {"to": "AGENT:vera", "payload": {"text": "hi"}},
        has={"to": "AGENT:vera", "valid_shapes": SHAPES, "did_you_mean": ["@vera"]},
    ),
    refused(
        "INVALID_RECIPIENT_SHAPE",
        "a bare name",
        SendMessage,
        OTTO,
        {"to": "nobody", "payload": {"text": "hi"}},
        has={"valid_shapes": SHAPES},
    ),
    refused(
        "UNKNOWN_TYPE",
        "a type that there is not",
        SendMessage,
        OTTO,
        {**HELLO, "type": "gossip"},
        but={"mcp": "the tool's schema lists the types"},
    ),
    refused(
        "USE_VERB",
        "a type that belongs to a verb",
        SendMessage,
        OTTO,
        {**HELLO, "type": "evidence"},
        but={"mcp": "the tool's schema lists the types"},
    ),
    refused(
        "INVALID_MESSAGE",
        "a command without its reason",
        SendMessage,
        OTTO,
        {"to": "@vera", "type": "command", "payload": {"command": "make"}},
    ),
    refused(
        "INVALID_MESSAGE",
        "no text",
        SendMessage,
        OTTO,
        {"to": "@vera", "payload": {"text": ""}},
    ),
    refused(
        "INVALID_MESSAGE",
        "a payload with a member too many",
        SendMessage,
        OTTO,
        {"to": "@vera", "payload": {"text": "hi", "more": 1}},
        but={"mcp": "its arguments are not the payload"},
    ),
    refused("USAGE", "a subject of two lines", SendMessage, OTTO, {**HELLO, "subject": "a\nb"}),
    refused(
        "NOT_FOUND",
        "a reply to what is not yours",
        SendMessage,
        NOVA,
        {**HELLO, "reply_to": "$mail"},
    ),
    refused("NOT_FOUND", "a reply to nothing", SendMessage, NOVA, {**HELLO, "reply_to": ABSENT}),
    refused(
        "IDEMPOTENCY_CONFLICT",
        "another body under the same key",
        SendMessage,
        OTTO,
        {**HELLO, "key": "k"},
        first=(sent(OTTO, "@vera", "other", key="k"),),
    ),
    refused(
        "UNKNOWN_RECIPIENT",
        "a name that nobody has, where names are strict",
        SendMessage,
        OTTO,
        {"to": "@ver", "payload": {"text": "hi"}},
        first=(setting("recipients", "strict"),),
        has={"did_you_mean": ["@vera"]},
    ),
    refused(
        "TOO_LARGE",
        "more than the workspace takes",
        SendMessage,
        OTTO,
        {"to": "@vera", "payload": {"text": "x" * 11}},
        first=(setting("limits.message_bytes", "10"),),
        has={"size": 11, "limit": 10},
    ),
    refused(
        "RATE_LIMITED",
        "more than one a minute, where one is the limit",
        SendMessage,
        MIRA,
        HELLO,
        first=(setting("limits.sends_per_minute", "1"), sent(MIRA, "@vera", "x")),
        in_a_minute=True,
    ),
    refused(
        "TOO_MANY_HOPS",
        "a chain of replies that is too long",
        SendMessage,
        OTTO,
        {**HELLO, "reply_to": "$it"},
        first=(setting("limits.hops", "1"), sent(VERA, "@otto-cli", "re", reply_to="$mail")),
    ),
    refused(
        "PAUSED",
        "a send in a pause",
        SendMessage,
        OTTO,
        HELLO,
        first=(PAUSED,),
        has={"reason": "lunch"},
    ),
    refused(
        "MISSING_SCOPE",
        "a send without the scope",
        SendMessage,
        LENA,
        HELLO,
        has={"scope": "mail"},
    ),
    refused(
        "IDENTITY_MISMATCH",
        "a send in another's name",
        SendMessage,
        Who("otto-cli", claims_to_be="vera"),
        HELLO,
        has={"sender": "@otto-cli", "claimed": "vera"},
        but={"python": NO_WORD},
    ),
    done(
        "a send in one's own name",
        SendMessage,
        Who("otto-cli", claims_to_be="@otto-cli"),
        HELLO,
        but={"python": NO_WORD},
    ),
    refused("BAD_TOKEN", "a send with a token of elsewhere", SendMessage, STRANGER, HELLO),
    refused("BAD_TOKEN", "a send with a mistyped token", SendMessage, TYPO, HELLO),
    refused("TOKEN_EXPIRED", "a send with an old token", SendMessage, LATE, HELLO),
    refused(
        "NO_IDENTITY",
        "a send by nobody",
        SendMessage,
        NOBODY,
        HELLO,
        own_words=True,
        but={"mcp stdio": "it does not start for nobody"},
    ),
    refused("USAGE", "a session that cannot be one", SendMessage, Who("otto-cli", "../x"), HELLO),
    done("open mail", ListInbox, VERA, has={"open": 2, "unread": 2}),
    done("mail in pages", ListInbox, VERA, {"limit": 1}, has={"next": "$mail_seq"}),
    done("mail after a position", ListInbox, VERA, {"after": "$mail_seq"}, has={"open": 2}),
    done(
        "all mail",
        ListInbox,
        VERA,
        {"which": "all"},
        first=(Step(VERA, AckMessages, {"messages": ["$mail"]}),),
        but={"mcp": NO_WORD},
    ),
    done("what was sent", ListInbox, OTTO, {"which": "sent"}, but={"mcp": NO_WORD}),
    done(
        "mail that is waited for",
        ListInbox,
        NOVA,
        {"wait_s": 40},
        meanwhile=Meanwhile(_is_waiting("@nova"), sent(OTTO, "@nova", "at last")),
        has={"open": 1},
    ),
    done("mail that is waited for in vain", ListInbox, NOVA, {"wait_s": 1}, has={"messages": []}),
    refused("MISSING_SCOPE", "mail without the scope", ListInbox, LENA),
    done("a message is read", ReadMessage, VERA, {"message": "$mail"}, has={"id": "$mail"}),
    done(
        "a part of it",
        ReadMessage,
        VERA,
        {"message": "$mail", "start": 0, "stop": 5},
        has={"part": True},
    ),
    done("the end of it", ReadMessage, VERA, {"message": "$mail", "start": 6, "stop": 100}),
    done("its sender sees the receipts", ReadMessage, OTTO, {"message": "$mail"}),
    refused("NOT_FOUND", "another's mail", ReadMessage, NOVA, {"message": "$mail"}),
    refused("NOT_FOUND", "no mail at all", ReadMessage, NOVA, {"message": ABSENT}),
    refused("USAGE", "a name that is too short", ReadMessage, VERA, {"message": "abc"}),
    refused("USAGE", "a position that is none", ReadMessage, VERA, {"message": "#x"}),
    refused(
        "USAGE",
        "a range beyond the end",
        ReadMessage,
        VERA,
        {"message": "$mail", "start": 99, "stop": 100},
    ),
    done(
        "handled",
        AckMessages,
        VERA,
        {"messages": ["$mail", "$ask"]},
        has={"acked": ["$mail", "$ask"]},
    ),
    done(
        "declined",
        AckMessages,
        VERA,
        {"messages": ["$mail"], "decline": True, "note": "no time"},
    ),
    refused(
        "NOT_FOUND",
        "one of several that is not there",
        AckMessages,
        VERA,
        {"messages": ["$mail", ABSENT]},
    ),
    refused(
        "NOT_FOUND",
        "another's mail cannot be handled",
        AckMessages,
        NOVA,
        {"messages": ["$mail"]},
    ),
    done(
        "how far it got",
        ShowReceipts,
        OTTO,
        {"message": "$mail"},
        first=(
            Step(VERA, ReadMessage, {"message": "$mail"}),
            Step(VERA, AckMessages, {"messages": ["$mail"], "decline": True, "note": "no"}),
        ),
    ),
    refused("NOT_FOUND", "receipts of another's mail", ShowReceipts, NOVA, {"message": "$mail"}),
    done(
        "a conversation",
        ShowThread,
        OTTO,
        {"message": "$mail"},
        first=(sent(VERA, "@otto-cli", "re", reply_to="$mail"),),
    ),
    refused("NOT_FOUND", "another's conversation", ShowThread, NOVA, {"message": "$mail"}),
    done(
        "an answer",
        AnswerAsk,
        VERA,
        {"message": "$ask", "text": "yes"},
        # Over MCP it is a reply, for which the ask is read.
        first=(Step(VERA, ReadMessage, {"message": "$ask"}),),
        has={"accepted": True},
    ),
    refused(
        "NOT_FOUND",
        "an answer to another's ask",
        AnswerAsk,
        NOVA,
        {"message": "$ask", "text": "yes"},
    ),
    done("who is behind it", Explain, OWNER, {"message": "$mail"}),
    done("who is behind one's own", Explain, OTTO, {"message": "$mail"}),
    refused("NOT_FOUND", "who is behind another's", Explain, NOVA, {"message": "$mail"}),
    done("a body is removed", Redact, OWNER, {"message": "$mail", "reason": "secret"}),
    done("one's own body is removed", Redact, OTTO, {"message": "$mail", "reason": "secret"}),
    refused("USAGE", "removed for no reason", Redact, OTTO, {"message": "$mail", "reason": " "}),
    refused("NOT_FOUND", "another's body", Redact, NOVA, {"message": "$mail", "reason": "r"}),
    done(
        "a question that is answered",
        Ask,
        OTTO,
        {"to": "@vera", "question": "free?", "options": ["yes", "no"], "wait_s": 40},
        meanwhile=ANSWERED,
        has={"answered": True},
        but={"cli": LIMITED},
    ),
    done(
        "a question with a time limit that is answered",
        Ask,
        OTTO,
        {"to": "@vera", "question": "free?", "wait_s": 40, "timeout_s": 40},
        meanwhile=ANSWERED,
        has={"answered": True},
        but={"mcp": NO_WORD},
    ),
    no(
        "NO_ANSWER",
        "a question that nobody answers",
        Ask,
        OTTO,
        {"to": "@vera", "question": "free?", "wait_s": 1},
        but={"cli": LIMITED},
    ),
    no(
        "NO_ANSWER",
        "a question with a time limit that nobody answers",
        Ask,
        OTTO,
        {"to": "@vera", "question": "free?", "wait_s": 1, "timeout_s": 1},
        but={"mcp": NO_WORD},
    ),
    refused(
        "INVALID_RECIPIENT_SHAPE",
        "a question to nobody",
        Ask,
        OTTO,
        {"to": "vera", "question": "q", "wait_s": 1},
    ),
    done(
        "an ask that stands open",
        FindAnswer,
        OTTO,
        {"message": "$ask"},
        has={"answered": False},
    ),
    done(
        "an ask that was answered",
        FindAnswer,
        OTTO,
        {"message": "$ask"},
        first=(Step(VERA, AnswerAsk, {"message": "$ask", "text": "yes"}),),
        has={"answered": True},
    ),
    refused("NOT_FOUND", "another's ask", FindAnswer, NOVA, {"message": "$ask"}),
    done("what is found", Search, VERA, {"query": "hello", "limit": 5}, has={"query": "hello"}),
    done("nothing is found of others", Search, NOVA, {"query": "hello"}, has={"messages": []}),
    done("everybody's mail, for the owner", ListMail, OWNER, {"limit": 2}),
    done("everybody's mail, for an admin", ListMail, DORA),
    refused("MISSING_SCOPE", "everybody's mail, for an agent", ListMail, OTTO),
    done("a chunk", PutChunk, OTTO, {"data": b"\x00half", "size": 10}, has={"number": 0}),
    refused("USAGE", "a chunk of nothing", PutChunk, OTTO, {"data": b"", "size": 0}),
    refused("TOO_LARGE", "a chunk of too much", PutChunk, OTTO, {"data": b"x", "size": 10**9}),
    done(
        "an upload is given up",
        DropUpload,
        OTTO,
        {"upload": "$upload"},
        first=(Step(OTTO, PutChunk, {"data": b"half", "size": 9}, {"upload": "upload"}),),
    ),
)

S1, S2 = Who("otto-cli", "s-1"), Who("otto-cli", "s-2")
PATHS = {"paths": ["src/**", "doc"], "repo": "example.com/other"}
WHERE = {"branch": "b", "worktree": "/w", "note": "n"}
STARTED = Step(OTTO, StartSession, {"id": "s-1"})

CLAIMS = (
    done(
        "a claim",
        AcquireClaim,
        VERA,
        {**WHERE, "item": "B-9", "ttl_s": 600},
        has={"acquired": True},
    ),
    done("a claim of a session", AcquireClaim, S1, {"item": "B-9", "ttl_s": 600}),
    done("a claim on paths", AcquireClaim, OTTO, {**PATHS, "ttl_s": 600}),
    done("one's own again", AcquireClaim, OTTO, {"item": "B-1", "ttl_s": 7200}),
    done(
        "a worktree that another uses is said",
        AcquireClaim,
        VERA,
        {"item": "B-9", "ttl_s": 600, "worktree": "/w"},
        first=(held(OTTO, "B-8", worktree="/w"),),
    ),
    done(
        "a claim that is waited for",
        AcquireClaim,
        VERA,
        {"item": "B-1", "ttl_s": 600, "wait_s": 40},
        meanwhile=Meanwhile(
            lambda owner: owner.status()["waiting"] == 1,
            Step(OTTO, ReleaseClaim, {"item": "B-1"}),
        ),
        has={"acquired": True},
    ),
    no("CLAIM_HELD", "what another holds", AcquireClaim, VERA, {"item": "B-1", "ttl_s": 600}),
    no(
        "CLAIM_HELD",
        "what another session holds",
        AcquireClaim,
        S2,
        {"item": "B-1", "ttl_s": 600},
    ),
    no(
        "CLAIM_HELD",
        "paths that meet held ones",
        AcquireClaim,
        OTTO,
        {"paths": ["src/a.py"], "repo": "example.com/r", "ttl_s": 600},
    ),
    no(
        "CLAIM_HELD",
        "waited for in vain",
        AcquireClaim,
        VERA,
        {"item": "B-1", "ttl_s": 600, "wait_s": 1},
    ),
    refused(
        "USAGE",
        "an item that cannot be one",
        AcquireClaim,
        OTTO,
        {"item": "-5 %", "ttl_s": 600},
    ),
    refused(
        "USAGE",
        "a lease of two years",
        AcquireClaim,
        OTTO,
        {"item": "B-9", "ttl_s": 99999999},
        own_words=True,
    ),
    refused(
        "USAGE",
        "a path out of the repository",
        AcquireClaim,
        OTTO,
        {"paths": ["../x"], "repo": "example.com/r", "ttl_s": 600},
    ),
    refused(
        "MISSING_SCOPE",
        "a claim without the scope",
        AcquireClaim,
        MIRA,
        {"item": "B-9", "ttl_s": 600},
    ),
    refused(
        "PAUSED",
        "a claim in a pause",
        AcquireClaim,
        VERA,
        {"item": "B-9", "ttl_s": 600},
        first=(PAUSED,),
    ),
    done("every claim", ListClaims, OTTO),
    done("every claim, for the owner", ListClaims, OWNER, but={"mcp": "the owner is no sender"}),
    done("one's own claims", ListClaims, VERA, {"mine": True}, but={"mcp": "whoami lists them"}),
    done(
        "what nobody holds",
        CheckClaim,
        OTTO,
        {"item": "B-9"},
        has={"claimed": False, "claims": []},
    ),
    no(None, "what somebody holds", CheckClaim, VERA, {"item": "B-1"}, has={"claimed": True}),
    no(
        None,
        "paths that somebody holds",
        CheckClaim,
        OTTO,
        {"paths": ["src/a.py"], "repo": "example.com/r"},
    ),
    done(
        "a longer lease",
        RenewClaim,
        OTTO,
        {"item": "B-1", "ttl_s": 7200, "fence": "$fence"},
        has={"renewed": True},
    ),
    done(
        "a longer lease, by its id",
        RenewClaim,
        OTTO,
        {"id": "$claim", "ttl_s": 7200},
        but={"cli": NO_WORD},
    ),
    refused("NOT_HOLDER", "another's lease", RenewClaim, VERA, {"item": "B-1"}),
    refused("NOT_HOLDER", "a lease of another session", RenewClaim, S1, {"item": "B-1"}),
    refused(
        "STALE_FENCE",
        "a lease with an old fence",
        RenewClaim,
        OTTO,
        {"item": "B-1", "fence": "$fence"},
        first=(Step(OTTO, ReleaseClaim, {"item": "B-1"}), held(OTTO, "B-1")),
    ),
    refused("NOT_HOLDER", "a lease that there is not", RenewClaim, OTTO, {"item": "B-9"}),
    done("given up", ReleaseClaim, OTTO, {"item": "B-1"}, has={"released": True}),
    done(
        "given up, with its fence",
        ReleaseClaim,
        OTTO,
        {"item": "B-1", "fence": "$fence"},
        but={"mcp": NO_WORD},
    ),
    done(
        "given up, by its id",
        ReleaseClaim,
        OTTO,
        {"id": "$claim"},
        but={"cli": NO_WORD, "mcp": NO_WORD},
    ),
    done(
        "given up, on paths",
        ReleaseClaim,
        VERA,
        {"paths": ["src/**"], "repo": "example.com/r"},
    ),
    done("nobody's", ReleaseClaim, OTTO, {"item": "B-9"}, has={"released": False}),
    refused("NOT_HOLDER", "another's cannot be given up", ReleaseClaim, VERA, {"item": "B-1"}),
    refused(
        "STALE_FENCE",
        "what was taken over meanwhile",
        ReleaseClaim,
        OTTO,
        {"item": "B-1", "fence": "$fence"},
        first=(Step(VERA, TakeOverClaim, {"reason": "away", "item": "B-1"}),),
        but={"mcp": NO_WORD},
    ),
    done(
        "taken over",
        TakeOverClaim,
        VERA,
        {**WHERE, "item": "B-1", "reason": "away", "ttl_s": 600},
    ),
    refused(
        "NOT_FOUND",
        "taken over from nobody",
        TakeOverClaim,
        VERA,
        {"item": "B-9", "reason": "r"},
    ),
    refused(
        "MISSING_SCOPE",
        "taken over by an agent",
        TakeOverClaim,
        NOVA,
        {"item": "B-1", "reason": "r"},
    ),
    done("out of the queue", StopWaiting, NOVA, {"item": "B-1"}, has={"waiting": False}),
    done(
        "a claim that guards every copy",
        AcquireClaim,
        OTTO,
        {**PATHS, "worktree": "/w", "everywhere": True},
        but={"mcp": NO_WORD},
    ),
)

HERE = {"repo": "$root/cwd/.git", "worktree": "$root/cwd"}
COMMITTED = {"commit": "$commit", "paths": [PROOF], **HERE}
THEIRS = Step(NOVA, AcquireClaim, {"paths": ["*.txt"], **HERE, "note": "n"})
ELSEWHERE_HELD = Step(NOVA, AcquireClaim, {"paths": ["*.txt"], **HERE, "worktree": "/far"})

GUARD = (
    done(
        "files that nobody holds",
        CheckPaths,
        OTTO,
        {"paths": [PROOF], **HERE},
        has={"allowed": True, "denied": [], "warned": []},
    ),
    done(
        "files of one's own",
        CheckPaths,
        NOVA,
        {"paths": [PROOF], **HERE},
        first=(THEIRS,),
        has={"allowed": True},
    ),
    no(
        "CLAIM_HELD",
        "files that another holds",
        CheckPaths,
        OTTO,
        {"paths": [PROOF, "a.py"], **HERE},
        first=(THEIRS,),
        has={"allowed": False},
    ),
    no(
        "CLAIM_HELD",
        "files that somebody holds, for one who has no name",
        CheckPaths,
        OWNER,
        {"paths": [PROOF], **HERE},
        first=(THEIRS,),
        own_words=True,
    ),
    done(
        "files that another holds in another worktree",
        CheckPaths,
        OTTO,
        {"paths": [PROOF], **HERE},
        first=(ELSEWHERE_HELD,),
        has={"allowed": True},
    ),
    done(
        "files that another holds, where nothing guards them",
        CheckPaths,
        OTTO,
        {"paths": [PROOF], **HERE},
        first=(THEIRS, setting("guard", "off")),
        has={"warned": []},
    ),
    refused(
        "USAGE",
        "files outside the repository",
        CheckPaths,
        OTTO,
        {"paths": ["../x"], **HERE},
        own_words=True,
    ),
    done("a commit that crosses nothing", ReportCommit, OTTO, COMMITTED, has={"crossed": []}),
    done("a commit that crosses a claim", ReportCommit, OTTO, COMMITTED, first=(THEIRS,)),
    done(
        "a commit that was reported before",
        ReportCommit,
        OTTO,
        COMMITTED,
        first=(THEIRS, Step(OTTO, ReportCommit, COMMITTED)),
    ),
    refused(
        "USAGE",
        "a commit by half its name",
        ReportCommit,
        OTTO,
        {**COMMITTED, "commit": "abc"},
        but={"cli": "git names it"},
    ),
)

NOT_THERE = "0" * 40
PASSED = {"task": "T-4", "gate": "athena", "verdict": "pass", "commit": "$commit"}
PASS = Step(DORA, GiveVerdict, PASSED)
SUBMITTED = {"id": "T-3", "commit": "$commit", "tree": "$tree"}
SAID = {"kind": "note", "text": "it works", "task_id": "T-3"}
UPLOADED = Step(NOVA, PutChunk, {"data": PROVED, "size": len(PROVED)}, {"upload": "upload"})
RAN_BEFORE = (
    UPLOADED,
    Step(
        NOVA,
        AddEvidence,
        {"payload": {**RAN, "task_id": "T-3", "criterion": 1}, "upload": "$upload"},
    ),
)
# T-3 is otto's by now.
LOST = (
    Step(NOVA, ReleaseClaim, {"item": "T-3"}),
    Step(OTTO, TakeTask, {"id": "T-3"}, {"new_fence": "claim.fence"}),
)
RAISED = Step(
    VERA,
    RaiseBlocker,
    {"what": "it is slow", "task": "T-3", "fix": ["make fast"]},
    {"raised": "blocker.id"},
)
NO_SENDER = {"mcp": "the owner is no sender"}
RUNS = {"cli": "it runs them itself", "mcp": "no tool runs anything"}

TASKS = (
    done("a task", CreateTask, OTTO, {"title": "Name it"}),
    done(
        "a task with its brief",
        CreateTask,
        OTTO,
        {
            "title": "Name it",
            "id": "B-7",
            "brief": "# Names\n\nAll of them.",
            "criteria": ["make test passes", "it reads well"],
            "gates": ["athena"],
            "depends_on": ["T-1", "T-2"],
        },
    ),
    done(
        "a task for somebody",
        CreateTask,
        OTTO,
        {"title": "Name it", "assignee": "@vera", "priority": "high", "labels": ["ui", "list"]},
        but={"mcp": NO_WORD},
    ),
    done(
        "a task for a name that nobody has",
        CreateTask,
        OTTO,
        {"title": "Name it", "assignee": "@ghost"},
        but={"mcp": NO_WORD},
    ),
    refused(
        "GATE_HAS_NO_HOLDER",
        "a gate that nobody holds",
        CreateTask,
        OTTO,
        {"title": "Name it", "gates": ["atena"]},
        has={"gate": "atena", "did_you_mean": ["athena"]},
    ),
    refused(
        "GATE_HAS_NO_HOLDER",
        "a gate that only the worker holds",
        CreateTask,
        OTTO,
        {"title": "Name it", "gates": ["athena"], "assignee": "@dora"},
        but={"mcp": NO_WORD},
        has={"gate": "athena"},
    ),
    refused("NAME_TAKEN", "a task that is there", CreateTask, OTTO, {"title": "x", "id": "T-1"}),
    refused(
        "NOT_FOUND",
        "a task that depends on none",
        CreateTask,
        OTTO,
        {"title": "x", "depends_on": ["T-9"]},
    ),
    refused(
        "USAGE",
        "a task that depends on itself",
        CreateTask,
        OTTO,
        {"title": "x", "id": "B-7", "depends_on": ["B-7"]},
    ),
    refused("USAGE", "a title that is too long", CreateTask, OTTO, {"title": "x" * 281}),
    refused(
        "INVALID_MESSAGE",
        "a gate that cannot be one",
        CreateTask,
        OTTO,
        {"title": "x", "gates": ["Pallas Athene"]},
    ),
    refused(
        "MISSING_SCOPE",
        "a task without the scope",
        CreateTask,
        MIRA,
        {"title": "x"},
        has={"scope": "work"},
    ),
    refused("PAUSED", "a task in a pause", CreateTask, OTTO, {"title": "x"}, first=(PAUSED,)),
    done("the tasks that live", ListTasks, OTTO, {"state": "live"}),
    done("every task, for the owner", ListTasks, OWNER, but={"mcp": NO_WORD}),
    done(
        "the tasks that are not wanted",
        ListTasks,
        OTTO,
        {"state": "cancelled"},
        but={"mcp": NO_WORD},
    ),
    done("one's own tasks", ListTasks, NOVA, {"mine": True}, but={"mcp": "whoami lists them"}),
    done("tasks in pages", ListTasks, VERA, {"limit": 2}, but={"mcp": NO_WORD}),
    refused(
        "USAGE",
        "a state that there is not",
        ListTasks,
        OTTO,
        {"state": "asleep"},
        own_words=True,
        but={"mcp": NO_WORD},
    ),
    done("a task that waits", ShowTask, OTTO, {"id": "T-1"}),
    done("a task that is submitted", ShowTask, VERA, {"id": "T-4"}),
    done("a task, for the owner", ShowTask, OWNER, {"id": "T-3"}, but=NO_SENDER),
    refused("NOT_FOUND", "a task that there is not", ShowTask, OTTO, {"id": "T-99"}),
    refused("USAGE", "a task that cannot be one", ShowTask, OTTO, {"id": "T 1"}),
    done("a task is taken", TakeTask, OTTO, {"id": "T-1", "note": "mine"}, has={"taken": True}),
    done(
        "a task is taken, and where",
        TakeTask,
        S1,
        {**WHERE, "id": "T-1", "ttl_s": 600},
        but={"mcp": NO_WORD},
    ),
    done("one's own task again", TakeTask, NOVA, {"id": "T-3"}, has={"taken": True}),
    no("CLAIM_HELD", "another's task", TakeTask, OTTO, {"id": "T-3"}, has={"taken": False}),
    no(
        "GATES_NOT_PASSED",
        "a task that waits for another",
        TakeTask,
        OTTO,
        {"id": "T-2"},
        has={"taken": False},
    ),
    refused("ALREADY_DONE", "a task that is not wanted", TakeTask, OTTO, {"id": "T-5"}),
    refused("NOT_FOUND", "no task to take", TakeTask, OTTO, {"id": "T-99"}),
    refused("MISSING_SCOPE", "taken without the scope", TakeTask, MIRA, {"id": "T-1"}),
    done(
        "a commit is submitted",
        SubmitTask,
        NOVA,
        {**SUBMITTED, "fence": "$work_fence"},
        first=RAN_BEFORE,
        has={"submitted": True},
    ),
    refused(
        "USAGE",
        "a commit that is none",
        SubmitTask,
        NOVA,
        {"id": "T-3", "commit": "x"},
        own_words=True,
    ),
    refused(
        "USAGE",
        "a commit whose tree nobody knows",
        SubmitTask,
        NOVA,
        {"id": "T-3", "commit": NOT_THERE},
    ),
    refused(
        "NOT_HOLDER",
        "another's task is submitted",
        SubmitTask,
        OTTO,
        SUBMITTED,
    ),
    refused(
        "STALE_FENCE",
        "submitted under a lost claim",
        SubmitTask,
        NOVA,
        {**SUBMITTED, "fence": "$work_fence"},
        first=LOST,
    ),
    refused(
        "STALE_FENCE",
        "submitted where the claim was lost",
        SubmitTask,
        NOVA,
        SUBMITTED,
        first=LOST,
    ),
    refused(
        "ALREADY_DONE",
        "submitted too late",
        SubmitTask,
        NOVA,
        {**SUBMITTED, "id": "T-5"},
    ),
    done(
        "a task is done",
        CompleteTask,
        NOVA,
        {"id": "T-4"},
        first=(PASS,),
        has={"completed": True},
    ),
    no(
        "GATES_NOT_PASSED",
        "done without a pass",
        CompleteTask,
        NOVA,
        {"id": "T-4"},
        has={"completed": False},
    ),
    no("GATES_NOT_PASSED", "done with nothing to show", CompleteTask, NOVA, {"id": "T-3"}),
    no(
        "GATES_NOT_PASSED",
        "done with a verdict on what was submitted before",
        CompleteTask,
        NOVA,
        {"id": "T-4"},
        first=(PASS, Step(NOVA, SubmitTask, {**SUBMITTED, "id": "T-4"})),
    ),
    refused(
        "ALREADY_DONE",
        "done twice",
        CompleteTask,
        NOVA,
        {"id": "T-4"},
        first=(PASS, Step(NOVA, CompleteTask, {"id": "T-4"})),
        has={"task": "T-4", "state": "done"},
    ),
    refused(
        "STALE_FENCE",
        "done under a lost claim",
        CompleteTask,
        NOVA,
        {"id": "T-3", "fence": "$work_fence"},
        first=LOST,
    ),
    refused("NOT_HOLDER", "another's task is done", CompleteTask, OTTO, {"id": "T-4"}),
    done("a task is given up", FailTask, NOVA, {"id": "T-3", "note": "it cannot be"}),
    refused(
        "STALE_FENCE",
        "given up under a lost claim",
        FailTask,
        NOVA,
        {"id": "T-3", "fence": "$work_fence"},
        first=LOST,
    ),
    refused("NOT_HOLDER", "another's task is given up", FailTask, OTTO, {"id": "T-3"}),
    refused("ALREADY_DONE", "given up too late", FailTask, NOVA, {"id": "T-5"}),
    done("a task is not wanted", CancelTask, DORA, {"id": "T-1", "note": "no time"}),
    done("a person does not want it", CancelTask, VERA, {"id": "T-3"}),
    refused("MISSING_SCOPE", "an agent does not want it", CancelTask, OTTO, {"id": "T-1"}),
    refused("ALREADY_DONE", "cancelled twice", CancelTask, DORA, {"id": "T-5"}),
)

EVIDENCE = (
    done(
        "evidence of the worker would be taken",
        PrepareEvidence,
        NOVA,
        {"task": "T-3", "criterion": 1},
        has={"task": "T-3", "fence": "$work_fence"},
    ),
    done(
        "evidence of a reader would be taken",
        PrepareEvidence,
        VERA,
        {"task": "T-3"},
        has={"task": "T-3"},
    ),
    refused(
        "STALE_FENCE",
        "evidence of who lost it would not be taken",
        PrepareEvidence,
        NOVA,
        {"task": "T-3"},
        first=LOST,
    ),
    refused(
        "STALE_FENCE",
        "evidence under another fence would not be taken",
        PrepareEvidence,
        NOVA,
        {"task": "T-3", "fence": 999},
    ),
    done("a note", AddEvidence, NOVA, {"payload": {**SAID, "criterion": 1, "title": "seen"}}),
    done("a note of a reader", AddEvidence, VERA, {"payload": SAID}, has={"counts": False}),
    done(
        "a page",
        AddEvidence,
        NOVA,
        {"payload": {"kind": "url", "url": "https://example.com/ci/7", "task_id": "T-3"}},
    ),
    done(
        "a file",
        AddEvidence,
        NOVA,
        {"payload": {"kind": "file", "name": PROOF, **KEPT, "task_id": "T-3"}, "upload": "$upload"},
        first=(UPLOADED,),
        but={"mcp http": "the file is on another machine"},
    ),
    done(
        "a run",
        AddEvidence,
        NOVA,
        {
            "payload": {**RAN, "task_id": "T-3", "criterion": 1},
            "upload": "$upload",
            "fence": "$work_fence",
        },
        first=(UPLOADED,),
        but=RUNS,
        has={"counts": True},
    ),
    done(
        "a run that failed",
        AddEvidence,
        NOVA,
        {
            "payload": {**RAN, "task_id": "T-3", "criterion": 1, "exit_code": 2},
            "upload": "$upload",
        },
        first=(UPLOADED,),
        but=RUNS,
        has={"counts": False, "why": "The run exited 2."},
    ),
    refused(
        "DIGEST_MISMATCH",
        "a run with other bytes than it says",
        AddEvidence,
        NOVA,
        {
            "payload": {**RAN, "task_id": "T-3", "output": {**KEPT, "sha256": "0" * 64}},
            "upload": "$upload",
        },
        first=(UPLOADED,),
        but=RUNS,
    ),
    refused(
        "USAGE",
        "a run whose bytes were not uploaded",
        AddEvidence,
        NOVA,
        {"payload": {**RAN, "task_id": "T-3"}},
        but=RUNS,
    ),
    refused(
        "USAGE",
        "a criterion that there is not",
        AddEvidence,
        NOVA,
        {"payload": {**SAID, "criterion": 9}},
    ),
    refused(
        "INVALID_MESSAGE",
        "a page that is none",
        AddEvidence,
        NOVA,
        {"payload": {"kind": "url", "url": "over there", "task_id": "T-3"}},
    ),
    refused(
        "STALE_FENCE",
        "a note under a lost claim",
        AddEvidence,
        NOVA,
        {"payload": SAID, "fence": "$work_fence"},
        first=LOST,
        but={"mcp": NO_WORD},
    ),
    refused(
        "STALE_FENCE",
        "a note of who lost it",
        AddEvidence,
        NOVA,
        {"payload": SAID},
        first=LOST,
    ),
    refused(
        "ALREADY_DONE",
        "a note too late",
        AddEvidence,
        NOVA,
        {"payload": {**SAID, "task_id": "T-5"}},
    ),
    refused("MISSING_SCOPE", "a note without the scope", AddEvidence, MIRA, {"payload": SAID}),
    done("what was run", ShowEvidence, VERA, {"id": "$ran"}, has={"counts": True}),
    done("what was said", ShowEvidence, OWNER, {"id": "$said"}, has={"counts": False}),
    done(
        "a part of what was run",
        ShowEvidence,
        VERA,
        {"id": "$ran", "start": 2, "stop": 5},
    ),
    refused(
        "USAGE",
        "a part beyond its end",
        ShowEvidence,
        VERA,
        {"id": "$ran", "start": 99, "stop": 100},
        has={"size": len(PROVED)},
    ),
    refused("NOT_FOUND", "evidence that there is not", ShowEvidence, VERA, {"id": ABSENT}),
)

GATES = (
    done("a gate", CreateGate, OWNER, {"name": "hera", "holders": ["@vera", "nova"]}),
    done(
        "other holders of a gate",
        CreateGate,
        DORA,
        {"name": "athena", "holders": ["@vera"], "replace": True},
    ),
    refused(
        "NAME_TAKEN",
        "a gate that is there",
        CreateGate,
        OWNER,
        {"name": "athena", "holders": ["@vera"]},
    ),
    refused(
        "GATE_HAS_NO_HOLDER",
        "a gate held by nobody",
        CreateGate,
        OWNER,
        {"name": "hera", "holders": ["@ver"]},
        has={"gate": "hera", "did_you_mean": ["@vera"]},
    ),
    refused(
        "USAGE",
        "a gate of no name",
        CreateGate,
        OWNER,
        {"name": "He ra", "holders": ["@vera"]},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent makes no gate",
        CreateGate,
        OTTO,
        {"name": "hera", "holders": ["@vera"]},
    ),
    done("the gates", ListGates, OTTO),
    done(
        "a verdict would be taken",
        PrepareVerdict,
        DORA,
        {"task": "T-4", "gate": "athena"},
        has={"artifact": {"commit": "$commit", "tree": "$tree"}},
    ),
    refused(
        "OWN_WORK",
        "a verdict of the worker would not be taken",
        PrepareVerdict,
        NOVA,
        {"task": "T-4", "gate": "athena"},
    ),
    done("a pass", GiveVerdict, DORA, {**PASSED, "note": "well done"}),
    done(
        "a pass that relies on evidence",
        GiveVerdict,
        DORA,
        {**PASSED, "evidence": ["$ran"]},
    ),
    done(
        "a pass on whatever is submitted",
        GiveVerdict,
        DORA,
        {"task": "T-4", "gate": "athena", "verdict": "pass"},
        but={"mcp": "the tool has to say which commit was looked at"},
    ),
    done(
        "a fail",
        GiveVerdict,
        DORA,
        {**PASSED, "verdict": "fail", "note": "it is red", "fix": ["make fix", "make test"]},
    ),
    done("a fail without a word", GiveVerdict, DORA, {**PASSED, "verdict": "fail"}),
    refused(
        "OWN_WORK",
        "one's own work",
        GiveVerdict,
        NOVA,
        PASSED,
        has={"task": "T-4", "gate": "athena"},
    ),
    refused(
        "MISSING_SCOPE",
        "a gate that one does not hold",
        GiveVerdict,
        VERA,
        PASSED,
        has={"scope": "gate:athena"},
    ),
    refused(
        "NOT_SUBMITTED",
        "another commit than the submitted one",
        GiveVerdict,
        DORA,
        {**PASSED, "commit": NOT_THERE},
        has={"task": "T-4", "submitted": {"commit": "$commit", "tree": "$tree"}},
    ),
    refused(
        "NOT_SUBMITTED",
        "nothing that could be judged",
        GiveVerdict,
        DORA,
        {**PASSED, "task": "T-3"},
        has={"task": "T-3", "state": "taken"},
    ),
    refused(
        "NOT_FOUND",
        "a gate that the task has not",
        GiveVerdict,
        DORA,
        {**PASSED, "gate": "hera"},
        has={"gates": ["athena"]},
    ),
    refused(
        "NOT_FOUND",
        "a verdict that relies on another's evidence",
        GiveVerdict,
        DORA,
        {**PASSED, "evidence": ["$said"]},
    ),
    refused(
        "ALREADY_DONE",
        "a verdict too late",
        GiveVerdict,
        DORA,
        {**PASSED, "task": "T-5"},
    ),
    done(
        "a commit that passed",
        CheckGate,
        OTTO,
        {"gate": "athena", "commit": "$commit"},
        first=(PASS,),
        has={"passed": True},
    ),
    no(
        "GATES_NOT_PASSED",
        "a commit that has not passed",
        CheckGate,
        OWNER,
        {"gate": "athena", "commit": "$commit"},
        has={"passed": False},
    ),
    done(
        "a blocker of a task",
        RaiseBlocker,
        VERA,
        {"what": "it is slow", "task": "T-3", "severity": "warn", "fix": ["make fast"]},
    ),
    done(
        "a blocker for somebody",
        RaiseBlocker,
        NOVA,
        {"what": "it is slow", "task": "T-3", "to": "@vera"},
    ),
    done(
        "a blocker of no task",
        RaiseBlocker,
        NOVA,
        {"what": "it is slow", "to": "@vera"},
        but={"cli": NO_WORD},
    ),
    done(
        "a blocker for whoever can be found",
        RaiseBlocker,
        DORA,
        {"what": "it is slow", "task": "T-1"},
    ),
    refused(
        "MISSING_SCOPE",
        "a blocker without the scope",
        RaiseBlocker,
        MIRA,
        {"what": "it is slow", "task": "T-3"},
    ),
    refused(
        "ALREADY_DONE",
        "a blocker too late",
        RaiseBlocker,
        VERA,
        {"what": "it is slow", "task": "T-5"},
    ),
    done("what stands in the way", ListBlockers, OTTO),
    done(
        "what stood in the way of a task",
        ListBlockers,
        OWNER,
        {"task": "T-3", "all": True},
        first=(Step(NOVA, ResolveBlocker, {"id": "$blocker"}),),
    ),
    refused("NOT_FOUND", "what stands in no task's way", ListBlockers, OTTO, {"task": "T-99"}),
    done("one's own blocker is resolved", ResolveBlocker, NOVA, {"id": "$blocker"}),
    done(
        "a person resolves a blocker",
        ResolveBlocker,
        VERA,
        {"id": "$blocker", "note": "there it is"},
    ),
    refused(
        "OWN_WORK",
        "the worker resolves no blocker",
        ResolveBlocker,
        NOVA,
        {"id": "$raised"},
        first=(RAISED,),
        has={"task": "T-3"},
    ),
    refused(
        "MISSING_SCOPE",
        "another agent resolves none",
        ResolveBlocker,
        OTTO,
        {"id": "$blocker"},
    ),
    refused("NOT_FOUND", "a blocker that there is not", ResolveBlocker, VERA, {"id": ABSENT}),
)

INVITED = {"code": "$invitation"}
BY_LINK = {ON_THE_FILE: "a link leads to a server"}

IDENTITY = (
    done("who one is", Whoami, OTTO, has={"sender": "otto-cli", "open": 1}),
    done("who one is in a session", Whoami, S1, first=(STARTED,), has={"session": "s-1"}),
    refused("BAD_TOKEN", "who a stranger is", Whoami, STRANGER),
    refused("TOKEN_EXPIRED", "who one was", Whoami, LATE),
    refused(
        "NO_IDENTITY",
        "the owner is no sender",
        Whoami,
        OWNER,
        own_words=True,
        but={"mcp": "it is nobody there"},
    ),
    refused(
        "IDENTITY_MISMATCH",
        "who another is",
        Whoami,
        Who("otto-cli", claims_to_be="vera"),
        but={"python": NO_WORD},
    ),
    done("who is there", ListAgents, VERA),
    done("who is there, for the owner", ListAgents, OWNER, but={"mcp": "the owner is no sender"}),
    done("one who is there", ListAgents, VERA, {"name": "nova"}),
    done("one who is not there", ListAgents, VERA, {"name": "ghost"}, has={"agents": []}),
    done(
        "somebody joins",
        Join,
        OWNER,
        {"name": "rita", "surface": "web", "kind": "agent", "label": "Rita"},
    ),
    done(
        "somebody joins with scopes",
        Join,
        DORA,
        {"name": "rita", "kind": "human", "scopes": ["mail", "gate:athena"]},
    ),
    refused("NAME_TAKEN", "a name that is taken", Join, OWNER, {"name": "vera"}),
    refused("USAGE", "a name that cannot be one", Join, OWNER, {"name": "Rita Ré"}),
    refused(
        "USAGE", "a scope that there is not", Join, OWNER, {"name": "rita", "scopes": ["root"]}
    ),
    refused("MISSING_SCOPE", "an agent lets nobody join", Join, OTTO, {"name": "rita"}),
    refused("PAUSED", "nobody joins in a pause", Join, OWNER, {"name": "rita"}, first=(PAUSED,)),
    done("a person is invited", Invite, OWNER, {"name": "hugo", "own": ["@nova", "remi"]}),
    done(
        "another machine is invited",
        Invite,
        DORA,
        {"name": "otto", "surface": "laptop", "ttl_s": 3600},
        has={"sender": "otto-laptop", "kind": "agent"},
    ),
    done("an agent is invited", Invite, OWNER, {"name": "remi", "kind": "agent"}),
    refused(
        "NAME_TAKEN", "a kind that it is not", Invite, OWNER, {"name": "nova", "kind": "human"}
    ),
    refused("USAGE", "an agent owns none", Invite, OWNER, {"name": "nova", "own": ["remi"]}),
    refused(
        "NAME_TAKEN",
        "an agent is one person's",
        Invite,
        OWNER,
        {"name": "hugo", "own": ["robo"]},
    ),
    refused("MISSING_SCOPE", "a person invites nobody", Invite, VERA, {"name": "hugo"}),
    refused("MISSING_SCOPE", "an agent invites nobody", Invite, OTTO, {"name": "hugo"}),
    refused(
        "PAUSED",
        "nobody is invited in a pause",
        Invite,
        OWNER,
        {"name": "hugo"},
        first=(PAUSED,),
    ),
    done("an invitation", AcceptInvitation, NOBODY, INVITED, but=BY_LINK),
    done("an invitation, whoever shows it", AcceptInvitation, STRANGER, INVITED, but=BY_LINK),
    refused(
        "BAD_TOKEN",
        "an invitation is good once",
        AcceptInvitation,
        NOBODY,
        INVITED,
        first=(Step(OTTO, AcceptInvitation, INVITED),),
        but=BY_LINK,
    ),
    refused(
        "BAD_TOKEN",
        "an invitation that there is not",
        AcceptInvitation,
        NOBODY,
        {"code": "nobody-is-invited"},
        but=BY_LINK,
    ),
    refused(
        "TOKEN_EXPIRED",
        "an invitation too late",
        AcceptInvitation,
        NOBODY,
        {"code": "$late_invitation"},
        but=BY_LINK,
    ),
    refused(
        "PAUSED",
        "nobody joins by an invitation in a pause",
        AcceptInvitation,
        NOBODY,
        INVITED,
        first=(PAUSED,),
        but=BY_LINK,
    ),
    done("one's own connections", ListConnections, VERA),
    done("one's own connections, in a browser", ListConnections, BROWSER),
    done("everybody's connections", ListConnections, OWNER),
    refused("MISSING_SCOPE", "an agent sees no connections", ListConnections, OTTO),
    done(
        "a connection is named",
        NameConnection,
        VERA,
        {"id": "$connection", "name": "my phone"},
        has={"name": "my phone"},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent names no connection",
        NameConnection,
        NOVA,
        {"id": "$connection", "name": "mine"},
    ),
    refused(
        "USAGE",
        "a connection has a name",
        NameConnection,
        VERA,
        {"id": "$connection", "name": " "},
    ),
    done(
        "a connection ends",
        RevokeConnection,
        VERA,
        {"id": "$connection"},
        has={"revoked": ["$connection"]},
    ),
    done(
        "a connection ends in a pause",
        RevokeConnection,
        VERA,
        {"id": "$connection"},
        first=(PAUSED,),
    ),
    done("an invitation is withdrawn", RevokeConnection, OWNER, {"id": "$invited"}),
    refused("NOT_FOUND", "another's invitation", RevokeConnection, VERA, {"id": "$invited"}),
    done("a browser is signed out", RevokeConnection, DORA, {"id": "$signed_in"}),
    done(
        "a person is locked out",
        RevokeConnection,
        OWNER,
        {"id": "@vera"},
        has={"person": "@vera"},
    ),
    refused("NOT_FOUND", "nobody is locked out", RevokeConnection, OWNER, {"id": "@nobody"}),
    refused("NOT_FOUND", "no agent is locked out", RevokeConnection, OWNER, {"id": "@otto"}),
    refused("MISSING_SCOPE", "who may lock out", RevokeConnection, VERA, {"id": "@vera"}),
    refused(
        "NOT_FOUND",
        "a connection that there is not",
        RevokeConnection,
        OWNER,
        {"id": "con_000000000000"},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent ends no connection",
        RevokeConnection,
        OTTO,
        {"id": "$connection"},
    ),
    refused("WRONG_AUDIENCE", "a token for another place", Whoami, CONNECTION, own_words=True),
    done("the groups", ListGroups, OTTO),
    done("a group", CreateGroup, OWNER, {"name": "crew", "members": ["@nova", "@vera"]}),
    refused(
        "NAME_TAKEN",
        "a group of a taken name",
        CreateGroup,
        OWNER,
        {"name": "vera", "members": ["@nova"]},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent makes no group",
        CreateGroup,
        OTTO,
        {"name": "crew", "members": ["@nova"]},
    ),
    done("the tokens", ListTokens, OWNER),
    refused("MISSING_SCOPE", "an agent sees no tokens", ListTokens, OTTO),
    done("a token", ShowToken, DORA, {"id": "$vera_token"}),
    refused("NOT_FOUND", "a token that there is not", ShowToken, OWNER, {"id": "tok_000000000000"}),
    done("another token", MintToken, OWNER, {"sender": "vera", "label": "spare", "ttl_s": 3600}),
    refused("UNKNOWN_SENDER", "a token of nobody", MintToken, OWNER, {"sender": "ghost"}),
    done("a new token for an old one", RotateToken, OWNER, {"id": "$nova_token"}),
    done("a new token for a sender's", RotateToken, OWNER, {"sender": "vera"}),
    refused("USAGE", "a new token for none", RotateToken, OWNER),
    done("a token ends", RevokeToken, OWNER, {"id": "$vera_token"}),
    done("a sender's tokens end", RevokeToken, DORA, {"sender": "vera"}),
    refused("NOT_FOUND", "a token that cannot end", RevokeToken, OWNER, {"id": "tok_000000000000"}),
    done("another label", LabelToken, DORA, {"id": "$vera_token", "label": "Vera, at home"}),
    done(
        "a label that contradicts",
        LabelToken,
        OWNER,
        {"id": "$vera_token", "label": "nova"},
        has={"label": "nova", "sender": "vera"},
    ),
    refused("USAGE", "no label", LabelToken, OWNER, {"id": "$vera_token", "label": " "}),
    refused(
        "NOT_FOUND",
        "a label for no token",
        LabelToken,
        OWNER,
        {"id": "tok_000000000000", "label": "vera"},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent labels no token",
        LabelToken,
        OTTO,
        {"id": "$vera_token", "label": "vera"},
    ),
    done(
        "what would be imported",
        ImportTokens,
        OWNER,
        {"rows": [OLD]},
        has={"applied": False, "importable": 1, "imported": 0},
    ),
    done("an old token", ImportTokens, DORA, {"rows": [OLD], "apply": True}),
    no(
        None,
        "old tokens that are not ready",
        ImportTokens,
        OWNER,
        {"rows": [OLD, OLD_NEO, {"label": "nobody's", "token_hash": "c" * 64}], "apply": True},
        has={"ok": False, "imported": 2},
    ),
    done(
        "an old token of a label",
        ImportTokens,
        OWNER,
        {"rows": [OLD_NEO], "map": {"Neo GPT": "neo-gpt"}, "apply": True},
        first=(Step(OWNER, ImportTokens, {"rows": [OLD_NEO], "apply": True}),),
        has={"imported": 1},
    ),
    refused("USAGE", "no old tokens", ImportTokens, OWNER, {"rows": []}),
    refused(
        "USAGE",
        "a label that no row has",
        ImportTokens,
        OWNER,
        {"rows": [OLD], "map": {"Neo": "neo-gpt"}},
    ),
    refused("MISSING_SCOPE", "an agent imports none", ImportTokens, OTTO, {"rows": [OLD]}),
    refused(
        "PAUSED",
        "nothing is imported in a pause",
        ImportTokens,
        OWNER,
        {"rows": [OLD], "apply": True},
        first=(PAUSED,),
    ),
    done("tokens are trusted again", ReaffirmTokens, OWNER),
    done(
        "one token is trusted again",
        ReaffirmTokens,
        OWNER,
        {"sender": "vera"},
        first=(Step(OWNER, Restore, {"file": "$backup"}),),
    ),
    refused("MISSING_SCOPE", "an agent trusts no token", ReaffirmTokens, OTTO, {"sender": "vera"}),
    done("whose a token is", IdentifyToken, OTTO, {"token": "$its_token"}, has={"known": True}),
    no(
        None,
        "nobody's token",
        IdentifyToken,
        OWNER,
        {"token": "of-somebody-else"},
        has={"known": False},
    ),
    done("a session", StartSession, OTTO, {"id": "s-9"}),
    refused("USAGE", "no session", StartSession, OTTO, {"id": "../x"}),
    done(
        "whose a session is",
        FindSession,
        OWNER,
        {"id": "s-1"},
        first=(STARTED,),
        has={"sender": "otto-cli"},
    ),
    done("nobody's session", FindSession, OWNER, {"id": "s-7"}, has={"session": "s-7"}),
    done("a session is kept", KeepSession, S1, {"id": "s-1"}, first=(STARTED, held(S1, "B-9"))),
    done("a session ends", EndSession, S1, {"id": "s-1"}, first=(STARTED, held(S1, "B-9"))),
    done("a client starts", Attend, S1, {"step": "start", "adapter": "test"}),
    done(
        "a client is pointed to its mail",
        Attend,
        OTTO,
        {"step": "prompt", "adapter": "test"},
        has={"address": "@otto-cli", "open": 1, "unread": 1},
    ),
    done(
        "a client is handed what is urgent",
        Attend,
        OTTO,
        {"step": "stop", "adapter": "test", "held": 1},
    ),
    done(
        "an idle client waits for what wakes it",
        Attend,
        OTTO,
        {"step": "idle", "adapter": "test", "wait_s": 1},
    ),
    no(
        "CLAIM_HELD",
        "a client edits what another holds",
        Attend,
        OTTO,
        {"step": "edit", "adapter": "test", "paths": [PROOF], **HERE},
        first=(THEIRS,),
    ),
    done(
        "a client ends",
        Attend,
        S1,
        {"step": "end", "adapter": "test"},
        first=(STARTED, held(S1, "B-9")),
    ),
    done(
        "a client in a pause",
        Attend,
        OTTO,
        {"step": "tool", "adapter": "test"},
        first=(PAUSED,),
        has={"paused": True},
    ),
    refused("USAGE", "no step", Attend, OTTO, {"step": "jump", "adapter": "test"}),
    refused(
        "NO_IDENTITY",
        "a client of nobody",
        Attend,
        OWNER,
        {"step": "start", "adapter": "test"},
        own_words=True,
    ),
    done("nothing wakes me", Mute, OTTO, has={"address": "@otto-cli", "muted": True}),
    done("nothing wakes me for a while", Mute, OTTO, {"name": "@otto", "ttl_s": 600}),
    done("nothing wakes another", Mute, OWNER, {"name": "nova"}),
    done(
        "I am woken again",
        Mute,
        OTTO,
        {"off": True},
        first=(Step(OTTO, Mute),),
        has={"muted": False},
    ),
    refused("MISSING_SCOPE", "an agent mutes no other", Mute, OTTO, {"name": "nova"}),
    refused("NOT_FOUND", "nobody to mute", Mute, OWNER, {"name": "nov"}),
    refused("PAUSED", "muting in a pause", Mute, OTTO, first=(PAUSED,)),
    refused("IDENTITY_MISMATCH", "another's session", Whoami, Who("nova", "s-1"), first=(STARTED,)),
)

WORKSPACE = (
    done(
        "how it stands",
        ShowStatus,
        OWNER,
        has={"senders": 7, "messages": 7, "tasks": 4, "blockers": 1, "paused": False},
    ),
    done(
        "how it stands in a pause",
        ShowStatus,
        OTTO,
        first=(PAUSED,),
        has={"pause_reason": "lunch"},
    ),
    done("how long the log is", ShowStorage, OWNER),
    done("how long the log is, for an agent", ShowStorage, OTTO),
    done(
        "what needs a person",
        Review,
        OWNER,
        {"since_s": 86400},
        first=(sent(OTTO, "@vera", "x", ttl_s=60),),
    ),
    refused("MISSING_SCOPE", "an agent reviews nothing", Review, OTTO),
    done("nothing is wrong", Examine, OWNER, has={"ok": True, "findings": []}),
    no(
        None,
        "a commit that nobody guarded is wrong",
        Examine,
        OTTO,
        first=(THEIRS, Step(OTTO, ReportCommit, COMMITTED)),
        has={"ok": False},
    ),
    done("the settings", ListSettings, OTTO),
    done("a setting", ChangeSetting, OWNER, {"name": "recipients", "value": "strict"}),
    refused(
        "USAGE",
        "a setting that there is not",
        ChangeSetting,
        OWNER,
        {"name": "nope", "value": "x"},
    ),
    refused(
        "USAGE",
        "a value that cannot be",
        ChangeSetting,
        OWNER,
        {"name": "limits.hops", "value": "0"},
    ),
    refused(
        "MISSING_SCOPE",
        "an agent sets nothing",
        ChangeSetting,
        OTTO,
        {"name": "recipients", "value": "open"},
    ),
    done("a pause", Pause, OWNER, {"reason": "lunch"}, has={"reason": "lunch"}),
    done("a pause for no reason", Pause, DORA),
    refused("MISSING_SCOPE", "an agent pauses nothing", Pause, OTTO),
    done("the pause ends", Resume, OWNER, first=(PAUSED,)),
    refused("MISSING_SCOPE", "an agent resumes nothing", Resume, OTTO, first=(PAUSED,)),
)

DAMAGED = "UPDATE bodies SET body = CAST('x' AS BLOB) WHERE seq = $mail_seq"

AUDIT = (
    done("what happened, for an agent", ListEvents, OTTO, {"limit": 50}),
    done(
        "what happened, for the owner",
        ListEvents,
        OWNER,
        {"after": 2, "limit": 3},
        has={"more": True},
    ),
    done("the facts", ShowLog, OWNER, {"after": 1, "limit": 4}),
    done("the facts of a kind, for an agent", ShowLog, NOVA, {"kind": "claim_granted"}),
    refused(
        "USAGE",
        "more facts than there may be",
        ShowLog,
        OWNER,
        {"limit": 5000},
        own_words=True,
    ),
    done("the log is as it was", VerifyLog, OWNER, has={"ok": True}),
    done("the log is as it was, for an agent", VerifyLog, OTTO, {"checkpoint": "$checkpoint"}),
    no(
        "LOG_DAMAGED",
        "the log is damaged",
        VerifyLog,
        OWNER,
        damage=DAMAGED,
        has={"seq": "$mail_seq"},
    ),
    refused("USAGE", "a checkpoint of nothing", VerifyLog, OWNER, {"checkpoint": "x"}),
    done("a checkpoint", SignCheckpoint, OWNER),
    done("a proof of an entry", Prove, OWNER, {"seq": 2}, has={"proof": "inclusion"}),
    done("a proof of growth", Prove, OTTO, {"since": 3}, has={"proof": "consistency"}),
    refused("NOT_FOUND", "a proof of what is not there", Prove, OWNER, {"seq": 999}),
    done("proofs of entries", ProveMany, OTTO, {"seqs": [2, 5]}, has={"proof": "inclusions"}),
    refused("NOT_FOUND", "proofs of what is not there", ProveMany, OWNER, {"seqs": [2, 999]}),
)

LOCAL = (
    done("the log in a file", ExportLog, OWNER, {"file": "$root/new.jsonl"}),
    refused("USAGE", "a file that exists", ExportLog, OWNER, {"file": "$root/made.db"}),
    refused(
        "MISSING_SCOPE", "no export for an agent", ExportLog, OTTO, {"file": "$root/new.jsonl"}
    ),
    done("a backup", Backup, OWNER, {"file": "$root/new.db"}),
    refused("USAGE", "a backup over a file", Backup, OWNER, {"file": "$root/made.db"}),
    refused("MISSING_SCOPE", "no backup for an agent", Backup, OTTO, {"file": "$root/new.db"}),
    done(
        "a backup is put back",
        Restore,
        OWNER,
        {"file": "$root/made.db"},
        has={"restored": True},
    ),
    refused(
        "NOT_A_WORKSPACE",
        "no backup to put back",
        Restore,
        OWNER,
        {"file": "$root/nowhere.db"},
    ),
    refused(
        "MISSING_SCOPE",
        "nothing is put back by an agent",
        Restore,
        OTTO,
        {"file": "$root/made.db"},
    ),
    done("the state is folded again", Rebuild, OWNER, has={"rebuilt": True, "changed": False}),
    refused("MISSING_SCOPE", "no folding for an agent", Rebuild, OTTO),
)

TABLE = (*MAIL, *CLAIMS, *GUARD, *TASKS, *EVIDENCE, *GATES, *IDENTITY, *WORKSPACE, *AUDIT, *LOCAL)

# Codes that no row has, and why.
ELSEWHERE = {
    "FOREIGN_ORIGIN": "only browsers have one",
    "ENGINE_UNAVAILABLE": "the doors differ in what may be away",
    "LOG_FORKED": "it is about the engine: see tests/stores/shared/test_losses.py",
    "NEWER_VERSION": "it is about the file: see test_bad_input.py",
    "UNSAFE_FILESYSTEM": "it is about the file",
    "OTHER_HOST": "it is about the file: see test_bad_input.py",
    "INTERNAL": "nothing should lead to it",
}


@pytest.fixture(scope="session")
def first_door_town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(tmp_path_factory.mktemp("doors"))


def _marks(row: Row) -> Any:
    restored = {Restore} & {row.act, *(step.act for step in row.first)}
    return restores if restored and row.code != "MISSING_SCOPE" else ()


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=_marks(row)) for row in TABLE]
)
def test_an_act_has_one_outcome_at_every_door(
    row: Row, first_door_town: Town, tmp_path: Path, servers: Servers
) -> None:
    town = first_door_town
    with Stages(row, town, tmp_path, servers) as stages:
        outcomes = {door.name: stages.play(door) for door in row.doors(DOORS)}
    first, *others = outcomes
    assert others, "one door alone shows nothing"
    expected = town.filled(row.has)
    for name, outcome in outcomes.items():
        assert (outcome.kind, outcome.code) == (row.kind, row.code), (name, outcome)
        assert outcome.said.items() >= expected.items(), (name, outcome)
    for name in others:
        difference = _difference(row, outcomes[first], outcomes[name])
        assert not difference, f"{first} and {name} differ:\n{difference}"


def _difference(row: Row, one: Played, other: Played) -> str:
    return "".join(difflib.unified_diff(_shown(row, one), _shown(row, other), n=1))


def _shown(row: Row, played: Played) -> list[str]:
    said = played.said
    if row.own_words:
        said = {name: said[name] for name in ("error", "code")}
    shown = {"said": said, "facts": played.facts}
    return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False).splitlines(keepends=True)


def test_every_act_has_a_row_that_works() -> None:
    working = {row.act for row in TABLE if row.kind == "done"}
    assert {*ROUTED} - working == set()


def test_a_verb_without_a_route_is_for_sign_in_or_for_the_node() -> None:
    # The pages for people and the endpoints of OAuth call these; the node calls Inspect, Maintain.
    unrouted = {verb for verb in catalogue.verbs() if not verb.declared.http}
    assert {verb.__module__ for verb in unrouted - {Inspect, Maintain}} == {people.__name__}


def test_every_code_has_a_row_or_is_tried_elsewhere() -> None:
    every = {kind.code for kind in vars(errors).values() if hasattr(kind, "code")}
    tried = {row.code for row in TABLE if row.code is not None}
    assert tried & set(ELSEWHERE) == set()
    assert every - tried == set(ELSEWHERE)


def test_every_verb_of_the_client_is_an_act_in_the_table() -> None:
    verbs = {name for name in dir(Client) if isinstance(getattr(Client, name), Method)}
    assert verbs == set(METHODS.values())
    assert {*METHODS} == {*ROUTED}


# Commands that are no act: they start something, print what is no answer, need no workspace, or
# read a file or a repository of their own.
NO_ACT = {
    *("up", "down", "mcp", "run", "watch", "init", "audit check-proof", "schema", "completion"),
    *("task import", "evidence run", "gate run", "report", "scrub", "guard install", "guard push"),
    *("migrate", "repair", "setup", "hook"),
}


def test_every_command_is_an_act_in_the_table_or_is_none() -> None:
    spelled = set[str]().union(*(spelling.commands() for spelling in SPELLINGS.values()))
    assert {command.name for command in all_commands()} == spelled | NO_ACT
    assert {*SPELLINGS} == {*ROUTED} - {*NOT_OFFERED["cli"]}


def test_every_tool_is_an_act_in_the_table() -> None:
    assert {*offered_tools()} == {tool for tool, _ in TOOLS.values()}


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)


def test_what_a_door_does_not_offer_is_counted() -> None:
    """Whoever takes an act from a door, or gives it one, says so here."""
    count = {family: len(acts) for family, acts in NOT_OFFERED.items()}
    assert count == {"python": 0, "cli": 15, "http": 4, "mcp": 61}
    assert len(ROUTED) == 86
