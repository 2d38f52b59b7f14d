"""Times as text. Inside Interlock a time is an integer: milliseconds since 1970, UTC."""

import re
from functools import lru_cache
from typing import Any

DAY_MS = 86_400_000
# The end of the year 9999. Later years have more digits.
LAST_MS = 253_402_300_800_000
# Seconds since 1970 stay below this for thousands of years; milliseconds passed it in 1973.
_SECONDS_BELOW = 100_000_000_000
_TIME = (
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?"
    r"(?:[Zz]|([+-])(\d\d):?(\d\d))?"
)


@lru_cache(maxsize=256)
def rfc3339(ms: int) -> str:
    """`2026-01-02T03:04:05.678Z`, by the proleptic Gregorian calendar."""
    days, rest = divmod(ms, DAY_MS)
    seconds, milli = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    year, month, day = _civil(days)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"


def _civil(days: int) -> tuple[int, int, int]:
    # Counting from 1 March of year 0 puts the leap day at the end of each year, so that one linear
    # formula finds the month.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def read_time(value: Any) -> int | None:
    """Read a time that another program wrote: RFC 3339 (UTC if it has no offset), or a number of
    seconds or milliseconds. Return None for any other value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 <= value < LAST_MS:
            return None
        return int(value * 1000 if value < _SECONDS_BELOW else value)
    found = re.fullmatch(_TIME, value.strip(), re.ASCII) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    days = _days(year, month, day)
    if (
        not 1 <= month <= 12
        or _civil(days) != (year, month, day)
        or hour > 23
        or max(minute, second) > 59
    ):
        return None
    ahead = int(f"{found[7]}1") * (int(found[8]) * 60 + int(found[9])) if found[7] else 0
    ms = days * DAY_MS + ((hour * 60 + minute - ahead) * 60 + second) * 1000
    return ms if 0 <= ms < LAST_MS else None


def _days(year: int, month: int, day: int) -> int:
    """The day number of a date: the inverse of `_civil`."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468
