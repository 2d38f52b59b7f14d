"""Whether a workspace's directory has its log in its own file, or on a server: asked by every
command, and so without any import that the file alone does not need."""

import os

RECORD = "engine.json"
NEW = "INTERLOCK_ENGINE"


def is_embedded(directory: str, given: str | None) -> bool:
    """Whether nobody says that another engine keeps the log: no flag, no record, and, where there
    is no workspace yet, no environment."""
    if given is not None:
        return False
    if os.path.exists(os.path.join(directory, RECORD)):
        return False
    return bool(os.path.exists(os.path.join(directory, "log.db")) or not os.environ.get(NEW))
