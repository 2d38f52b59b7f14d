"""`wake.toml` in a workspace's directory turns wake adapters on or off, on this machine.

The server runs the commands in the file, so only the owner may write it. No door writes it. Reading
refuses a file that other users can write, and a file with an unknown key or value.
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

# Identifies the content of the file: if the file changes, its version changes.
Version = tuple[int, int, int] | None


def version(directory: str) -> Version:
    """Return the version of the file; None if it does not exist or is not accessible."""
    try:
        found = os.stat(os.path.join(directory, FILE))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def read(directory: str) -> Config:
    """Read the file. Return the defaults if there is none. Raise Usage for an unsafe or invalid
    file."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            found = os.fstat(file.fileno())
            by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if found.st_uid not in (os.geteuid(), 0) or by_others:
                raise Usage(
                    f"Other users can write {FILE}, and the server runs the commands in it. Own "
                    f"the file, and remove their write access: chmod go-w {FILE}",
                    file=FILE,
                )
            if git.git_output(directory, "ls-files", "--error-unmatch", "--", FILE) is not None:
                raise Usage(
                    f"Git tracks {FILE}, so a commit could change the commands that the server "
                    f"runs. Remove it from the repository: git rm --cached {FILE}",
                    file=FILE,
                )
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        return parse("")
    except OSError as trouble:
        raise Usage(f"Cannot read {FILE}: {trouble.strerror}.", file=FILE) from None
    if len(data) > LARGEST:
        raise Usage(f"{FILE} is larger than {LARGEST} bytes.", file=FILE)
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as trouble:
        raise Usage(f"{FILE} is not valid UTF-8 at byte {trouble.start}.", file=FILE) from None


def parse(text: str) -> Config:
    """Parse the text of the file. Raise Usage with the key and its allowed values."""
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as trouble:
        raise Usage(f"{FILE} is not valid TOML: {str(trouble)[:200]}", file=FILE) from None
    for key in given:
        if key not in KEYS:
            raise _refusal(key, f"Unknown key. The keys are {listed(KEYS)}.", near(key, KEYS))
    switches = {"tmux": given.get("tmux", False), "codex": given.get("codex", True)}
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise _refusal(key, "The value must be true or false.")
    commands, plugins = _table(given, "commands"), _table(given, "plugins")
    for sender, words in commands.items():
        is_list = isinstance(words, list) and all(
            isinstance(word, str) and "\0" not in word for word in words
        )
        if not is_list or not words or not words[0].strip():
            raise _refusal(
                f"commands.{sender}",
                'A command must be a list of words, such as ["notify-send", "Interlock"]. '
                'Interlock runs it without a shell. To use a shell, write ["sh", "-c", "…"].',
            )
    return switches | {
        "commands": {sender: tuple(words) for sender, words in commands.items()},
        "plugins": {name: _table(plugins, name, "plugins.") for name in plugins},
    }


def _table(given: dict[str, Any], key: str, under: str = "") -> dict[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise _refusal(
            under + key, f"The value must be a table. Write its keys under [{under}{shown(key)}]"
        )
    return value


def _refusal(key: str, message: str, meant: list[str] | None = None) -> Usage:
    return Usage(
        f"{shown(key)} in {FILE}: {message}", file=FILE, key=shown(key), did_you_mean=meant or None
    )
