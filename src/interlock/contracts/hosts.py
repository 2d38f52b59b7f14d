"""Hosts: which names and addresses are this machine's own, whoever asks."""

from functools import lru_cache
from ipaddress import ip_address


@lru_cache  # every request asks twice, and mostly about the same
def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant; a name that merely looks so does not count."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
