"""The agent clients that Interlock works with. Each has a folder that contains all its facts:
its configuration (`setup.py`), its hook events (`hooks.py`) and its wake-up (`wake.py`)."""

from typing import Any

CLIENTS = ("claude-code", "codex", "gemini", "cursor")


def module_of(client: str, part: str) -> Any:
    """Return a module of a client's folder: `setup`, `hooks` or `wake`."""
    return __import__(f"{__name__}.{client.replace('-', '_')}.{part}", fromlist=["*"])
