"""The rules of visibility: which messages, searches and threads a caller sees."""

from collections.abc import Callable
from typing import Any

import pytest

from interlock import errors
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import RevokeToken
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Explain,
    FindAnswer,
    ListInbox,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.workspace.verbs import Review
from interlock.verbs.credentials import Credentials
from world.workspace import OWNER, Workspace


def id_of(credentials: Credentials) -> str:
    assert credentials.token is not None
    return token_format.token_id(token_format.hashed(credentials.token))


REQUESTS: dict[str, Callable[[str], Any]] = {
    "read": lambda id: ReadMessage(id),
    "receipts": lambda id: ShowReceipts(id),
    "thread": lambda id: ShowThread(id),
    "explain": lambda id: Explain(id),
    "ack": lambda id: AckMessages((id,)),
    "answer": lambda id: AnswerAsk(id, "yes"),
    "find answer": lambda id: FindAnswer(id),
    "reply": lambda id: SendMessage("@otto", {"text": "x"}, "send", reply_to=id),
    "join the thread": lambda id: SendMessage("@otto", {"text": "x"}, "send", thread=id),
}


def test_redacting_an_invisible_message_is_refused_as_not_found(
    workspace: Workspace,
) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira")
    workspace.join("vera")
    foreign, before = workspace.ask(otto, "@vera"), workspace.head()
    workspace.refused("NOT_FOUND", mira, Redact(foreign, "why"))
    assert workspace.head() == before


@pytest.mark.parametrize("verb", REQUESTS)
def test_an_invisible_message_is_refused_like_an_absent_one(
    workspace: Workspace, verb: str
) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira", scopes=("admin",))
    workspace.join("vera")
    foreign, absent = workspace.ask(otto, "@vera"), "12345678-1234-4234-8234-123456789abc"
    about = REQUESTS[verb]
    before = workspace.head()
    error = workspace.refused("NOT_FOUND", mira, about(foreign))
    assert error == {
        name: value.replace(absent, foreign)
        for name, value in workspace.refused("NOT_FOUND", mira, about(absent)).items()
    }
    workspace.refused("NOT_FOUND", mira, about(foreign[:8]))
    workspace.refused("NOT_FOUND", mira, about(f"#{before}"))
    assert workspace.head() == before


def test_a_review_shows_an_agent_no_mail_of_others(workspace: Workspace) -> None:
    otto, mira = workspace.join("otto"), workspace.join("mira")
    workspace.join("vera")
    workspace.ask(otto, "@vera")
    workspace.send(otto, "@vera", ttl_s=60)
    workspace.ms += 61_000
    assert len(workspace.call(OWNER, Review())["unanswered"]) == 1
    try:
        found = workspace.call(mira, Review())
    except errors.MissingScope:
        return
    assert (found["unanswered"], found["expired"]) == ([], [])


def test_a_search_finds_only_the_callers_mail(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    id = workspace.send(otto, "@vera", "the blue signal")
    for by, found in ((otto, 1), (vera, 1), (mira, 0)):
        assert len(workspace.call(by, Search("signal blue"))["messages"]) == found
    workspace.call(otto, Redact(id, "wrong"))
    assert workspace.call(vera, Search("signal"))["messages"] == []


def test_a_search_finds_mail_from_any_own_surface_and_mail_to_this_one(
    workspace: Workspace,
) -> None:
    cli, desktop, vera = (
        workspace.join("otto", "cli"),
        workspace.join("otto", "desktop"),
        workspace.join("vera"),
    )
    sent = workspace.send(cli, "@vera", "a signal")
    shared, own = (workspace.send(vera, to, "a signal") for to in ("@otto", "@otto-desktop"))

    def found(by: Credentials) -> list[str]:
        return [message["id"] for message in workspace.call(by, Search("signal"))["messages"]]

    assert found(cli) == [shared, sent]
    assert found(desktop) == [own, shared, sent]
    assert found(vera) == [own, shared, sent]


def test_a_thread_shows_only_the_callers_part_of_it(workspace: Workspace) -> None:
    otto, vera, mira = workspace.join("otto"), workspace.join("vera"), workspace.join("mira")
    first = workspace.send(otto, "AGENT:*", "to both")
    workspace.send(vera, "@otto", "from vera", reply_to=first)
    workspace.send(mira, "@otto", "from mira", reply_to=first)
    shown = workspace.call(mira, ShowThread(first))["messages"]
    assert [message["payload"]["text"] for message in shown] == ["to both", "from mira"]
    assert len(workspace.call(otto, ShowThread(first))["messages"]) == 3


def test_a_message_is_named_by_id_prefix_or_position(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera")
    for reference in (id, id[:6], f"#{workspace.head()}"):
        assert workspace.call(vera, ReadMessage(reference))["id"] == id
    for reference in (id[:5], "", "#", "#-1", "#x", "#" + "9" * 30):
        workspace.refused("USAGE", vera, ReadMessage(reference))


def test_explain_shows_the_token_of_a_message(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto", "cli", label="otto's laptop"), workspace.join("vera")
    workspace.ms += 5000
    id = workspace.send(otto._replace(session="s1"), "@vera")
    workspace.call(OWNER, RevokeToken(id=id_of(otto)))
    for by in (vera, OWNER):
        story = workspace.call(by, Explain(id))
        assert (story["sender"], story["agent"], story["session"]) == ("@otto-cli", "otto", "s1")
        assert story["message"]["id"] == id
        assert story["token"] == {
            "id": id_of(otto),
            "sender": "otto-cli",
            "address": "@otto-cli",
            "label": "otto's laptop",
            "scopes": ["mail", "claim", "work"],
            "minted_by": "@owner",
            "minted_at": "2033-05-18T03:33:20.000Z",
            "seq": 3,
            "revoked_at": "2033-05-18T03:33:25.000Z",
        }


def test_an_admin_redacts_a_message_that_it_may_not_read(workspace: Workspace) -> None:
    otto, ada = workspace.join("otto"), workspace.join("ada", scopes=("admin",))
    sent = workspace.call(otto, SendMessage("@otto", {"text": "secret"}, "send"))["message"]
    assert workspace.call(ada, Redact(sent["id"], "a secret"))["redacted"]
    assert "payload" not in workspace.call(otto, ListInbox())["messages"][0]


@pytest.mark.parametrize("reference", ["", "a/b", "0192f0c1/receipts", "#", "x y z w", "é" * 8])
def test_a_malformed_message_reference_is_bad_usage(workspace: Workspace, reference: str) -> None:
    otto = workspace.join("otto")
    for request in (ReadMessage(reference), ShowReceipts(reference), Redact(reference, "why")):
        workspace.refused("USAGE", otto, request)
