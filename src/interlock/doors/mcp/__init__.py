"""The MCP door: the tools of `tools` over stdio, over any stream, and over HTTP.

Importing it brings the SDK, which takes the better part of a second: only what serves does so.
"""

from interlock.doors.mcp.http import Mounted
from interlock.doors.mcp.plans import Here
from interlock.doors.mcp.service import server
from interlock.doors.mcp.sessions import kept
from interlock.doors.mcp.streams import serve

__all__ = ["Here", "Mounted", "kept", "serve", "server"]
