"""Move a workspace from its own file to a shared engine, with every entry, position and proof."""

from interlock.errors import Usage
from interlock.node import Node
from interlock.node import position as state
from interlock.stores.shared.locating import located, reach, record
from interlock.stores.shared.replica import Replica
from interlock.verbs.answers import Answer


def migrate(node: Node, url: str) -> Answer:
    """Copy the log to the engine and make the directory a node of it. No process writes meanwhile.

    Until the directory's record names the engine, the file is the log, and a move that failed can
    be repeated: without a given name, the log's name on the engine is the workspace's id. The file
    has a record too; after a crash between the two, the next command writes the second."""
    if node.shared is not None:
        raise Usage(f"The log is kept by {node.shared.where.shown} already.")
    with node.file.reading() as db:
        where = located(node.directory, url, state.load(db).workspace)
    assert where is not None  # a URL was given
    remote = reach(where)
    try:
        with node.alone(), node.file.writing() as db:
            node.file.refuse_moved()
            engine = Replica(node.file, remote, node.keys.sealing(), where.node)
            loss = engine.loss(db)
            if not loss.is_tail:
                raise Usage(
                    f"There is another workspace {where.workspace} on that engine. Choose another "
                    "name: --to 'URL?workspace=NAME'"
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
