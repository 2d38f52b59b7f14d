"""Times as text. Inside Interlock a time is an integer: milliseconds since 1970, UTC."""

from functools import lru_cache

DAY_MS = 86_400_000


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
    # Counting from 1 March of year 0 puts the leap day at the end of each year, so that
    # months are found by one linear formula.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day
