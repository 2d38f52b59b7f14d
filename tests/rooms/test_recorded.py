"""Recorded logs of earlier releases fold to the same state in this release, from every engine.

`tests/recorded/make.py` made the recordings. When the state's schema changes, it updates the
expected digests.
"""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from interlock.errors import NewerVersion
from interlock.log.encoding import decode
from interlock.log.facts import Entry, Header, header_hash, parse_header
from interlock.node import Node, audit, upkeep
from interlock.node.keys import Keys
from interlock.rooms import folding
from interlock.rooms.claims import fold as claims
from interlock.rooms.identity import fold as identity
from interlock.rooms.mail import fold as mail
from interlock.rooms.transaction import everyone
from interlock.rooms.work import fold as work
from interlock.rooms.workspace import fold as workspace
from interlock.rooms.workspace.events import event
from interlock.stores import Head
from interlock.stores.shared.locating import Located, reach
from interlock.stores.shared.remote import Appending, seal
from interlock.stores.sqlite import LogFile, SqliteEngine
from interlock.verbs.credentials import Credentials
from world.databases import Server

MAKE = "run: python tests/recorded/make.py"
RECORDINGS = sorted((Path(__file__).parent.parent / "recorded").glob("*.jsonl"))
MAX_BYTES = 200_000

each_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)


def entries(recording: Path) -> Iterator[Entry]:
    with recording.open("rb") as lines:
        next(lines)
        for line in lines:
            record = decode(line)
            salt, body = record.get("salt"), record.get("body")
            yield Entry(
                record["seq"],
                record["header"].encode(),
                None if salt is None else bytes.fromhex(salt),
                None if body is None else body.encode(),
            )


def headers(recording: Path) -> Iterator[Header]:
    for entry in entries(recording):
        yield parse_header(entry.header)


def fresh_state() -> apsw.Connection:
    state = apsw.Connection(":memory:")
    state.execute(folding.TABLES)
    return state


def expected(recording: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(recording.with_suffix(".json").read_text("utf-8"))
    return found


def test_at_least_one_recording_exists() -> None:
    assert "v1" in [path.stem for path in RECORDINGS]


@each_recording
def test_a_recorded_log_folds_to_the_expected_state(recording: Path) -> None:
    state = fresh_state()
    for fact in headers(recording):
        folding.fold(state, fact)
    wanted = expected(recording)
    assert wanted["schema"] == folding.SCHEMA, MAKE
    assert folding.state_digest(state) == wanted["digest"]


@each_recording
def test_a_recorded_log_folds_to_the_same_state_twice(recording: Path) -> None:
    first, second = fresh_state(), fresh_state()
    for fact in headers(recording):
        folding.fold(first, fact)
        folding.fold(second, fact)
        assert folding.state_digest(first) == folding.state_digest(second), f"#{fact.seq}"


def on_a_file(recording: Path, directory: Path) -> Node:
    """A node whose file has the recorded log, and no state."""
    file = LogFile(str(directory))
    engine = SqliteEngine(file)
    with engine.turn():
        for entry in entries(recording):
            engine.append(entry)
        engine.advance(Head(entry.seq, header_hash(entry.header), 0, 0))
    file.close()
    return Node(str(directory), engine="sqlite")


def on_a_server(server: Server, recording: Path, directory: Path) -> Node:
    """A node that has only the key of the recorded log. A server has the log."""
    keys = Keys(str(directory))
    keys.make()
    where = Located(server.url, f"recorded-{os.urandom(8).hex()}", "recorder")
    remote = reach(where)
    sealed = [
        seal(keys.sealing(), entry.seq, entry.header, (), entry.salt, entry.body)
        for entry in entries(recording)
    ]
    remote.append(remote.begin(where.node), Appending(sealed))
    remote.close()
    return Node(str(directory), engine=f"{where.url}?workspace={where.workspace}")


@each_recording
@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
def test_a_recorded_log_folds_to_the_same_state_from_every_engine(
    recording: Path, engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if engine == "sqlite":
        node = on_a_file(recording, tmp_path)
    else:
        server = request.getfixturevalue({"redis": "valkey"}.get(engine, engine))
        node = on_a_server(server, recording, tmp_path)
    with node:
        assert node.head() == expected(recording)["entries"]
        assert upkeep.state_digest(node) == expected(recording)["digest"]
        rebuilt = upkeep.rebuild(node, Credentials(owner=True))
        assert (rebuilt["changed"], rebuilt["digest"]) == (False, expected(recording)["digest"])


@each_recording
def test_a_recorded_log_verifies_offline(recording: Path) -> None:
    wanted = expected(recording)
    with recording.open("rb") as lines:
        found = audit.verify_export(lines)
    assert found["ok"], found
    assert (found["entries"], found["root"]) == (wanted["entries"], wanted["root"])


@each_recording
def test_a_recording_is_small(recording: Path) -> None:
    assert recording.stat().st_size < MAX_BYTES


@each_recording
def test_no_fact_goes_back_in_time_or_epoch(recording: Path) -> None:
    facts = list(headers(recording))
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    for before, after in pairwise(facts):
        assert before.at <= after.at
        assert before.epoch <= after.epoch


def test_every_kind_of_fact_occurs_in_a_recording() -> None:
    recorded = {fact.kind for recording in RECORDINGS for fact in headers(recording)}
    assert sorted(recorded) == sorted(folding.KINDS), MAKE


def test_an_unknown_kind_of_fact_stops_the_fold() -> None:
    first = next(headers(RECORDINGS[0]))
    with pytest.raises(NewerVersion, match="skipped no fact"):
        folding.fold(fresh_state(), first._replace(kind="workspace_dreamt"))


# --- the kinds of facts

# Only admins see events of kinds with these prefixes.
PRIVATE = ("token_", "person_", "password_", "invitation_", "connection_", "request_")
SECRETS = ("hash", "challenge", "proof")


def test_one_room_declares_each_kind_of_fact() -> None:
    rooms = (workspace, identity, mail, claims, work)
    assert sorted(kind for room in rooms for kind in room.FACTS) == sorted(folding.KINDS)


def test_facts_about_mail_tokens_and_people_are_not_for_everyone() -> None:
    private = {kind for kind in folding.KINDS if kind.startswith(PRIVATE)}
    private |= {"message_sent", "mail_moved", "wake_begun", "wake_ended", "agent_owned"}
    assert [kind for kind in private if folding.FACTS[kind].audience is everyone] == []


@each_recording
def test_no_event_shows_the_hash_or_the_proof_of_a_secret(recording: Path) -> None:
    state = fresh_state()
    for fact in headers(recording):
        folding.fold(state, fact)
        shown = event(state, fact).data
        assert [name for name in shown if any(word in name for word in SECRETS)] == []
