"""Cursor: its configuration and its hook events."""
