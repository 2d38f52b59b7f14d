"""Recognising clients by their screens: idle at an empty prompt, and in no other state."""
# ruff: noqa: RUF001 - the signs are the clients'

import pytest

from interlock.agents.wake.looks import NEAR, prompt, screen, squeezed, why_not
from interlock.agents.wake.tmux import LOOKS

RULE = "─" * 40
FAINT, PLAIN, REVERSE = "\x1b[2m", "\x1b[0m", "\x1b[7m"


def drawn(*lines: str) -> str:
    return "\n".join(["● An earlier answer.", "", *lines, ""])


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
    "typed": ("claude-code", drawn(RULE, "❯ hello", RULE), "not empty"),
    "a letter under the cursor": (
        "claude-code",
        drawn(RULE, f"❯ {REVERSE}y{PLAIN}", RULE),
        "not empty",
    ),
    "a red letter": ("claude-code", drawn(RULE, f"❯ \x1b[38;5;2my{PLAIN}", RULE), "not empty"),
    "a letter of many colours": (
        "claude-code",
        drawn(RULE, "❯ \x1b[38;2;2;2;2my", RULE),
        "not empty",
    ),
    "second line": ("claude-code", drawn(RULE, "❯ ", "", "  hello", RULE), "not empty"),
    "no rule above": ("claude-code", drawn("❯ ", RULE), "shows no prompt"),
    "a letter and a blank": (
        "claude-code",
        drawn(RULE, f"❯ {REVERSE}y{PLAIN} ", RULE),
        "not empty",
    ),
    "no frame": ("claude-code", drawn("❯ "), "shows no prompt"),
    "half a frame": ("claude-code", drawn(RULE, "❯ ", "  ? for shortcuts"), "shows no prompt"),
    "shell mode": ("claude-code", drawn(RULE, "! ", RULE), "shows no prompt"),
    "a shell": ("claude-code", "$ ", "shows no prompt"),
    "nothing": ("claude-code", "", "shows no prompt"),
    "a menu below": (
        "claude-code",
        drawn(RULE, "❯ ", RULE, "❯ main", "  other"),
        "shows no prompt",
    ),
    "codex below": (
        "codex",
        drawn("› ", "", "  hello", "", "  100% context left"),
        "shows no prompt",
    ),
    "codex queue": (
        "codex",
        drawn("  ? 1 question", "    shift+← to answer", "", "› ", "", " f"),
        "decision",
    ),
    "gemini shell": ("gemini", drawn(RULE, "! Type your shell command", RULE), "shows no prompt"),
    "gemini typed": ("gemini", drawn(RULE, "> Type your message or not", RULE), "not empty"),
    "spinner alone": (
        "claude-code",
        drawn("✶ Cooking… (3s · ↓ 12 tokens)", RULE, "❯ ", RULE),
        "working",
    ),
}


@pytest.mark.parametrize(("client", "captured"), EMPTY.values(), ids=EMPTY)
def test_an_empty_prompt_is_recognised(client: str, captured: str) -> None:
    assert why_not(screen(captured), LOOKS[client]) is None
    assert prompt(screen(captured), LOOKS[client]) == ""


@pytest.mark.parametrize(("client", "captured", "why"), NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_any_other_screen_gives_a_reason_not_to_wake(client: str, captured: str, why: str) -> None:
    assert why in str(why_not(screen(captured), LOOKS[client]))


@pytest.mark.parametrize("client", ["codex", "cursor"])
def test_the_look_of_one_client_does_not_match_others(client: str) -> None:
    others = [captured for name, captured in EMPTY.values() if name != client]
    assert all(why_not(screen(captured), LOOKS[client]) for captured in others)


def test_a_wrapped_prompt_is_read_as_one_line() -> None:
    captured = drawn(f"╭{RULE}╮", "│ > one two    │", "│   three      │", f"╰{RULE}╯")
    assert prompt(screen(captured), LOOKS["gemini"]) == squeezed("one two three") == "onetwothree"


def test_lines_far_above_the_prompt_do_not_count() -> None:
    older = [f"line {number}" for number in range(NEAR)]
    near = drawn("Press esc to interrupt it.", *older[3:], RULE, "❯ ", RULE)
    far = drawn("Press esc to interrupt it.", *older, RULE, "❯ ", RULE)
    assert why_not(screen(near), LOOKS["claude-code"]) == "the agent is working"
    assert why_not(screen(far), LOOKS["claude-code"]) is None


def test_the_attribute_faint_carries_over_to_the_next_line() -> None:
    seen = screen(f"a{FAINT}b\nc{PLAIN}d\n")
    assert seen.lines == ("ab", "cd", "")
    assert seen.solid == ("a ", " d", "")


def test_escape_sequences_are_no_part_of_a_line() -> None:
    assert screen("a\x1b(0b\x1b]8;;http://x\x1b\\c\x1b[Kd\x0f").lines == ("abcd",)
