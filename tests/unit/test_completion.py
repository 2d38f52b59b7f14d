"""Completion: what the scripts offer, asked of the shells themselves where they are installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sample_table import CLIENTS, COMMANDS, COMMON

from interlock.doors.cli.completion import script
from interlock.doors.cli.grammar import Argument, Command, Flag
from interlock.errors import Usage

BASH = shutil.which("bash")
ZSH = shutil.which("zsh")
FISH = shutil.which("fish")

ODD = (
    Command(
        ("pick",),
        'Pick a colon: it\'s "odd" and costs $HOME\nor `more`',
        (Argument("WORD", choices=("it's", "two words", "$HOME", "a:b", "back\\slash")),),
        (Flag("--odd", "O", "it's $HOME", choices=("x y", "*")),),
    ),
)


def ask_bash(
    tmp_path: Path, line: str, pieces: list[str], commands: tuple[Command, ...] = COMMANDS
) -> list[str]:
    """What bash would offer at the end of the line, whose pieces are as bash divides it."""
    assert BASH
    file = tmp_path / "interlock.bash"
    file.write_text(script("bash", commands, COMMON))
    asking = (
        'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; shift 2\n'
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
        '_interlock interlock; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [BASH, "--norc", "-uc", asking, "bash", file, line, *pieces],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []


def offered(tmp_path: Path, line: str) -> list[str]:
    return ask_bash(tmp_path, line, line.split(" "))


# A laptop may lack a shell; in CI a missing one fails.
IN_CI = "CI" in os.environ
needs_bash = pytest.mark.skipif(BASH is None and not IN_CI, reason="bash is not installed")


@needs_bash
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("interlock cl", ["claim"]),
        ("interlock claim acq", ["acquire"]),
        ("interlock claim re", ["renew", "release"]),
        ("interlock --json claim take", ["take-over"]),
        ("interlock --workspace claim cl", ["claim"]),
        ("interlock claim --json acq", ["acquire"]),
        ("interlock claim acquire --w", ["--worktree", "--wait", "--workspace"]),
        ("interlock claim acquire --item X --br", ["--branch"]),
        ("interlock guard install ", ["--undo", "--json", "--workspace", "--from", "--session"]),
        ("interlock join --kind ", ["agent", "human"]),
        ("interlock join otto --kind hu", ["human"]),
        ("interlock send @vera hi --priority ", ["low", "normal", "high", "critical"]),
        ("interlock completion ", ["bash", "zsh", "fish"]),
        ("interlock setup ", list(CLIENTS)),
        ("interlock help claim acq", ["acquire"]),
        ("interlock --ver", ["--version"]),
        ("interlock vers", ["version"]),
        ("interlock nonsense", []),
        ("interlock claim acquire --worktree --b", []),
    ],
)
def test_bash_offers_words_flags_and_choices(tmp_path: Path, line: str, words: list[str]) -> None:
    assert offered(tmp_path, line)[: len(words) or None] == words


@needs_bash
@pytest.mark.parametrize("line", ["interlock run otto -- bas", "interlock evidence run bas"])
def test_bash_offers_commands_where_a_foreign_one_begins(tmp_path: Path, line: str) -> None:
    assert "bash" in offered(tmp_path, line)


@needs_bash
def test_bash_leaves_a_foreign_command_alone(tmp_path: Path) -> None:
    assert offered(tmp_path, "interlock run otto -- claude --js") == []
    assert offered(tmp_path, "interlock run otto claude claim acq") == []


@needs_bash
@pytest.mark.parametrize(
    ("line", "pieces", "words"),
    [
        ("interlock join --kind=", ["interlock", "join", "--kind", "="], ["agent", "human"]),
        ("interlock join --kind=h", ["interlock", "join", "--kind", "=", "h"], ["human"]),
        ("interlock join --kind=h", ["interlock", "join", "--kind=h"], ["--kind=human"]),
        (
            "interlock --workspace=http://h:1 cl",
            ["interlock", "--workspace", "=", "http", ":", "//h", ":", "1", "cl"],
            ["claim"],
        ),
        ("interlock run @otto --js", ["interlock", "run", "@", "otto", "--js"], ["--json"]),
    ],
)
def test_bash_sees_through_its_own_word_breaks(
    tmp_path: Path, line: str, pieces: list[str], words: list[str]
) -> None:
    assert ask_bash(tmp_path, line, pieces) == words


@needs_bash
def test_bash_completes_from_the_words_alone(tmp_path: Path) -> None:
    assert ask_bash(tmp_path, "", ["interlock", "claim", "acq"]) == ["acquire"]


@needs_bash
def test_bash_quotes_what_it_inserts(tmp_path: Path) -> None:
    words = ask_bash(tmp_path, "interlock pick ", ["interlock", "pick", ""], ODD)
    assert words == ["it\\'s", "two\\ words", "\\$HOME", "a:b", "back\\\\slash"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("commands", [COMMANDS, ODD, ()], ids=["table", "odd", "empty"])
def test_scripts_are_valid_in_their_shell(
    tmp_path: Path, shell: str, commands: tuple[Command, ...]
) -> None:
    text = script(shell, commands, COMMON)
    assert not re.search("@[a-z_]+@", text), "a part was not filled in"
    program = shutil.which(shell)
    if program is None:
        assert not IN_CI, f"{shell} is missing, and CI must not pass without it"
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(text)
    done = subprocess.run([program, "-n", file], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_word_and_flag_stands_in_the_script(shell: str) -> None:
    text = script(shell, COMMANDS, COMMON)
    for command in COMMANDS:
        assert all(word in text for word in command.words)
        assert all(flag.name in text for flag in command.flags)


def test_texts_are_quoted_as_each_shell_has_it() -> None:
    assert "it\\'s $HOME" in script("fish", ODD, ())
    assert "it'\\''s $HOME" in script("zsh", ODD, ())


@pytest.mark.skipif(FISH is None and not IN_CI, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("interlock cl", ["claim"]),
        ("interlock --json claim acq", ["acquire"]),
        ("interlock claim acquire --br", ["--branch"]),
        ("interlock join --kind ", ["agent", "human"]),
        ("interlock join --kind=h", ["--kind=human"]),
        ("interlock completion ", ["bash", "fish", "zsh"]),
        ("interlock guard install --u", ["--undo"]),
        ("interlock run otto -- fish_ind", ["fish_indent"]),
    ],
)
def test_fish_offers_words_flags_and_choices(tmp_path: Path, line: str, words: list[str]) -> None:
    assert FISH
    file = tmp_path / "interlock.fish"
    file.write_text(script("fish", COMMANDS, COMMON))
    asking = f"source {file}; complete -C '{line}'"
    done = subprocess.run(
        [FISH, "--no-config", "-c", asking], capture_output=True, text=True, timeout=20
    )
    assert done.stderr == ""
    assert sorted(row.split("\t")[0] for row in done.stdout.splitlines()) == sorted(words)


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Usage) as refused:
        script("tcsh", COMMANDS, COMMON)
    assert refused.value.members["choices"] == ["bash", "zsh", "fish"]
