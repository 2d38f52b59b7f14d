"""Hosts: recognize names and addresses of this machine, and the addresses of proxies."""

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
# In an IPv6 address that maps an IPv4 address, the IPv4 address follows this many bits.
_MAPPED_BITS: Final = 96


@lru_cache  # every request calls it twice, mostly with the same host
def is_loopback(host: str) -> bool:
    """Return whether a host is certainly this machine. A name that only looks like it is not."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    found = _address(host)
    return found is not None and found.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address in a text. For an IPv6 address that maps an IPv4 address, return that."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def written_by_proxy(text: str) -> str | None:
    """Return a client's address from a proxy's header. Some proxies add a port and brackets."""
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    found = _address(host)
    return str(found) if found is not None else None


def neighbourhood(host: str) -> str:
    """Return all addresses that the owner of this address may have: for IPv6, a whole network."""
    found = _address(host)
    if not isinstance(found, IPv6Address):
        return str(found or host)
    return str(IPv6Network((int(found), _NETWORK_BITS), strict=False))


# --- the proxy in front of a server


def public_url(url: str) -> str:
    """Return the server's public address, in the form that starts every link. Raise Usage."""
    found = _PUBLIC.fullmatch(url.lower())
    if found is None:
        raise Usage(
            f"--public-url {url[:80]!r} is not the address of a proxy. Give a scheme, a host and "
            "optionally a port, without path or query. For example: https://interlock.example"
        )
    scheme, host, port = found[1], found[2], int(found[3] or _DEFAULT_PORTS[found[1]])
    if not 0 < port <= _MAX_PORT:
        raise Usage(f"--public-url: {port} is not a port. Ports are 1 to {_MAX_PORT}.")
    if scheme == "http" and not is_loopback(host):
        raise Usage(
            "--public-url must start with https:// unless it is an address of this machine: others "
            "could read passwords and tokens that are sent over plain HTTP."
        )
    return f"{scheme}://{host}" + (f":{port}" if port != _DEFAULT_PORTS[scheme] else "")


def proxy(text: str) -> str:
    """Return the address of a proxy, or of a network that contains only proxies. Raise Usage."""
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        raise Usage(
            f"--proxy {text[:80]!r} is not an IP address. Give the source address of the TLS proxy "
            "on another machine, such as 192.0.2.7, or a network of proxies, such as 192.0.2.0/28."
        ) from None
    if isinstance(found, IPv6Network) and found.prefixlen >= _MAPPED_BITS:
        older = found.network_address.ipv4_mapped
        found = ip_network((older, found.prefixlen - _MAPPED_BITS)) if older else found
    if found.prefixlen == 0:
        raise Usage(f"--proxy {text[:80]} contains all addresses. Give the proxy's own address.")
    return str(found)


class Proxies:
    """The proxies on other machines whose header about the client is trusted."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = tuple(ip_network(each) for each in named)

    def has(self, peer: str) -> bool:
        found = _address(peer) if self._named else None
        return found is not None and any(found in network for network in self._named)
