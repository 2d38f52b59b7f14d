"""`wake.toml` in a workspace's directory: the wake adapters that are switched on on this machine.

The server runs the commands in it, so only the owner writes it: no door does, and a file that
others can write is refused. So is a file with an unknown key or value.
"""

import os
import stat
import tomllib
from typing import Any

from interlock.errors import Usage
from interlock.machine import git
from interlock.plugins import Config
from interlock.verbs.spelling import listed, near, shown

FILE = "wake.toml"
LARGEST = 1 << 20
KEYS = ("tmux", "codex", "commands", "plugins")

# Identifies the content of the file; another value means that the file has changed.
Version = tuple[int, int, int] | None


def version(directory: str) -> Version:
    """None if there is no file, or none that is accessible."""
    try:
        found = os.stat(os.path.join(directory, FILE))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read(directory: str) -> Config:
    """Read the file; without a file, the defaults. Raises Usage."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            found = os.fstat(file.fileno())
            by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if found.st_uid not in (os.geteuid(), 0) or by_others:
                raise Usage(
                    f"{FILE} names commands to run, and others may write it. "
                    f"Make it yours alone: chmod go-w {FILE}",
                    file=FILE,
                )
            if git.git_output(directory, "ls-files", "--error-unmatch", "--", FILE) is not None:
                raise Usage(
                    f"{FILE} names commands to run, and a repository brought it along: git tracks "
                    "it. Take it out of the repository, and write your own.",
                    file=FILE,
                )
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return parse("")
    except OSError as trouble:
        raise Usage(f"{FILE} cannot be read: {trouble.strerror}.", file=FILE) from None
    if len(data) > LARGEST:
        raise Usage(f"{FILE} has more than {LARGEST} bytes.", file=FILE)
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as trouble:
        raise Usage(f"{FILE} is not UTF-8 at byte {trouble.start}.", file=FILE) from None


def parse(text: str) -> Config:
    """Parse the text of the file. Raises Usage with the key and its allowed values."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as trouble:
        raise Usage(f"{FILE} is not TOML: {str(trouble)[:200]}", file=FILE) from None
    for key in given:
        if key not in KEYS:
            raise _refusal(key, f"There is no such key. There are {listed(KEYS)}.", near(key, KEYS))
    switches = {"tmux": given.get("tmux", False), "codex": given.get("codex", True)}
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise _refusal(key, "It is true or false.")
    commands, plugins = _table(given, "commands"), _table(given, "plugins")
    for sender, words in commands.items():
        is_list = isinstance(words, list) and all(
            isinstance(word, str) and "\0" not in word for word in words
        )
        if not is_list or not words or not words[0].strip():
            raise _refusal(
                f"commands.{sender}",
                'A command is a list of words, such as ["notify-send", "Interlock"]. No shell '
                'reads it; where you want one, say so: ["sh", "-c", "…"].',
            )
    return switches | {
        "commands": {sender: tuple(words) for sender, words in commands.items()},
        "plugins": {name: _table(plugins, name, "plugins.") for name in plugins},
    }


def _table(given: dict[str, Any], key: str, under: str = "") -> dict[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise _refusal(under + key, f"It is a table. Write its keys under [{under}{shown(key)}]")
    return value


def _refusal(key: str, message: str, meant: list[str] | None = None) -> Usage:
    return Usage(
        f"{shown(key)} in {FILE}: {message}", file=FILE, key=shown(key), did_you_mean=meant or None
    )
