"""Where everything is: RFC 9728 for what is protected, RFC 8414 for who gives tokens."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from interlock.errors import NotFound
from interlock.rooms.identity.scopes import BASIC_SCOPES

NO_SECRET = "none"  # noqa: S105 - the name of a method
METHODS = (NO_SECRET, "client_secret_post", "client_secret_basic")


def base_of(request: Request) -> str:
    """The address that the server is known by, from which every other is made. There is none over
    plain HTTP beyond this machine, where codes and tokens could be read on their way."""
    base: str | None = request.scope.get("interlock.base")
    if base is None:
        raise NotFound(
            "OAuth is not served here over plain HTTP, where tokens could be read on their way. "
            "Put a TLS proxy before the server, and name its address: interlock up --public-url "
            "https://interlock.example, with --proxy ADDRESS where it is on another machine."
        )
    return base


async def api(request: Request) -> Response:
    return _resource(request, "")


async def mcp(request: Request) -> Response:
    return _resource(request, "/mcp")


def _resource(request: Request, path: str) -> Response:
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


async def server(request: Request) -> Response:
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
