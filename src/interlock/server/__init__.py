"""The server: one process that serves a workspace over HTTP, MCP and the dashboard.

It puts the doors together and belongs to none of them; the command `interlock up` starts it as a
process of its own.
"""
