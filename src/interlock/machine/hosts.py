"""Hosts: whether a name or an address is this machine's own, and the addresses of proxies."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from interlock.errors import Usage

_PUBLIC: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,9}))?/?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65535
_NETWORK_BITS: Final = 64
# An IPv4 address follows so many bits of an IPv6 address that maps it.
_MAPPED_BITS: Final = 96


@lru_cache  # every request asks twice, and mostly about the same
def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant; a name that merely looks so does not count."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    found = _address(host)
    return found is not None and found.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """The address in a text; the IPv4 address that an IPv6 address maps."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def written_by_proxy(text: str) -> str | None:
    """The address of a client in a proxy's header. Some proxies add a port, and brackets for it."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    found = _address(host)
    return str(found) if found is not None else None


def neighbourhood(host: str) -> str:
    """All addresses that the owner of this address may have: a whole network, for IPv6."""
    found = _address(host)
    if not isinstance(found, IPv6Address):
        return str(found or host)
    return str(IPv6Network((int(found), _NETWORK_BITS), strict=False))


# --- the proxy before a server


def public_url(url: str) -> str:
    """The server's address outside, in the form in which every link to it begins. Raises Usage."""
    found = _PUBLIC.fullmatch(url.lower())
    if found is None:
        raise Usage(
            "--public-url is a proxy's address, such as https://interlock.example: a host and at "
            f"most a port, without a path or a query, not {url[:80]!r}."
        )
    scheme, host, port = found[1], found[2], int(found[3] or _DEFAULT_PORTS[found[1]])
    if not 0 < port <= _MAX_PORT:
        raise Usage(f"--public-url: ports go from 1 to {_MAX_PORT}, and {port} is none.")
    if scheme == "http" and not is_loopback(host):
        raise Usage(
            "--public-url begins with https:// unless it is this machine's own: over plain HTTP, "
            "passwords and tokens could be read on their way."
        )
    return f"{scheme}://{host}" + (f":{port}" if port != _DEFAULT_PORTS[scheme] else "")


def proxy(text: str) -> str:
    """The address of a proxy, or of a network that has nothing else in it. Raises Usage."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        raise Usage(
            "--proxy is the address from which a TLS proxy on another machine asks, such as "
            f"192.0.2.7, or a network of such, 192.0.2.0/28; not {text[:80]!r}."
        ) from None
    if isinstance(found, IPv6Network) and found.prefixlen >= _MAPPED_BITS:
        older = found.network_address.ipv4_mapped
        found = ip_network((older, found.prefixlen - _MAPPED_BITS)) if older else found
    if found.prefixlen == 0:
        raise Usage(f"--proxy {text[:80]} would be everybody. Name the proxy's own address.")
    return str(found)


class Proxies:
    """The proxies on other machines whose header about the client is believed."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = tuple(ip_network(each) for each in named)

    def has(self, peer: str) -> bool:
        found = _address(peer) if self._named else None
        return found is not None and any(found in network for network in self._named)
