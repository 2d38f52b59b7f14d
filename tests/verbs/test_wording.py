"""A remedy is a command, an HTTP request or a call of an MCP tool, by the caller's interface."""

import pytest

from interlock.doors.mcp.tools import mcp_words
from interlock.errors import NotHolder, Remedy, message
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.verbs import ListTokens
from interlock.rooms.mail.verbs import AckMessages, AnswerAsk
from interlock.rooms.work.verbs import GiveVerdict, ListTasks, TakeTask
from interlock.rooms.workspace.verbs import Backup
from interlock.verbs.verb import Verb
from interlock.verbs.wording import http_words, worded

TAKE = Remedy("interlock task take T-1", TakeTask("T-1"))


def test_a_message_names_the_remedy_of_each_interface() -> None:
    refusal = NotHolder("You have not taken T-1. Take it:", TAKE)
    assert refusal.message == "You have not taken T-1. Take it: interlock task take T-1"
    http = worded(refusal.as_dict(), http_words)
    assert http["message"] == "You have not taken T-1. Take it: `POST /v1/tasks/T-1/take`"
    mcp = worded(refusal.as_dict(), mcp_words)
    assert mcp["message"] == "You have not taken T-1. Take it: `task(action: take, id: T-1)`"


@pytest.mark.parametrize(
    ("request_made", "http", "mcp"),
    [
        (ListTasks(), "`GET /v1/tasks`", "`task(action: list)`"),
        (
            AcquireClaim("B-1", wait_s=45),
            '`POST /v1/claims {"item": "B-1", "wait": 45}`',
            "`claim(item: B-1, wait_s: 45)`",
        ),
        (
            AcquireClaim(paths=("a b", "c")),
            '`POST /v1/claims {"paths": ["a b", "c"]}`',
            '`claim(paths: ["a b", c])`',
        ),
        (
            AckMessages(("abcdef",)),
            '`POST /v1/acks {"messages": ["abcdef"]}`',
            "`ack(ids: [abcdef])`",
        ),
        (
            AnswerAsk("abcdef", "Yes, do."),
            '`POST /v1/messages/abcdef/answer {"text": "Yes, do."}`',
            '`send(reply_to: abcdef, text: "Yes, do.")`',
        ),
        (
            GiveVerdict("T-1", "athena", "pass"),
            '`POST /v1/verdicts {"task": "T-1", "gate": "athena", "verdict": "pass"}`',
            "`verdict(task_id: T-1, gate: athena, verdict: pass)`",
        ),
        (ListTokens(), "`GET /v1/tokens`", "`interlock …` in a shell"),
        (Backup("/b"), "`interlock …` in a shell", "`interlock …` in a shell"),
        (None, "`interlock …` in a shell", "`interlock …` in a shell"),
    ],
)
def test_a_request_is_worded_by_its_route_and_its_tool(
    request_made: Verb | None, http: str, mcp: str
) -> None:
    remedy = Remedy("interlock …", request_made)
    assert (http_words(remedy), mcp_words(remedy)) == (http, mcp)


def test_a_remedy_has_its_own_words_where_no_verb_derives_them() -> None:
    remedy = Remedy("Give --from SENDER.", http="Send a token.", mcp="Configure a token.")
    assert message("No identity given.", remedy) == "No identity given. Give --from SENDER."
    assert (http_words(remedy), mcp_words(remedy)) == ("Send a token.", "Configure a token.")


def test_the_remedies_inside_an_answer_are_worded_too() -> None:
    inner = message("Take it:", TAKE)
    answer = {"missing": [{"do": TAKE, "message": message(inner, "Then submit it.")}], "open": 2}
    assert worded(answer, http_words) == {
        "missing": [
            {
                "do": "`POST /v1/tasks/T-1/take`",
                "message": "Take it: `POST /v1/tasks/T-1/take` Then submit it.",
            }
        ],
        "open": 2,
    }
