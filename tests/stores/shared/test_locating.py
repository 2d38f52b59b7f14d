"""An engine's URL: Interlock's own options, the URLs that are refused, and the parts to show."""

import pytest

from interlock.errors import Usage
from interlock.stores.shared.locating import Located, parsed


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "valkey://127.0.0.1",
        "rediss://:p%40ss@example:6379/2?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=true",
        "redis://example?db=3",
        "postgres://user@example/team",
        "postgres:///team?host=/var/run/postgresql",
        "postgresql:///team?host=a,b&options=-c%20search_path%3Dx+y",
    ],
)
def test_the_drivers_options_in_a_url_stay_unchanged(url: str) -> None:
    assert parsed(url) == (url, None)
    joint = "&" if "?" in url else "?"
    assert parsed(f"{url}{joint}workspace=team") == (url, "team")


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1/team",
        "redis://127.0.0.1/0/1",
        "redis://127.0.0.1/٣",
        "redis://127.0.0.1?db=first",
        "redis://127.0.0.1?socket_timeout=x",
        "redis://127.0.0.1?retry_on_timeout=1",
        "redis://127.0.0.1?ssl_ca_certs=/etc/ca.pem",
        "redis://127.0.0.1?nonsense",
        "redis:///0?workspace=team",
        "http://127.0.0.1",
        "postgres:team",
    ],
)
def test_urls_that_a_driver_would_fail_on_are_refused(url: str) -> None:
    with pytest.raises(Usage):
        parsed(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@example/0", "redis://:PASSWORD@example/0?workspace=team"),
        ("postgres:///db?host=/run", "postgres:///db?host=/run&workspace=team"),
        ("postgres://a/db?PassWord=secret&x=1", "postgres://a/db?x=1&workspace=team"),
        ("postgres://a/db?p%61ssword=secret", "postgres://a/db?workspace=team"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert Located(url, "team", "node").shown == shown
