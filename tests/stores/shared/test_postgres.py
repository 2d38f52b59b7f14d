"""The parts of the PostgreSQL remote that other remotes lack: rows, locks, permissions,
settings."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, LiteralString, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from interlock.errors import EngineUnavailable, Refusal, Usage
from interlock.stores.shared import postgres as module
from interlock.stores.shared.postgres import PostgresRemote
from interlock.stores.shared.postgres_connection import ASLEEP_MS
from interlock.stores.shared.remote import (
    AnswerLost,
    Appending,
    HeadMoved,
    Sealed,
    is_genuine,
    seal,
)
from world.databases import PostgresServer
from world.remotes import PostgresIntruder
from world.tcp_proxy import TcpProxy

LIMIT_S = 60.0
KEY = b"the workspace's key"
WORKSPACE = "team"
WAITING: LiteralString = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
ENDED: LiteralString = (
    "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


class Database(NamedTuple):
    """The test's own database on the shared server, with its own tables."""

    url: str
    admin: PostgresIntruder
    stack: list[PostgresRemote]

    def remote(self, url: str | None = None) -> PostgresRemote:
        remote = PostgresRemote(url or self.url, WORKSPACE)
        self.stack.append(remote)
        return remote

    def run(self, text: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        found = self.admin.db.execute(text, values)
        return found.fetchall() if found.description else []


@contextmanager
def made(server: PostgresServer, options: LiteralString = "") -> Iterator[Database]:
    name = "d" + os.urandom(8).hex()
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(sql.SQL("CREATE DATABASE {} " + options).format(sql.Identifier(name)))
    url = server.url.removesuffix(server.DATABASE) + name
    database = Database(url, PostgresIntruder(url, WORKSPACE), [])
    yield database
    for remote in database.stack:
        remote.close()
    database.admin.close()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """An empty database."""
    with made(postgres) as database:
        yield database


def sealed(seq: int, body: bytes | None = None, key: bytes = KEY) -> Sealed:
    return seal(key, seq, b'{"seq":%d}' % seq, (), None if body is None else b"salt", body)


def append(remote: PostgresRemote, *bodies: bytes | None) -> list[Sealed]:
    head = remote.begin("node")
    entries = [sealed(seq, body) for seq, body in enumerate(bodies, head.seq + 1)]
    remote.append(head, Appending(entries))
    return entries


def log(remote: PostgresRemote) -> list[Sealed]:
    return remote.read(0, 1000)


def until(condition: Callable[[], Any]) -> None:
    for _ in range(int(LIMIT_S * 100)):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the condition did not become true in time")


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """Run work in another thread. Yield a function that returns its result."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        yield lambda: done.result(LIMIT_S / 2)


# --- tables


def test_nodes_that_start_at_once_create_the_tables_once(database: Database) -> None:
    together = threading.Barrier(8)

    def work() -> int:
        remote = database.remote()
        together.wait(LIMIT_S)
        return append(remote, b"body")[0].seq

    with ThreadPoolExecutor(8) as threads:
        seqs = [done.result(LIMIT_S) for done in [threads.submit(work) for _ in range(8)]]
    assert sorted(seqs) == list(range(1, 9))


def test_existing_tables_need_no_permission_to_create_tables(database: Database) -> None:
    append(database.remote(), b"one")
    database.run("CREATE ROLE writer LOGIN PASSWORD 'pw'")
    try:
        database.run("REVOKE CREATE ON SCHEMA public FROM public")
        database.run("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer")
        writer = database.remote(as_user(database.url, "writer", "pw"))
        assert append(writer, b"two")[0].seq == 2
    finally:
        writer.close()
        database.run("DROP OWNED BY writer")
        database.run("DROP ROLE writer")


def test_a_deleted_row_of_the_turn_is_created_again(database: Database) -> None:
    remote = database.remote()
    append(remote, b"one")
    database.run("DELETE FROM interlock_heads")
    with pytest.raises(EngineUnavailable, match="interlock_heads"):
        remote.begin("node")
    assert append(remote, b"two")[0].seq == 2


def test_a_stricter_default_isolation_changes_nothing(database: Database) -> None:
    name = urlsplit(database.url).path.strip("/")
    setting = sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = 'serializable'")
    database.admin.db.execute(setting.format(sql.Identifier(name)))
    together = threading.Barrier(4)

    def work() -> list[int]:
        remote = database.remote()
        remote.remote_head()
        together.wait(LIMIT_S)
        return [append(remote, b"body")[0].seq for _ in range(10)]

    with ThreadPoolExecutor(4) as threads:
        runs = [done.result(LIMIT_S) for done in [threads.submit(work) for _ in range(4)]]
    assert sorted(seq for seqs in runs for seq in seqs) == list(range(1, 41))


def test_a_database_without_an_encoding_works(postgres: PostgresServer) -> None:
    options: LiteralString = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with made(postgres, options) as database:
        remote = database.remote()
        kept = append(remote, b"one")
        database.run(
            "INSERT INTO interlock_log VALUES (%s, 2, '', '', E'\\xff\\n\\xfe', E'\\xff')",
            WORKSPACE,
        )
        (found,) = remote.read(1, 10)
        assert not is_genuine(KEY, found)
        remote.set_aside(found)
        assert log(remote) == kept
        assert remote.upload_of("a" * 64) is None
        assert remote.beat("node", b"about") == {"node": b"about"}
        assert remote.hazards() == []


@pytest.mark.parametrize("column", ["hash", "header", "keeps", "mac"])
def test_a_row_with_a_null_column_is_set_aside(database: Database, column: LiteralString) -> None:
    remote = database.remote()
    kept = append(remote, b"one")
    database.run("ALTER TABLE interlock_log ALTER " + column + " DROP NOT NULL")
    database.admin.put(sealed(2, b"forged", key=b"another"))
    database.run("UPDATE interlock_log SET " + column + " = NULL WHERE seq = 2")
    assert remote.remote_head().seq == 2
    (found,) = remote.read(1, 10)
    assert not is_genuine(KEY, found)
    remote.set_aside(found)
    assert (remote.aside(), log(remote)) == (1, kept)


def test_the_body_of_a_forged_entry_is_set_aside_with_it(database: Database) -> None:
    remote = database.remote()
    append(remote, b"one")
    forged = sealed(2, b"forged", key=b"another")
    database.admin.put(forged)
    remote.set_aside(forged)
    append(remote, None)
    assert [entry.body for entry in log(remote)] == [b"one", None]
    assert database.run("SELECT seq, body FROM interlock_aside") == [(2, b"forged")]


def test_a_planted_body_without_an_entry_is_overwritten(database: Database) -> None:
    remote = database.remote()
    append(remote, b"one")
    database.run("INSERT INTO interlock_bodies VALUES (%s, 2, 'salt', 'planted')", WORKSPACE)
    entries = append(remote, b"two")
    assert log(remote)[1:] == entries


@pytest.mark.parametrize("seq", [0, -5])
def test_a_row_before_the_first_position_is_set_aside(database: Database, seq: int) -> None:
    remote = database.remote()
    remote.remote_head()
    database.admin.put(sealed(seq, key=b"another"))
    assert remote.remote_head().seq == 0
    assert log(remote) == []
    assert append(remote, b"one")[0].seq == 1
    assert remote.aside() == 1


def test_a_row_without_a_position_is_set_aside(database: Database) -> None:
    remote = database.remote()
    append(remote, b"one")
    database.run("ALTER TABLE interlock_log DROP CONSTRAINT interlock_log_pkey")
    database.run("ALTER TABLE interlock_log ALTER COLUMN seq DROP NOT NULL")
    row = ("none", b"", "", "")
    database.run("INSERT INTO interlock_log VALUES (%s, NULL, %s, %s, %s, %s)", WORKSPACE, *row)
    assert remote.aside() == 1
    assert len(log(remote)) == 1


# --- the turn


def test_a_suspended_node_loses_the_turn_even_if_no_other_node_takes_it(database: Database) -> None:
    remote = database.remote()
    head = remote.begin("node")
    until(database.admin.is_turn_free)
    with pytest.raises(HeadMoved):
        remote.append(head, Appending([sealed(1, b"late")]))
    assert log(remote) == []
    assert append(remote, b"one")[0].seq == 1


def test_leaving_a_turn_that_the_server_aborted_returns_false(database: Database) -> None:
    remote = database.remote()
    head = remote.begin("node")
    held = remote._turns.held()
    assert held is not None
    with pytest.raises(psycopg.Error):
        held.execute("SELECT 1 / 0")
    assert not remote.leave(head)
    head = remote.begin("node")
    assert remote.leave(head)
    assert not remote.leave(head)


def test_a_node_that_calls_stay_keeps_the_turn(database: Database) -> None:
    remote = database.remote()
    head = remote.begin("node")
    deadline = time.monotonic() + 1.5 * ASLEEP_MS / 1000
    while time.monotonic() < deadline:
        remote.stay()
        threading.Event().wait(0.05)
    assert not database.admin.is_turn_free()
    remote.append(head, Appending([sealed(1, b"one")]))
    assert [entry.body for entry in log(remote)] == [b"one"]


def test_extending_a_turn_that_the_node_lacks_does_nothing(database: Database) -> None:
    remote = database.remote()
    remote.stay()
    append(remote, b"one")
    remote.stay()
    assert database.admin.is_turn_free()
    remote.begin("node")
    database.run(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        "WHERE state = 'idle in transaction' AND datname = current_database()"
    )
    remote.stay()


def test_append_without_a_turn_stores_nothing(database: Database) -> None:
    remote = database.remote()
    head = remote.begin("node")
    remote.leave()
    with pytest.raises(HeadMoved):
        remote.append(head, Appending([sealed(1, b"late")]))
    assert log(remote) == []


def test_a_turn_whose_connection_was_closed_stores_nothing(database: Database) -> None:
    remote = database.remote()
    head = remote.begin("node")
    database.run(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        "WHERE state = 'idle in transaction' AND datname = current_database()"
    )
    with pytest.raises(HeadMoved):
        remote.append(head, Appending([sealed(1, b"late")]))
    assert log(remote) == []


def test_idle_connections_that_the_server_closed_are_opened_again(
    database: Database,
) -> None:
    remote = database.remote()
    append(remote, b"one")
    remote.wait(0, 0.01)
    remote.remote_head()
    database.run(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    remote.wait(0, 0.01)
    assert remote.remote_head().seq == 1
    assert append(remote, b"two")[0].seq == 2


def test_waiting_for_the_turn_has_a_timeout(database: Database) -> None:
    remote = database.remote()
    remote.leave(remote.begin("node"))
    with database.admin.db.transaction():
        database.run("SELECT 1 FROM interlock_heads FOR UPDATE")
        with pytest.raises(EngineUnavailable, match="Other nodes held the log's write lock"):
            remote.begin("node")
    assert append(remote, b"one")[0].seq == 1


def test_an_insert_without_the_turn_conflicts_at_the_position(database: Database) -> None:
    """The intruder's row is not visible when the head is compared, but exists at the time of our
    insert."""
    remote = database.remote()
    append(remote, b"one")
    other = psycopg.connect(database.url, autocommit=True)
    theirs_is_there = threading.Event()

    def work() -> None:
        head = remote.begin("node")
        assert theirs_is_there.wait(LIMIT_S)
        remote.append(head, Appending([sealed(2, b"ours")]))

    with in_thread(work) as outcome:
        with database.admin.db.transaction():
            database.admin.put(sealed(2, b"theirs", key=b"another"))
            theirs_is_there.set()
            until(lambda: other.execute(WAITING).fetchone() != (0,))
        with pytest.raises(HeadMoved):
            outcome()
    other.close()
    assert [entry.body for entry in log(remote)] == [b"one", b"theirs"]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_connection_that_breaks_before_the_commit_stores_nothing(
    database: Database, postgres: PostgresServer, arrives: bool
) -> None:
    with TcpProxy(postgres.port) as proxy:
        remote = database.remote(database.url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        append(remote, b"one")
        head = remote.begin("node")
        proxy.cut_at(b"two", arrives=arrives)
        with pytest.raises(HeadMoved):
            remote.append(head, Appending([sealed(2, b"two")]))
        assert append(remote, b"next")[0].seq == 2


def test_a_session_that_is_ended_before_the_commit_stores_nothing(database: Database) -> None:
    remote = database.remote()
    append(remote, b"one")
    other = psycopg.connect(database.url, autocommit=True)
    theirs_is_there = threading.Event()

    def work() -> None:
        head = remote.begin("node")
        assert theirs_is_there.wait(LIMIT_S)
        remote.append(head, Appending([sealed(2, b"two")]))

    with in_thread(work) as outcome:
        with database.admin.db.transaction(force_rollback=True):
            database.admin.put(sealed(2, b"theirs", key=b"another"))
            theirs_is_there.set()
            until(lambda: other.execute(WAITING).fetchone() != (0,))
            other.execute(ENDED)
        with pytest.raises(HeadMoved):
            outcome()
    other.close()
    assert [entry.body for entry in log(remote)] == [b"one"]


def test_a_failed_write_is_not_reported_as_a_lost_turn(database: Database) -> None:
    """Otherwise the node would retry it for ever."""
    remote = database.remote()
    append(remote, b"one")
    database.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$"
    )
    database.run(
        "CREATE TRIGGER full_disk BEFORE INSERT ON interlock_bodies EXECUTE FUNCTION refuse()"
    )
    head = remote.begin("node")
    with pytest.raises(EngineUnavailable, match="no space left on device"):
        remote.append(head, Appending([sealed(2, b"two")]))
    assert database.admin.is_turn_free()
    assert [entry.body for entry in log(remote)] == [b"one"]


def test_a_commit_that_waits_for_a_replica_raises_answer_lost(tmp_path: Path) -> None:
    """The server stores the entry once it stops waiting for the replica, and acknowledges nothing
    before."""
    with (
        PostgresServer(tmp_path) as server,
        closing(PostgresRemote(server.url, WORKSPACE)) as remote,
        closing(PostgresIntruder(server.url, WORKSPACE)) as admin,
    ):
        bodies = [b"one"]
        append(remote, *bodies)

        def append_next() -> None:
            bodies.append(b"body %d" % len(bodies))
            append(remote, bodies[-1])

        require(admin, "absent")
        with pytest.raises(AnswerLost):
            # Commits wait once the checkpointer has read the setting, later than this session.
            until(append_next)
        require(admin, "")
        until(admin.is_turn_free)
        assert [entry.body for entry in log(remote)] == bodies
        assert append(remote, b"last")[0].seq == len(bodies) + 1


def require(admin: PostgresIntruder, standby: LiteralString) -> None:
    """Tell the server to let commits wait for a replica of this name, or for none."""
    admin.db.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
    admin.db.execute("SELECT pg_reload_conf()")
    until(lambda: admin.db.execute("SHOW synchronous_standby_names").fetchone() == (standby,))


# --- hints


def test_a_notification_wakes_a_waiting_node(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL_S", LIMIT_S * 100)
    waiter, writer = database.remote(), database.remote()
    waiter.wait(0, 0.01)
    with in_thread(lambda: waiter.wait(0, LIMIT_S)) as outcome:
        append(writer, b"one")
        outcome()
    with in_thread(lambda: waiter.wait(1, LIMIT_S)) as outcome:
        append(writer, b"two")
        outcome()


def test_a_waiting_node_finds_an_entry_without_a_notification(database: Database) -> None:
    waiter = database.remote()
    waiter.wait(0, 0.01)
    with in_thread(lambda: waiter.wait(0, LIMIT_S)) as outcome:
        database.admin.put(sealed(1, key=b"another"))
        outcome()
    assert waiter.remote_head().seq == 1


def test_the_report_of_a_long_silent_node_is_deleted(database: Database) -> None:
    remote = database.remote()
    remote.beat("gone", b"")
    remote.beat("quiet", b"")
    database.run("UPDATE interlock_nodes SET seen = seen - interval '2 h' WHERE node = 'gone'")
    database.run("UPDATE interlock_nodes SET seen = seen - interval '50 min' WHERE node = 'quiet'")
    assert remote.beat("node", b"") == {"quiet": b"", "node": b""}


# --- refusals


def as_user(url: str, user: str, password: str) -> str:
    return f"postgresql://{user}:{password}@{url.rpartition('@')[2]}"


def test_a_refusal_contains_the_error_of_postgres(database: Database) -> None:
    password = "not-the-password"
    for url, words in [
        (as_user(database.url, "postgres", password), "password authentication failed"),
        (database.url + "-missing", "does not exist"),
        (database.url + "?options=-c%20default_transaction_read_only%3Don", "read-only"),
        (database.url + "?sslmode=require", "SSL"),
    ]:
        with pytest.raises(EngineUnavailable) as refused:
            database.remote(url).remote_head()
        message = refused.value.message
        assert words in message
        assert urlsplit(database.url).netloc.rpartition("@")[2] in message
        assert password not in message
        assert "\n" not in message


def test_a_missing_permission_is_named(database: Database) -> None:
    database.run("CREATE ROLE stranger LOGIN PASSWORD 'pw'")
    try:
        stranger = database.remote(as_user(database.url, "stranger", "pw"))
        with pytest.raises(EngineUnavailable, match="permission denied"):
            stranger.begin("node")
    finally:
        stranger.close()
        database.run("DROP ROLE stranger")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:hush/hush@host:5432/database",
        "postgresql://user:hush@host:port/database",
        "postgresql://user:hush@host/database?nonsense=1",
        "postgresql://user:hush%@host/database",
    ],
)
def test_an_invalid_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Refusal) as refused:
        PostgresRemote(url, WORKSPACE).remote_head()
    assert isinstance(refused.value, Usage | EngineUnavailable)
    assert "hush" not in refused.value.message


# --- settings


def test_asynchronous_replicas_are_a_hazard(postgres: PostgresServer) -> None:
    remote = PostgresRemote(postgres.url, WORKSPACE)
    assert remote.hazards() == []
    replica = psycopg.connect(postgres.url + "?replication=true", autocommit=True)
    (hazard,) = remote.hazards()
    assert "synchronous_standby_names" in hazard
    replica.close()
    remote.close()
