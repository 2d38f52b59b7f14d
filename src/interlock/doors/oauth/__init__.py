"""The OAuth door: remote clients get tokens, and then act as one of a person's senders.

The MCP SDK validates the requests of the protocol. The node stores codes and tokens, and decides
which client may act as which sender. People sign in and consent on the pages of the web door.

This module has the routes and the metadata documents: RFC 9728 for the protected resources, RFC
8414 for the authorization server. `endpoints` answers requests, `provider` connects the SDK to the
node, `clients` validates clients, and `documents` fetches the documents that clients publish.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from interlock.errors import NotFound
from interlock.node.live import LiveNode
from interlock.rooms.identity.scopes import BASIC_SCOPES

if TYPE_CHECKING:
    from interlock.doors.oauth.endpoints import Endpoints

Endpoint = Callable[[Request], Awaitable[Response]]
Load = Callable[[str], Awaitable[Any]]
Notice = Callable[[str, str, int], Response]

NO_SECRET = "none"  # noqa: S105 - the name of a method
METHODS = (NO_SECRET, "client_secret_post", "client_secret_basic")
WELL_KNOWN = "/.well-known/oauth-"


def routes(live: LiveNode, load: Load, notice: Notice) -> list[BaseRoute]:
    """Return the routes of all endpoints. `load` imports a module without blocking the event loop.
    `notice` makes a page for a person, from a title, a text and an HTTP status."""
    loaded: Endpoints | None = None

    async def answer(name: str, request: Request) -> Response:
        # The first call loads the endpoints, because the SDK takes long to import.
        nonlocal loaded
        base_of(request)
        if loaded is None:
            module = await load("interlock.doors.oauth.endpoints")
            loaded = loaded or module.Endpoints(live, notice)
        response: Response = await getattr(loaded, name)(request)
        return response

    return [
        Route("/authorize", partial(answer, "authorize")),
        _open(f"{WELL_KNOWN}protected-resource", partial(_resource, "")),
        _open(f"{WELL_KNOWN}protected-resource/mcp", partial(_resource, "/mcp")),
        _open(f"{WELL_KNOWN}protected-resource/mcp/", partial(_resource, "/mcp")),
        _open(f"{WELL_KNOWN}authorization-server", _server),
        _open("/token", partial(answer, "token"), "POST"),
        _open("/register", partial(answer, "register"), "POST"),
        _open("/revoke", partial(answer, "revoke"), "POST"),
    ]


def _open(path: str, endpoint: Endpoint, method: str = "GET") -> BaseRoute:
    """Return a route that clients in pages of other sites may call. It ignores cookies."""
    shared = CORSMiddleware(
        Route(path, endpoint, methods=[method]),
        allow_origins=["*"],
        allow_methods=[method],
        allow_headers=["*"],
        max_age=3600,
    )
    return Route(path, shared, methods=[method, "OPTIONS"])


def base_of(request: Request) -> str:
    """Return the server's public address, the prefix of every other address. Raise NotFound for
    plain HTTP beyond this machine, because others could read codes and tokens."""
    base: str | None = request.scope.get("interlock.base")
    if base is None:
        raise NotFound(
            "OAuth is not available over plain HTTP, because others could read the tokens. Put a "
            "TLS proxy in front of the server, and start it with interlock up --public-url "
            "https://interlock.example. If the proxy is on another machine, add --proxy ADDRESS."
        )
    return base


async def _resource(path: str, request: Request) -> Response:
    base = base_of(request)
    return _document(
        {
            "resource": base + path,
            "authorization_servers": [base],
            "scopes_supported": BASIC_SCOPES,
            "bearer_methods_supported": ["header"],
            "resource_name": "Interlock",
        }
    )


async def _server(request: Request) -> Response:
    base = base_of(request)
    return _document(
        {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
            "revocation_endpoint": f"{base}/revoke",
            "scopes_supported": BASIC_SCOPES,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
    )


def _document(content: dict[str, object]) -> Response:
    return JSONResponse(content, headers={"Cache-Control": "public, max-age=300"})
