"""Opening a workspace's engine: the file itself, or a server that several nodes share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.errors import NotFound, Usage
from interlock.node.keys import Keys, sealing
from interlock.stores.choosing import is_embedded
from interlock.stores.file import LogFile
from interlock.stores.recognition import engine_of, length
from interlock.stores.sqlite import SqliteEngine, clock_ms

if TYPE_CHECKING:
    from interlock.node.peer_nodes import Others
    from interlock.stores.shared.engine import SharedEngine
    from interlock.stores.shared.locating import Located
    from interlock.stores.shared.remote import Remote

Clock = Callable[[], int]


def refuse_strange(url: str | None, key: bytes | None = None) -> None:
    """Refuses what is no engine's URL or no workspace's key, before anything is looked at."""
    if url is not None and url != "sqlite":
        from interlock.stores.shared.locating import parsed

        parsed(url)
    if key is not None:
        sealing(key)


def is_engine_of(directory: str, url: str) -> bool:
    """Whether a workspace's log is kept where the URL says."""
    from interlock.stores.shared.locating import is_recorded

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
    is_repair: bool = False,
) -> "tuple[SqliteEngine, Others | None]":
    """The engine of a directory, and the other nodes on it where there may be any."""
    where = None if is_embedded(directory, url) else _located(directory, url)
    if where is None:
        if key is not None:
            raise Usage("--key goes with --engine URL: an embedded log has its key beside it.")
        file = LogFile(directory, adopt=adopt)
        try:
            file.refuse_moved()
            return SqliteEngine(file, clock or clock_ms), None
        except BaseException:
            file.close()
            raise
    from interlock.node.peer_nodes import Others
    from interlock.stores.shared.locating import record
    from interlock.stores.shared.replica import is_known

    engine = _shared(directory, keys, clock, where, adopt=adopt, key=key)
    try:
        if is_repair:  # which notes the address when what was lost is there
            is_known(engine.remote, keys.sealing())
        else:
            _refuse_another(directory, engine, where)
            record(directory, where)
    except BaseException:
        engine.remote.close()
        engine.file.close()
        raise
    return engine, Others(engine, where, is_joining=key is not None)


def _located(directory: str, url: str | None) -> "Located | None":
    from interlock.stores.shared.locating import located

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
    from interlock.stores.shared.engine import SharedEngine
    from interlock.stores.shared.locating import is_recorded, reach

    remote = reach(where)
    try:
        is_new = not is_recorded(directory, where)
        if not keys.exist() or (is_new and key is not None):
            _check_key(remote, where, key)
        elif is_new:
            remote.remote_head()  # an address that never answered must not replace one that did
        file = LogFile(directory, adopt=adopt, is_copy=True)
    except BaseException:
        remote.close()
        raise
    try:
        if not is_new:
            _end_move(file, remote, keys, where)
        file.become_copy(where.workspace)
        if key is not None:
            keys.adopt(key)
        keys.make()
        return SharedEngine(file, remote, keys.sealing(), where.node, clock)
    except BaseException:
        remote.close()
        file.close()
        raise


def _end_move(file: LogFile, remote: "Remote", keys: Keys, where: "Located") -> None:
    """A move notes here where the log is kept, and then in the file. Where it was broken off in
    between, the engine has what the file has."""
    from interlock.stores.shared.replica import Replica

    with file.reading() as db:
        if engine_of(db) is not None or not length(db):
            return
    copy = Replica(file, remote, keys.sealing(), where.node)
    with file.writing() as db:
        loss = copy.loss(db)
        if loss.is_tail and loss.common:
            file.note_copy(where.workspace)


def _refuse_another(directory: str, engine: "SharedEngine", where: "Located") -> None:
    """An address that is new here must have something of the log that is here."""
    from interlock.stores.shared.locating import is_recorded

    if is_recorded(directory, where):
        return
    with engine.file.reading() as db:
        if not engine.head(db).seq or engine.loss(db).common:
            return
    raise Usage(
        "That engine does not have this workspace, and its address was not kept. If it is to have "
        "it from now on, as this node has it: interlock repair --restore --engine URL"
    )


def _check_key(remote: "Remote", where: "Located", key: bytes | None) -> None:
    """Refuses a key that is not the workspace's, or that came to a workspace which does not exist,
    before anything is made here."""
    from interlock.stores.shared.replica import is_known

    if key is not None:
        if not is_known(remote, sealing(key)):
            raise absent(where.workspace)
    elif remote.remote_head().seq > 0:
        raise Usage(
            f"The workspace {where.workspace} exists on that engine, and its key is not here. Take "
            "keys/checkpoint.key from the directory of one of its nodes, by a way that you trust, "
            "and start this one with --key FILE."
        )


def absent(workspace: str) -> NotFound:
    """Whoever came with a key came to join a workspace, not to make one."""
    return NotFound(
        f"There is no workspace {workspace} on that engine yet. Start the first node without "
        "--key: it makes the workspace and its key."
    )
