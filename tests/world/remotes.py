"""Workspaces on real engines, and intruders that write to an engine without Interlock.

`postgres` and `valkey` are one server each for a test process. Each test has its own workspace
there. `remote` runs a test on each of them. A test that ends servers has its own server.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pytest
import redis

from interlock.stores.shared.postgres import PostgresRemote
from interlock.stores.shared.redis import RedisRemote
from interlock.stores.shared.remote import Remote, Sealed
from world.databases import PostgresServer, Server, ValkeyServer

ENGINES = ("postgres", "redis")


class Intruder(Protocol):
    """An attacker with the engine's password, who uses the engine's own client."""

    def put(self, entry: Sealed) -> None:
        """Add an entry without a check."""

    def put_nonsense(self, seq: int) -> None:
        """Add data that is not an entry."""

    def replace(self, entries: list[Sealed]) -> None:
        """Replace the whole log with these entries. Bodies stay."""

    def is_turn_free(self) -> bool:
        """Whether no node has the turn."""

    def cut(self) -> None:
        """End every other connection."""

    def close(self) -> None: ...


class Remotes:
    """Opens remotes of one new workspace, and closes them with the test."""

    def __init__(self, kind: str, server: Server) -> None:
        self.kind = kind
        self.server = server
        self.name = "t-" + os.urandom(8).hex()
        self._opened: list[Remote | Intruder] = []

    def __call__(self, *, port: int | None = None, workspace: str | None = None) -> Remote:
        """Open another remote, through another port if given."""
        url = self.server.url.replace(f":{self.server.port}/", f":{port or self.server.port}/")
        kind: type[PostgresRemote | RedisRemote] = (
            PostgresRemote if self.kind == "postgres" else RedisRemote
        )
        remote: Remote = kind(url, workspace or self.name)
        self._opened.append(remote)
        return remote

    def intruder(self) -> Intruder:
        kind: type[PostgresIntruder | RedisIntruder] = (
            PostgresIntruder if self.kind == "postgres" else RedisIntruder
        )
        intruder: Intruder = kind(self.server.url, self.name)
        self._opened.append(intruder)
        return intruder

    def close(self) -> None:
        for opened in self._opened:
            opened.close()


class PostgresIntruder:
    """An intruder with its own connection. The tables exist after the first use of a remote."""

    def __init__(self, url: str, workspace: str) -> None:
        self.db = psycopg.connect(url, autocommit=True)
        self._workspace = workspace

    def put(self, entry: Sealed) -> None:
        keeps = "\n".join(entry.keeps)
        row = (self._workspace, entry.seq, entry.hash, entry.header, keeps, entry.mac)
        self.db.execute("INSERT INTO interlock_log VALUES (%s, %s, %s, %s, %s, %s)", row)
        if entry.body is not None:
            body = (self._workspace, entry.seq, entry.salt, entry.body)
            self.db.execute("INSERT INTO interlock_bodies VALUES (%s, %s, %s, %s)", body)

    def replace(self, entries: list[Sealed]) -> None:
        self.db.execute("DELETE FROM interlock_log WHERE workspace = %s", (self._workspace,))
        for entry in entries:
            self.put(entry._replace(body=None))

    def put_nonsense(self, seq: int) -> None:
        row = (self._workspace, seq, "none", b"\xff\x00{", "\n\nSchlüssel,\n", "ничего")
        self.db.execute("INSERT INTO interlock_log VALUES (%s, %s, %s, %s, %s, %s)", row)

    def is_turn_free(self) -> bool:
        try:
            self.db.execute(
                "SELECT 1 FROM interlock_heads WHERE workspace = %s FOR UPDATE NOWAIT",
                (self._workspace,),
            )
        except psycopg.errors.LockNotAvailable:
            return False
        return True

    def cut(self) -> None:
        self.db.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    def close(self) -> None:
        self.db.close()


class RedisIntruder:
    """An intruder with its own connection."""

    def __init__(self, url: str, workspace: str) -> None:
        self.db = redis.Redis.from_url(url)
        self._prefix = f"interlock:{{{workspace}}}:"

    def put(self, entry: Sealed) -> None:
        fields: dict[Any, Any] = {
            "hash": entry.hash,
            "header": entry.header,
            "keeps": "\n".join(entry.keeps),
            "mac": entry.mac,
        }
        self.db.xadd(self._prefix + "log", fields, f"{entry.seq}-0")
        if entry.salt is not None and entry.body is not None:
            packed = bytes([len(entry.salt)]) + entry.salt + entry.body
            self.db.hset(self._prefix + "bodies", str(entry.seq), packed)

    def replace(self, entries: list[Sealed]) -> None:
        self.db.delete(self._prefix + "log")
        for entry in entries:
            self.put(entry._replace(body=None))

    def put_nonsense(self, seq: int) -> None:
        self.db.xadd(self._prefix + "log", {b"\xff": b"\x00", "mac": b"\xff"}, f"{seq}-7")

    def is_turn_free(self) -> bool:
        return not self.db.exists(self._prefix + "turn")

    def cut(self) -> None:
        self.db.client_kill_filter(_type="normal", skipme=True)

    def close(self) -> None:
        self.db.close()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL that tests share, started on first use."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A Valkey that tests share, started on first use."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture(params=ENGINES)
def remote(request: pytest.FixtureRequest) -> Iterator[Remotes]:
    """Open remotes of one new workspace on a shared server, for each kind of engine."""
    server = request.getfixturevalue("postgres" if request.param == "postgres" else "valkey")
    remotes = Remotes(request.param, server)
    yield remotes
    remotes.close()


@pytest.fixture(params=ENGINES)
def own_remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Remotes]:
    """Open remotes on the test's own server, which it may end."""
    kind = PostgresServer if request.param == "postgres" else ValkeyServer
    with kind(tmp_path / "server") as server:
        remotes = Remotes(request.param, server)
        yield remotes
        remotes.close()
