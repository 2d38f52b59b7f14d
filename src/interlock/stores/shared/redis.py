"""Redis 7 or Valkey: one stream per workspace, whose ids are `seq-0` and never times.

All keys of a workspace have one hash tag, so that a cluster stores them in one slot. The turn is
soft: a key that expires, and a queue for it. A suspended holder loses the turn. Safety depends only
on the append script, which compares the head. So a node that has been alone for a while begins
without writing the key, because that write would have to reach the disk.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, cast

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from interlock.errors import NOTHING_DONE, EngineUnavailable
from interlock.log.facts import GENESIS
from interlock.stores import HeadMoved
from interlock.stores.shared import redis_scripts as scripts
from interlock.stores.shared.remote import (
    READ_BYTES,
    SLOT_MS,
    AnswerLost,
    Appending,
    RemoteHead,
    Sealed,
)

CONNECT_S = 1.0
ANSWER_S = 2.0
TURN_WITHIN_S = 5.0
# A node that noticed no other node for this time counts as alone.
ALONE_AFTER_S = 1.0
FORGOTTEN_AFTER_MS = 3_600_000
OLDEST = 7
# The hash of an entry with a foreign id is this prefix and the id: such an entry is never genuine.
_STRANGE = "id "
_ID = re.compile(rb"\d{1,20}-\d{1,20}")
# Settings with which the server may lose acknowledged writes. Each has the safe value, the value
# to assume if the server does not report the setting, and the loss.
_HAZARDS = (
    ("appendonly", "yes", None, "a restart loses everything since the last snapshot"),
    ("appendfsync", "always", None, "a crash may lose the last second of acknowledged writes"),
    (
        "no-appendfsync-on-rewrite",
        "no",
        "no",
        "a crash during a rewrite of its file may lose acknowledged writes",
    ),
    ("maxmemory-policy", "noeviction", None, "a server with full memory may evict the log"),
)


class RedisRemote:
    """A workspace's `Remote` on one Redis or Valkey server, or on a cluster."""

    name = "redis"

    def __init__(self, url: str, workspace: str) -> None:
        self._url = url
        self._prefix = f"interlock:{{{workspace}}}:"
        self._node = ""
        self._ours = ""
        self._met = 0.0
        self._closed = False
        self._scripts: dict[str, Callable[..., Any]] = {}

    @cached_property
    def _client(self) -> "redis.Redis":
        """Connect on first use. The driver must not retry: it would send an append twice."""
        if self._closed:
            raise EngineUnavailable(f"The connection to the engine at {self._place} is closed.")
        given: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": CONNECT_S,
            "socket_timeout": ANSWER_S,
            "socket_keepalive": True,
            "protocol": 2,
        }
        try:
            client = redis.Redis.from_url(self._url, retry_on_error=[], **given)
        except ValueError as trouble:
            raise EngineUnavailable(
                f"The engine's URL is not valid: {_first_line(trouble)}."
            ) from None
        about = client.info()
        if int(str(about["redis_version"]).partition(".")[0]) < OLDEST:
            raise EngineUnavailable(
                f"The server at {self._place} is Redis {about['redis_version']}. Interlock needs "
                f"Redis {OLDEST} or later, or Valkey."
            )
        if about.get("cluster_enabled"):
            client.close()
            return cast("redis.Redis", RedisCluster.from_url(self._url, **given))
        return client

    @property
    def _place(self) -> str:
        """The address without the password."""
        url = self._url.partition("?")[0]
        return url.rpartition("@")[2].partition("://")[2] or url.rpartition("@")[2]

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _execute(self, script: str, keys: list[str], *values: Any) -> Any:
        if script not in self._scripts:
            self._scripts[script] = self._client.register_script(scripts.PARTS + script)
        return self._scripts[script](keys=[self._key(key) for key in keys], args=values)

    def _run(self, script: str, keys: list[str], *values: Any) -> Any:
        """Execute a script. Raises EngineUnavailable."""
        with self._reaching():
            return self._execute(script, keys, *values)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, RedisClusterException, OSError) as trouble:
            is_there = isinstance(trouble, ResponseError | AuthenticationError)
            todo = (
                "Check the server and the engine's URL."
                if is_there
                else "Try again when the server is back."
            )
            raise EngineUnavailable(
                f"Interlock cannot use the engine at {self._place}: {_first_line(trouble)}. "
                f"{NOTHING_DONE}. {todo}"
            ) from None

    # --- the turn

    def begin(self, node: str) -> RemoteHead:
        deadline = time.monotonic() + TURN_WITHIN_S
        self._node = node
        keys = ["log", "turn", "queue", "bell:"]
        with self._reaching():
            while True:
                is_alone = time.monotonic() - self._met > ALONE_AFTER_S
                ours = self._ours if is_alone else ""
                mine, now, *found = self._run(scripts.BEGIN, keys, node, SLOT_MS, ours)
                heard = time.monotonic()
                if not mine or found[0].decode() != self._ours:
                    self._met = heard
                if mine:
                    return _head(found[0], found[1], now)
                if heard > deadline:
                    raise EngineUnavailable(
                        f"Other nodes held the log's write lock for {TURN_WITHIN_S:.0f} s. Nothing "
                        "was done. Try again."
                    )
                # Wait for the bell, which carries the end of the log. It carries no time, because
                # every holder of the password can ring it.
                bell, patience_s = self._key(f"bell:{node}"), max(found[0], 10) / 1000
                if rung := cast(list[bytes], self._client.blpop([bell], patience_s)):
                    id, _, hash = rung[1].partition(b" ")
                    if _ID.fullmatch(id):
                        return _head(id, hash, now + int((time.monotonic() - heard) * 1000))

    def append(self, after: RemoteHead, batch: Appending) -> None:
        words = [*self._at(after), len(batch.entries)]
        words += [word for entry in batch.entries for word in _words(entry)]
        words.append(len(batch.blobs))
        for blob in batch.blobs:
            words += [blob.sha256, blob.upload]
        words += [len(batch.erased), *batch.erased, len(batch.dropped), *batch.dropped]
        keys = ["log", "turn", "queue", "bell:", "bodies", "blobs", "uploads", "chunks:", "kept"]
        self._keep(scripts.APPEND, keys, words)
        if batch.entries:
            self._ours = f"{batch.entries[-1].seq}-0"

    def rewrite_entries(self, after: RemoteHead, entries: Sequence[Sealed]) -> None:
        words = [word for entry in entries for word in _words(entry)]
        keys = ["log", "turn", "queue", "bell:", "bodies", "aside"]
        self._keep(scripts.REWRITE, keys, [*self._at(after), *words])

    def _at(self, head: RemoteHead) -> list[Any]:
        return [self._node, SLOT_MS, f"{head.seq}-0", head.hash]

    def _keep(self, script: str, keys: list[str], words: list[Any]) -> None:
        self._ours = ""
        with self._reaching():
            try:
                kept = self._execute(script, keys, *words)
            except (ResponseError, AuthenticationError):
                raise  # the server reports that it stored nothing
            except (RedisError, RedisClusterException, OSError) as trouble:
                raise AnswerLost(_first_line(trouble)) from None
        if not kept:
            raise HeadMoved

    def stay(self) -> None:
        self._run(scripts.STAY, ["turn"], self._node, SLOT_MS)

    def leave(self, after: RemoteHead | None = None) -> bool:
        seq, hash = (after.seq, after.hash) if after is not None else (0, "")
        keys = ["log", "turn", "queue", "bell:"]
        with suppress(EngineUnavailable):
            return bool(self._run(scripts.LEAVE, keys, self._node, SLOT_MS, f"{seq}-0", hash))
        return False

    # --- without the turn

    def remote_head(self) -> RemoteHead:
        now, id, hash = self._run(scripts.REMOTE_HEAD, ["log"])
        return _head(id, hash, now)

    def read(self, after: int, limit: int) -> list[Sealed]:
        found = self._run(scripts.READ, ["log", "bodies"], f"({after}-0", limit, READ_BYTES)
        return [_sealed(*entry) for entry in found]

    def headers(self, after: int, limit: int) -> list[Sealed]:
        found = self._run(scripts.HEADERS, ["log"], f"({after}-0", limit)
        return [_sealed(id, words, None) for id, words in found]

    def wait(self, after: int, seconds: float) -> None:
        with self._reaching():
            wait_ms = max(1, int(min(seconds, ANSWER_S / 2) * 1000))
            self._client.xread({self._key("log"): f"{after}-0"}, count=1, block=wait_ms)

    def set_aside(self, entry: Sealed) -> None:
        strange = entry.hash.startswith(_STRANGE)
        id = entry.hash.removeprefix(_STRANGE) if strange else f"{entry.seq}-0"
        mac = entry.mac.encode("latin-1", "replace")
        self._run(scripts.SET_ASIDE, ["log", "aside"], id, entry.header, mac)

    def aside(self) -> int:
        with self._reaching():
            return self._client.xlen(self._key("aside"))

    def discard_aside(self) -> int:
        return int(self._run(scripts.DISCARD, ["aside"]))

    # --- uploads and blobs

    def put_chunk(self, upload: str, number: int, data: bytes) -> None:
        self._run(scripts.PUT_CHUNK, ["kept", "uploads", "chunks:"], upload, number, data)

    def drop_upload(self, upload: str) -> None:
        self._run(scripts.DROP_UPLOAD, ["kept", "uploads", "chunks:"], upload)

    def drop_stale(self, before: str) -> None:
        with self._reaching():
            stale = self._client.zrangebylex(self._key("uploads"), "-", f"({before}")
            for upload in cast(list[bytes], stale):
                self.drop_upload(upload.decode())

    def chunks(self, upload: str) -> Iterator[tuple[int, bytes]]:
        key = self._key(f"chunks:{upload}")
        with self._reaching():
            numbers = sorted(int(number) for number in cast(list[bytes], self._client.hkeys(key)))
            for number in numbers:
                data = cast(bytes | None, self._client.hget(key, str(number)))
                if data is not None:
                    yield number, data

    def upload_of(self, sha256: str) -> str | None:
        with self._reaching():
            found = cast(bytes | None, self._client.hget(self._key("blobs"), sha256))
            return found.decode() if found is not None else None

    # --- operations

    def beat(self, node: str, about: bytes) -> dict[str, bytes]:
        found = self._run(scripts.BEAT, ["nodes", "seen"], node, about, FORGOTTEN_AFTER_MS)
        names = [name.decode("utf-8", "replace") for name in found[::2]]
        return dict(zip(names, found[1::2], strict=True))

    def hazards(self) -> list[str]:
        with self._reaching():
            there: dict[str, Any] = {}
            client: Any = self._client
            is_cluster = isinstance(self._client, RedisCluster)
            if is_cluster:  # use the server that has this workspace
                there["target_nodes"] = client.get_node_from_key(self._key("log"))
            try:
                settings = cast(
                    dict[str, str],
                    self._client.config_get("*append*", "maxmemory-policy", **there),
                )
            except ResponseError:
                return [
                    f"{self._place} does not show its settings. Make sure that appendonly is yes, "
                    "appendfsync always, and maxmemory-policy noeviction. Otherwise it may lose "
                    "acknowledged writes."
                ]
            about = self._client.info("replication", **there)
        found = [
            f"{name} is {value}: {loss}. CONFIG SET {name} {wanted}, also in its configuration "
            "file."
            for name, wanted, unreported, loss in _HAZARDS
            if (value := settings.get(name, unreported)) != wanted
        ]
        if about.get("connected_slaves"):
            found.append(
                "the server has replicas, which copy it asynchronously: a failover may lose the "
                "last acknowledged writes. After a failover, restore them: interlock repair"
            )
        return found

    def close(self) -> None:
        self._closed = True
        if client := self.__dict__.pop("_client", None):
            self._scripts.clear()
            client.close()


def _head(id: bytes, hash: bytes, now: int) -> RemoteHead:
    seq, _, part = id.partition(b"-")
    if id == b"0-0":
        return RemoteHead(0, GENESIS, now)
    known = hash.decode("ascii", "replace") if part == b"0" else _STRANGE + id.decode()
    return RemoteHead(int(seq), known, now)


def _sealed(id: bytes, words: list[bytes], packed: bytes | None) -> Sealed:
    fields = dict(zip(words[::2], words[1::2], strict=True))
    seq, _, part = id.partition(b"-")
    hash = _text(fields, b"hash") if part == b"0" else _STRANGE + id.decode()
    if part == b"0" and hash.startswith(_STRANGE):
        hash = ""  # it would point to another entry
    salt, body = (packed[1 : 1 + packed[0]], packed[1 + packed[0] :]) if packed else (None, None)
    keeps = tuple(filter(None, _text(fields, b"keeps").split("\n")))
    header = fields.get(b"header", b"")
    mac = fields.get(b"mac", b"").decode("latin-1")  # any bytes: `set_aside` compares them
    return Sealed(int(seq), hash, header, keeps, mac, salt, body)


def _words(entry: Sealed) -> tuple[Any, ...]:
    """Return an entry as arguments of the scripts. Salt and body are one value, whose first byte is
    the length of the salt."""
    body = b""
    if entry.salt is not None and entry.body is not None:
        body = bytes([len(entry.salt)]) + entry.salt + entry.body
    keeps = "\n".join(entry.keeps)
    return f"{entry.seq} {entry.hash} {entry.mac} {keeps}", entry.header, body


def _text(fields: dict[bytes, bytes], name: bytes) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


def _first_line(trouble: Exception) -> str:
    return str(trouble).partition("\n")[0].strip().rstrip(".") or type(trouble).__name__
