"""The limits of wrong passwords: for a name, for an address, and for all names."""

import contextlib
import weakref

import pytest

from interlock.errors import BadToken, RateLimited
from interlock.node import passwords
from interlock.node.passwords import (
    MAX_TRIED,
    MAX_WAITING,
    TRIES,
    TRIES_FROM_EVERYWHERE,
    TRIES_OF_ALL_NAMES,
    TRIES_UNDER_ATTACK,
    Attempts,
)


class Text(str):
    """Text that supports weak references, so that a test can see whether it was freed."""


def test_the_number_of_concurrent_sign_ins_is_limited() -> None:
    attempts = Attempts()
    with contextlib.ExitStack() as crowd:
        for number in range(MAX_WAITING):
            crowd.enter_context(attempts.trying(f"unknown-{number}", f"192.0.2.{number}"))
        with pytest.raises(RateLimited, match="Too many people sign in") as refused:
            crowd.enter_context(attempts.trying("vera", "203.0.113.1"))
        assert refused.value.members["retry_after_s"] < 10
    with attempts.trying("vera", "203.0.113.1"):
        pass


def fails(attempts: Attempts, name: str, peer: str) -> bool:
    with contextlib.suppress(BadToken), attempts.trying(name, peer):
        is_last = attempts.failed(name, peer)
        raise BadToken
    return is_last


def test_wrong_passwords_count_only_for_their_name_and_address() -> None:
    attempts = Attempts()
    assert [fails(attempts, "vera", "a") for _ in range(TRIES)] == [False] * (TRIES - 1) + [True]
    for number in range(TRIES_OF_ALL_NAMES - TRIES):
        fails(attempts, f"unknown-{number}", "a")
    for name in ("vera", "hugo"):
        with (
            pytest.raises(RateLimited, match="Too many sign-ins failed"),
            attempts.trying(name, "a"),
        ):
            raise AssertionError("the limit allowed another attempt")
        with attempts.trying(name, "b"):
            pass


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    attempts = Attempts()
    tried = [fails(attempts, "vera", f"2001:db8::{number:x}") for number in range(TRIES)]
    assert tried == [False] * (TRIES - 1) + [True]
    with pytest.raises(RateLimited), attempts.trying("vera", "2001:db8::ffff:1"):
        raise AssertionError("the limit allowed another attempt")
    for peer in ("2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1"):
        with attempts.trying("vera", peer):
            pass


class SteadyTime:
    """A clock that advances by a millisecond at each call."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.001
        return self._now


def test_name_under_attack_gets_fewer_attempts_but_is_never_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passwords, "time", SteadyTime())
    attempts = Attempts()
    crowd = [f"198.51.100.{number}" for number in range(TRIES_FROM_EVERYWHERE)]
    tried = [fails(attempts, "vera", peer) for peer in crowd]
    assert tried == [False] * (TRIES_FROM_EVERYWHERE - 1) + [True]
    for _ in range(TRIES_UNDER_ATTACK):
        assert fails(attempts, "vera", "203.0.113.1")
    with pytest.raises(RateLimited) as refused, attempts.trying("vera", "203.0.113.1"):
        raise AssertionError("the limit allowed another attempt")
    assert 590 < refused.value.members["retry_after_s"] <= 600
    with attempts.trying("vera", "203.0.113.2"):
        pass
    assert not fails(attempts, "mia", "203.0.113.1"), "other names are not affected"


def test_many_other_names_do_not_displace_a_name_that_is_still_tried() -> None:
    attempts = Attempts()
    for number in range(MAX_TRIED):
        fails(attempts, f"unknown-{number}", f"10.{number >> 8 & 255}.{number & 255}.1")
        if number % 2000 == 0:
            fails(attempts, "vera", "203.0.113.1")
    assert [fails(attempts, "vera", "203.0.113.1") for _ in range(TRIES - 5)][-1]


def test_only_the_start_of_a_huge_name_is_stored() -> None:
    attempts = Attempts()
    names = [Text(f"{'a' * 30_000}{number}") for number in range(TRIES)]
    kept = [weakref.ref(name) for name in names]
    while names:
        fails(attempts, names.pop(), "a")
    assert [name() for name in kept] == [None] * TRIES
    with pytest.raises(RateLimited), attempts.trying("a" * 40_000, "a"):
        raise AssertionError("the limit allowed another attempt")
