"""The HTTP door: decode a request by the table of routes, call one verb, encode the answer."""

from interlock.doors.http.api import api
from interlock.doors.http.guard import Guard

__all__ = ["Guard", "api"]
