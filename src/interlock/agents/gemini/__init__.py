"""Gemini CLI: its configuration and its hook events."""
