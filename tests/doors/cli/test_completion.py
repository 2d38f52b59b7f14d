"""Completion: the candidates of each script, in the real shells that are installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.doors.cli.completion import BASH as BASH_SCRIPT
from interlock.doors.cli.completion import FISH as FISH_SCRIPT
from interlock.doors.cli.completion import ZSH as ZSH_SCRIPT
from interlock.doors.cli.completion import complete
from world.paths import TESTS
from world.sample_table import CLIENTS, COMMANDS

BASH = shutil.which("bash")
ZSH = shutil.which("zsh")
FISH = shutil.which("fish")

SCRIPTS = {"bash": BASH_SCRIPT, "zsh": ZSH_SCRIPT, "fish": FISH_SCRIPT}


def environment(tmp_path: Path, commands: str = "COMMANDS") -> dict[str, str]:
    """Return an environment in which the command `interlock` completes a sample table."""
    program = tmp_path / "bin" / "interlock"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        f"from world.sample_table import {commands}\n"
        "from interlock.doors.cli.completion import complete\n"
        f"assert sys.argv[1] == '__complete'; print(complete(sys.argv[2:], {commands}))\n"
    )
    program.chmod(0o755)
    return os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def ask_bash(tmp_path: Path, line: str, pieces: list[str], commands: str = "COMMANDS") -> list[str]:
    """Return the candidates of bash at the end of the line. `pieces` are its words as bash splits
    them."""
    assert BASH
    file = tmp_path / "interlock.bash"
    file.write_text(BASH_SCRIPT)
    asking = (
        'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; shift 2\n'
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
        '_interlock interlock; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [BASH, "--norc", "-uc", asking, "bash", file, line, *pieces],
        env=environment(tmp_path, commands),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []


def offered(tmp_path: Path, line: str) -> list[str]:
    return ask_bash(tmp_path, line, line.split(" "))


# A developer's machine may lack a shell. In CI, a missing shell is a failure.
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
def test_bash_offers_commands_at_the_start_of_a_foreign_command(tmp_path: Path, line: str) -> None:
    assert "bash" in offered(tmp_path, line)


@needs_bash
def test_bash_completes_no_words_of_a_foreign_command(tmp_path: Path) -> None:
    assert offered(tmp_path, "interlock run otto claude claim acq") == []


@needs_bash
def test_bash_completes_no_words_of_a_foreign_command_after_dashes(tmp_path: Path) -> None:
    assert offered(tmp_path, "interlock run otto -- claude --js") == []


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
def test_bash_joins_words_that_it_has_split(
    tmp_path: Path, line: str, pieces: list[str], words: list[str]
) -> None:
    assert ask_bash(tmp_path, line, pieces) == words


@needs_bash
def test_bash_completes_without_the_whole_line(tmp_path: Path) -> None:
    assert ask_bash(tmp_path, "", ["interlock", "claim", "acq"]) == ["acquire"]


@needs_bash
def test_bash_quotes_the_inserted_word(tmp_path: Path) -> None:
    words = ask_bash(tmp_path, "interlock pick ", ["interlock", "pick", ""], "ODD")
    assert words == ["it\\'s", "two\\ words", "\\$HOME", "a:b", "back\\\\slash"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_are_valid_in_their_shell(tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        assert not IN_CI, f"{shell} is not installed, and CI needs it"
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(SCRIPTS[shell])
    done = subprocess.run([program, "-n", file], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_word_and_flag_is_a_candidate_with_its_meaning() -> None:
    for command in COMMANDS:
        for depth, word in enumerate(command.words):
            assert f"{word}\t" in complete([*command.words[:depth], ""], COMMANDS)
        rows = complete([*command.words, "-"], COMMANDS).splitlines()
        for flag in command.flags:
            assert f"{flag.name}\t{' '.join(flag.help.split())}".rstrip() in rows


def test_unknown_words_have_no_candidates() -> None:
    assert complete([], ()).splitlines()[0].startswith("help\t")
    assert complete(["nonsense", ""], ()) == ""


@pytest.mark.skipif(ZSH is None and not IN_CI, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("claim re", ["acquire:Acquire a claim, or extend your own", "renew:Extend a claim"]),
        ("join --kind ", ["agent", "human"]),
        ("join --kind=h", ["--kind=agent", "--kind=human"]),
        ("guard install ", ["--undo:remove the hooks"]),
        ("inbox --limit 3", ["files"]),
        ("run otto -- claude --js", ["normal 2 claude --js"]),
        ("run otto cla", ["normal 1 cla"]),
    ],
)
def test_zsh_offers_words_flags_and_choices(tmp_path: Path, line: str, rows: list[str]) -> None:
    assert ask_zsh(tmp_path, line)[: len(rows)] == rows


@pytest.mark.skipif(ZSH is None and not IN_CI, reason="zsh is not installed")
def test_zsh_gets_colons_and_backslashes_escaped(tmp_path: Path) -> None:
    assert ask_zsh(tmp_path, "pick ", "ODD") == [
        "it's",
        "two words",
        "$HOME",
        "a\\:b",
        "back\\\\slash",
    ]


def ask_zsh(tmp_path: Path, line: str, commands: str = "COMMANDS") -> list[str]:
    """Return the arguments that the script passes to zsh's completion functions. Fake functions
    print them."""
    assert ZSH
    file = tmp_path / "_interlock"
    file.write_text(ZSH_SCRIPT)
    asking = (
        "compdef() { : }; compset() { : }; _files() { print files }\n"
        "_normal() { print normal $CURRENT $words }; _describe() { print -rl -- ${(P)2} }\n"
        'source "$1"; shift; words=(interlock "$@"); CURRENT=$#words; _interlock'
    )
    done = subprocess.run(
        [ZSH, "--no-rcs", "-c", asking, "zsh", file, *line.split(" ")],
        env=environment(tmp_path, commands),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


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
    file.write_text(FISH_SCRIPT)
    asking = f"source {file}; complete -C '{line}'"
    done = subprocess.run(
        [FISH, "--no-config", "-c", asking],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.stderr == ""
    assert sorted(row.split("\t")[0] for row in done.stdout.splitlines()) == sorted(words)
