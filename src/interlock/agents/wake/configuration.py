"""`wake.toml` in a workspace's directory: which ways of waking are switched on, on this machine.

It names commands that the server runs, so it is the owner's file: no door writes it, and one that
others may write is refused. So is one that is not understood whole.
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

# What a file was when it was read; another value says that it has changed.
Version = tuple[int, int, int] | None


def version(directory: str) -> Version:
    """None where there is no file, or none that can be looked at."""
    try:
        found = os.stat(os.path.join(directory, FILE))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read(directory: str) -> Config:
    """What the file says; where there is none, what holds without one."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            _ours(os.fstat(file.fileno()))
            _untracked(directory)
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
    """Raises Usage that names the key and what is allowed."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as trouble:
        raise Usage(f"{FILE} is not TOML: {str(trouble)[:200]}", file=FILE) from None
    for key in given:
        if key not in KEYS:
            raise _refusal(key, f"There is no such key. There are {listed(KEYS)}.", near(key, KEYS))
    commands = _table(given, "commands")
    plugins = _table(given, "plugins")
    return {
        "tmux": _switch(given, "tmux", on=False),
        "codex": _switch(given, "codex", on=True),
        "commands": {name: _command(name, words) for name, words in commands.items()},
        "plugins": {name: _table(plugins, name, "plugins.") for name in plugins},
    }


def _untracked(directory: str) -> None:
    """What came with a repository is whoever's wrote it, and not the owner's."""
    if git.said(directory, "ls-files", "--error-unmatch", "--", FILE) is not None:
        raise Usage(
            f"{FILE} names commands to run, and a repository brought it along: git tracks it. "
            "Take it out of the repository, and write your own.",
            file=FILE,
        )


def _ours(found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Usage(
            f"{FILE} names commands to run, and others may write it. "
            f"Make it yours alone: chmod go-w {FILE}",
            file=FILE,
        )


def _switch(given: dict[str, Any], key: str, *, on: bool) -> bool:
    value = given.get(key, on)
    if not isinstance(value, bool):
        raise _refusal(key, "It is true or false.")
    return value


def _table(given: dict[str, Any], key: str, under: str = "") -> dict[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise _refusal(under + key, f"It is a table. Write its keys under [{under}{shown(key)}]")
    return value


def _command(sender: str, words: Any) -> tuple[str, ...]:
    well_formed = isinstance(words, list) and all(
        isinstance(word, str) and "\0" not in word for word in words
    )
    if not well_formed or not words or not words[0].strip():
        raise _refusal(
            f"commands.{sender}",
            'A command is a list of words, such as ["notify-send", "Interlock"]. No shell reads '
            'it; where you want one, say so: ["sh", "-c", "…"].',
        )
    return tuple(words)


def _refusal(key: str, message: str, meant: list[str] | None = None) -> Usage:
    return Usage(
        f"{shown(key)} in {FILE}: {message}", file=FILE, key=shown(key), did_you_mean=meant or None
    )
