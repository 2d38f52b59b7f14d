"""The baseline: apsw alone writes the rows that sends write, with group commit.

It decides, checks, hashes and chains nothing, and uses no savepoint. It records the statements and
the sizes of their values from real sends, so that it follows changes of the node. A node makes the
file, so its tables, indexes and pragmas are those of a workspace.
"""

import os
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple
from uuid import uuid4

import apsw

from bench.scene import Sender
from interlock.node import Node
from interlock.stores.sqlite import LogFile

MAX_BATCH = 256
CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
ONCE_A_BATCH = ("UPDATE head", "UPDATE state_position")


class Statement(NamedTuple):
    """One statement of a recorded send. `seqs` and `ids` are the places of the position and of the
    message id in its values."""

    sql: str
    values: list[Any] | dict[str, Any]
    seqs: tuple[Any, ...]
    ids: tuple[Any, ...]

    def run(self, db: apsw.Connection, seq: int, id: str) -> None:
        values: Any = self.values.copy()
        for place in self.seqs:
            values[place] = seq
        for place in self.ids:
            values[place] = id
        db.execute(self.sql, values)


class Rows(NamedTuple):
    """The statements of one send: those of each message, and those of each transaction."""

    message: list[Statement]
    batch: list[Statement]


def recorded(node: Node, sender: Sender) -> Rows:
    """Send once, and return every statement that changed a row."""
    executed: list[tuple[str, Any]] = []

    def note(cursor: Any, sql: str, bindings: Any) -> bool:
        executed.append((sql, bindings))
        return True

    node.file.writer.exec_trace = note
    message = node.call(sender.credentials, sender.act())["message"]
    node.file.writer.exec_trace = None
    changes = [
        _statement(sql, bindings or (), message["seq"], message["id"])
        for sql, bindings in executed
        if sql.startswith(CHANGES)
    ]
    batch = [change for change in changes if change.sql.startswith(ONCE_A_BATCH)]
    return Rows([change for change in changes if change not in batch], batch)


def _statement(sql: str, bindings: Sequence[Any] | dict[str, Any], seq: int, id: str) -> Statement:
    """Make a statement whose values have names or an order."""
    values = dict(bindings) if isinstance(bindings, dict) else list(bindings)
    places = list(values.items() if isinstance(values, dict) else enumerate(values))
    seqs = tuple(place for place, value in places if type(value) is int and value == seq)
    return Statement(sql, values, seqs, tuple(p for p, value in places if value == id))


class PendingWrite(NamedTuple):
    rows: Rows
    id: str
    done: threading.Lock


class Group:
    """One writer thread. It commits all waiting writes in one transaction, then answers them."""

    def __init__(self, directory: str) -> None:
        self._file = LogFile(directory)
        self._db = self._file.writer
        row = self._db.execute("SELECT seq FROM head").fetchone()
        assert row is not None
        self._seq = int(row[0])
        self._queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run_or_exit, daemon=True)
        self._thread.start()

    def send(self, rows: Rows) -> None:
        """Write the rows, and return when they are durable."""
        done = threading.Lock()
        done.acquire()
        self._queue.put(PendingWrite(rows, str(uuid4()), done))
        done.acquire()

    def _run_or_exit(self) -> None:
        """End the process if the writer fails: its callers would wait for ever."""
        try:
            self._run()
        except Exception:  # noqa: BLE001 - any error ends the benchmark
            traceback.print_exc()
            os._exit(1)

    def _run(self) -> None:
        while first := self._queue.get():
            writes = [first]
            with suppress(Empty):
                while len(writes) < MAX_BATCH and (more := self._queue.get_nowait()):
                    writes.append(more)
            self._db.execute("BEGIN IMMEDIATE")
            for write in writes:
                self._seq += 1
                for statement in write.rows.message:
                    statement.run(self._db, self._seq, write.id)
            for statement in first.rows.batch:
                statement.run(self._db, self._seq, first.id)
            self._db.execute("COMMIT")
            for write in writes:
                write.done.release()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._file.close()
