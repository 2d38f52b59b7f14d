"""JSON-RPC as bytes: what a client says, understood or answered with what is wrong with it."""

from typing import Any, Final

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from pydantic import ValidationError
from pydantic_core import from_json

LONGEST: Final = 8 << 20
CANCELLED: Final = "notifications/cancelled"

Said = JSONRPCRequest | JSONRPCNotification


def understood(data: bytes) -> Said | JSONRPCError | None:
    """A request or a notification; the error that answers what is neither; None for what needs no
    answer. Nothing is ever asked of a client, so what it answers is nothing to us."""
    try:
        said = from_json(data, allow_inf_nan=False)
    except ValueError as trouble:
        return wrong(PARSE_ERROR, f"Parse error: {trouble}")
    if not isinstance(said, dict):
        return wrong(INVALID_REQUEST, "A message is one JSON object; there are no batches.")
    if "method" not in said and ("result" in said or "error" in said):
        return None
    try:
        return (JSONRPCRequest if "id" in said else JSONRPCNotification).model_validate(said)
    except ValidationError:
        return wrong(INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.", said.get("id"))


def wrong(code: int, message: str, id: Any = None) -> JSONRPCError:
    known = id if isinstance(id, int | str) and not isinstance(id, bool) else None
    return JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=message))


def cancelled(said: Said) -> RequestId | None:
    """The id of the request that a notification cancels."""
    if said.method != CANCELLED or not said.params:
        return None
    id = said.params.get("requestId")
    return id if isinstance(id, int | str) else None


def encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
