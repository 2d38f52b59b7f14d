"""The MCP door: the tools of `tools` over stdio, over any stream, and over HTTP.

Importing it imports the SDK, which takes most of a second: only a serving process does so.
"""

from interlock.doors.mcp.http import Mounted
from interlock.doors.mcp.service import Here
from interlock.doors.mcp.streams import kept, serve

__all__ = ["Here", "Mounted", "kept", "serve"]
