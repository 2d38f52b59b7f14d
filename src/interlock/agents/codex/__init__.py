"""Codex: its configuration, its hook events and its wake-up."""
