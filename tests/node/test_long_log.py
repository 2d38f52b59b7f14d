"""A log with more entries than one call scans. A caller still gets all matching facts, page by
page. A search reads only the caller's own mail."""

import asyncio
from typing import Any, NamedTuple

import pytest

import interlock
from interlock.node import Node, search
from interlock.rooms.identity.verbs import CreateGroup
from interlock.rooms.mail.verbs import Search
from interlock.rooms.transaction import Mine
from interlock.rooms.workspace.events import SCANNED_AT_ONCE
from interlock.rooms.workspace.verbs import ChangeSetting, ShowLog
from interlock.verbs.credentials import Credentials
from interlock.verbs.verb import Verb
from world.commandline import Place
from world.workspace import OWNER, Answer, join, send_text

pytestmark = [pytest.mark.embedded("it opens the file by itself"), pytest.mark.every_engine]


class Long(NamedTuple):
    """A log with one group, then more messages to vera than one call scans, then two groups and
    a message to neo."""

    place: Place
    otto: Credentials
    neo: Credentials
    entries: int

    def call(self, by: Credentials, verb: Verb) -> Answer:
        """Send one request through a new node."""
        with Node(str(self.place.workspace)) as node:
            return node.call(by, verb)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Long:
    """Return the long log. The tests of this module only read it."""
    place = Place(tmp_path_factory.mktemp("long"))
    place.ok("init")
    with Node(str(place.workspace)) as node:
        # Faster. The test does not need durability.
        node.file.writer.execute("PRAGMA synchronous = OFF")
        node.call(OWNER, ChangeSetting("limits.sends_per_minute", "0"))
        otto, neo, _ = (join(node, name) for name in ("otto", "neo", "vera"))
        node.call(OWNER, CreateGroup("red", ("@vera",)))
        for number in range(SCANNED_AT_ONCE):
            send_text(node, otto, "@vera", f"hello {number}")
        for name in ("green", "blue"):
            node.call(OWNER, CreateGroup(name, ("@vera",)))
        send_text(node, otto, "@neo", "hello, you")
        entries = node.head()
    return Long(place, otto, neo, entries)


def test_one_call_scans_a_part_and_returns_the_next_position(long: Long) -> None:
    for by in (long.otto, long.neo):
        first = long.call(by, ShowLog(kind="group_set"))
        assert groups(first) == ["red"]
        assert first["next"] == SCANNED_AT_ONCE
        rest = long.call(by, ShowLog(first["next"], 1, "group_set"))
        assert groups(rest) == ["green"]
        last = long.call(by, ShowLog(rest["next"], 2, "group_set"))
        assert groups(last) == ["blue"]
        assert "next" not in last


def groups(answer: Any) -> list[str]:
    return [fact["outcome"]["name"] for fact in answer["facts"]]


def test_facts_of_other_senders_are_scanned_in_parts_too(long: Long) -> None:
    first = long.call(long.neo, ShowLog(kind="message_sent"))
    assert first == {"facts": [], "next": SCANNED_AT_ONCE}


def test_audit_show_finds_facts_anywhere_in_the_log(long: Long) -> None:
    found = long.place.ok("audit", "show", "--kind", "group_set", "--limit", "2")
    assert groups(found) == ["red", "green"]
    rest = long.place.ok("audit", "show", "--kind", "group_set", "--after", str(found["next"]))
    assert groups(rest) == ["blue"]
    assert "next" not in rest
    assert long.place.ok("audit", "show", "--kind", "nothing") == {"facts": []}
    whole = long.place.ok("audit", "show", "--limit", "1000", "--after", str(long.entries - 2))
    assert [fact["seq"] for fact in whole["facts"]] == [long.entries - 1, long.entries]


def test_both_clients_find_facts_anywhere_in_the_log(long: Long) -> None:
    async def found_async() -> Any:
        async with interlock.connect(long.place.workspace, long.neo.token) as client:
            return await client.log(limit=2, kind="group_set")

    with interlock.connect(long.place.workspace, long.neo.token) as client:
        found = client.log(limit=2, kind="group_set")
    assert groups(found) == ["red", "green"]
    assert asyncio.run(found_async()) == found


def test_search_reads_only_the_callers_mail(long: Long) -> None:
    (message,) = long.call(long.neo, Search("hello"))["messages"]
    assert message["seq"] == long.entries
    with Node(str(long.place.workspace)) as node, node.file.reading() as db:
        found = search.find(db, "hello", Mine(("neo", "neo"), ("neo",)))
        assert list(found) == [long.entries]
        sent = search.find(db, "hello", Mine(("otto", "otto"), ("otto",)))
        assert len(list(sent)) == SCANNED_AT_ONCE + 1
