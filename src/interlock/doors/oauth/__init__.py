"""The OAuth door: how a remote client comes to act as one of a person's senders.

The protocol is the MCP SDK's: what it takes for a valid request is decided there. Codes, tokens
and who may be whom are the node's. People meet neither: they sign in and consent on the pages of
the web door.

`metadata` says where everything is, `clients` knows who may ask, `documents` fetches what clients
publish about themselves, `provider` stands between the SDK and the node.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from interlock.doors.oauth import metadata
from interlock.node.live import LiveNode

if TYPE_CHECKING:
    from interlock.doors.oauth.endpoints import Endpoints

Endpoint = Callable[[Request], Awaitable[Response]]
Load = Callable[[str], Awaitable[Any]]


def routes(live: LiveNode, load: Load) -> list[BaseRoute]:
    """Every endpoint. `load` imports a module without keeping others waiting."""
    later = _Later(live, load)
    return [
        Route("/.well-known/oauth-protected-resource", metadata.api),
        Route("/.well-known/oauth-protected-resource/mcp", metadata.mcp),
        Route("/.well-known/oauth-authorization-server", metadata.server),
        Route("/authorize", later.endpoint("authorize")),
        Route("/token", later.endpoint("token"), methods=["POST"]),
        Route("/register", later.endpoint("register"), methods=["POST"]),
        Route("/revoke", later.endpoint("revoke"), methods=["POST"]),
    ]


class _Later:
    """The endpoints, loaded when the first is called: the SDK takes long to import."""

    def __init__(self, live: LiveNode, load: Load) -> None:
        self._live, self._load = live, load
        self._loaded: Endpoints | None = None

    def endpoint(self, name: str) -> Endpoint:
        async def answer(request: Request) -> Response:
            metadata.base_of(request)
            if self._loaded is None:
                found = await self._load("interlock.doors.oauth.endpoints")
                self._loaded = self._loaded or found.Endpoints(self._live)
            response: Response = await getattr(self._loaded, name)(request)
            return response

        return answer
