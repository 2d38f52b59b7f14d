"""The engine that a run of the tests has its workspaces on: `pytest --engine redis`.

Every workspace that is made during such a run has its log on a real server, in whatever process it
is made, because the environment says so. What speaks of the embedded file by its nature has the
marker `embedded`, and is left out then.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from interlock.engines import recognition
from interlock.engines.file import LogFile
from interlock.engines.locating import NEW, RECORD, Located, reach, record
from interlock.engines.shared import SharedEngine
from interlock.node.keys import Keys


def variables() -> dict[str, str]:
    """What a test hands on to an environment that it makes itself."""
    return {NEW: os.environ[NEW]} if NEW in os.environ else {}


def others(environ: Mapping[str, str]) -> list[str]:
    """The variables of Interlock that say anything else: where the tests stand, and as whom."""
    return [name for name in environ if name.startswith("INTERLOCK_") and name != NEW]


def move_out(directory: Path) -> None:
    """Gives the copy of a node's directory a workspace of its own that begins with the same log.
    As it was copied it is the same node once more, and what it does would be seen by the other."""
    try:
        copied = Located(**json.loads((directory / RECORD).read_text()))
    except FileNotFoundError:
        return
    where = copied._replace(workspace=os.urandom(8).hex())
    record(str(directory), where)
    file = LogFile(str(directory), is_copy=True)
    with file.writing() as db:
        recognition.note_engine(db, where.workspace)
    engine = SharedEngine(file, reach(where), Keys(str(directory)).sealing(), where.node)
    engine.pour(file.writer, 0)
    engine.close()
    file.close()
