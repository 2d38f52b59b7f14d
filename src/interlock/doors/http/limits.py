"""Limits of the door: the rate of a token's requests, and the size and the time of a body."""

import asyncio
import hashlib
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from interlock.errors import RateLimited, TooLarge, Usage

MAX_BODY_BYTES = 8 << 20
SLOWEST_BODY_S = 30.0
REQUESTS_PER_S = 600.0
BURST = 3000.0
FORGET_EVERY = 10_000


class RateLimit:
    """A token bucket for each token: it holds a burst, and refills at a steady rate."""

    def __init__(
        self,
        per_s: float = REQUESTS_PER_S,
        burst: float = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._buckets: dict[bytes, tuple[float, float]] = {}
        self._max_buckets = FORGET_EVERY

    def take(self, token: str) -> None:
        """Count one request of a token. Raises RateLimited."""
        # Any text can be shown as a token, so the bucket keeps only its hash.
        who = hashlib.sha256(token.encode()).digest()
        now = self._clock()
        left, at = self._buckets.get(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        if left < 1:
            wait_s = max(1, round((1 - left) / self._per_s))
            raise RateLimited(
                f"This token asks more than {self._per_s:.0f} times a second. Wait {wait_s} s; "
                "to hear of something, wait for it (/v1/inbox?wait=25, /v1/events).",
                retry_after_s=wait_s,
            )
        if len(self._buckets) > self._max_buckets:
            # Forget the buckets that are full again.
            full_s = self._burst / self._per_s
            self._buckets = {w: b for w, b in self._buckets.items() if now - b[1] < full_s}
            self._max_buckets = max(FORGET_EVERY, 2 * len(self._buckets))
        self._buckets[who] = left - 1, now


class BodyReceiver:
    """Receives a request's body. Raises TooLarge and Slow. After the whole body, receiving waits
    for the end of the connection without a limit."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        self._receive = receive
        self._size = 0
        self._is_whole = False
        self._deadline: float | None = None

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + SLOWEST_BODY_S
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Slow(f"The body did not arrive within {SLOWEST_BODY_S:.0f} s.") from None
        self._size += len(message.get("body", b""))
        if self._size > MAX_BODY_BYTES:
            raise _too_large()
        self._is_whole = not message.get("more_body", False)
        return message


class Slow(Usage):
    """The request came too slowly."""

    http = 408


def _too_large() -> TooLarge:
    return TooLarge(
        f"A request has at most {MAX_BODY_BYTES} bytes. Upload a larger body in chunks to "
        "/v1/blobs, and name the upload in the message.",
        limit=MAX_BODY_BYTES,
    )
