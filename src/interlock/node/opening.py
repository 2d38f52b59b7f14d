"""Open a workspace's engine: its own file, or a database that several nodes share. Move a log from
its own file to a shared engine."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from interlock.errors import NotFound, Usage
from interlock.node import state
from interlock.node.keys import Keys, sealing
from interlock.stores.recognition import is_embedded, length
from interlock.stores.sqlite import LogFile, SqliteEngine, clock_ms, engine_of
from interlock.verbs.answers import Answer

if TYPE_CHECKING:
    from interlock.node import Node
    from interlock.node.peer_nodes import PeerNodes


def refuse_strange(url: str | None, key: bytes | None = None) -> None:
    """Refuse a malformed URL of an engine or a malformed key, before Interlock opens a file."""
    if url is not None and url != "sqlite":
        from interlock.stores.shared.locating import parsed

        parsed(url)
    if key is not None:
        sealing(key)


def is_engine_of(directory: str, url: str) -> bool:
    """Whether the engine at the URL has the workspace's log."""
    from interlock.stores.shared.locating import is_recorded, located

    where = located(directory, url)
    return where is None or is_recorded(directory, where)


def open_engine(
    directory: str,
    keys: Keys,
    clock: Callable[[], int] | None,
    *,
    adopt: bool,
    url: str | None,
    key: bytes | None,
    is_repair: bool = False,
) -> "tuple[SqliteEngine, PeerNodes | None]":
    """Return the engine of a directory, and its peer nodes if the engine is shared.

    Before it creates a file, it refuses a new address that does not answer, a wrong key, and a
    workspace that the engine does not have. Raises Usage, NotFound and EngineUnavailable."""
    where = None
    if not is_embedded(directory, url):
        from interlock.stores.shared.locating import is_recorded, located, reach, record

        where = located(directory, url)
    if where is None:
        if key is not None:
            raise Usage(
                "--key needs --engine URL. The key of an embedded log is in the workspace's "
                "directory. Omit --key."
            )
        with ExitStack() as undo:
            file = LogFile(directory, adopt=adopt)
            undo.callback(file.close)
            file.refuse_moved()
            embedded = SqliteEngine(file, clock or clock_ms)
            undo.pop_all()
        return embedded, None

    from interlock.node.peer_nodes import PeerNodes
    from interlock.stores.shared.engine import SharedEngine, is_known

    is_new = not is_recorded(directory, where)
    with ExitStack() as undo:
        remote = reach(where)
        undo.callback(remote.close)
        if keys.exist() and not (is_new and key is not None):
            if is_new:
                # Raises if the new address does not answer. Such an address must not replace the
                # recorded one.
                remote.remote_head()
        elif key is not None:
            if not is_known(remote, sealing(key)):
                raise absent(where.workspace)
        elif remote.remote_head().seq > 0:
            raise Usage(
                f"The engine has the workspace {where.workspace}, but this directory does not have "
                "its key. Copy keys/checkpoint.key from the directory of one of its nodes over a "
                "secure connection, and start this node with --key FILE."
            )
        file = LogFile(directory, adopt=adopt, is_copy=True)
        undo.callback(file.close)
        with file.reading() as db:
            is_moving = not is_new and engine_of(db) is None and bool(length(db))
        if is_moving:
            # A move records the engine's address in the directory, then in the file. If a crash
            # came between the two, and the engine has every entry, record it in the file now.
            moving = SharedEngine(file, remote, keys.sealing(), where.node)
            with file.writing() as db:
                loss = moving.loss(db)
                if loss.is_tail and loss.common:
                    file.note_copy(where.workspace)
        _become_copy(file, where.workspace)
        if key is not None:
            keys.adopt(key)
        keys.make()
        engine = SharedEngine(file, remote, keys.sealing(), where.node, clock)
        if is_repair:  # the repair records the address after it has restored the lost entries
            is_known(remote, keys.sealing())
        else:
            with file.reading() as db:
                if is_new and engine.head(db).seq and not engine.loss(db).common:
                    raise Usage(
                        "The engine at this URL does not have this workspace. Interlock did not "
                        "save the URL. To copy this node's log to that engine: interlock repair "
                        "--restore --engine URL"
                    )
            record(directory, where)
        undo.pop_all()
    return engine, PeerNodes(engine, where, is_joining=key is not None)


def _become_copy(file: LogFile, workspace: str) -> None:
    """Record in the file that it is a copy of an engine's log, before it has an entry."""
    with file.reading() as db:
        # Most calls change nothing, and must not wait for a writer.
        if engine_of(db) == workspace:
            return
    with file.writing() as db:
        name = engine_of(db)
        if name == workspace:
            return
        if name is not None:
            raise Usage(f"This directory is a node of the workspace {name}. Use another directory.")
        if length(db):
            raise Usage(
                "This workspace stores its log in a SQLite file. To move it to the engine, with "
                "every entry and proof: interlock migrate --to URL. To use another directory for "
                "the node: interlock --workspace DIRECTORY up --engine URL"
            )
        file.note_copy(workspace)


def migrate(node: "Node", url: str) -> Answer:
    """Copy the log to the engine and make the directory a node of it. No process writes meanwhile.

    Until the directory's record names the engine, the file is the log, and the caller can repeat a
    failed move. Without a name in the URL, the log's name on the engine is the workspace's id. The
    file has a record too. After a crash between the two, the next command writes the second."""
    from interlock.stores.shared.engine import SharedEngine
    from interlock.stores.shared.locating import located, reach, record

    if node.shared is not None:
        raise Usage(f"The log is already on the engine {node.shared.where.shown}.")
    with node.file.reading() as db:
        where = located(node.directory, url, state.load(db).workspace)
    assert where is not None  # a URL was given
    remote = reach(where)
    try:
        with node.alone(), node.file.writing() as db:
            node.file.refuse_moved()
            engine = SharedEngine(node.file, remote, node.keys.sealing(), where.node)
            loss = engine.loss(db)
            if not loss.is_tail:
                raise Usage(
                    f"The engine has another workspace {where.workspace}. Choose another name: "
                    "interlock migrate --to 'URL?workspace=NAME'"
                )
            engine.push_entries(db, loss.common)
            head = engine.head(db)
            assert engine.loss(db).common == head.seq
            record(node.directory, where)
            node.file.note_copy(where.workspace)
    finally:
        remote.close()
    return {
        "migrated": True,
        "engine": remote.name,
        "workspace": where.workspace,
        "entries": head.seq,
        "url": where.shown,
        "key": node.keys.path,
    }


def absent(workspace: str) -> NotFound:
    """Return the refusal of a node that has a key for a workspace that does not exist."""
    return NotFound(
        f"The engine has no workspace {workspace} yet. Start the first node without --key: it "
        "creates the workspace and its key."
    )
