"""The rules of mail: repeated sends, recipients, receipts, asks and limits."""

import hashlib
import threading
from typing import Any

import pytest

from interlock import errors
from interlock.log.encoding import canonical
from interlock.rooms.identity.verbs import CreateGroup, ListAgents
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    FindAnswer,
    ListInbox,
    ReadMessage,
    Redact,
    SendMessage,
    ShowReceipts,
)
from interlock.rooms.workspace.verbs import Pause, Review, Whoami
from world.commandline import until
from world.workspace import MINUTE, OWNER, Workspace, text_to

MIB = 1 << 20


# --- repeated requests


def test_a_repeated_key_and_body_return_the_first_answer(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    request = SendMessage("@vera", {"text": "once"}, "send", key="k1", ttl_s=3600)
    first = workspace.node.call(otto, request)
    workspace.send(otto, "@vera", "more")
    workspace.send(vera, "@otto", "and more")
    workspace.ms += MINUTE
    before = workspace.head()
    again = workspace.node.call(otto, request)
    for answer in (first, again):
        del answer["deliveries"][0]["reach"]  # it may change between the answers
    assert again == first
    assert workspace.head() == before
    workspace.call(vera, ReadMessage(first["message"]["id"]))
    assert workspace.node.call(otto, request)["deliveries"][0]["state"] == "read"
    assert workspace.texts(vera) == ["once", "more"]


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"text": "twice"}},
        {"to": "@otto"},
        {"type": "wake"},
        {"subject": "s"},
        {"priority": "high"},
        {"ttl_s": 60},
    ],
)
def test_another_body_under_the_same_key_is_a_conflict(
    workspace: Workspace, change: dict[str, Any]
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    request = SendMessage("@vera", {"text": "once"}, "send", key="k1")
    seq = workspace.node.call(otto, request)["message"]["seq"]
    before = workspace.head()
    other = request._replace(**change)
    error = workspace.refused("IDEMPOTENCY_CONFLICT", otto, other)
    assert (error["key"], error["seq"]) == ("k1", seq)
    assert workspace.head() == before
    workspace.node.call(vera, other)  # each sender has its own keys


def test_a_key_whose_body_was_redacted_is_a_conflict(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"text": "a secret"}, "send", key="k1")
    sent = workspace.node.call(otto, request)["message"]
    workspace.call(otto, Redact(sent["id"], "leaked"))
    workspace.refused("IDEMPOTENCY_CONFLICT", otto, request)


def test_an_answer_with_a_repeated_key_is_sent_once(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    ask = workspace.ask(otto, "@vera")
    first = workspace.call(vera, AnswerAsk(ask, "yes", key="k1"))
    assert workspace.call(vera, AnswerAsk(ask, "yes", key="k1"))["message"] == first["message"]
    workspace.refused("IDEMPOTENCY_CONFLICT", vera, AnswerAsk(ask, "no", key="k1"))
    assert workspace.texts(otto) == ["yes"]


def test_a_large_body_with_a_repeated_key_is_stored_once(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"text": "x" * (2 * MIB)}, "send", key="k1")
    first = workspace.node.call(otto, request)
    assert workspace.node.call(otto, request) == first
    assert workspace.query("SELECT count(*) FROM blob_chunks") == [(2,)]


def test_the_digested_form_of_a_keyed_send_is_stable(
    workspace: Workspace,
) -> None:
    otto = workspace.join("otto")
    request = SendMessage("@vera", {"text": "x"}, subject="s", key="k-1", ttl_s=60)
    sent = workspace.call(otto, request)["message"]
    digest = hashlib.sha256(b"x").hexdigest()
    given = [
        *("@vera", "send", {"text": "x"}, "s", None, None, "normal", None, 60, None, digest, 1),
        None,
    ]
    with workspace.node.file.reading() as db:
        store = workspace.node.transaction(db).store
        assert store.same_request(sent["seq"], canonical(given))


# --- recipients


def test_mail_to_an_unregistered_name_is_accepted_with_a_notice(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera")
    workspace.join("vera", "cli")
    answer = workspace.node.call(otto, SendMessage("@verra", {"text": "x"}, "send"))
    assert answer["deliveries"] == [
        {"recipient": "@verra", "known": False, "reach": "unknown", "state": "accepted"}
    ]
    (notice,) = answer["notices"]
    assert (notice["code"], notice["did_you_mean"]) == (
        *("UNKNOWN_RECIPIENT", ["@vera", "@vera-cli"]),
    )
    answer = workspace.node.call(otto, SendMessage("@quux", {"text": "x"}, "send"))
    assert "did_you_mean" not in answer["notices"][0]


def test_a_strict_workspace_refuses_unknown_recipients(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera", "cli")
    workspace.set("recipients", "strict")
    before = workspace.head()
    error = workspace.refused("UNKNOWN_RECIPIENT", otto, text_to("@verra"))
    assert error["to"] == "@verra"
    assert error["did_you_mean"] == ["@vera", "@vera-cli"]
    assert workspace.head() == before
    for known in ("@vera", "@vera-cli", "AGENT:*"):
        workspace.send(otto, known)
    workspace.set("recipients", "open")
    workspace.send(otto, "@verra")


@pytest.mark.parametrize(("name", "joins_as"), [("vera", ("vera", None)), ("a-b", ("a", "b"))])
def test_mail_to_an_unregistered_name_is_delivered_when_it_joins(
    workspace: Workspace, name: str, joins_as: tuple[str, str | None]
) -> None:
    otto = workspace.join("otto")
    workspace.send(otto, "@" + name, "welcome")
    assert workspace.texts(workspace.join(*joins_as)) == ["welcome"]


def test_mail_for_an_agent_is_seen_by_each_surface_and_taken_by_the_first(
    workspace: Workspace,
) -> None:
    otto, cli, desktop = (
        workspace.join("otto"),
        workspace.join("otto", "cli"),
        workspace.join("otto", "desktop"),
    )
    vera = workspace.join("vera")
    id = workspace.send(vera, "@otto", "for all of you")
    workspace.send(vera, "@otto-cli", "for the shell")
    assert workspace.texts(otto) == workspace.texts(desktop) == ["for all of you"]
    assert workspace.texts(cli) == ["for all of you", "for the shell"]
    assert "taken_by" not in workspace.call(cli, ReadMessage(id))
    assert workspace.call(desktop, ReadMessage(id))["taken_by"] == "@otto-cli"
    assert workspace.call(otto, ListInbox())["messages"][0]["taken_by"] == "@otto-cli"
    assert "taken_by" not in workspace.call(cli, ListInbox())["messages"][0]
    assert workspace.call(desktop, Whoami())["unread"] == 0
    workspace.refused("NOT_FOUND", desktop, ReadMessage("#" + str(workspace.head() - 3)))


def test_a_broadcast_reaches_every_registered_agent_but_the_senders_own(
    workspace: Workspace,
) -> None:
    otto, cli = workspace.join("otto"), workspace.join("otto", "cli")
    vera, mira = workspace.join("vera", "cli"), workspace.join("mira", kind="human")
    answer = workspace.node.call(cli, SendMessage("AGENT:*", {"text": "all"}, "send"))
    assert [row["recipient"] for row in answer["deliveries"]] == ["@mira", "@vera"]
    late = workspace.join("late")
    assert workspace.texts(vera) == workspace.texts(mira) == ["all"]
    assert workspace.texts(otto) == workspace.texts(late) == []


def test_group_mail_goes_to_the_members_at_the_time_of_sending(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    workspace.call(OWNER, CreateGroup("devs", ("@vera", "otto", "vera")))
    workspace.send(mira, "@devs", "first")
    workspace.call(OWNER, CreateGroup("devs", ("mira", "otto")))
    workspace.send(otto, "@devs", "second")
    assert workspace.texts(vera) == ["first"]
    assert workspace.texts(mira) == ["second"]
    assert workspace.texts(otto) == ["first"], "a member gets no copy of its own mail to the group"
    error = workspace.refused("NOT_FOUND", OWNER, CreateGroup("devs", ("verra",)))
    assert error["did_you_mean"] == ["@vera"]


def test_a_group_of_an_agent_and_its_surface_gets_one_delivery(workspace: Workspace) -> None:
    workspace.join("otto")
    cli, vera = workspace.join("otto", "cli"), workspace.join("vera")
    workspace.call(OWNER, CreateGroup("devs", ("otto", "otto-cli")))
    workspace.send(vera, "@devs")
    found = workspace.call(cli, ListInbox())
    assert (len(found["messages"]), found["open"], found["unread"]) == (1, 1, 1)


def test_interlock_tells_the_sender_of_mail_that_expired_unread(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    unread = workspace.send(otto, "@vera", "hurry", ttl_s=60)
    seen = workspace.send(otto, "@vera", "read in time", ttl_s=60)
    workspace.call(vera, ReadMessage(seen))
    workspace.ms += 59_999
    assert workspace.call(vera, Whoami())["open"] == 2
    workspace.ms += 1
    assert workspace.call(vera, Whoami()) | {"open": 1, "unread": 0} == workspace.call(
        vera, Whoami()
    )
    (notice,) = workspace.call(otto, ListInbox())["messages"]
    assert (notice["from"], notice["reply_to"], notice["thread"]) == ("@interlock", unread, unread)
    assert notice["payload"]["text"].startswith(f"Your message {unread} to @vera expired unread")
    (delivery,) = workspace.call(otto, ShowReceipts(unread))["deliveries"]
    assert delivery["state"] == "expired"
    assert unread in [row["id"] for row in workspace.call(OWNER, Review())["expired"]]
    before = workspace.head()
    workspace.call(vera, ReadMessage(unread))
    assert workspace.head() == before, "reading expired mail writes no receipt"


def test_an_inbox_is_paged_through_without_loss_or_repeat(workspace: Workspace) -> None:
    otto, cli, vera = workspace.join("otto"), workspace.join("otto", "cli"), workspace.join("vera")
    for number in range(7):
        workspace.send(vera, "@otto" if number % 2 else "@otto-cli", str(number))
    seen, after = [], 0
    while True:
        page = workspace.call(cli, ListInbox(limit=2, after=after))
        seen += [message["payload"]["text"] for message in page["messages"]]
        assert (page["open"], page["unread"]) == (7, 7)
        if "next" not in page:
            break
        after = page["next"]
    assert seen == [str(number) for number in range(7)]
    assert workspace.texts(otto) == ["1", "3", "5"]


# --- receipts


def test_receipts_show_every_state_of_a_message_in_order(workspace: Workspace) -> None:
    otto, vera, cli = workspace.join("otto"), workspace.join("vera"), workspace.join("vera", "cli")
    id = workspace.send(otto, "@vera")
    workspace.ms += 1000
    workspace.call(vera, ListInbox())
    workspace.call(cli, ListInbox())
    workspace.ms += 1000
    workspace.call(cli, ReadMessage(id))
    workspace.call(vera, ReadMessage(id))
    workspace.ms += 1000
    workspace.call(vera, AckMessages((id,), note="done"))
    workspace.call(cli, AckMessages((id,)))
    assert workspace.call(otto, ShowReceipts(id)) == {
        "id": id,
        "deliveries": [
            {
                "recipient": "@vera",
                "state": "acked",
                "history": [
                    {"state": "accepted", "at": "2033-05-18T03:33:20.000Z"},
                    {"state": "shown", "at": "2033-05-18T03:33:21.000Z", "by": "@vera"},
                    {"state": "read", "at": "2033-05-18T03:33:22.000Z", "by": "@vera-cli"},
                    {
                        "state": "acked",
                        "at": "2033-05-18T03:33:23.000Z",
                        "by": "@vera",
                        "note": "done",
                    },
                ],
            }
        ],
    }


def test_a_recipient_sees_its_own_receipt_and_not_the_others(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.join("mira")
    id = workspace.send(otto, "AGENT:*")
    assert [d["recipient"] for d in workspace.call(vera, ShowReceipts(id))["deliveries"]] == [
        "@vera"
    ]
    assert len(workspace.call(otto, ShowReceipts(id))["deliveries"]) == 2


def test_acks_are_all_or_none(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    mine, hers = workspace.send(otto, "@vera"), workspace.send(vera, "@otto")
    before = workspace.head()
    workspace.refused("NOT_FOUND", vera, AckMessages((mine, hers)))
    workspace.refused("NOT_FOUND", vera, AckMessages((mine, "0" * 36)))
    assert workspace.head() == before
    assert workspace.call(vera, Whoami())["open"] == 1
    workspace.call(vera, AckMessages((mine, mine)))
    assert workspace.call(vera, Whoami())["open"] == 0


def test_declining_an_acked_message_leaves_it_acked(workspace: Workspace) -> None:
    otto, vera, cli = workspace.join("otto"), workspace.join("vera"), workspace.join("vera", "cli")
    id = workspace.send(otto, "@vera")
    workspace.call(vera, AckMessages((id,)))
    answer = workspace.call(cli, AckMessages((id,), decline=True))
    assert workspace.call(otto, ShowReceipts(id))["deliveries"][0]["state"] == "acked"
    assert id not in answer.get("declined", [])


def test_read_mail_never_becomes_unread_again(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera")
    counts = []
    for request in (
        Whoami(),
        ReadMessage(id),
        ListInbox("all"),
        ReadMessage(id),
        AckMessages((id,)),
    ):
        workspace.call(vera, request)
        counts.append(
            (workspace.call(vera, Whoami())["open"], workspace.call(vera, Whoami())["unread"])
        )
    assert counts == [(1, 1), (1, 0), (1, 0), (1, 0), (0, 0)]


def test_mail_that_was_read_stays_open_until_it_is_acked(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    read, unread = (workspace.send(otto, "@vera", text, ttl_s=60) for text in ("read", "unread"))
    workspace.call(vera, ReadMessage(read))
    workspace.ms += 3_600_000
    assert [message["id"] for message in workspace.call(vera, ListInbox())["messages"]] == [read]
    assert workspace.call(otto, ShowReceipts(unread))["deliveries"][0]["state"] == "expired"
    assert len(workspace.call(otto, ListInbox())["messages"]) == 1


def test_read_mail_does_not_end_a_wait_for_new_mail(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.call(vera, ReadMessage(workspace.send(otto, "@vera", "first")))

    def is_vera_waiting() -> bool:
        (agent,) = workspace.call(OWNER, ListAgents("vera"))["agents"]
        return str(agent["reach"]) == "wakes"

    def send_second() -> None:
        until(is_vera_waiting)
        workspace.send(otto, "@vera", "second")

    sending = threading.Thread(target=send_second)
    sending.start()
    found = workspace.call(vera, ListInbox(wait_s=30))["messages"]
    sending.join()
    assert [message["payload"]["text"] for message in found] == ["first", "second"]


# --- asks


def test_an_answer_goes_to_the_asker_and_closes_the_ask(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli"), workspace.join("vera")
    ask = workspace.ask(otto, "@vera")
    workspace.call(vera, AnswerAsk(ask, "yes"))
    found = workspace.call(otto, FindAnswer(ask))
    assert (found["answered"], found["answer"]["payload"]) == (True, {"text": "yes", "ask": ask})
    assert found["answer"]["to"] == "@otto-cli"
    assert workspace.call(vera, Whoami())["open"] == 0
    assert workspace.call(OWNER, Review())["unanswered"] == []


def test_a_question_with_a_time_limit_is_overdue_after_it(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.join("vera")
    payload = {"question": "may I?", "options": ["yes", "no"], "timeout_s": 60}
    workspace.node.call(otto, SendMessage("@vera", payload, "ask"))
    (waiting_for,) = workspace.call(OWNER, Review())["unanswered"]
    assert "overdue" not in waiting_for
    workspace.ms += 60_000
    (waiting_for,) = workspace.call(OWNER, Review())["unanswered"]
    assert waiting_for["overdue"] is True


def test_only_a_recipient_of_an_ask_can_answer_it(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    ask, note = workspace.ask(otto, "@vera"), workspace.send(otto, "@vera")
    workspace.refused("INVALID_MESSAGE", otto, AnswerAsk(ask, "to myself"))
    workspace.refused("INVALID_MESSAGE", vera, AnswerAsk(note, "yes"))
    elsewhere = SendMessage("@mira", {"text": "yes", "ask": ask}, "answer")
    workspace.refused("INVALID_MESSAGE", vera, elsewhere)
    assert workspace.call(otto, FindAnswer(ask))["answered"] is False


def test_other_recipients_of_an_ask_do_not_see_the_answer(
    workspace: Workspace,
) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    ask = workspace.ask(otto, "AGENT:*")
    workspace.call(vera, AnswerAsk(ask, "only otto may know"))
    try:
        found = workspace.call(mira, FindAnswer(ask))
    except errors.NotFound:
        return
    assert "answer" not in found


def test_an_answer_that_ask_returned_is_no_longer_open(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")

    def reply() -> None:
        (asked,) = workspace.call(vera, ListInbox(wait_s=30))["messages"]
        workspace.call(vera, AnswerAsk(asked["id"], "yes"))

    answering = threading.Thread(target=reply)
    answering.start()
    assert workspace.call(otto, Ask("@vera", "may I?", wait_s=30))["answered"]
    answering.join()
    assert workspace.call(otto, ListInbox())["messages"] == []


# --- limits


def test_a_chain_of_replies_ends_at_the_hop_limit(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.set("limits.hops", "2")
    id = workspace.send(otto, "@vera")
    id = workspace.send(vera, "@otto", reply_to=id)
    id = workspace.send(otto, "@vera", reply_to=id)
    before = workspace.head()
    error = workspace.refused("TOO_MANY_HOPS", vera, text_to("@otto", reply_to=id))
    assert error["limit"] == 2
    assert workspace.head() == before
    workspace.send(vera, "@otto", thread=id)


def test_too_many_sends_in_a_minute_are_refused_until_the_minute_ends(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    workspace.set("limits.sends_per_minute", "3")
    for _ in range(3):
        workspace.send(otto, "@vera")
    before = workspace.head()
    error = workspace.refused("RATE_LIMITED", otto, text_to("@vera"))
    assert (error["retry_after_s"], error["limit"]) == (40, 3)  # the clock is 20 s past the minute
    assert workspace.head() == before
    workspace.send(vera, "@otto")
    workspace.ms += error["retry_after_s"] * 1000
    workspace.send(otto, "@vera")
    workspace.set("limits.sends_per_minute", "0")
    for _ in range(5):
        workspace.send(otto, "@vera")


def test_a_repeated_key_does_not_count_against_the_rate_limit(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("limits.sends_per_minute", "1")
    request = SendMessage("@vera", {"text": "x"}, "send", key="k1")
    first = workspace.node.call(otto, request)
    assert workspace.node.call(otto, request) == first


@pytest.mark.parametrize(("limit", "size"), [(1000, 1001), (2 * MIB, 2 * MIB + 1)])
def test_a_message_above_the_limit_is_refused_and_stores_nothing(
    workspace: Workspace, limit: int, size: int
) -> None:
    otto = workspace.join("otto")
    workspace.set("limits.message_bytes", str(limit))
    before = workspace.head()
    error = workspace.refused("TOO_LARGE", otto, text_to("@vera", "x" * size))
    assert (error["size"], error["limit"]) == (size, limit)
    assert workspace.head() == before
    assert workspace.query("SELECT * FROM blob_chunks") == []
    workspace.send(otto, "@vera", "x" * limit)
    command = SendMessage("@vera", {"command": "x" * limit, "why": "y"}, "command")
    workspace.refused("TOO_LARGE", otto, command)


def test_a_refused_large_body_leaves_no_blob(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.set("recipients", "strict")
    workspace.refused("UNKNOWN_RECIPIENT", otto, text_to("@vera", "x" * (2 * MIB)))
    workspace.call(OWNER, Pause())
    workspace.refused("PAUSED", otto, text_to("@otto", "x" * (2 * MIB)))
    assert workspace.query("SELECT * FROM blob_chunks") == []
