"""Opening a workspace's engine: the file itself, or a server that several nodes share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.engines.choosing import is_embedded
from interlock.engines.file import LogFile
from interlock.engines.sqlite import SqliteEngine, clock_ms
from interlock.errors import Usage
from interlock.node.keys import Keys, sealing

if TYPE_CHECKING:
    from interlock.engines.locating import Located
    from interlock.engines.remote import Remote
    from interlock.engines.shared import SharedEngine
    from interlock.node.others import Others

Clock = Callable[[], int]


def refuse_strange(url: str | None, key: bytes | None = None) -> None:
    """Refuses what is no engine's URL or no workspace's key, before anything is looked at."""
    if url is not None and url != "sqlite":
        from interlock.engines.locating import parsed

        parsed(url)
    if key is not None:
        sealing(key)


def is_engine_of(directory: str, url: str) -> bool:
    """Whether a workspace's log is kept where the URL says."""
    from interlock.engines.locating import is_recorded

    where = _located(directory, url)
    return where is None or is_recorded(directory, where)


def open_engine(
    directory: str,
    keys: Keys,
    clock: Clock | None,
    *,
    adopt: bool,
    url: str | None,
    key: bytes | None,
) -> "tuple[SqliteEngine, Others | None]":
    """The engine of a directory, and the other nodes on it where there may be any."""
    where = None if is_embedded(directory, url) else _located(directory, url)
    if where is None:
        if key is not None:
            raise Usage("--key goes with --engine URL: an embedded log has its key beside it.")
        file = LogFile(directory, adopt=adopt)
        try:
            return SqliteEngine(file, clock or clock_ms), None
        except BaseException:
            file.close()
            raise
    from interlock.engines.locating import record
    from interlock.node.others import Others

    engine = _shared(directory, keys, clock, where, adopt=adopt, key=key)
    record(directory, where)
    return engine, Others(engine, where, is_joining=key is not None)


def _located(directory: str, url: str | None) -> "Located | None":
    from interlock.engines.locating import located

    return located(directory, url)


def _shared(
    directory: str,
    keys: Keys,
    clock: Clock | None,
    where: "Located",
    *,
    adopt: bool,
    key: bytes | None,
) -> "SharedEngine":
    from interlock.engines.locating import is_recorded, reach
    from interlock.engines.shared import SharedEngine

    remote = reach(where)
    try:
        if not keys.exist():
            _check_key(remote, where, key)
        elif not is_recorded(directory, where):
            remote.glimpse()  # an address that never answered must not replace one that did
        file = LogFile(directory, adopt=adopt, is_copy=True)
    except BaseException:
        remote.close()
        raise
    try:
        file.become_copy(where.workspace)
        if key is not None:
            keys.adopt(key)
        keys.make()
        return SharedEngine(file, remote, keys.sealing(), where.node, clock)
    except BaseException:
        remote.close()
        file.close()
        raise


def _check_key(remote: "Remote", where: "Located", key: bytes | None) -> None:
    """Refuses a key that is not the workspace's before anything is made here."""
    from interlock.engines.copying import is_known

    if key is not None:
        is_known(remote, sealing(key))
    elif remote.glimpse().seq > 0:
        raise Usage(
            f"The workspace {where.workspace} exists on that engine, and its key is not here. Take "
            "keys/checkpoint.key from the directory of one of its nodes, by a way that you trust, "
            "and start this one with --key FILE."
        )
