"""Claude Code: its configuration and its hook events."""
