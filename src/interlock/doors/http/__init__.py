"""The HTTP door: decode a request by the table of routes, call one verb, encode the answer."""

from interlock.doors.http.guard import Guard
from interlock.doors.http.routes import api

__all__ = ["Guard", "api"]
