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
LIMITED = "--wait is how long to wait, and the question's time limit as well"


def _newest_ask(owner: Client) -> str | None:
    newest = owner.mail(limit=1)["messages"][0]
    return newest["id"] if newest["payload"].get("question") == "free?" else None


def _is_waiting(address: str) -> Any:
    def look(owner: Client) -> bool:
        return any(
            a["address"] == address and a["reach"] == "wakes" for a in owner.agents()["agents"]
        )

    return look


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
            "mail for a name that nobody has is kept and said",
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
            "a blocker on a task that is not there",
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
            "a type that there is not",
            OTTO,
            {**HELLO, "type": "gossip"},
            not_at={"mcp": "the tool's schema lists the types"},
        ),
        refused(
            "USE_VERB",
            "a type that belongs to a verb",
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
            "a payload with a member too many",
            OTTO,
            {"to": "@vera", "payload": {"text": "hi", "more": 1}},
            not_at={"mcp": "its arguments are not the payload"},
        ),
        refused("USAGE", "a subject of two lines", OTTO, {**HELLO, "subject": "a\nb"}),
        refused("NOT_FOUND", "a reply to what is not yours", NOVA, {**HELLO, "reply_to": "$mail"}),
        refused("NOT_FOUND", "a reply to nothing", NOVA, {**HELLO, "reply_to": ABSENT}),
        refused(
            "IDEMPOTENCY_CONFLICT",
            "another body under the same key",
            OTTO,
            {**HELLO, "key": "k"},
            first=(sent(OTTO, "@vera", "other", key="k"),),
        ),
        refused(
            "UNKNOWN_RECIPIENT",
            "a name that nobody has, where names are strict",
            OTTO,
            {"to": "@ver", "payload": {"text": "hi"}},
            first=(setting("recipients", "strict"),),
            has={"did_you_mean": ["@vera"]},
        ),
        refused(
            "TOO_LARGE",
            "more than the workspace takes",
            OTTO,
            {"to": "@vera", "payload": {"text": "x" * 11}},
            first=(setting("limits.message_bytes", "10"),),
            has={"size": 11, "limit": 10},
        ),
        refused(
            "RATE_LIMITED",
            "more than one a minute, where one is the limit",
            MIRA,
            HELLO,
            first=(setting("limits.sends_per_minute", "1"), sent(MIRA, "@vera", "x")),
            in_a_minute=True,
        ),
        refused(
            "TOO_MANY_HOPS",
            "a chain of replies that is too long",
            OTTO,
            {**HELLO, "reply_to": "$it"},
            first=(setting("limits.hops", "1"), sent(VERA, "@otto-cli", "re", reply_to="$mail")),
        ),
        refused(
            "PAUSED", "a send in a pause", OTTO, HELLO, first=(PAUSED,), has={"reason": "lunch"}
        ),
        refused("MISSING_SCOPE", "a send without the scope", LENA, HELLO, has={"scope": "mail"}),
        refused(
            "IDENTITY_MISMATCH",
            "a send in another's name",
            Caller("otto-cli", claims_to_be="vera"),
            HELLO,
            has={"sender": "@otto-cli", "claimed": "vera"},
            not_at={"python": NO_WORD},
        ),
        done(
            "a send in one's own name",
            Caller("otto-cli", claims_to_be="@otto-cli"),
            HELLO,
            not_at={"python": NO_WORD},
        ),
        refused("BAD_TOKEN", "a send with a token of elsewhere", STRANGER, HELLO),
        refused("BAD_TOKEN", "a send with a mistyped token", TYPO, HELLO),
        refused("TOKEN_EXPIRED", "a send with an old token", LATE, HELLO),
        refused(
            "NO_IDENTITY",
            "a send by nobody",
            NOBODY,
            HELLO,
            own_words=True,
            not_at={"mcp stdio": "it does not start for nobody"},
        ),
        refused("USAGE", "a session that cannot be one", Caller("otto-cli", "../x"), HELLO),
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
            "what was sent",
            OTTO,
            {"which": "sent"},
            not_at={"mcp": NO_WORD},
            has={
                "messages": [{"id": "$mail", "deliveries": [{"state": "accepted"}]}, {"id": "$ask"}]
            },
        ),
        done(
            "mail that is waited for",
            NOVA,
            {"wait_s": 40},
            meanwhile=Meanwhile(_is_waiting("@nova"), sent(OTTO, "@nova", "at last")),
            has={"open": 1},
        ),
        done("mail that is waited for in vain", NOVA, {"wait_s": 1}, has={"messages": []}),
        refused("MISSING_SCOPE", "mail without the scope", LENA),
    ),
    mail.ReadMessage: (
        done("a message is read", VERA, {"message": "$mail"}, has={"id": "$mail"}),
        done(
            "a part of it",
            VERA,
            {"message": "$mail", "start": 0, "stop": 5},
            has={"part": True, "payload": {"text": "hello"}, "next_offset": 5},
        ),
        done("the end of it", VERA, {"message": "$mail", "start": 6, "stop": 100}),
        done("its sender sees the receipts", OTTO, {"message": "$mail"}),
        done(
            "a message without its body",
            VERA,
            {"message": "$mail"},
            first=(Step(OWNER, mail.Redact, {"message": "$mail", "reason": "secret"}),),
            has={"id": "$mail", "payload": None},
        ),
        refused("NOT_FOUND", "another's mail", NOVA, {"message": "$mail"}),
        refused("NOT_FOUND", "no mail at all", NOVA, {"message": ABSENT}),
        refused("USAGE", "a name that is too short", VERA, {"message": "abc"}),
        refused("USAGE", "a position that is none", VERA, {"message": "#x"}),
        refused(
            "USAGE", "a range beyond the end", VERA, {"message": "$mail", "start": 99, "stop": 100}
        ),
    ),
    mail.AckMessages: (
        done("handled", VERA, {"messages": ["$mail", "$ask"]}, has={"acked": ["$mail", "$ask"]}),
        done(
            "declined",
            VERA,
            {"messages": ["$mail"], "decline": True, "note": "no time"},
            has={"declined": ["$mail"]},
        ),
        refused(
            "NOT_FOUND", "one of several that is not there", VERA, {"messages": ["$mail", ABSENT]}
        ),
        refused("NOT_FOUND", "another's mail cannot be handled", NOVA, {"messages": ["$mail"]}),
    ),
    mail.ShowReceipts: (
        done(
            "how far it got",
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
        refused("NOT_FOUND", "receipts of another's mail", NOVA, {"message": "$mail"}),
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
        refused("NOT_FOUND", "another's conversation", NOVA, {"message": "$mail"}),
    ),
    mail.AnswerAsk: (
        done(
            "an answer",
            VERA,
            {"message": "$ask", "text": "yes"},
            # Over MCP it is a reply, for which the ask is read.
            first=(Step(VERA, mail.ReadMessage, {"message": "$ask"}),),
            has={"accepted": True},
        ),
        refused(
            "NOT_FOUND", "an answer to another's ask", NOVA, {"message": "$ask", "text": "yes"}
        ),
    ),
    mail.Explain: (
        done("who is behind it", OWNER, {"message": "$mail"}, has={"sender": "@otto-cli"}),
        done(
            "who is behind one's own",
            OTTO,
            {"message": "$mail"},
            has={"token": {"sender": "otto-cli"}},
        ),
        refused("NOT_FOUND", "who is behind another's", NOVA, {"message": "$mail"}),
    ),
    mail.Redact: (
        done(
            "a body is removed",
            OWNER,
            {"message": "$mail", "reason": "secret"},
            has={"redacted": True, "id": "$mail"},
        ),
        done("one's own body is removed", OTTO, {"message": "$mail", "reason": "secret"}),
        refused("USAGE", "removed for no reason", OTTO, {"message": "$mail", "reason": " "}),
        refused("NOT_FOUND", "another's body", NOVA, {"message": "$mail", "reason": "r"}),
    ),
    mail.Ask: (
        done(
            "a question that is answered",
            OTTO,
            {"to": "@vera", "question": "free?", "options": ["yes", "no"], "wait_s": 40},
            meanwhile=ANSWERED,
            has={"answered": True, "answer": {"payload": {"text": "yes"}}},
            not_at={"cli": LIMITED},
        ),
        done(
            "a question with a time limit that is answered",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 40, "timeout_s": 40},
            meanwhile=ANSWERED,
            has={"answered": True, "answer": {"payload": {"text": "yes"}}},
            not_at={"mcp": NO_WORD},
        ),
        no(
            "NO_ANSWER",
            "a question that nobody answers",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 1},
            not_at={"cli": LIMITED},
            has={"answered": False},
        ),
        no(
            "NO_ANSWER",
            "a question with a time limit that nobody answers",
            OTTO,
            {"to": "@vera", "question": "free?", "wait_s": 1, "timeout_s": 1},
            not_at={"mcp": NO_WORD},
        ),
        refused(
            "INVALID_RECIPIENT_SHAPE",
            "a question to nobody",
            OTTO,
            {"to": "vera", "question": "q", "wait_s": 1},
        ),
    ),
    mail.FindAnswer: (
        done(
            "an ask that stands open",
            OTTO,
            {"message": "$ask"},
            has={"answered": False, "id": "$ask"},
        ),
        done(
            "an ask that was answered",
            OTTO,
            {"message": "$ask"},
            first=(Step(VERA, mail.AnswerAsk, {"message": "$ask", "text": "yes"}),),
            has={"answered": True, "answer": {"payload": {"text": "yes", "ask": "$ask"}}},
        ),
        refused("NOT_FOUND", "another's ask", NOVA, {"message": "$ask"}),
    ),
    mail.Search: (
        done(
            "what is found",
            VERA,
            {"query": "hello", "limit": 5},
            has={
                "messages": [{"id": "$letter"}, {"id": "$mail", "payload": {"text": "hello vera"}}]
            },
        ),
        done("nothing is found of others", NOVA, {"query": "hello"}, has={"messages": []}),
    ),
    mail.ListMail: (
        done(
            "everybody's mail, for the owner",
            OWNER,
            {"limit": 2},
            has={"messages": [{"type": "wake"}, {"payload": {"task_id": "T-4"}}]},
        ),
        done("everybody's mail, for an admin", DORA),
        done(
            "the newest mail, for an admin",
            DORA,
            {"limit": 1},
            has={"messages": [{"type": "wake", "payload": None}]},
        ),
        refused("MISSING_SCOPE", "everybody's mail, for an agent", OTTO),
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
        refused("USAGE", "a chunk of nothing", OTTO, {"data": b"", "size": 0}),
        refused("TOO_LARGE", "a chunk of too much", OTTO, {"data": b"x", "size": 10**9}),
    ),
    mail.DropUpload: (
        done(
            "an upload is given up",
            OTTO,
            {"upload": "$upload"},
            first=(Step(OTTO, mail.PutChunk, {"data": b"half", "size": 9}, {"upload": "upload"}),),
            has={"dropped": True},
        ),
    ),
}
