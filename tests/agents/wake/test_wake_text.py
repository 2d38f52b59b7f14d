"""Interlock pastes one harmless line at a prompt, for any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.plugins import NotWoken
from interlock.plugins.text import LONGEST, plain, typed

# Characters that start a command or a file name in clients.
SPECIAL = "@/!#$&"


@given(st.text())
def test_any_text_becomes_a_printable_line(text: str) -> None:
    try:
        line = plain(text)
    except NotWoken:
        assert not any(character.isalnum() for character in text)
        return
    assert line.isprintable()
    assert 0 < len(line) <= LONGEST


@given(st.text(alphabet=st.sampled_from("ab .-\\\x1b\n[" + SPECIAL)))
def test_a_typed_line_contains_no_command_of_a_client(text: str) -> None:
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


def test_a_plain_line_stays_unchanged() -> None:
    line = "[Interlock] 2 messages from vera (B-7, größer 中文): /opt/bin/interlock inbox"
    assert plain(line) == typed(line) == line


def test_a_line_that_is_too_long_is_cut_and_ends_in_an_ellipsis() -> None:
    assert plain("a" * 1000) == "a" * (LONGEST - 1) + "…"
    assert plain("a" * LONGEST) == "a" * LONGEST


@pytest.mark.parametrize("text", ["", " \n\t", "\x1b\x00", "\u202e"])
def test_a_text_without_printable_characters_raises_not_woken(text: str) -> None:
    with pytest.raises(NotWoken, match="no printable characters"):
        plain(text)
