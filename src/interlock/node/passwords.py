"""Passwords: the verifier that the log stores, and the limit of attempts.

Argon2id makes every attempt slow. The verifier depends on the workspace's key, so that a thief of
the log cannot test passwords. The salt derives from the key and the name, so it needs no lookup.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from interlock.errors import BadToken, RateLimited, Usage
from interlock.machine.hosts import neighbourhood
from interlock.node.keys import Keys

SHORTEST = 12
LONGEST = 1024
AT_ONCE = 2
PASSES = 2
MEMORY_KIB = 64 << 10
TRIES = 10
TRIES_OF_ALL_NAMES = 100
# While many addresses try one name, each address gets fewer attempts. No address is blocked
# completely, because an attacker could lock a person out that way.
TRIES_FROM_EVERYWHERE = 50
TRIES_UNDER_ATTACK = 3
WITHIN_S = 600.0
MAX_TRIED = 10_000
MAX_WAITING = 16
MAX_NAME_LENGTH = 80
_SALT_BYTES = 16
_at_once = threading.Semaphore(AT_ONCE)
# A name and an address. None means all names or all addresses.
_Key = tuple[str | None, str | None]


def refuse_weak(name: str, password: str) -> None:
    if len(password) < SHORTEST:
        raise Usage(
            f"The password is too short. Use at least {SHORTEST} characters, for example a "
            "sentence."
        )
    if len(password) > LONGEST:
        raise Usage(f"The password is too long. Use at most {LONGEST} characters.")
    is_repeated = password in (password * 2)[1:-1]
    if len(set(password)) < 4 or is_repeated or password.isdecimal() or password == name:
        raise Usage(
            "The password is easy to guess. Choose another password, for example a sentence."
        )


def verifier(keys: Keys, name: str, password: str) -> str:
    """The verifier of a password for the log. Computing it takes 0.1 s and 64 MiB."""
    salt = bytes.fromhex(keys.fingerprint(b"password of " + name.encode()))[:_SALT_BYTES]
    with _at_once:
        argon = Argon2id(salt=salt, length=32, iterations=PASSES, lanes=1, memory_cost=MEMORY_KIB)
        stretched = argon.derive(password.encode("utf-8", "surrogatepass"))
    return keys.fingerprint(b"verifier " + stretched)


class Attempts:
    """Counts the failed sign-ins of the last minutes by name and address, and the sign-ins in
    progress. An attempt counts as failed until it succeeds, so that concurrent attempts do not
    exceed the limit."""

    def __init__(self) -> None:
        self._failed: dict[_Key, deque[float]] = {}
        self._waiting = 0

    @contextmanager
    def trying(self, name: str, peer: str) -> Iterator[None]:
        """Try a password inside this context. Raises RateLimited after too many failures."""
        name, peer = name[:MAX_NAME_LENGTH], neighbourhood(peer)
        is_attacked = len(self._lately((name, None))) >= TRIES_FROM_EVERYWHERE
        _refuse_too_many(self._lately((name, peer)), TRIES_UNDER_ATTACK if is_attacked else TRIES)
        _refuse_too_many(self._lately((None, peer)), TRIES_OF_ALL_NAMES)
        if self._waiting >= MAX_WAITING:
            raise RateLimited(
                "Too many people sign in at the same time. Try again in 2 s.", retry_after_s=2
            )
        self._waiting += 1
        tried = self._lately((name, peer))
        tried.append(time.monotonic())
        self._keep((name, peer), tried)
        try:
            yield
        except BadToken:
            raise
        except BaseException:
            tried.pop()  # it is unknown whether the password was wrong
            raise
        else:
            self._failed.pop((name, peer), None)
        finally:
            self._waiting -= 1

    def failed(self, name: str, peer: str) -> bool:
        """Count a wrong password. Return whether there were so many that they indicate guessing."""
        name, peer = name[:MAX_NAME_LENGTH], neighbourhood(peer)
        for key in ((None, peer), (name, None)):
            tried = self._lately(key)
            tried.append(time.monotonic())
            self._keep(key, tried)
        is_attacked = len(self._lately((name, None))) >= TRIES_FROM_EVERYWHERE
        return is_attacked or len(self._lately((name, peer))) >= TRIES

    def forget(self, name: str) -> None:
        """Reset the failures of a name that has a new password."""
        for key in [key for key in self._failed if key[0] == name[:MAX_NAME_LENGTH]]:
            del self._failed[key]

    def _keep(self, key: _Key, tried: deque[float]) -> None:
        self._failed.pop(key, None)
        if len(self._failed) >= MAX_TRIED:
            del self._failed[next(iter(self._failed))]  # the oldest
        self._failed[key] = tried

    def _lately(self, key: _Key) -> deque[float]:
        tried = self._failed.get(key, deque())
        while tried and tried[0] < time.monotonic() - WITHIN_S:
            tried.popleft()
        return tried


def _refuse_too_many(tried: deque[float], most: int) -> None:
    if len(tried) >= most:
        wait_s = int(tried[-most] + WITHIN_S - time.monotonic()) + 1
        raise RateLimited(
            f"Too many sign-ins failed. Wait {wait_s} s, or ask an admin for a new invitation.",
            retry_after_s=wait_s,
        )
