"""A file that is attached as evidence: its name, its size and its digest."""

import hashlib
import os
import stat
from typing import Any

from interlock.errors import NotFound, Usage


def payload(path: str) -> dict[str, Any]:
    """The payload of evidence of the kind `file`. Only what has an end can be kept."""
    whole = hashlib.sha256()
    size = 0
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Usage(f"{path} is no ordinary file. Attach one, or a note.")
            while data := file.read(1 << 20):
                whole.update(data)
                size += len(data)
    except OSError as trouble:
        raise NotFound(f"{path} cannot be read: {trouble.strerror}.") from None
    name = os.path.basename(os.path.abspath(path))
    return {"kind": "file", "name": name, "sha256": whole.hexdigest(), "size": size}
