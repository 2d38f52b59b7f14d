"""The server: one process that serves a workspace over HTTP, MCP and the dashboard.

It combines the doors and is part of none. The command `interlock up` starts it as a separate
process.
"""
