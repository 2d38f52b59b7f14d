"""Moving a workspace from its own file to an engine: every entry, sequence and proof stays."""

from interlock.engines.locating import located, reach, record
from interlock.engines.shared import SharedEngine
from interlock.errors import Usage
from interlock.kernel.moment import Answer
from interlock.node import Node


def migrate(node: Node, url: str) -> Answer:
    """Copies the log to the engine and makes the directory a node of it. Nobody writes meanwhile.
    Until the last step the file is the log, and one that was broken off can be begun again."""
    if node.shared is not None:
        raise Usage(f"The log is kept by {node.shared.where.shown} already.")
    where = located(node.directory, url)
    if where is None:
        raise Usage("--to names an engine: redis://HOST:PORT/DB or postgres://HOST:PORT/DATABASE.")
    remote = reach(where)
    try:
        with node.alone(), node.file.writing() as db:
            engine = SharedEngine(node.file, remote, node.keys.sealing(), where.node)
            loss = engine.loss(db)
            if not loss.is_tail:
                raise Usage(
                    f"There is another workspace {where.workspace} on that engine. Choose another "
                    "name: --to 'URL?workspace=NAME'"
                )
            engine.pour(db, loss.common)
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
