"""The project's own rules, in `interlock.toml` at the root of its repository: checks that decide
gates, guards on what is pushed, and what the scrub looks for.

A file that is not understood whole is refused: a guard that is misspelt would guard nothing.
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
        """Whether a run that ended so is what the check expects. The pattern may be found
        anywhere in the output; ^ and $ are the ends of a line."""
        if exit_code != self.exit_code:
            return False
        return self.pattern is None or bool(re.search(self.pattern, output, re.MULTILINE))


class Guard(NamedTuple):
    """What is pushed to such a remote and branch must have passed the gate."""

    gate: str
    remote: str = "*"
    branch: str = "*"

    def covers(self, remote: str, url: str, ref: str) -> bool:
        """Whether a push to this ref of this remote is guarded.

        A remote is meant by its name or its URL, and a URL in whatever spelling leads to the
        same place. A branch is meant by its name, any ref by its whole one (`refs/tags/*`), and
        `*` is every ref there is."""
        places = (remote, url, normalised(url))
        patterns = [self.remote]
        if ":" in self.remote or self.remote.startswith(("/", ".", "~")):
            patterns.append(normalised(self.remote))
        return any(
            fnmatchcase(place.lower(), pattern.lower()) for place in places for pattern in patterns
        ) and any(fnmatchcase(name, self.branch) for name in (ref, ref.removeprefix(HEADS)))


class Project(NamedTuple):
    """What `interlock.toml` says, or nothing where there is none."""

    checks: tuple[Check, ...]
    guards: tuple[Guard, ...]
    scrub: dict[str, Any]


def load(root: str) -> Project:
    """The rules in the working tree whose root this is. No file is no rules; a file that cannot
    be read is refused."""
    try:
        with open(os.path.join(root, FILE), "rb") as file:
            return decode(file.read(LARGEST + 1))
    except FileNotFoundError:
        return Project((), (), {})
    except OSError as trouble:
        raise Usage(f"{FILE} cannot be read: {trouble.strerror}.", file=FILE) from None


def decode(data: bytes, where: str = FILE) -> Project:
    """The rules in a file's bytes; `where` says in refusals which file that was."""
    if len(data) > LARGEST:
        raise Usage(f"{where} has more than {LARGEST} bytes, and no project's rules do.", file=FILE)
    try:
        return parse(data.decode("utf-8-sig"), where)
    except UnicodeDecodeError as trouble:
        raise Usage(f"{where} is not UTF-8 at byte {trouble.start}.", file=FILE) from None


def parse(text: str, where: str = FILE) -> Project:
    """The rules in a file's text. Raises Usage that names the file, the key and what is allowed."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as trouble:
        raise Usage(f"{where} is not TOML: {str(trouble)[:200]}", file=FILE) from None
    reader = _Reader(where)
    reader.known(tables, _TABLES, "")
    checks = reader.table(tables.get("checks", {}), "checks")
    return Project(
        tuple(reader.check(name, given) for name, given in checks.items()),
        tuple(reader.guards(tables.get("guards", []))),
        reader.table(tables.get("scrub", {}), "scrub"),
    )


class _Reader:
    """Takes values apart, and says of each that is wrong where it stands."""

    def __init__(self, where: str) -> None:
        self._where = where

    def check(self, name: str, given: Any) -> Check:
        key = f"checks.{shown(name)}"
        self._name(name, key, "A check's name")
        table = self.table(given, key)
        shipped = name == SCRUB
        self.known(table, _OF_THE_SHIPPED_CHECK if shipped else _OF_A_CHECK, key)
        return Check(
            name,
            self._name(table.get("gate", name), f"{key}.gate", "A gate's name"),
            () if shipped else self._command(table.get("command"), f"{key}.command"),
            self._exit_code(table.get("exit_code", 0), f"{key}.exit_code"),
            self._pattern(table.get("pattern"), f"{key}.pattern"),
            self._time_limit(table.get("time_limit"), f"{key}.time_limit"),
        )

    def guards(self, given: Any) -> list[Guard]:
        if not isinstance(given, list):
            raise self._refusal("guards", "Write each guard under a line of its own: [[guards]]")
        return [self._guard(each, f"guards[{at}]") for at, each in enumerate(given, 1)]

    def _guard(self, given: Any, key: str) -> Guard:
        table = self.table(given, key)
        self.known(table, _OF_A_GUARD, key)
        if "gate" not in table:
            raise self._refusal(f"{key}.gate", "A guard names the gate that must have passed.")
        return Guard(
            self._name(table["gate"], f"{key}.gate", "A gate's name"),
            self._glob(table.get("remote", "*"), f"{key}.remote", 'such as "origin"'),
            self._glob(table.get("branch", "*"), f"{key}.branch", 'such as "main"'),
        )

    def table(self, given: Any, key: str) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self._refusal(key, f"It is a table. Write its keys under a line of [{key}]")
        return given

    def known(self, table: Mapping[str, Any], keys: Sequence[str], under: str) -> None:
        """Refuses the first key that does not belong there."""
        for key in table:
            if key not in keys:
                raise self._refusal(
                    f"{under}.{shown(key)}".lstrip("."),
                    f"There is no such key. Here may stand {listed(keys)}.",
                    near(key, keys),
                )

    def _name(self, given: Any, key: str, what: str) -> str:
        if not (isinstance(given, str) and re.fullmatch(NAME.strip("^$"), given)):
            raise self._refusal(key, f"{what} is {SHAPES[NAME]}.")
        return given

    def _command(self, given: Any, key: str) -> tuple[str, ...]:
        words = ["/bin/sh", "-c", given] if isinstance(given, str) else given
        well_formed = isinstance(words, list) and all(
            isinstance(word, str) and "\0" not in word for word in words
        )
        if not well_formed or not words or not (words[0] if given is words else given).strip():
            raise self._refusal(
                key,
                'A check runs a command: a line for the shell, "make test", or a list of words, '
                '["make", "test"].',
            )
        return tuple(words)

    def _exit_code(self, given: Any, key: str) -> int:
        if type(given) is not int or not 0 <= given <= 255:
            raise self._refusal(key, "An exit code is a whole number from 0 to 255.")
        return given

    def _pattern(self, given: Any, key: str) -> str | None:
        if given is None:
            return None
        try:
            if isinstance(given, str):
                re.compile(given)
                return given
            why = "It is not a string"
        except (re.error, RecursionError, OverflowError) as trouble:
            why = str(trouble)
        raise self._refusal(key, f"A pattern is a regular expression of Python's. {why}.")

    def _time_limit(self, given: Any, key: str) -> int | None:
        if given is None:
            return None
        try:
            return durations.seconds(given if isinstance(given, str) else "")
        except ValueError as trouble:
            raise self._refusal(key, f'{trouble} Write it in quotes: "10m"') from None

    def _glob(self, given: Any, key: str, such_as: str) -> str:
        if not (isinstance(given, str) and given.strip()):
            raise self._refusal(key, f'It is a string, {such_as}; "*" is any.')
        return given

    def _refusal(self, key: str, allowed: str, near: Sequence[str] = ()) -> Usage:
        return Usage(
            f"{self._where}, {key}: {allowed}",
            file=FILE,
            key=key,
            did_you_mean=list(near) or None,
        )
