"""The agent clients that Interlock works with. Each has a folder that contains all its facts:
its configuration (`setup.py`), its hook events (`hooks.py`) and its wake-up (`wake.py`)."""

CLIENTS = ("claude-code", "codex", "gemini", "cursor")
