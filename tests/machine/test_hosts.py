"""Read addresses that proxies write, and times that other programs write."""

from typing import Any

import pytest

from interlock.log.times import read_time, rfc3339
from interlock.machine.hosts import Proxies, proxy, written_by_proxy


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        (" 192.0.2.7:51234", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unknown", None),
        ("", None),
    ],
)
def test_a_clients_address_is_read_in_every_form_that_proxies_write(
    header: str, peer: str | None
) -> None:
    assert written_by_proxy(header) == peer


@pytest.mark.parametrize("named", ["192.0.2.7", "192.0.2.0/28", "::ffff:192.0.2.7"])
def test_a_proxy_is_recognized_in_every_form_of_its_address(named: str) -> None:
    proxies = Proxies([proxy(named)])
    assert proxies.has("192.0.2.7")
    assert proxies.has("::ffff:192.0.2.7")
    assert not proxies.has("192.0.2.77")


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (1794906000, "2026-11-17T09:00:00.000Z"),
        (1794906000000, "2026-11-17T09:00:00.000Z"),
        ("2026-11-17T10:00:00+01:00", "2026-11-17T09:00:00.000Z"),
        ("2026-11-17", "2026-11-17T00:00:00.000Z"),
    ],
)
def test_a_time_is_read_in_the_forms_that_other_programs_write(given: Any, time: str) -> None:
    assert rfc3339(read_time(given) or 0) == time


@pytest.mark.parametrize(
    "given",
    [1e30, 10**29, -1, float("inf"), float("nan"), True, "2026-13-01", "2026-11-17T24:30:00Z",
     "2026-11-17T10:00:61Z", "1969-12-31", "soon", None],
)  # fmt: skip
def test_any_other_value_is_not_a_time(given: Any) -> None:
    assert read_time(given) is None
