"""The baseline of a shared engine: append the bytes of a node's batches again, without a node,
through the same driver.

One writer appends one batch after the other, each durable before the next. It decides, seals,
compares and folds nothing, and takes no turn.
"""

from collections.abc import Sequence
from typing import Protocol

import psycopg
import redis
from psycopg.sql import SQL

from interlock.stores.shared.remote import Sealed

KEY = "bench:raw"


class Raw(Protocol):
    def append(self, batch: Sequence[Sealed]) -> None:
        """Append a batch, and return when it is durable."""

    def close(self) -> None:
        """Close the connection."""


def raw(url: str) -> Raw:
    return RawRedis(url) if url.startswith("redis") else RawPostgres(url)


class RawRedis:
    """One XADD for each entry, in one pipeline."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2)
        self._seq = self._client.xlen(KEY)

    def append(self, batch: Sequence[Sealed]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for entry in batch:
                self._seq += 1
                fields: dict[str, str | bytes] = {
                    "hash": entry.hash,
                    "header": entry.header,
                    "mac": entry.mac,
                    "salt": entry.salt or b"",
                    "body": entry.body or b"",
                }
                # The driver's type allows keys and values of any kind, and a dict is invariant.
                pipeline.xadd(KEY, fields, f"{self._seq}-0")  # type: ignore[arg-type]
            pipeline.execute()

    def close(self) -> None:
        self._client.close()


_TABLE = """
CREATE TABLE IF NOT EXISTS bench_raw(seq bigint PRIMARY KEY, hash text, header bytea, mac text,
    salt bytea, body bytea)
"""
_ROW = "(%s, %s, %s, %s, %s, %s)"


class RawPostgres:
    """One INSERT of many rows, which commits at once."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)
        self._db.execute(_TABLE)
        last = self._db.execute("SELECT coalesce(max(seq), 0) FROM bench_raw").fetchone()
        assert last is not None
        self._seq = int(last[0])

    def append(self, batch: Sequence[Sealed]) -> None:
        values: list[int | str | bytes | None] = []
        for entry in batch:
            self._seq += 1
            values += [self._seq, entry.hash, entry.header, entry.mac, entry.salt, entry.body]
        rows = SQL(", ").join([SQL(_ROW)] * len(batch))
        self._db.execute(SQL("INSERT INTO bench_raw VALUES {}").format(rows), values)

    def close(self) -> None:
        self._db.close()
