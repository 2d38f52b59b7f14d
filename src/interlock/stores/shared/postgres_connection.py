"""Connections to PostgreSQL: opened on first use, with a timeout for each answer, and opened again
after an error."""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from interlock.errors import NOTHING_DONE, EngineUnavailable, Usage

SILENCE_S = 2.0
TURN_WITHIN_MS = 5000
ASLEEP_MS = 2000
STATEMENT_MS = 10_000
TURN_FOR_MS = 60_000

# Settings of each session, independent of the server's defaults. A node that is suspended in its
# turn loses the turn and its connection. Since version 17, transaction_timeout ensures this even in
# the middle of a message, when the session is not idle. Acknowledged writes are on disk.
_SESSION = f"""
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = {ASLEEP_MS};
SET lock_timeout = {TURN_WITHIN_MS};
SET statement_timeout = {STATEMENT_MS};
SELECT set_config(name, '{TURN_FOR_MS}', false) FROM pg_settings
  WHERE name = 'transaction_timeout';
SELECT set_config(name, 'on', false) FROM pg_settings
  WHERE name = 'synchronous_commit' AND setting <> 'remote_apply';
"""
# Defaults for the URL. If an address has several servers, use the one that accepts writes: another
# one may not have the last entries yet.
_PARAMETERS = {
    "application_name": "interlock",
    "connect_timeout": "2",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "4000",
    "target_session_attrs": "read-write",
}
T = TypeVar("T")


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """Calls `when_silent` each time the server was silent for `silence_s`. The wait goes on unless
    `when_silent` raises. Without `when_silent`, silence is an error."""

    silence_s = SILENCE_S
    when_silent: Callable[[], object] | None = None

    def wait(self, gen: PQGen[T], *given: Any, **named: Any) -> T:
        return super().wait(self._unless_silent(gen), *given, **named)

    def _unless_silent(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.silence_s:
                    if self.when_silent is None:
                        raise psycopg.OperationalError(f"no answer within {self.silence_s:.0f} s")
                    self.when_silent()
                    heard = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result

    @contextmanager
    def patient(self, silence_s: float, when_silent: Callable[[], object]) -> Iterator[None]:
        self.silence_s, self.when_silent = silence_s, when_silent
        try:
            yield
        finally:
            self.silence_s, self.when_silent = SILENCE_S, None

    def has_spoken(self, within_s: float = 0.0) -> bool:
        """Return whether the server has sent data without a request."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def is_over(self) -> bool:
        """Return whether the server has closed the connection, without a request to the server."""
        try:
            while self.has_spoken():
                self.pgconn.consume_input()
        except psycopg.Error:
            return True
        return self.closed


class PostgresServer:
    """A server's address and connection parameters, and its errors as refusals."""

    def __init__(self, url: str) -> None:
        try:
            given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        except psycopg.Error:
            raise _not_a_url() from None
        hosts, ports = given.get("host", "localhost"), given.get("port", "5432")
        if not ports.replace(",", "").isdigit():  # it may be a part of the password: do not show it
            raise _not_a_url()
        self._parameters = _PARAMETERS | given
        self.place = f"{hosts}:{ports}"

    def connect(self) -> PostgresConnection:
        return PostgresConnection.connect(**self._parameters, autocommit=True)  # type: ignore[arg-type]

    def unavailable(self, trouble: psycopg.Error) -> EngineUnavailable:
        """Return a refusal with the first line of PostgreSQL's error."""
        reason = str(trouble).partition("\n")[0].strip().rstrip(".") or type(trouble).__name__
        return EngineUnavailable(
            f"Interlock cannot use PostgreSQL at {self.place}: {reason}. {NOTHING_DONE}. Check the "
            "server and the engine's URL, and try again."
        )


def _not_a_url() -> Usage:
    return Usage(
        "The engine's URL is not a PostgreSQL URL. Its form is "
        "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %HH."
    )


class Line:
    """One connection for one thread at a time."""

    def __init__(
        self, server: PostgresServer, prepare: Callable[[PostgresConnection], object]
    ) -> None:
        self._server = server
        self._prepare = prepare
        self._lock = threading.Lock()
        self._connection: PostgresConnection | None = None
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[PostgresConnection]:
        """Yield the connection. After an error, close it. The next use opens another one."""
        with self._lock:
            try:
                if self._closed:
                    raise EngineUnavailable(
                        f"The connection to PostgreSQL at {self._server.place} is closed."
                    )
                connection = self.held()
                if connection is None:
                    connection = self._connection = self._server.connect()
                    connection.execute(_SESSION)
                    self._prepare(connection)
                yield connection
            except psycopg.Error as trouble:
                self.drop()
                raise self._server.unavailable(trouble) from None
            except BaseException:
                self.drop()
                raise

    def held(self) -> PostgresConnection | None:
        """Return the connection of the last use; None if the server has closed it."""
        if self._connection is not None and self._connection.is_over():
            self.drop()
        return self._connection

    def drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def hang_up(self) -> None:
        """Close the connection even while another thread waits on it for the server."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            with (
                suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(connection.fileno())) as twin,
            ):
                twin.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.drop()
