"""A remedy is a command, an HTTP request or a call of an MCP tool, by the caller's interface."""

import pytest

from interlock.doors.mcp.tools import mcp_words
from interlock.errors import InvalidMessage, NotHolder, Remedy, Usage, message
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.verbs import ListTokens
from interlock.rooms.mail.verbs import AckMessages, AnswerAsk
from interlock.rooms.work.verbs import GiveVerdict, ListTasks, TakeTask
from interlock.rooms.workspace.verbs import Backup
from interlock.verbs.verb import Verb
from interlock.verbs.wording import http_words, one_of, only_one_of, renamed, worded

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


# --- the names of members


@pytest.mark.parametrize(
    ("message_given", "names", "expected"),
    [
        ("wait_s is 0.", {"wait_s": "wait"}, "wait is 0."),
        ("gates[1] is 'A'.", {"gates": "gates"}, "gates[1] is 'A'."),
        ("gates[1] is 'A'.", {"gates": "--gate"}, "--gate is 'A'."),
        ("gates_s is 'A'.", {"gates": "--gate"}, "gates_s is 'A'."),
        ("The member wait_s is 0.", {"wait_s": "wait"}, "The member wait_s is 0."),
    ],
)
def test_only_the_name_at_the_beginning_is_replaced(
    message_given: str, names: dict[str, str], expected: str
) -> None:
    refusal = Usage(message_given, member=next(iter(names)))
    assert renamed(refusal, names).message == expected


def test_renamed_refusal_keeps_its_remedy_and_its_other_members() -> None:
    refusal = InvalidMessage("why is missing.", TAKE, member="why", type="command")
    shown = renamed(refusal, {"why": "payload.why"})
    assert shown.members == {"member": "payload.why", "type": "command"}
    http = worded(shown.as_dict(), http_words)
    assert http["message"] == "payload.why is missing. `POST /v1/tasks/T-1/take`"


def test_refusal_of_an_unknown_member_stays_the_same_object() -> None:
    for refusal in (Usage("The body is not JSON."), Usage("to is 7.", member="to")):
        assert renamed(refusal, {"wait_s": "wait"}) is refusal


def test_choice_leaves_out_members_that_the_interface_lacks() -> None:
    names = ["id", "item", "paths"]
    refusal = Usage(one_of(names), member="id", one_of=names)
    assert refusal.message == "Give id, item or paths."
    shown = renamed(refusal, {"item": "ITEM", "paths": "--path"})
    assert shown.message == "Give ITEM or --path."
    both = Usage(only_one_of(["item", "paths"]), member="paths", one_of=["item", "paths"])
    shown = renamed(both, {"item": "ITEM", "paths": "--path"})
    assert shown.message == "Give only one of ITEM and --path."
    assert shown.members == {"member": "--path", "one_of": ["ITEM", "--path"]}
