"""What is pasted at a prompt is one harmless line, whatever it was made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.plugins import NotWoken
from interlock.plugins.text import LONGEST, plain, typed

# What clients act on at the beginning of a line.
SPECIAL = "@/!#$&"


@given(st.text())
def test_a_line_is_printable_whatever_comes(text: str) -> None:
    try:
        line = plain(text)
    except NotWoken:
        assert not any(character.isalnum() for character in text)
        return
    assert line.isprintable()
    assert 0 < len(line) <= LONGEST


@given(st.text(alphabet=st.sampled_from("ab .-\\\x1b\n[" + SPECIAL)))
def test_a_line_is_nothing_that_clients_act_on(text: str) -> None:
    try:
        line = typed(text)
    except NotWoken:
        return
    words = line.split()
    assert line[0].isalnum() or line[0] == "["
    assert not any(word.startswith("@") for word in words)
    assert words[-1][0] not in "/$#" or words[-1].endswith(".")
    assert not line.endswith("\\")
    assert len(line) <= LONGEST + 1


def test_what_is_plain_stays_as_it_is() -> None:
    line = "[Interlock] 2 messages from vera (B-7, größer 中文): /opt/bin/interlock inbox"
    assert plain(line) == typed(line) == line


def test_a_line_that_is_too_long_says_that_it_goes_on() -> None:
    assert plain("a" * 1000) == "a" * (LONGEST - 1) + "…"
    assert plain("a" * LONGEST) == "a" * LONGEST


@pytest.mark.parametrize("text", ["", " \n\t", "\x1b\x00", "\u202e"])
def test_nothing_to_say_wakes_nobody(text: str) -> None:
    with pytest.raises(NotWoken, match="nothing to say"):
        plain(text)
