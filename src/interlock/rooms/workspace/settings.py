"""The settings of a workspace, their allowed values and their defaults."""

import re
from collections.abc import Callable
from typing import NamedTuple


class Setting(NamedTuple):
    default: str
    allowed: str
    check: Callable[[str], bool]


def _is_pattern(value: str) -> bool:
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return len(value) <= 200


def _between(low: int, high: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        digits = value.isascii() and value.isdigit() and len(value) <= len(str(high))
        return digits and low <= int(value) <= high

    return check


SETTINGS = {
    "recipients": Setting("open", "open or strict", lambda v: v in ("open", "strict")),
    "names.pattern": Setting("", "a regular expression, or an empty value", _is_pattern),
    "limits.message_bytes": Setting(str(256 << 20), "1 to 1000000000", _between(1, 10**9)),
    "limits.sends_per_minute": Setting("6000", "0 (no limit) to 1000000000", _between(0, 10**9)),
    "limits.hops": Setting("100", "1 to 1000000", _between(1, 10**6)),
    "guard": Setting("deny", "deny, warn or off", lambda v: v in ("deny", "warn", "off")),
    "wake.quiet_s": Setting("10", "0 to 86400 seconds", _between(0, 86_400)),
}
