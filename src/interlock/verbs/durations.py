"""Durations as people type them: `90s`, `15m`, `2h`, `7d`, or plain digits for seconds."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 365 * UNITS["d"]
FORMS = "90s, 15m, 2h, 7d or plain digits for seconds"
# The longest duration that `covering` writes in each unit; longer ones are in days.
_ROUND = {"s": 90, "m": 45 * UNITS["m"], "h": 2 * UNITS["d"]}


def seconds(text: str) -> int:
    """The duration in seconds, from one second to 365 days.

    Raises ValueError with a sentence about the allowed forms.
    """
    digits = text[:-1] if text[-1:] in UNITS else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"A duration is one whole number and one unit: {FORMS}.")
    # int() refuses thousands of digits.
    count = int(digits) if len(digits) <= 18 else LONGEST + 1
    length = count * UNITS.get(text[-1], 1)
    if length == 0:
        raise ValueError(f"A duration is longer than zero: {FORMS}.")
    if length > LONGEST:
        raise ValueError(f"A duration is at most 365d: {FORMS}.")
    return length


def covering(length: int) -> str:
    """The shortest round duration of at least `length` seconds, in the form that people type."""
    unit = next((u for u, most in _ROUND.items() if length <= most), "d")
    return f"{max(1, -(-min(length, LONGEST) // UNITS[unit]))}{unit}"
