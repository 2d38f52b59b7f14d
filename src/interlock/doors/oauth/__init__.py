"""The OAuth door: how a remote client comes to act as one of a person's senders.

The protocol is the MCP SDK's: what it takes for a valid request is decided there. Codes, tokens
and who may be whom are the node's. People meet neither: they sign in and consent on the pages of
the web door.

`metadata` says where everything is, `clients` knows who may ask, `documents` fetches what clients
publish about themselves, `provider` stands between the SDK and the node.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router

from interlock.doors.oauth import metadata
from interlock.node.live import LiveNode

if TYPE_CHECKING:
    from interlock.doors.oauth.endpoints import Endpoints

Endpoint = Callable[[Request], Awaitable[Response]]
Load = Callable[[str], Awaitable[Any]]
Notice = Callable[[str, str, int], Response]


def routes(live: LiveNode, load: Load, notice: Notice) -> list[BaseRoute]:
    """Every endpoint. `load` imports a module without keeping others waiting; `notice` makes a page
    for a person, of a title and what to say."""
    later = _Later(live, load, notice)
    known = "/.well-known/oauth-"
    return [
        Route("/authorize", later.endpoint("authorize")),
        _open(f"{known}protected-resource", metadata.api),
        _open(f"{known}protected-resource/mcp", metadata.mcp),
        _open(f"{known}protected-resource/mcp/", metadata.mcp),
        _open(f"{known}authorization-server", metadata.server),
        _open("/token", later.endpoint("token"), "POST"),
        _open("/register", later.endpoint("register"), "POST"),
        _open("/revoke", later.endpoint("revoke"), "POST"),
    ]


def _open(path: str, endpoint: Endpoint, method: str = "GET") -> BaseRoute:
    """A route that a client may ask which runs in a page of another site. It takes no cookie."""
    plain = Router([Route(path, endpoint, methods=[method])], redirect_slashes=False)
    shared = CORSMiddleware(
        plain, allow_origins=["*"], allow_methods=[method], allow_headers=["*"], max_age=3600
    )
    return Route(path, shared, methods=[method, "OPTIONS"])


class _Later:
    """The endpoints, loaded when the first is called: the SDK takes long to import."""

    def __init__(self, live: LiveNode, load: Load, notice: Notice) -> None:
        self._live, self._load, self._notice = live, load, notice
        self._loaded: Endpoints | None = None

    def endpoint(self, name: str) -> Endpoint:
        async def answer(request: Request) -> Response:
            metadata.base_of(request)
            if self._loaded is None:
                found = await self._load("interlock.doors.oauth.endpoints")
                self._loaded = self._loaded or found.Endpoints(self._live, self._notice)
            response: Response = await getattr(self._loaded, name)(request)
            return response

        return answer
