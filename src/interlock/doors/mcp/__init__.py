"""The MCP door: it offers the tools of `tools` over stdio, over any stream, and over HTTP.

This import loads the SDK, which takes almost a second. Only a serving process should do it.
"""

from interlock.doors.mcp.http import Mounted
from interlock.doors.mcp.service import Here
from interlock.doors.mcp.streams import kept, serve

__all__ = ["Here", "Mounted", "kept", "serve"]
