"""Durations in the form that people type, from a length in seconds."""

import pytest

from interlock.verbs.durations import LONGEST, covering, seconds
from interlock.verbs.types import described


@pytest.mark.parametrize(
    ("length", "typed"),
    [
        (-5, "1s"),
        (0, "1s"),
        (1, "1s"),
        (90, "90s"),
        (91, "2m"),
        (599, "10m"),
        (600, "10m"),
        (3599, "1h"),
        (3600, "1h"),
        (3601, "2h"),
        (2 * 86_400, "48h"),
        (2 * 86_400 + 1, "3d"),
        (LONGEST + 1, "365d"),
    ],
)
def test_covering_returns_a_round_duration_of_at_least_the_length(length: int, typed: str) -> None:
    assert covering(length) == typed


def test_covering_never_returns_a_shorter_duration() -> None:
    for length in [*range(1, 8000), 86_399, 86_401, LONGEST - 1, LONGEST]:
        assert length <= seconds(covering(length)) <= LONGEST


def test_form_of_a_duration_stands_before_its_default() -> None:
    assert described("the lease", ", in seconds") == "the lease, in seconds"
    assert (
        described("when it ends; by default never", ": 90s")
        == "when it ends: 90s; by default never"
    )
