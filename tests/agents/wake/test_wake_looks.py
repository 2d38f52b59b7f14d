"""Clients are recognised by their screens: at rest with an empty prompt, and in no other state."""
# ruff: noqa: RUF001 - the signs are the clients'

import pytest

from interlock.agents.wake.looks import NEAR, prompt, screen, squeezed, why_not
from interlock.agents.wake.tmux import LOOKS

RULE = "─" * 40
FAINT, PLAIN, REVERSE = "\x1b[2m", "\x1b[0m", "\x1b[7m"


def drawn(*lines: str) -> str:
    return "\n".join(["● What was said.", "", *lines, ""])


EMPTY = {
    "bare": ("claude-code", drawn(RULE, "❯\u00a0", RULE, "  ? for shortcuts")),
    "cursor": ("claude-code", drawn(RULE, f"❯ {REVERSE} {PLAIN}", RULE)),
    "suggestion": ("claude-code", drawn(RULE, f"❯ {REVERSE}T{PLAIN}{FAINT}ry it{PLAIN}", RULE)),
    "coloured": ("claude-code", drawn(RULE, f"\x1b[38;2;9;2;9m❯ {PLAIN}", RULE)),
    "boxed": ("claude-code", drawn(f"╭{RULE}╮", f"│ >{' ' * 38}│", f"╰{RULE}╯")),
    "codex": ("codex", drawn(f"› {FAINT}Explain this codebase{PLAIN}", "", "  100% context left")),
    "codex, no faint": ("codex", drawn("› Ask Codex to do anything", "", "  100% context left")),
    "gemini": (
        "gemini",
        drawn(f"╭{RULE}╮", "│ >   Type your message or @path/to/file  │", f"╰{RULE}╯"),
    ),
    "gemini, yolo": ("gemini", drawn("▄" * 9, " * Type your message or @path/to/file", "▀" * 9)),
    "cursor-agent": (
        "cursor",
        drawn("▄" * 9, "  → Plan, search, build anything", "▀" * 9, "  Auto"),
    ),
}

NOT_EMPTY = {
    "typed": ("claude-code", drawn(RULE, "❯ hello", RULE), "typed"),
    "a letter under the cursor": (
        "claude-code",
        drawn(RULE, f"❯ {REVERSE}y{PLAIN}", RULE),
        "typed",
    ),
    "a red letter": ("claude-code", drawn(RULE, f"❯ \x1b[38;5;2my{PLAIN}", RULE), "typed"),
    "a letter of many colours": ("claude-code", drawn(RULE, "❯ \x1b[38;2;2;2;2my", RULE), "typed"),
    "second line": ("claude-code", drawn(RULE, "❯ ", "", "  hello", RULE), "typed"),
    "no rule above": ("claude-code", drawn("❯ ", RULE), "not to be seen"),
    "a letter and a blank": ("claude-code", drawn(RULE, f"❯ {REVERSE}y{PLAIN} ", RULE), "typed"),
    "no frame": ("claude-code", drawn("❯ "), "not to be seen"),
    "half a frame": ("claude-code", drawn(RULE, "❯ ", "  ? for shortcuts"), "not to be seen"),
    "shell mode": ("claude-code", drawn(RULE, "! ", RULE), "not to be seen"),
    "a shell": ("claude-code", "$ ", "not to be seen"),
    "nothing": ("claude-code", "", "not to be seen"),
    "a menu below": ("claude-code", drawn(RULE, "❯ ", RULE, "❯ main", "  other"), "not to be seen"),
    "codex below": (
        "codex",
        drawn("› ", "", "  hello", "", "  100% context left"),
        "not to be seen",
    ),
    "codex queue": (
        "codex",
        drawn("  ? 1 question", "    shift+← to answer", "", "› ", "", " f"),
        "decision",
    ),
    "gemini shell": ("gemini", drawn(RULE, "! Type your shell command", RULE), "not to be seen"),
    "gemini typed": ("gemini", drawn(RULE, "> Type your message or not", RULE), "typed"),
    "spinner alone": (
        "claude-code",
        drawn("✶ Cooking… (3s · ↓ 12 tokens)", RULE, "❯ ", RULE),
        "at work",
    ),
}


@pytest.mark.parametrize(("client", "captured"), EMPTY.values(), ids=EMPTY)
def test_an_empty_prompt_is_recognised(client: str, captured: str) -> None:
    assert why_not(screen(captured), LOOKS[client]) is None
    assert prompt(screen(captured), LOOKS[client]) == ""


@pytest.mark.parametrize(("client", "captured", "why"), NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_anything_else_is_left_alone(client: str, captured: str, why: str) -> None:
    assert why in str(why_not(screen(captured), LOOKS[client]))


@pytest.mark.parametrize("client", ["codex", "cursor"])
def test_a_client_is_not_taken_for_another(client: str) -> None:
    others = [captured for name, captured in EMPTY.values() if name != client]
    assert all(why_not(screen(captured), LOOKS[client]) for captured in others)


def test_a_prompt_that_was_wrapped_reads_as_one_line() -> None:
    captured = drawn(f"╭{RULE}╮", "│ > one two    │", "│   three      │", f"╰{RULE}╯")
    assert prompt(screen(captured), LOOKS["gemini"]) == squeezed("one two three") == "onetwothree"


def test_what_was_said_long_before_does_not_count() -> None:
    said = [f"line {number}" for number in range(NEAR)]
    near = drawn("Press esc to interrupt it.", *said[3:], RULE, "❯ ", RULE)
    far = drawn("Press esc to interrupt it.", *said, RULE, "❯ ", RULE)
    assert why_not(screen(near), LOOKS["claude-code"]) == "it is at work"
    assert why_not(screen(far), LOOKS["claude-code"]) is None


def test_faintness_carries_over_from_line_to_line() -> None:
    seen = screen(f"a{FAINT}b\nc{PLAIN}d\n")
    assert seen.lines == ("ab", "cd", "")
    assert seen.solid == ("a ", " d", "")


def test_what_is_no_text_is_no_part_of_a_line() -> None:
    assert screen("a\x1b(0b\x1b]8;;http://x\x1b\\c\x1b[Kd\x0f").lines == ("abcd",)
