"""Read the project's rules from `interlock.toml` at the root of its repository: checks that decide
gates, guards on pushes, and the rules of the scrub.

Reading refuses a file with an unknown key, because a misspelt guard would have no effect.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from interlock.errors import Usage
from interlock.local.repository import normalised
from interlock.rooms.mail.message_types import NAME, SHAPES
from interlock.verbs import durations
from interlock.verbs.spelling import listed, near, shown

FILE = "interlock.toml"
SCRUB = "scrub"
LARGEST = 1 << 20
HEADS = "refs/heads/"

_TABLES = ("checks", "guards", "scrub")
_OF_A_CHECK = ("command", "exit_code", "pattern", "time_limit", "gate")
_OF_THE_SHIPPED_CHECK = ("time_limit", "gate")
_OF_A_GUARD = ("gate", "remote", "branch")


class Check(NamedTuple):
    """A command that decides a gate. The shipped check `scrub` has no command."""

    name: str
    gate: str
    command: tuple[str, ...] = ()
    exit_code: int = 0
    pattern: str | None = None
    time_limit: int | None = None

    def meets(self, exit_code: int | None, output: str) -> bool:
        """Return whether a run with this result meets the check. The pattern may match anywhere in
        the output. ^ and $ match at the ends of a line."""
        if exit_code != self.exit_code:
            return False
        return self.pattern is None or bool(re.search(self.pattern, output, re.MULTILINE))


class PushGuard(NamedTuple):
    """A rule for pushes to matching remotes and branches: the gate must have passed the commit."""

    gate: str
    remote: str = "*"
    branch: str = "*"

    def covers(self, remote: str, url: str, ref: str) -> bool:
        """Return whether the guard applies to a push to this ref of this remote.

        The guard's `remote` matches the name of a remote, or any form of its URL. Its `branch`
        matches the name of a branch or a whole ref (`refs/tags/*`). `*` matches every ref."""
        places = (remote, url, normalised(url))
        patterns = [self.remote]
        if ":" in self.remote or self.remote.startswith(("/", ".", "~")):
            patterns.append(normalised(self.remote))
        return any(
            fnmatchcase(place.lower(), pattern.lower()) for place in places for pattern in patterns
        ) and any(fnmatchcase(name, self.branch) for name in (ref, ref.removeprefix(HEADS)))


class Project(NamedTuple):
    """The rules in `interlock.toml`; empty if there is no such file."""

    checks: tuple[Check, ...]
    guards: tuple[PushGuard, ...]
    scrub: dict[str, Any]


def load(root: str) -> Project:
    """Return the rules in the working tree with this root; empty without a file. Raise Usage for an
    unreadable or invalid file."""
    try:
        with open(os.path.join(root, FILE), "rb") as file:
            return decode(file.read(LARGEST + 1))
    except FileNotFoundError:
        return Project((), (), {})
    except OSError as trouble:
        raise Usage(f"Cannot read {FILE}: {trouble.strerror}.", file=FILE) from None


def decode(data: bytes, where: str = FILE) -> Project:
    """Return the rules in a file's bytes. Raise Usage, which names the file as `where`."""
    if len(data) > LARGEST:
        raise Usage(f"{where} is larger than {LARGEST} bytes.", file=FILE)
    try:
        return parse(data.decode("utf-8-sig"), where)
    except UnicodeDecodeError as trouble:
        raise Usage(f"{where} is not valid UTF-8 at byte {trouble.start}.", file=FILE) from None


def parse(text: str, where: str = FILE) -> Project:
    """Return the rules in a file's text. Raise Usage, which names the file, the key and the allowed
    values."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as trouble:
        raise Usage(f"{where} is not valid TOML: {str(trouble)[:200]}", file=FILE) from None
    reader = _Reader(where)
    reader.refuse_unknown(tables, _TABLES, "")
    checks = tuple(
        reader.check(name, given)
        for name, given in reader.table(tables.get("checks", {}), "checks").items()
    )
    guards = tables.get("guards", [])
    if not isinstance(guards, list):
        raise reader.refusal("guards", "Write each guard under its own line [[guards]]")
    return Project(
        checks,
        tuple(reader.guard(given, f"guards[{at}]") for at, given in enumerate(guards, 1)),
        reader.table(tables.get("scrub", {}), "scrub"),
    )


class _Reader:
    """Checks values. Its refusals name the file and the key."""

    def __init__(self, where: str) -> None:
        self._where = where

    def check(self, name: str, given: Any) -> Check:
        key = f"checks.{shown(name)}"
        self._name(name, key, "A check's name")
        table = self.table(given, key)
        is_shipped = name == SCRUB
        self.refuse_unknown(table, _OF_THE_SHIPPED_CHECK if is_shipped else _OF_A_CHECK, key)
        gate = self._name(table.get("gate", name), f"{key}.gate", "A gate's name")

        line = table.get("command")
        words = ["/bin/sh", "-c", line] if isinstance(line, str) else line
        if not isinstance(words, list) or not all(
            isinstance(word, str) and "\0" not in word for word in words
        ):
            words = []
        program = line if isinstance(line, str) else "".join(words[:1])
        if not is_shipped and not (words and program.strip()):
            raise self.refusal(
                f"{key}.command",
                'A check needs a command: a line for the shell, such as "make test", or a list of '
                'words, such as ["make", "test"].',
            )

        exit_code = table.get("exit_code", 0)
        if type(exit_code) is not int or not 0 <= exit_code <= 255:
            raise self.refusal(f"{key}.exit_code", "It must be a whole number from 0 to 255.")

        pattern = table.get("pattern")
        why = "it is not a string" if not isinstance(pattern, str | None) else None
        try:
            re.compile(pattern if isinstance(pattern, str) else "")
        except (re.error, RecursionError, OverflowError) as trouble:
            why = str(trouble)
        if why is not None:
            allowed = f"It must be a valid Python regular expression: {why}."
            raise self.refusal(f"{key}.pattern", allowed)

        limit = table.get("time_limit")
        try:
            time_limit = durations.seconds(limit if isinstance(limit, str) else "")
        except ValueError as trouble:
            time_limit = None
            if limit is not None:
                allowed = f'{trouble} Write it in quotes: "10m"'
                raise self.refusal(f"{key}.time_limit", allowed) from None
        return Check(name, gate, tuple(words), exit_code, pattern, time_limit)

    def guard(self, given: Any, key: str) -> PushGuard:
        table = self.table(given, key)
        self.refuse_unknown(table, _OF_A_GUARD, key)
        if "gate" not in table:
            raise self.refusal(f"{key}.gate", "A guard needs the name of its gate.")
        gate = self._name(table["gate"], f"{key}.gate", "A gate's name")
        globs = []
        for name, example in (("remote", "origin"), ("branch", "main")):
            glob = table.get(name, "*")
            if not (isinstance(glob, str) and glob.strip()):
                allowed = f'It must be a string, such as "{example}", or "*" for all.'
                raise self.refusal(f"{key}.{name}", allowed)
            globs.append(glob)
        return PushGuard(gate, *globs)

    def table(self, given: Any, key: str) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self.refusal(key, f"It must be a table. Write its keys under the line [{key}]")
        return given

    def refuse_unknown(self, table: Mapping[str, Any], keys: Sequence[str], under: str) -> None:
        for key in table:
            if key not in keys:
                raise self.refusal(
                    f"{under}.{shown(key)}".lstrip("."),
                    f"Unknown key. The keys are {listed(keys)}.",
                    near(key, keys),
                )

    def _name(self, given: Any, key: str, what: str) -> str:
        if not (isinstance(given, str) and re.fullmatch(NAME.strip("^$"), given)):
            raise self.refusal(key, f"{what} must be {SHAPES[NAME]}.")
        return given

    def refusal(self, key: str, allowed: str, near: Sequence[str] = ()) -> Usage:
        return Usage(
            f"{self._where}, {key}: {allowed}",
            file=FILE,
            key=key,
            did_you_mean=list(near) or None,
        )
