"""Documents that clients publish about themselves. The client's id is the URL of its document.

Any caller can choose the URL, so the server fetches nothing from an address that only this machine
or its network can reach. It resolves the host name once, requires that all addresses are public,
and connects to one of them. It follows no redirects.
"""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpx2 as httpx

from interlock.errors import Usage

LARGEST: Final = 16 << 10
MAX_URL_LENGTH: Final = 1000
TIMEOUT_S: Final = 5.0
MAX_CONCURRENT: Final = 8
CACHE_S: Final = 3600.0
REFUSAL_CACHE_S: Final = 30.0
MAX_CACHED: Final = 1000

NO_CLIENT: Final = (
    "The client id is not valid. It must come from /register, or be the https address of the "
    "client's document."
)
# The server reads only these members: the name and addresses, and whether the client has a secret.
NAMED: Final = ("client_name", "redirect_uris")
METHOD: Final = ("token_endpoint_auth_method", "client_secret")

Address = IPv4Address | IPv6Address
LookUp = Callable[[str, int], Awaitable[list[str]]]


class Refused(Usage):
    """The server cannot use the client's document."""


def is_public(address: Address) -> bool:
    """Return whether an address is public. An IPv6 address can contain a private IPv4 address."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return is_public(inner)
        if address in _TRANSLATED:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


_TRANSLATED: Final = IPv6Network("64:ff9b::/96")


# If no DNS server answers, a look-up blocks its thread for a long time. Look-ups have their own
# threads, so that no other work waits for them.
_NAMES: Final = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="names")


async def _look_up(host: str, port: int) -> list[str]:
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_NAMES, ask)
    return [str(place[4][0]) for place in found]


class Documents:
    """Fetches and caches documents. Tests replace the `allowed` addresses, the `look_up` of names
    and the `trusted` certificates."""

    def __init__(
        self,
        *,
        allowed: Callable[[Address], bool] = is_public,
        look_up: LookUp = _look_up,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed, self._look_up = allowed, look_up
        self._trusted = trusted or ssl.create_default_context()
        self._at_once = asyncio.Semaphore(MAX_CONCURRENT)
        self._kept: dict[str, tuple[float, dict[str, Any] | Refused]] = {}

    async def of(self, client_id: str) -> dict[str, Any]:
        """Return the document at a client's id. Raise Refused, and cache the refusal for a short
        time."""
        until, found = self._kept.get(client_id, (0.0, Refused()))
        if until <= time.monotonic():
            url = _checked(client_id)
            is_its_turn = False
            try:
                async with asyncio.timeout(TIMEOUT_S), self._at_once:
                    is_its_turn = True
                    found = await self._fetched(client_id, url)
            except TimeoutError:
                if not is_its_turn:  # the host is not at fault, so cache nothing
                    raise Refused(
                        "The server is fetching too many documents of clients. Try again."
                    ) from None
                found = Refused(
                    f"The client's host {url.hostname} did not answer within {TIMEOUT_S:.0f} s."
                )
            except Refused as refused:
                found = refused
            if len(self._kept) >= MAX_CACHED:
                self._kept.clear()
            lasts_s = REFUSAL_CACHE_S if isinstance(found, Refused) else CACHE_S
            self._kept[client_id] = time.monotonic() + lasts_s, found
        if isinstance(found, Refused):
            raise Refused(found.message)
        return found

    async def _fetched(self, client_id: str, url: SplitResult) -> dict[str, Any]:
        host, port = url.hostname or "", url.port or 443
        try:
            addresses = await self._look_up(host, port)
        except (OSError, UnicodeError):
            raise Refused(f"The client's host {host} was not found.") from None
        if not addresses or not all(self._allowed(ip_address(each)) for each in addresses):
            raise Refused(
                f"The client's host {host} is not a public address. The server fetches documents "
                "only from public addresses."
            )
        at = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        target = url._replace(netloc=f"{at}:{port}").geturl()
        headers = {"Host": url.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        client = httpx.AsyncClient(
            verify=self._trusted, trust_env=False, follow_redirects=False, timeout=TIMEOUT_S
        )
        extensions = {"sni_hostname": host}
        body = b""
        try:
            async with (
                client,
                client.stream("GET", target, headers=headers, extensions=extensions) as response,
            ):
                if response.status_code != 200:
                    raise Refused(
                        f"The client's host {host} answers with status {response.status_code} "
                        "instead of the document."
                    )
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json" and not kind.endswith("+json"):
                    raise Refused(
                        f"The client's host {host} answers with {kind[:80] or 'no content type'} "
                        "instead of JSON."
                    )
                # A compressed body could expand to any size, so the server does not decompress it.
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > LARGEST:
                        raise Refused(f"The client's document has more than {LARGEST >> 10} KiB.")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as trouble:
            raise Refused(
                f"The server cannot fetch the client's document from {host}: "
                f"{type(trouble).__name__}."
            ) from None
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            raise Refused("The client's document is not JSON.") from None
        if not isinstance(document, dict) or document.get("client_id") != client_id:
            raise Refused("The client_id in the client's document is not the document's address.")
        return {name: document[name] for name in (*NAMED, *METHOD) if name in document}


def _checked(client_id: str) -> SplitResult:
    url, port = SplitResult("", "", "", "", ""), None
    with suppress(ValueError):
        url = urlsplit(client_id)
        port = url.port or 443
    is_plain = client_id.isascii() and client_id.isprintable() and " " not in client_id
    if not is_plain or len(client_id) > MAX_URL_LENGTH or port is None:
        raise Refused(NO_CLIENT)
    if url.scheme != "https" or not url.hostname:
        raise Refused(NO_CLIENT)
    if url.username is not None or url.fragment or url.path in ("", "/"):
        raise Refused("The client id must be an address with a path, without user or fragment.")
    if any(part in (".", "..") for part in url.path.split("/")):
        raise Refused("The client id must be an address without . or .. in its path.")
    return url
