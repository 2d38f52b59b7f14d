"""A log that is longer than one call looks through: whoever asks for facts gets those that were
asked for all the same, and whoever searches goes through their own mail alone."""

import asyncio
import os
from typing import Any, NamedTuple

import pytest

import interlock
from interlock.node import Node, search
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import CreateGroup, Join
from interlock.rooms.mail.verbs import Search, SendMessage
from interlock.rooms.transaction import Mine
from interlock.rooms.workspace.events import SCANNED_AT_ONCE
from interlock.rooms.workspace.verbs import ChangeSetting, ShowLog
from interlock.verbs.credentials import Credentials
from world.commandline import Place

pytestmark = [pytest.mark.embedded("it opens the file by itself"), pytest.mark.every_engine]

OWNER = Credentials(owner=True)


class Long(NamedTuple):
    """There was a group; then otto wrote to vera all the time; only then were there two more
    groups, and a word to neo."""

    place: Place
    otto: str
    neo: str
    entries: int

    def call(self, token: str, act: Any) -> dict[str, Any]:
        with Node(str(self.place.workspace)) as node:
            return node.call(Credentials(token=token), act)


def join(node: Node, name: str) -> str:
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    node.call(OWNER, Join(name, token_hash=token_format.hashed(token)))
    return token


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    place = Place(tmp_path_factory.mktemp("long"))
    place.ok("init")
    with Node(str(place.workspace)) as node:
        # Whether it outlives a loss of power is not the question here.
        node.file.writer.execute("PRAGMA synchronous = OFF")
        node.call(OWNER, ChangeSetting("limits.sends_per_minute", "0"))
        otto, neo, _ = (join(node, name) for name in ("otto", "neo", "vera"))
        node.call(OWNER, CreateGroup("red", ("@vera",)))
        for number in range(SCANNED_AT_ONCE):
            said = SendMessage("@vera", {"text": f"hello {number}"}, "send")
            node.call(Credentials(token=otto), said)
        for name in ("green", "blue"):
            node.call(OWNER, CreateGroup(name, ("@vera",)))
        said = SendMessage("@neo", {"text": "hello, you"}, "send")
        node.call(Credentials(token=otto), said)
        entries = node.head()
    return Long(place, otto, neo, entries)


def test_one_call_looks_through_a_part_and_says_where_to_go_on(long: Long) -> None:
    for token in (long.otto, long.neo):
        first = long.call(token, ShowLog(kind="group_set"))
        assert groups(first) == ["red"]
        assert first["next"] == SCANNED_AT_ONCE
        rest = long.call(token, ShowLog(first["next"], 1, "group_set"))
        assert groups(rest) == ["green"]
        last = long.call(token, ShowLog(rest["next"], 2, "group_set"))
        assert groups(last) == ["blue"]
        assert "next" not in last


def groups(answer: Any) -> list[str]:
    return [fact["outcome"]["name"] for fact in answer["facts"]]


def test_facts_that_are_somebody_elses_are_looked_through_in_parts_too(long: Long) -> None:
    first = long.call(long.neo, ShowLog(kind="message_sent"))
    assert first == {"facts": [], "next": SCANNED_AT_ONCE}


def test_the_command_shows_the_first_facts_wherever_they_are(long: Long) -> None:
    found = long.place.ok("audit", "show", "--kind", "group_set", "--limit", "2")
    assert groups(found) == ["red", "green"]
    rest = long.place.ok("audit", "show", "--kind", "group_set", "--after", str(found["next"]))
    assert groups(rest) == ["blue"]
    assert "next" not in rest
    assert long.place.ok("audit", "show", "--kind", "nothing") == {"facts": []}
    whole = long.place.ok("audit", "show", "--limit", "1000", "--after", str(long.entries - 2))
    assert [fact["seq"] for fact in whole["facts"]] == [long.entries - 1, long.entries]


def test_both_clients_give_the_first_facts_wherever_they_are(long: Long) -> None:
    async def asked() -> Any:
        async with interlock.connect(long.place.workspace, long.neo) as client:
            return await client.log(limit=2, kind="group_set")

    with interlock.connect(long.place.workspace, long.neo) as client:
        found = client.log(limit=2, kind="group_set")
    assert groups(found) == ["red", "green"]
    assert asyncio.run(asked()) == found


def test_a_search_is_handed_ones_own_mail_alone(long: Long) -> None:
    (message,) = long.call(long.neo, Search("hello"))["messages"]
    assert message["seq"] == long.entries
    with Node(str(long.place.workspace)) as node, node.file.reading() as db:
        found = search.find(db, "hello", Mine(("neo", "neo"), ("neo",)))
        assert list(found) == [long.entries]
        sent = search.find(db, "hello", Mine(("otto", "otto"), ("otto",)))
        assert len(list(sent)) == SCANNED_AT_ONCE + 1
