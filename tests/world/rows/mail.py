"""Rows of the verbs of mail."""

from typing import Any

from interlock.client import Client
from interlock.rooms.mail import verbs as mail
from world.row import (
    ABSENT,
    DORA,
    LATE,
    LENA,
    MIRA,
    NO_WORD,
    NOBODY,
    NOVA,
    OTTO,
    OWNER,
    PAUSED,
    STRANGER,
    TYPO,
    VERA,
    Caller,
    Meanwhile,
    Rows,
    Step,
    done,
    no,
    refused,
    sent,
    setting,
)

HELLO = {"to": "@vera", "payload": {"text": "hi"}}
SHAPES = [
    "AGENT:* (everyone; the asterisk is required)",
    "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
]
LIMITED = "the flag --wait sets both the wait and the question's time limit"


def _newest_ask(owner: Client) -> str | None:
    newest = owner.mail(limit=1)["messages"][0]
    return newest["id"] if newest["payload"].get("question") == "free?" else None


def _is_waiting(address: str) -> Any:
    def check(owner: Client) -> bool:
        return any(
            a["address"] == address and a["reach"] == "wakes" for a in owner.agents()["agents"]
        )

    return check


ANSWERED = Meanwhile(_newest_ask, Step(VERA, mail.AnswerAsk, {"message": "$seen", "text": "yes"}))

ROWS: Rows = {
    mail.SendMessage: (
        done(
            "a message is accepted",
            OTTO,
            {**HELLO, "subject": "s", "priority": "high"},
            has={"message": {"from": "@otto-cli", "subject": "s", "priority": "high"}},
        ),
        done("a message of a session", Caller("otto-cli", "s-1"), HELLO),
        done("a broadcast", VERA, {"to": "AGENT:*", "payload": {"text": "all"}, "wake": True}),
        done("mail for a group", NOVA, {"to": "@team", "payload": {"text": "team"}}),
        done(
            "mail to an unregistered name is accepted with a notice",
            OTTO,
            {"to": "@ver", "payload": {"text": "hi"}, "wake": False},
            has={"accepted": True, "notices": [{"did_you_mean": ["@vera"]}]},
        ),
        done(
            "the same key and body give the first answer",
            OTTO,
            {**HELLO, "key": "k"},
            first=(sent(OTTO, "@vera", "hi", key="k"),),
        ),
        done(
            "a command has its reason",
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
            VERA,
            {
                "to": "@otto-cli",
                "type": "blocker",
                "payload": {
                    "what": "red",
                    "severity": "warn",
                    "fix": ["make fix"],
                    "task_id": "T-1",
                },
            },
        ),
        done(
            "a blocker on an unknown task",
            VERA,
            {
                "to": "@otto-cli",
                "type": "blocker",
                "payload": {"what": "red", "severity": "stop", "task_id": "t-99"},
            },
            has={"accepted": True},
        ),
        done(
            "an ask as a message",
            OTTO,
            {
                "to": "@vera",
                "type": "ask",
                "payload": {"question": "which?", "options": ["a", "b"], "timeout_s": 60},
            },
            not_at={"mcp": "the tool ask asks"},
        ),
        done(
            "an announcement",
            OTTO,
            {"to": "AGENT:*", "type": "announce", "payload": {"client": "c", "pid": 7}},
            not_at={"mcp": NO_WORD},
        ),
        done(
            "a reply",
            VERA,
            {"to": "@otto-cli", "reply_to": "$mail", "payload": {"text": "r"}},
            has={"message": {"thread": "$mail", "reply_to": "$mail"}},
        ),
        done(
            "a message in a thread",
            VERA,
            {"to": "@otto-cli", "thread": "$mail", "payload": {"text": "t"}},
            not_at={"mcp": NO_WORD},
        ),
        done("mail that expires", OTTO, {**HELLO, "ttl_s": 3600}, not_at={"mcp": NO_WORD}),
        done("a large body", OTTO, {"to": "@vera", "payload": {"text": "ä" * 600_000}}),
        refused(
            "INVALID_RECIPIENT_SHAPE",
            "a recipient of neither shape",
            OTTO,
            {"to": "AGENT:vera", "payload": {"text": "hi"}},
            has={"to": "AGENT:vera", "valid_shapes": SHAPES, "did_you_mean": ["@vera"]},
        ),
        refused(
            "INVALID_RECIPIENT_SHAPE",
            "a bare name",
            OTTO,
            {"to": "nobody", "payload": {"text": "hi"}},
            has={"valid_shapes": SHAPES},
        ),
        refused(
            "UNKNOWN_TYPE",
            "an unknown type",
            OTTO,
            {**HELLO, "type": "gossip"},
            not_at={"mcp": "the tool's schema lists the types"},
        ),
        refused(
            "USE_VERB",
            "a type that only a command writes",
            OTTO,
            {**HELLO, "type": "evidence"},
            not_at={"mcp": "the tool's schema lists the types"},
        ),
        refused(
            "INVALID_MESSAGE",
            "a command without its reason",
            OTTO,
            {"to": "@vera", "type": "command", "payload": {"command": "make"}},
        ),
        refused("INVALID_MESSAGE", "no text", OTTO, {"to": "@vera", "payload": {"text": ""}}),
        refused(
            "INVALID_MESSAGE",
            "a payload with an unknown member",
            OTTO,
            {"to": "@vera", "payload": {"text": "hi", "more": 1}},
            not_at={"mcp": "the tool has no argument for the payload"},
        ),
        refused("USAGE", "a subject of two lines", OTTO, {**HELLO, "subject": "a\nb"}),
        refused(
            "NOT_FOUND", "a reply to an invisible message", NOVA, {**HELLO, "reply_to": "$mail"}
        ),
        refused("NOT_FOUND", "a reply to an absent message", NOVA, {**HELLO, "reply_to": ABSENT}),
        refused(
            "IDEMPOTENCY_CONFLICT",
            "another body under the same key",
            OTTO,
            {**HELLO, "key": "k"},
            first=(sent(OTTO, "@vera", "other", key="k"),),
        ),
        refused(
            "UNKNOWN_RECIPIENT",
            "an unregistered name in a strict workspace",
            OTTO,
            {"to": "@ver", "payload": {"text": "hi"}},
            first=(setting("recipients", "strict"),),
            has={"did_you_mean": ["@vera"]},
        ),
        refused(
            "TOO_LARGE",
            "a message above the size limit",
            OTTO,
            {"to": "@vera", "payload": {"text": "x" * 11}},
            first=(setting("limits.message_bytes", "10"),),
            has={"size": 11, "limit": 10},
        ),
        refused(
            "RATE_LIMITED",
            "a message above the rate limit",
            MIRA,
            HELLO,
            first=(setting("limits.sends_per_minute", "1"), sent(MIRA, "@vera", "x")),
            in_a_minute=True,
        ),
        refused(
            "TOO_MANY_HOPS",
            "a reply above the hop limit",
            OTTO,
            {**HELLO, "reply_to": "$it"},
            first=(setting("limits.hops", "1"), sent(VERA, "@otto-cli", "re", reply_to="$mail")),
        ),
        refused(
            "PAUSED",
            "a send to a paused workspace",
            OTTO,
            HELLO,
            first=(PAUSED,),
            has={"reason": "lunch"},
        ),
        refused("MISSING_SCOPE", "a send without the scope", LENA, HELLO, has={"scope": "mail"}),
        refused(
            "IDENTITY_MISMATCH",
            "a send that names another sender",
            Caller("otto-cli", claims_to_be="vera"),
            HELLO,
            has={"sender": "@otto-cli", "claimed": "vera"},
            own_words=True,
            not_at={"python": NO_WORD},
        ),
        done(
            "a send that names its own sender",
            Caller("otto-cli", claims_to_be="@otto-cli"),
            HELLO,
            not_at={"python": NO_WORD},
        ),
        refused("BAD_TOKEN", "a send with a token of another workspace", STRANGER, HELLO),
        refused("BAD_TOKEN", "a send with a mistyped token", TYPO, HELLO),
        refused("TOKEN_EXPIRED", "a send with an expired token", LATE, HELLO),
        refused(
            "NO_IDENTITY",
            "a send without an identity",
            NOBODY,
            HELLO,
            own_words=True,
            not_at={"mcp stdio": "it does not start without an identity"},
        ),
        refused("USAGE", "a malformed session", Caller("otto-cli", "../x"), HELLO),
    ),
    mail.ListInbox: (
        done("open mail", VERA, has={"open": 2, "unread": 2}),
        done("mail in pages", VERA, {"limit": 1}, has={"next": "$mail_seq"}),
        done("mail after a position", VERA, {"after": "$mail_seq"}, has={"open": 2}),
        done(
            "all mail",
            VERA,
            {"which": "all"},
            first=(Step(VERA, mail.AckMessages, {"messages": ["$mail"]}),),
            not_at={"mcp": NO_WORD},
        ),
        done(
            "sent mail",
            OTTO,
            {"which": "sent"},
            not_at={"mcp": NO_WORD},
            has={
                "messages": [{"id": "$mail", "deliveries": [{"state": "accepted"}]}, {"id": "$ask"}]
            },
        ),
        done(
            "mail that arrives during a wait",
            NOVA,
            {"wait_s": 40},
            meanwhile=Meanwhile(_is_waiting("@nova"), sent(OTTO, "@nova", "at last")),
            has={"open": 1},
        ),
        done("a wait for mail that does not arrive", NOVA, {"wait_s": 1}, has={"messages": []}),
        refused("MISSING_SCOPE", "mail without the scope", LENA),
    ),
    mail.ReadMessage: (
        done("a message is read", VERA, {"message": "$mail"}, has={"id": "$mail"}),
        done(
            "a range of a body",
            VERA,
            {"message": "$mail", "start": 0, "stop": 5},
            has={"part": True, "payload": {"text": "hello"}, "next_offset": 5},
        ),
        done("the end of a body", VERA, {"message": "$mail", "start": 6, "stop": 100}),
        done("a sender reads its own message with receipts", OTTO, {"message": "$mail"}),
        done(
            "a redacted message",
            VERA,
            {"message": "$mail"},
            first=(Step(OWNER, mail.Redact, {"message": "$mail", "reason": "secret"}),),
            has={"id": "$mail", "payload": None},
        ),
        refused("NOT_FOUND", "reading mail of another agent", NOVA, {"message": "$mail"}),
        refused("NOT_FOUND", "reading an absent message", NOVA, {"message": ABSENT}),
        refused("USAGE", "a message id that is too short", VERA, {"message": "abc"}),
        refused("USAGE", "a malformed position", VERA, {"message": "#x"}),
        refused(
            "USAGE", "a range beyond the end", VERA, {"message": "$mail", "start": 99, "stop": 100}
        ),
    ),
    mail.AckMessages: (
        done(
            "messages are acknowledged",
            VERA,
            {"messages": ["$mail", "$ask"]},
            has={"acked": ["$mail", "$ask"]},
        ),
        done(
            "a message is declined",
            VERA,
            {"messages": ["$mail"], "decline": True, "note": "no time"},
            has={"declined": ["$mail"]},
        ),
        refused(
            "NOT_FOUND",
            "acknowledging a present and an absent message",
            VERA,
            {"messages": ["$mail", ABSENT]},
        ),
        refused("NOT_FOUND", "acknowledging mail of another agent", NOVA, {"messages": ["$mail"]}),
    ),
    mail.ShowReceipts: (
        done(
            "the receipts of a message",
            OTTO,
            {"message": "$mail"},
            first=(
                Step(VERA, mail.ReadMessage, {"message": "$mail"}),
                Step(
                    VERA, mail.AckMessages, {"messages": ["$mail"], "decline": True, "note": "no"}
                ),
            ),
            has={
                "deliveries": [
                    {"history": [{"state": "accepted"}, {"state": "read"}, {"state": "declined"}]}
                ]
            },
        ),
        refused("NOT_FOUND", "the receipts of another agent's mail", NOVA, {"message": "$mail"}),
    ),
    mail.ShowThread: (
        done(
            "a conversation",
            OTTO,
            {"message": "$mail"},
            first=(sent(VERA, "@otto-cli", "re", reply_to="$mail"),),
            has={"messages": [{"payload": {"text": "hello vera"}}, {"payload": {"text": "re"}}]},
        ),
        done(
            "a conversation in pages",
            OTTO,
            {"message": "$mail", "limit": 1},
            first=(sent(VERA, "@otto-cli", "re", reply_to="$mail"),),
            has={"messages": [{"id": "$mail"}], "next": "$mail_seq"},
        ),
        done(
            "the rest of a conversation",
            OTTO,
            {"message": "$mail", "after": "$mail_seq"},
            first=(sent(VERA, "@otto-cli", "re", reply_to="$mail"),),
            has={"messages": [{"payload": {"text": "re"}}]},
        ),
        refused("NOT_FOUND", "a conversation of other agents", NOVA, {"message": "$mail"}),
    ),
    mail.AnswerAsk: (
        done(
            "an answer",
            VERA,
            {"message": "$ask", "text": "yes"},
            # The MCP tool reads the ask before it answers.
            first=(Step(VERA, mail.ReadMessage, {"message": "$ask"}),),
            has={"accepted": True},
        ),
        refused(
            "NOT_FOUND",
            "an answer to an ask of another agent",
            NOVA,
            {"message": "$ask", "text": "yes"},
        ),
    ),
    mail.Explain: (
        done(
            "the identity behind a message",
            OWNER,
            {"message": "$mail"},
            has={"sender": "@otto-cli"},
        ),
        done(
            "the identity behind the caller's message",
            OTTO,
            {"message": "$mail"},
            has={"token": {"sender": "otto-cli"}},
        ),
        refused(
            "NOT_FOUND", "the identity behind another agent's message", NOVA, {"message": "$mail"}
        ),
    ),
    mail.Redact: (
        done(
            "the owner redacts a message",
            OWNER,
            {"message": "$mail", "reason": "secret"},
            has={"redacted": True, "id": "$mail"},
        ),
        done("a sender redacts its message", OTTO, {"message": "$mail", "reason": "secret"}),
        refused("USAGE", "a redaction without a reason", OTTO, {"message": "$mail", "reason": " "}),
        refused(
            "NOT_FOUND",
            "a redaction of another agent's message",
            NOVA,
            {"message": "$mail", "reason": "r"},
        ),
    ),
    mail.Ask: (
        done(
            "an answered question",
            OTTO,
            {"to": "@vera", "question": "free?", "options": ["yes", "no"], "wait_s": 40},
            meanwhile=ANSWERED,
            has={"answered": True, "answer": {"payload": {"text": "yes"}}},
            not_at={"cli": LIMITED},
        ),
        done(
            "an answered question with a time limit",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 40, "timeout_s": 40},
            meanwhile=ANSWERED,
            has={"answered": True, "answer": {"payload": {"text": "yes"}}},
            not_at={"mcp": NO_WORD},
        ),
        no(
            "NO_ANSWER",
            "an unanswered question",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 1},
            not_at={"cli": LIMITED},
            has={"answered": False},
        ),
        no(
            "NO_ANSWER",
            "an unanswered question with a time limit",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 1, "timeout_s": 1},
            not_at={"mcp": NO_WORD},
        ),
        refused(
            "INVALID_RECIPIENT_SHAPE",
            "a question to a malformed recipient",
            OTTO,
            {"to": "vera", "question": "q", "wait_s": 1},
        ),
    ),
    mail.FindAnswer: (
        done(
            "an open ask",
            OTTO,
            {"message": "$ask"},
            has={"answered": False, "id": "$ask"},
        ),
        done(
            "an answered ask",
            OTTO,
            {"message": "$ask"},
            first=(Step(VERA, mail.AnswerAsk, {"message": "$ask", "text": "yes"}),),
            has={"answered": True, "answer": {"payload": {"text": "yes", "ask": "$ask"}}},
        ),
        refused("NOT_FOUND", "an ask of another agent", NOVA, {"message": "$ask"}),
    ),
    mail.Search: (
        done(
            "a search with matches",
            VERA,
            {"query": "hello", "limit": 5},
            has={
                "messages": [{"id": "$letter"}, {"id": "$mail", "payload": {"text": "hello vera"}}]
            },
        ),
        done(
            "a search finds no mail of other agents", NOVA, {"query": "hello"}, has={"messages": []}
        ),
    ),
    mail.ListMail: (
        done(
            "all mail, for the owner",
            OWNER,
            {"limit": 2},
            has={"messages": [{"type": "wake"}, {"payload": {"task_id": "T-4"}}]},
        ),
        done("all mail, for an admin", DORA),
        done(
            "the newest mail, for an admin",
            DORA,
            {"limit": 1},
            has={"messages": [{"type": "wake", "payload": None}]},
        ),
        refused("MISSING_SCOPE", "all mail, for an agent", OTTO),
    ),
    mail.PutChunk: (
        done("a chunk", OTTO, {"data": b"\x00half", "size": 10}, has={"number": 0}),
        done(
            "the next chunk",
            OTTO,
            {"data": b"more", "size": (1 << 20) + 4, "number": 1, "upload": "$upload"},
            first=(
                Step(
                    OTTO, mail.PutChunk, {"data": b"x", "size": (1 << 20) + 4}, {"upload": "upload"}
                ),
            ),
            has={"number": 1},
        ),
        refused("USAGE", "an empty chunk", OTTO, {"data": b"", "size": 0}),
        refused(
            "TOO_LARGE",
            "a chunk of a body above the size limit",
            OTTO,
            {"data": b"x", "size": 10**9},
        ),
    ),
    mail.DropUpload: (
        done(
            "an upload is dropped",
            OTTO,
            {"upload": "$upload"},
            first=(Step(OTTO, mail.PutChunk, {"data": b"half", "size": 9}, {"upload": "upload"}),),
            has={"dropped": True},
        ),
    ),
}
