"""Bad input on every command: a coded error, exit 2 or 3, no traceback, nothing stored.

The valid arguments of a command come from a row of its verb in `world/rows`. `KINDS` names the kind
of an argument or a flag by hand, because a declaration that accepts too much must not check itself.
The kind of any other argument or flag comes from the field that it fills. `BAD` lists for each kind
the values that must be refused, and `FINE` values that look bad and are valid. Further tests are
about broken workspaces, broken standard streams and invalid files.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from interlock.doors.cli.derived import field_of
from interlock.doors.cli.grammar import COMMON, parse
from interlock.doors.cli.lookup import all_commands
from interlock.errors import Usage
from interlock.verbs.types import (
    FILE,
    GLOB,
    ITEM,
    MESSAGE_REF,
    TASK_ID,
    Choice,
    Integer,
    Seconds,
    Several,
    Shape,
    Text,
)
from world.commandline import EXIT_OF, LIMIT_S, Done, Place, steering
from world.doors import COMMANDS as COMMANDS_OF
from world.doors import ON_THE_FILE, Workspace, words_of
from world.fork_server import Servers, ServersByWorkspace
from world.furnished import Furnished, filled
from world.row import NOBODY, OWNER, PROOF
from world.rows import working
from world.working import BRIEF

pytestmark = pytest.mark.every_engine

COMMANDS = all_commands()
BY_NAME = {command.name: command for command in COMMANDS}

NOISE = random.Random(7).randbytes(10_000_000)
LONG = "x" * 200_000
CHUNKS = "SELECT count(*) FROM blob_chunks"

# --- bad values, by kind

ANYWHERE = [
    "\udcff\udcfe\udc80",  # bytes that are not UTF-8, as Python decodes them
    "valid\udce9",
    "nul\0inside",
    "\ud800",
]
TRICKS = [
    "../../etc/passwd",
    "..",
    "/etc/passwd",
    "%2e%2e%2f",
    "a/../../b",
    "' OR 1=1 --",
    '"; DROP TABLE log; --',
    "$(touch pwned)",
    "`touch pwned`",
    "*",
    "%",
    "______",
]
CONTROL = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "bell\x07",
    "back\x08space",
    "car\rriage",
    "new\nline",
    "\x9b31m",
    "\x7f",
]
NUMBERS = ["-1", "1.5", "1e3", "0x10", "+1", " 1", "1 ", "٣", "²", "NaN", "99999999999999999999"]
HUGE = "9" * 5000
EMPTY = ["", " ", "\t", "\u00a0"]

LINE = [*EMPTY, *CONTROL, "a\u2028b", LONG]
NO_TASK_ID = [*EMPTY, *TRICKS, *CONTROL, "ünï", "a b", "_a", "x" * 65, LONG]
BAD: dict[str, list[str]] = {
    "id": ["", "x", "#", "#-1", "#0", "#1.5", f"#{HUGE}", "#99", *TRICKS, *CONTROL, "zzzzzz", LONG],
    "name": [*EMPTY, *TRICKS, *CONTROL, "Otto", "1otto", "ot to", "ötto", "ot_to", "a" * 65, LONG],
    "surface": [" ", *TRICKS, *CONTROL, "CLI", "a" * 65, LONG],
    "to": [
        *(*EMPTY, *TRICKS, *CONTROL, "@", "vera", "AGENT:vera", "@a b", "@../x", "@\u202evera"),
        *("@" + "a" * 129, f"@{LONG}", "agent:*", "AGENT:**", "@vera\n"),
    ],
    "line": LINE,
    "short line": [*LINE, "x" * 81],
    "remark": ["", LONG],
    "task id": NO_TASK_ID,
    "task": [*NO_TASK_ID, "T-99", "t-1"],
    "label": [*EMPTY, *CONTROL, "..", "*", "' OR 1=1 --", "UI", "a b", "x" * 65, LONG],
    "commit": [*EMPTY, *TRICKS, *CONTROL, "nowhere", "HEAD~9", "0" * 40, LONG],
    "page": [*EMPTY, *TRICKS, *CONTROL, "example.com", "ftp://example.com", "http://", LONG],
    "bytes": ["", "0", "1", *NUMBERS, HUGE, LONG],
    "anything": [""],
    "word": [LONG],
    "any word": [],
    "text": [""],
    "json": [
        *("", "{", "[]", "null", "1", '"x"', '{"text": 1}', '{"text": null}', "{}", "NaN"),
        *('{"text": "a", "more": 1}', '{"text": ""}', '{"text": NaN}', '{"text": "\\ud800"}'),
        *("[" * 100_000, '{"text": ' * 50_000, '{"Text": "a"}', '{"text": ["a"]}', LONG, "\x1b"),
    ],
    "type": ["", "gossip", "SEND", "evidence", *TRICKS, *CONTROL, LONG],
    "choice": ["", "x", "HIGH", " low", *CONTROL, LONG],
    "count": ["", "0", *NUMBERS, HUGE, LONG],
    "position": ["", *NUMBERS, HUGE, LONG],
    "duration": [
        *("", "0", "0s", "-1s", "1.5h", "1w", "s", "1 h", "1s1s", "366d", *NUMBERS),
        *(HUGE, f"{HUGE}d", LONG),
    ],
    "range": ["", "-", "a-b", "5-1", "-1-5", "1-", "1-2-3", "٣-٤", f"0-{HUGE}", "0", LONG],
    "item": [*EMPTY, "..", "/x", "a b", "-5", "ünï", "*", "%", "' OR 1", *CONTROL, "a" * 201, LONG],
    "glob": [
        *("", "/etc", "../x", "a/../b", "a\\b", "~root", "[", "[z-a]", ".", *CONTROL),
        *("x" * 1025, LONG),
    ],
    "repo": LINE,
    "session": [*EMPTY, *TRICKS, *CONTROL, "é", "x" * 129, LONG],
    "sender": ["", "nobody", "@", "vera/../otto-cli", *TRICKS, *CONTROL, LONG],
    "scope": ["", "root", "ADMIN", "gate:", "gate:../x", "gate:A", *TRICKS, *CONTROL, LONG],
    "token id": ["", "tok_", "tok_000000000000", *TRICKS, *CONTROL, LONG],
    "some name": [*EMPTY, *TRICKS, *CONTROL, "@", "nobody", LONG],
    "path": ["", "/etc", "../x", "a/../../b", "x" * 5000],
    "member": ["", "nobody", "@", *TRICKS, *CONTROL, LONG],
    "setting": ["", "nope", "recipients ", *TRICKS, *CONTROL, LONG],
    "strictness": ["", "STRICT", "x", *CONTROL, LONG],
    "query": [*EMPTY, LONG],
    "rules": ["", ".", "/", "no/such/file", "noise", "text", *CONTROL, "x" * 5000],
    "some file": ["", ".", "/", "/dev/null", "no/such/file", *CONTROL, "x" * 5000],
    "old file": ["", ".", "/", "/dev/null", "no/such/file", "noise", "text", *CONTROL, "x" * 5000],
    "new file": ["", ".", "/", "/dev/null", "text", "no/such/file", "text/below", "x" * 5000],
    "key": [*EMPTY, *CONTROL, LONG],
    "mapping": [*EMPTY, *TRICKS, *CONTROL, "=", "vera", "vera=", "=vera", "Nobody=vera", LONG],
    "port": ["", *NUMBERS, "65536", HUGE, LONG],
    # Only the server can check other values.
    "host": [""],
    "proxy": ["", "proxy.example", "192.0.2.256", "192.0.2.0/33", "0.0.0.0/0", *CONTROL, LONG],
    "url": ["", "interlock.example", "ftp://x", "https://", "https://x/y", *CONTROL, LONG],
    "engine": ["", "mysql://127.0.0.1/x", "SQLITE", *CONTROL, LONG],
    "verifier": ["", "x", "a+b+c", "interlock/x+00000000+AAAA", *TRICKS, *CONTROL, LONG],
    "shell": ["", "tcsh", "BASH", *TRICKS, *CONTROL, LONG],
    "workspace": ["", "text", "text/below", "/dev/null/x", "/proc/nothing/here", "x" * 5000],
}

# Values that look bad and are valid: commands must accept them.
FINE: dict[str, list[str]] = {
    "line": ["日本語 \u202eabc", "-5", "- a list", "../..", "' OR 1=1 --", "x" * 100],
    "text": [*TRICKS, *CONTROL, " ", "-5", "日本語", LONG],
    "item": ["a/../b", "B-1#2", "a" * 200],
    "glob": ["a b", "src/**", "*", "日本語"],
    "query": ['"', "***", "a AND", "NEAR(", "^", "-", "\x1b[31m", "' OR 1=1 --", "a " * 500],
    "anything": [*TRICKS, *CONTROL, "x" * 1000],
}


# The arguments and flags of each kind. A name after a command's words applies to that command, or
# to all commands with that first word. It takes precedence over the name alone.
OF_KIND = {
    "any word": ("guard REMOTE", "guard URL", "hook CLIENT", "hook EVENT"),
    "anything": ("--option",),
    "bytes": ("--memory-limit", "--output-limit"),
    "choice": ("CLIENT", "--format", "--kind", "--priority", "--severity", "--state"),
    "commit": ("--commit", "--tree"),
    "count": ("SEQ", "--criterion", "--fence", "--limit", "audit prove --since"),
    "duration": ("--since", "--time-limit", "--ttl", "--wait"),
    "engine": ("--engine", "migrate --to"),
    "glob": ("--path",),
    "host": ("--host",),
    "id": ("ID", "MESSAGE", "--evidence", "--reply-to", "--thread"),
    "item": ("ITEM", "--item"),
    "key": ("--key",),
    "label": ("task create --label",),
    "line": (
        "LABEL",
        "--branch",
        "--label",
        "--note",
        "--reason",
        "--subject",
        "--title",
        "--worktree",
    ),
    "mapping": ("--map",),
    "member": ("--holder", "--member"),
    "name": ("GATE", "NAME", "--gate", "--own"),
    "new file": ("audit export FILE", "backup FILE", "--output", "--plugin"),
    "old file": ("EXPORT", "FILE", "FILE|-", "--checkpoint", "--spool", "up --key"),
    "page": ("--url",),
    "path": ("PATH",),
    "port": ("--port",),
    "position": ("--after",),
    "proxy": ("--proxy",),
    "query": ("QUERY",),
    "range": ("--range",),
    "remark": ("--fix", "gate --note", "task create --criterion"),
    "repo": ("--repo",),
    "rules": ("--rules",),
    "scope": ("--scope",),
    "sender": ("SENDER", "--sender"),
    "setting": ("settings NAME",),
    "shell": ("SHELL",),
    "short line": ("connection NAME",),
    "some file": ("--file", "evidence run --spool"),
    "some name": ("mute NAME",),
    "strictness": ("VALUE",),
    "surface": ("--surface",),
    "task": ("TASK", "task ID", "--depends-on", "--task"),
    "task id": ("--id",),
    "text": ("TEXT|-", "--brief", "evidence add --note"),
    "to": ("TO", "--assignee", "--to"),
    "token id": ("connection ID", "token ID"),
    "type": ("TYPE", "--type"),
    "url": ("--public-url",),
    "verifier": ("--verifier",),
    "word": ("agents NAME", "audit show --kind"),
}
KINDS = {name: kind for kind, names in OF_KIND.items() for name in names}
# The kinds of fields whose arguments and flags are not in KINDS.
OF_SHAPE: dict[Shape, str] = {
    ITEM: "item",
    TASK_ID: "task id",
    MESSAGE_REF: "id",
    GLOB: "glob",
    FILE: "path",
}
# These have tests of their own, or accept any value.
NO_KIND = {"QUESTION|-", "TOKEN|-", "--payload", "--why"}

# Valid arguments of commands that call no verb, and of commands whose row excludes other flags.
WORDS = {
    "invite": "hugo",
    "task submit": "T-3 --from nova",
    "up": "",
    "migrate": "--to redis://127.0.0.1:1/0",
    "repair": "--restore",
    "down": "",
    "mcp": "",
    "init": "",
    "setup": "claude-code --from vera",
    "run": "vera -- true",
    "hook": "claude-code Stop",
    "watch": "--from vera",
    "task import": "../brief.md --from vera",
    "evidence run": "--task T-3 --from nova -- true",
    "gate run": "T-4 --from dora",
    "report": "T-4",
    "scrub": "",
    "guard install": "",
    "guard push": "origin https://example.com/r",
    "audit check-proof": "../made.proof",
    "schema": "send",
    "completion": "bash",
}
# Commands that ignore `--from` and `--session`.
WITHOUT_SENDER = {
    *("up", "migrate", "repair", "doctor", "down", "mcp", "init", "run", "hook", "evidence run"),
    *("scrub", "guard install", "guard push", "schema", "completion", "token identify"),
    *("audit verify", "audit show", "audit checkpoint", "audit prove", "audit export"),
    "audit check-proof",
}


def slots(command: str) -> dict[str, str]:
    """Return the kind of each argument and flag of a command that takes a value."""
    given = BY_NAME[command]
    names = [argument.name for argument in given.arguments]
    names += [flag.name for flag in given.flags if flag.placeholder]
    prefixes = (f"{command} ", f"{given.words[0]} ", "")
    kinds = {}
    for name in names:
        if found := [KINDS[prefix + name] for prefix in prefixes if prefix + name in KINDS]:
            kinds[name] = found[0]
        elif given.verb is not None and (field := field_of(given.verb, name)) is not None:
            kinds[name] = kind_of(field.shape)
        else:
            assert name in NO_KIND, f"{command}: add the kind of {name} to KINDS."
    return kinds


def kind_of(shape: Shape) -> str:
    """Return the kind of the values of a field."""
    match shape:
        case Several(each=each):
            return kind_of(each)
        case Choice():
            return "choice"
        case Seconds():
            return "duration"
        case Integer(minimum=minimum):
            return "count" if minimum else "position"
        case Text(line=True):
            return "line"
        case _:
            return OF_SHAPE.get(shape, "any word")


class Sample(NamedTuple):
    """Valid words of a command: arguments, flags with their values, the sender, and the words after
    `--`."""

    arguments: list[str]
    flags: list[tuple[str, str | None]]
    sender: list[str]
    rest: list[str]

    def words(self) -> list[str]:
        flags = [word for flag in self.flags for word in flag if word is not None]
        return [*self.arguments, *flags, *self.sender, *self.rest]


def typed(text: str) -> Sample:
    """Return the sample of these words."""
    head, dashes, tail = text.partition("-- ")
    words = head.split()
    sender = words[words.index("--from") :] if "--from" in words else []
    words = words[: len(words) - len(sender)]
    at = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
    flags = list(zip(words[at::2], [*words[at + 1 :: 2], None], strict=False))
    return Sample(words[:at], flags, sender, ["--", *tail.split()] if dashes else [])


# `schema` accepts every type, `send` only some.
EXCEPT = {("schema", "evidence")}


@pytest.mark.parametrize("command", sorted(BY_NAME))
def test_every_argument_and_flag_with_a_value_has_a_kind(command: str) -> None:
    assert set(slots(command).values()) <= BAD.keys()


def test_every_kind_is_used_by_an_argument_or_flag() -> None:
    found = {kind for command in BY_NAME for kind in slots(command).values()}
    assert found == BAD.keys() - {"json", "session", "workspace"}


class Bench:
    """A copy of the furnished workspace that must refuse commands. With a `twin`, both must refuse
    a command with the same text."""

    def __init__(self, furnished: Furnished, place: Place, twin: Place | None = None) -> None:
        self.place = place
        self.places = [place] if twin is None else [place, twin]
        self.names = furnished.names | {"root": str(place.root)}
        self.wrong: list[str] = []
        self.is_settled = True
        self._logs: dict[Place, apsw.Connection] = {}
        self._samples: dict[str, Sample] = {}

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    def sample(self, command: str) -> Sample:
        if command in WORDS:
            return typed(WORDS[command])
        if command not in self._samples:
            self._samples[command] = self._shortest(command)
        return self._samples[command]

    def _shortest(self, command: str) -> Sample:
        """Return the words of the row with the most arguments and the fewest flags, if possible one
        without preparation."""
        verbs = [verb for verb, commands in COMMANDS_OF.items() if command in commands]
        rows = [row for verb in verbs for row in working(verb) if row.caller.session is None]
        rows = [row for row in rows if not {"cli", ON_THE_FILE} & {*row.not_at}]
        rows = [row for row in rows if not row.first and not row.meanwhile] or rows
        at = Workspace(self.place, {}, "")
        found = [(words_of(r.verb, filled(dict(r.fields), self.names), at), r) for r in rows]
        found = [(words, row) for words, row in found if words.command.name == command]
        words, row = min(found, key=lambda one: (-len(one[0].arguments), len(one[0].flags)))
        is_sender = row.caller not in (OWNER, NOBODY) and command not in WITHOUT_SENDER
        sender = ["--from", str(row.caller.sender)] if is_sender else []
        return Sample(words.arguments, words.flags, sender, [])

    def words(self, command: str) -> list[str]:
        return self.sample(command).words()

    def with_value(self, command: str, slot: str, value: str) -> list[str]:
        """Return the valid words with one value replaced, without the words that exclude it."""
        arguments, flags, sender, _ = self.sample(command)
        arguments = list(arguments)
        given = BY_NAME[command]
        excluded = {name for one in given.one_of if slot in one.names for name in one.names}
        excluded |= {"token reaffirm": {"--all"}, "token rotate": {"ID"}}.get(command, set())
        excluded |= {"--item"} if slot == "--repo" else set()
        excluded -= {slot}
        flags = [flag for flag in flags if flag[0] not in excluded]
        names = [argument.name for argument in given.arguments]
        if slot.startswith("--") and excluded & {*names}:
            arguments = []
        if slot == "--path":
            flags = [("--repo", "r"), *[flag for flag in flags if flag[0] != "--repo"]]
        if slot == "--repo":
            flags = [("--path", "src"), *flags]
        if not slot.startswith("--"):
            at = names.index(slot)
            arguments[at : at + 1] = [value]
        elif slot in dict(flags):
            flags = [(name, value if name == slot else old) for name, old in flags]
        else:
            arguments = [f"{slot}={value}", *arguments]
        return [*command.split(), *Sample(arguments, flags, sender, []).words()]

    def refused(self, words: list[str], stdin: bytes = b"", **environ: str) -> None:
        """Collect the error if these words are not refused correctly."""
        try:
            first, *others = [self._refused(at, words, stdin, environ) for at in self.places]
            assert all(other == first for other in others), f"{first} differs from {others}"
        except AssertionError as wrong:
            self.wrong.append(str(wrong))

    def _refused(
        self, place: Place, words: list[str], stdin: bytes, environ: dict[str, str]
    ) -> str:
        """Run the words in one place, check that it stores nothing, and return its answer."""
        before = self._logged(place, "SELECT seq FROM head")[0][0]
        head, dashes, tail = _split(words)
        done = place.run(*head, "--json", *dashes, *tail, stdin=stdin, **environ)
        assert done.status in (2, 3), f"accepted: {done}"
        self._unchanged(place, done, before)
        if any(character in "".join(words) for character in "\x1b\x07\x9b\r\x7f"):
            shown = place.run(*words, stdin=stdin, **environ)
            assert shown.status == done.status
            assert shown.out == b"", shown
            assert shown.err.strip(), shown
        return done.text.replace(str(place.root), "<root>")

    def _unchanged(self, place: Place, done: Done, before: int) -> None:
        rows = self._logged(place, f"SELECT header FROM log WHERE seq > {before}")
        added = [json.loads(header)["kind"] for (header,) in rows]
        code = done.json["code"]
        recorded = code in ("MISSING_SCOPE", "STALE_FENCE", "IDENTITY_MISMATCH", "OWN_WORK")
        assert added == ["request_refused"] * len(added), done
        assert len(added) <= recorded, done

    def _logged(self, place: Place, sql: str) -> list[Any]:
        """Query the log over one open connection, because there are thousands of queries."""
        if place not in self._logs:
            self._logs[place] = apsw.Connection(str(place.workspace / "log.db"))
        return list(self._logs[place].execute(sql))

    def settle(self) -> None:
        shown = "\n---\n".join(self.wrong[:5])
        assert not self.wrong, f"{len(self.wrong)} inputs were not refused correctly:\n{shown}"
        for place in self.places:
            assert place.run("audit", "verify", "--json").status == 0
            left = {"noise", "text", ".git", PROOF}
            assert {file.name for file in place.cwd.iterdir()} <= left
        self.is_settled = True


@pytest.fixture(scope="module")
def first_place(furnished: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The furnished workspace, with files to name in commands."""
    place = furnished.copied(tmp_path_factory.mktemp("bench"))
    (place.root / "made.proof").write_text(json.dumps(place.ok("audit", "prove", "2")))
    (place.root / "brief.md").write_text(BRIEF)
    (place.cwd / "noise").write_bytes(NOISE[:100_000])
    (place.cwd / "text").write_text("just text\n")
    (place.cwd / ".git" / "info").mkdir(exist_ok=True)
    (place.cwd / ".git" / "info" / "exclude").write_text("noise\ntext\n")
    return place


@pytest.fixture
def bench(
    furnished: Furnished, first_place: Place, tmp_path: Path, served: ServersByWorkspace | None
) -> Iterator[Bench]:
    """A bench. If it has a server, it also has a twin without one."""
    twin = first_place.copied(tmp_path / "twin") if served is not None else None
    place = first_place.copied(tmp_path, served)
    with closing(Bench(furnished, place, twin)) as bench:
        yield bench


class Reused:
    """The bench of tests that change nothing. The next test gets the same bench, unless a test has
    failed."""

    def __init__(self, fresh: Callable[[], Bench]) -> None:
        self._fresh = fresh
        self.bench = fresh()

    def again(self) -> Bench:
        if not self.bench.is_settled:
            self.bench.close()
            self.bench = self._fresh()
        self.bench.is_settled = False
        return self.bench


@pytest.fixture(scope="module")
def reused(
    furnished: Furnished,
    first_place: Place,
    servers: Servers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Reused]:
    with closing(ServersByWorkspace(servers)) as served:

        def fresh() -> Bench:
            root = tmp_path_factory.mktemp("unchanged")
            place = first_place.copied(root, served)
            return Bench(furnished, place, first_place.copied(root / "twin"))

        reused = Reused(fresh)
        yield reused
        reused.bench.close()


@pytest.fixture
def unchanged(reused: Reused, only_through_servers: None) -> Bench:
    """A bench with a server, and a twin without one."""
    return reused.again()


def _split(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Split words into those before `--`, `--` itself, and those after it."""
    if "--" not in words:
        return words, [], []
    at = words.index("--")
    return words[:at], ["--"], words[at + 1 :]


# `run` and `evidence run` exit with 125 on a refusal. `hook` never refuses, because its client
# would treat that as a "no".
REFUSING = [name for name in BY_NAME if name not in ("run", "evidence run", "hook")]


def test_hook_accepts_any_input_and_stores_nothing(unchanged: Bench) -> None:
    before = unchanged.place.entries()
    for words in ([], ["--nope"], ["Stop", "--await=1"], ["a", "b", "c"], ["--session="]):
        assert unchanged.place.run("hook", *words).status == 0, words
    for value in [*EMPTY, *TRICKS, LONG[:100_000], *ANYWHERE]:
        for words in ([value, "Stop"], ["claude-code", value]):
            done = unchanged.place.run("hook", *words, stdin=value.encode("utf-8", "replace"))
            assert (done.status, done.out) == (0, b"{}\n"), done
    assert unchanged.place.entries() == before


@pytest.mark.parametrize("command", REFUSING)
def test_bad_values_are_refused_and_store_nothing(command: str, unchanged: Bench) -> None:
    for slot, kind in slots(command).items():
        for value in [*BAD[kind], *ANYWHERE]:
            if (command, value) not in EXCEPT:
                unchanged.refused(unchanged.with_value(command, slot, value))
    unchanged.settle()


@pytest.mark.parametrize("command", REFUSING)
def test_bad_usage_is_refused_and_stores_nothing(command: str, unchanged: Bench) -> None:
    words = [*command.split(), *unchanged.words(command)]
    many = any(argument.many for c in COMMANDS if c.name == command for argument in c.arguments)
    for extra in ("--nope", "--nope=1", "-x", "--js", "--json=1", "--", *ANYWHERE):
        # `--` alone is valid, so add surplus words after it.
        added = ["--", *["surplus"] * 3] if extra == "--" else [extra]
        if extra != "--" or not many:
            unchanged.refused([*words, *added])
    if not many:
        unchanged.refused([*words, "surplus", "surplus", "surplus"])
    for flag in ("--workspace", "--from", "--session"):
        unchanged.refused([*words, flag])
        unchanged.refused([*words, f"{flag}="])
        for value in ANYWHERE:
            unchanged.refused([*words, f"{flag}={value}"])
    needed = next(c for c in COMMANDS if c.name == command)
    if any(not argument.optional for argument in needed.arguments) or any(
        flag.required for flag in needed.flags
    ):
        unchanged.refused(command.split())
    unchanged.settle()


@pytest.mark.long
@pytest.mark.parametrize("command", [name for name in REFUSING if name not in WITHOUT_SENDER])
def test_invalid_senders_and_sessions_are_refused(command: str, unchanged: Bench) -> None:
    words = [*command.split(), *unchanged.sample(command)._replace(sender=[]).words()]
    for value in BAD["sender"]:
        unchanged.refused([*words, f"--from={value}"])
    for value in BAD["session"]:
        unchanged.refused([*words, f"--session={value}", "--from", "vera"])
        if value and "\0" not in value:
            unchanged.refused([*words, "--from", "vera"], INTERLOCK_SESSION=value)
    unchanged.refused(words, INTERLOCK_TOKEN="ilk_\udcff\x1b[31m")
    unchanged.refused(words, INTERLOCK_TOKEN=LONG)
    unchanged.settle()


TAKING: dict[str, list[tuple[str, str]]] = {
    "line": [("claim acquire", "--note"), ("send", "--subject"), ("pause", "--reason")],
    "text": [("send", "TEXT|-"), ("answer", "TEXT|-")],
    "item": [("claim check", "--item")],
    "glob": [("claim check", "--path")],
    "query": [("search", "QUERY")],
    "anything": [("audit show", "--kind"), ("agents", "NAME"), ("token identify", "TOKEN|-")],
}


@pytest.mark.parametrize("kind", FINE)
def test_unusual_but_valid_values_are_accepted(kind: str, bench: Bench) -> None:
    """Control characters in a body are content, and a word such as `../..` in a note is text."""
    place = bench.place
    for command, slot in TAKING[kind]:
        for value in FINE[kind]:
            words = bench.with_value(command, slot, value)
            done = place.run(*words, "--json")
            assert done.status == int(command == "token identify"), done  # an unknown token
            if command == "pause":
                place.ok("resume")
            shown = place.run(*words)
            assert shown.status in (done.status, 4), shown


# --- standard input

READING = {c.name: a.name for c in COMMANDS for a in c.arguments if a.name.endswith("|-")}


@pytest.mark.parametrize("command", READING)
def test_ten_megabytes_of_random_bytes_are_refused(command: str, unchanged: Bench) -> None:
    words = unchanged.with_value(command, READING[command], "-")
    before = [place.query(CHUNKS) for place in unchanged.places]
    unchanged.refused(words, stdin=NOISE)
    unchanged.refused(words, stdin=b"begins well\xff")
    unchanged.settle()
    assert [place.query(CHUNKS) for place in unchanged.places] == before


def test_ten_megabytes_of_text_are_accepted_only_as_a_message(bench: Bench) -> None:
    text = b"0123456789abcdef" * 655_360
    sent = bench.place.ok("send", "@otto-cli", "-", "--from", "vera", stdin=text)["message"]
    whole = bench.place.ok("read", sent["id"], "--from", "otto-cli")
    assert whole["payload"]["text"].encode() == text
    bench.place.no(
        "NO_ANSWER", "ask", "@otto-cli", "-", "--wait", "1s", "--from", "vera", stdin=text
    )
    before = bench.place.entries()
    bench.place.no("TOO_LARGE", "answer", bench.names["ask"], "-", "--from", "vera", stdin=text)
    unknown = bench.place.run("token", "identify", "-", "--json", stdin=text)
    assert (unknown.status, unknown.json) == (1, {"known": False})
    assert bench.place.entries() == before


def test_refused_large_body_leaves_no_chunks(bench: Bench) -> None:
    text = b"x" * 3_000_000
    before = bench.place.query(CHUNKS)
    for words in (
        ["send", "AGENT:nobody", "-", "--from", "vera"],
        ["send", "@otto-cli", "-", "--reply-to", "00000000", "--from", "vera"],
        ["send", "@otto-cli", "-", "--type", "command", "--from", "vera"],
        ["send", "@otto-cli", "-", "--subject", "two\nlines", "--from", "vera"],
    ):
        bench.refused(words, stdin=text)
    for place in bench.places:
        place.ok("settings", "limits.message_bytes", "2999999")
    bench.refused(["send", "@otto-cli", "-", "--from", "vera"], stdin=text)
    bench.settle()
    assert bench.place.query(CHUNKS) == before


def test_empty_standard_input_is_refused_as_a_message(unchanged: Bench) -> None:
    unchanged.refused(["send", "@otto-cli", "-", "--from", "vera"])
    unchanged.refused(["answer", unchanged.names["ask"], "-", "--from", "vera"])
    unchanged.settle()


# --- values with a test of their own


def test_invalid_payload_is_refused(unchanged: Bench) -> None:
    for payload in BAD["json"]:
        unchanged.refused(["send", "@otto-cli", f"--payload={payload}", "--from", "vera"])
    unchanged.settle()


TYPED: list[tuple[str, dict[str, object]]] = [
    ("ask", {"question": "q", "timeout_s": 0}),
    ("ask", {"question": "q", "timeout_s": 86_401}),
    ("ask", {"question": "q", "timeout_s": 1.0}),
    ("ask", {"question": "q", "timeout_s": "1"}),
    ("ask", {"question": "q", "timeout_s": True}),
    ("ask", {"question": "q", "options": ["a", "a"]}),
    ("ask", {"question": "q", "options": "a"}),
    ("answer", {"text": "t"}),
    ("answer", {"text": "t", "ask": "../x"}),
    ("answer", {"text": "t", "ask": "00000000-0000-4000-8000-000000000000"}),
    ("command", {"command": "c"}),
    ("command", {"command": "c", "why": ""}),
    ("command", {"command": "", "why": "w"}),
    ("blocker", {"what": "w", "severity": "urgent"}),
    ("blocker", {"what": "w", "severity": "stop", "task_id": "../x"}),
    ("blocker", {"what": "w", "severity": "stop", "fix": "make"}),
    ("announce", {"pid": -1}),
    ("announce", {"pid": 10**30}),
    ("announce", {"cwd": "x" * 4097}),
    ("wake", {"text": "t", "about": "x"}),
    ("send", {"text": "t", "content_type": "text/html"}),
    ("send", {"text": "t", "from": "@vera"}),
    ("send", {"text": "t", "source": "agent:vera"}),
]


def test_payload_that_is_invalid_for_its_type_is_refused(unchanged: Bench) -> None:
    for type, payload in TYPED:
        words = ["send", "@otto-cli", "--type", type, "--payload", json.dumps(payload)]
        unchanged.refused([*words, "--from", "vera"])
    unchanged.settle()


LIMITS = ("limits.message_bytes", "limits.sends_per_minute", "limits.hops")
NO_LIMIT = [
    "-1",
    "1.5",
    "1e3",
    "٣",
    "x",
    "1000000001",
    HUGE,
    "0" * 18 + HUGE,
    "0" * 17 + "1" + HUGE,
]


@pytest.mark.parametrize("name", LIMITS)
def test_limit_accepts_only_whole_numbers_within_bounds(name: str, bench: Bench) -> None:
    for value in ["", *NO_LIMIT, "0" * 17 + "1" + "9" * 9]:
        bench.refused(["settings", name, value])
    bench.place.ok("send", "@otto-cli", "still works", "--from", "vera")
    bench.settle()


def test_setting_refuses_invalid_values(unchanged: Bench) -> None:
    for value in ("(", "[a-", "a" * 201, "(?P<n>a)(?P=m)", "*"):
        unchanged.refused(["settings", "names.pattern", value])
    unchanged.refused(["settings", "recipients", "Strict"])
    unchanged.settle()


def test_a_thousand_and_one_ids_are_too_many(unchanged: Bench) -> None:
    unchanged.refused(["ack", *["00000000"] * 1001, "--from", "vera"])
    unchanged.refused(["claim", "acquire", *["--path=a"] * 101, "--repo", "r", "--from", "vera"])
    unchanged.settle()


def test_all_or_none_of_several_messages_are_acknowledged(bench: Bench) -> None:
    before = bench.place.ok("inbox", "--from", "vera")["open"]
    bench.refused(["ack", bench.names["mail"], "00000000", "--from", "vera"])
    bench.settle()
    assert bench.place.ok("inbox", "--from", "vera")["open"] == before > 0


def test_bad_arguments_of_run_start_no_process(bench: Bench) -> None:
    """Exit 125 means that the client never started."""
    place = bench.place
    before = place.entries()
    for sender in ("nobody", "@", "../vera", "vera/../otto-cli", "\x1b[31m", "x" * 100_000):
        done = place.process("run", sender, "--", "touch", "ran")
        assert (done.status, done.out) == (125, b""), done
        assert b"Traceback" not in done.err, done
        assert not steering(done.complaint), done
    for words in (["run"], ["run", "vera"], ["run", "--nope", "vera", "--", "touch", "ran"]):
        assert place.run(*words, "--json" if "--" not in words else "--").status == 2
    assert place.entries() == before
    assert not (place.cwd / "ran").exists()


def test_bad_arguments_of_evidence_run_start_no_process(bench: Bench) -> None:
    """Bad usage exits with 2, as everywhere. A refusal of the workspace exits with 125, because the
    command itself can exit with any other status."""
    place = bench.place
    before = place.entries()
    ran = ("--", "touch", "ran")
    for flag, kind in slots("evidence run").items():
        if flag == "--spool":
            continue  # the directory is checked only after the run
        about = [] if flag == "--task" else ["--task", "T-3"]
        for value in [*BAD[kind], *ANYWHERE]:
            given = [f"{flag}={value}", *about, "--from", "vera"]
            done = place.run("evidence", "run", *given, *ran)
            assert done.status in (2, 125), done
            assert done.out == b"", done
            assert done.complaint.strip(), done
    for words in (["evidence", "run"], ["evidence", "run", "--"], ["evidence", "run", "-x", *ran]):
        assert place.run(*words).status == 2
    assert place.run("evidence", "run", "--from", "nobody", *ran).status == 125
    assert place.entries() == before
    assert not (place.cwd / "ran").exists()


# --- random words

_VOCABULARY = sorted(
    {word for command in COMMANDS for word in command.words}
    | {flag.name for command in COMMANDS for flag in command.flags}
    | {flag.name for flag in COMMON}
    | {"--help", "--version", "--", "-", "-h", "@vera", "AGENT:*", "B-1", "#6", "1", "vera", "src"}
)
_WORDS = st.one_of(
    st.sampled_from(_VOCABULARY),
    st.sampled_from([*TRICKS, *CONTROL, *NUMBERS, *ANYWHERE, "", " "]),
    st.text(max_size=20),
    st.builds("{}={}".format, st.sampled_from(_VOCABULARY), st.text(max_size=10)),
)
_BEGUN: st.SearchStrategy[list[str]] = st.one_of(
    st.just([]), st.sampled_from([list(command.words) for command in COMMANDS])
)  # fmt: skip


WAITING = ("run", "watch", "ask", "up", "down", "mcp", "evidence run", "gate run")


def _may_run(words: list[str]) -> bool:
    """Return whether the words wait for nothing, start no server, and run no random command."""
    try:
        parsed = parse(words, COMMANDS, COMMON)
    except Usage:
        return True
    named = parsed.command.name
    return named not in WAITING and "wait" not in parsed.values


@pytest.fixture(scope="module")
def spot(furnished: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return furnished.copied(tmp_path_factory.mktemp("random"))


@pytest.fixture(scope="module")
def served_spot(
    furnished: Furnished, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    with closing(ServersByWorkspace(servers)) as served:
        yield furnished.copied(tmp_path_factory.mktemp("random"), served)


_RANDOMLY = settings(
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@settings(_RANDOMLY, max_examples=250)
@given(_BEGUN, st.lists(_WORDS, max_size=6))
@example(["send"], ["@vera", "x", "--payload={}", "--from", "vera"])
@example(["audit", "prove"], ["--since", "1", "--since=2"])
@example([], ["--json=", "status"])
def test_random_words_get_an_answer_or_a_coded_refusal(
    spot: Place, begun: list[str], more: list[str]
) -> None:
    _check_words(spot, [*begun, *more])


@settings(_RANDOMLY, max_examples=100)
@given(_BEGUN, st.lists(_WORDS, max_size=6))
def test_random_words_get_an_answer_or_a_coded_refusal_from_a_server(
    served_spot: Place, begun: list[str], more: list[str]
) -> None:
    assume("repair" not in begun)  # repair opens the node's own copy, even if a server runs
    _check_words(served_spot, [*begun, *more])


@pytest.mark.long
@settings(_RANDOMLY, max_examples=1000)
@given(_BEGUN, st.lists(_WORDS, max_size=6))
def test_many_random_words_get_an_answer_or_a_coded_refusal(
    spot: Place, begun: list[str], more: list[str]
) -> None:
    _check_words(spot, [*begun, *more])


@pytest.mark.long
@settings(_RANDOMLY, max_examples=300)
@given(_BEGUN, st.lists(_WORDS, max_size=6))
def test_many_random_words_get_an_answer_or_a_coded_refusal_from_a_server(
    served_spot: Place, begun: list[str], more: list[str]
) -> None:
    assume("repair" not in begun)  # repair opens the node's own copy, even if a server runs
    _check_words(served_spot, [*begun, *more])


def _check_words(spot: Place, words: list[str]) -> None:
    # A random path could be outside of the test's directory.
    assume(not any("workspace" in word or "/" in word.partition("=")[2] for word in words))
    assume(not any(word.startswith("/") for word in words))
    assume("hook" not in words)  # a hook answers in the client's own format
    assume(_may_run(["--json", *words]))
    before = spot.entries()
    done = spot.run("--json", *words)
    if "pause" in words:
        spot.run("resume")
    if done.status not in (0, 1):
        code = done.json["code"]
        assert done.status == EXIT_OF[code] in (2, 3, 4), done
        recorded = code in ("MISSING_SCOPE", "STALE_FENCE", "IDENTITY_MISMATCH")
        assert spot.entries() - before <= recorded, done


@settings(_RANDOMLY, max_examples=150)
@given(st.binary(max_size=200))
def test_random_bytes_on_standard_input_get_an_answer_or_a_coded_refusal(
    spot: Place, data: bytes
) -> None:
    _check_input(spot, data)


@settings(_RANDOMLY, max_examples=50)
@given(st.binary(max_size=200))
def test_random_bytes_on_standard_input_get_an_answer_or_a_coded_refusal_from_a_server(
    served_spot: Place, data: bytes
) -> None:
    _check_input(served_spot, data)


def _check_input(spot: Place, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        before = spot.entries()
        spot.no("INVALID_MESSAGE", "send", "@otto-cli", "-", "--from", "vera", stdin=data)
        assert spot.entries() == before
        return
    done = spot.run("send", "@otto-cli", "-", "--from", "vera", "--json", stdin=data)
    assert done.status == (0 if data else 2), done
    if data:
        id = done.json["message"]["id"]
        assert spot.ok("read", id, "--from", "otto-cli")["payload"]["text"].encode() == data


# --- invalid files


CHANGED_PROOFS: list[dict[str, object]] = [
    {"proof": 1},
    {"seq": "2"},
    {"seq": -1},
    {"header": 5},
    {"header": "{}"},
    {"header": "[]"},
    {"leaf_index": -1},
    {"leaf_index": "1"},
    {"leaf_index": 10**30},
    {"tree_size": -1},
    {"tree_size": 10**30},
    {"tree_size": None},
    {"root": "zz"},
    {"root": 5},
    {"path": "zz"},
    {"path": 5},
    {"path": [5]},
    {"path": ["00"] * 10_000},
    {"checkpoint": ""},
    {"checkpoint": 5},
    {"checkpoint": "a\nb\nc\n\n— x y\n"},
    {"verifier": ""},
    {"verifier": 5},
    {"verifier": "x+00000000+AA=="},
    {"proof": "consistency"},
    {"proof": "consistency", "old_root": "00" * 32, "old_size": -1},
    {"proof": "consistency", "old_root": "00" * 32, "old_size": "1"},
    {"proof": "consistency", "old_root": 1, "old_size": 1},
]


def _no_good(place: Place, *words: str) -> Iterator[str]:
    """Yield the error if the answer is neither a refusal nor a report of damage."""
    try:
        done = place.run(*words, "--json")
        assert done.json.get("code") in ("USAGE", "LOG_DAMAGED"), done
    except AssertionError as wrong:
        yield str(wrong)


def test_changed_proof_is_refused_or_not_valid(joined: Place) -> None:
    proof = joined.ok("audit", "prove", "2")
    file = joined.cwd / "changed.json"
    wrong = []
    for change in CHANGED_PROOFS:
        file.write_text(json.dumps(proof | change))
        wrong += [
            f"{change}: {what}" for what in _no_good(joined, "audit", "check-proof", str(file))
        ]
    assert not wrong, "\n".join(wrong)


NO_EXPORTS = [
    b"",
    b"\n\n",
    b"{}\n",
    b"[]\n",
    b'{"checkpoint": 5}\n',
    b'{"checkpoint": null}\n',
    b'{"checkpoint": ["x"]}\n',
    b'{"checkpoint": "x"}\nnoise\n',
    b'{"checkpoint": "x"}\n{"seq": 1}\n',
    b'{"checkpoint": "x"}\n[]\n',
    b'{"checkpoint": "x"}\n{"seq": "1", "header": "{}"}\n',
    b'{"checkpoint": "x"}\n{"seq": 1, "header": 5}\n',
    b'{"checkpoint": "x"}\n{"seq": 1, "header": "[]", "salt": "zz"}\n',
    NOISE[:100_000],
]


def test_file_that_is_not_an_export_is_refused_or_damaged(joined: Place) -> None:
    file = joined.cwd / "export.jsonl"
    wrong = []
    for lines in NO_EXPORTS:
        file.write_bytes(lines)
        wrong += [
            f"{lines[:80]!r}: {what}" for what in _no_good(joined, "audit", "verify", str(file))
        ]
    assert not wrong, "\n".join(wrong)


FORGED_HEADERS: list[dict[str, object]] = [
    {"outcome": 5},
    {"outcome": None},
    {"outcome": {"verifier": 5}},
    {"outcome": {"verifier": ["x"]}},
    {"kind": "body_redacted", "outcome": {}},
    {"kind": "body_redacted", "outcome": {"target": []}},
    {"at": "soon"},
    {"at": None},
    {"epoch": "x"},
    {"workspace": 5},
    {"body": 5},
    {"surplus": 1},
]


def test_export_with_a_malformed_header_is_found_damaged(joined: Place) -> None:
    """A forged export can contain anything. verify must report it and not fail."""
    made = joined.cwd / "made.jsonl"
    joined.ok("audit", "export", str(made))
    about, first, *rest = made.read_text().splitlines()
    forged = joined.cwd / "forged.jsonl"
    wrong = []
    for change in FORGED_HEADERS:
        entry = json.loads(first)
        entry["header"] = json.dumps(json.loads(entry["header"]) | change)
        forged.write_text("\n".join([about, json.dumps(entry), *rest]))
        wrong += [f"{change}: {what}" for what in _no_good(joined, "audit", "verify", str(forged))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("note", [b"", b"x", NOISE[:1000], b"a\n1\nb\n\n\xe2\x80\x94 x y\n", b"{}"])
def test_invalid_checkpoint_is_refused(note: bytes, joined: Place) -> None:
    file = joined.cwd / "note"
    file.write_bytes(note)
    joined.no("USAGE", "audit", "verify", "--checkpoint", str(file))


@pytest.mark.parametrize("target", ["no/such/directory/x", "text/below", "x" * 5000])
def test_unwritable_target_is_a_usage_error(target: str, joined: Place) -> None:
    """The message must not blame the workspace."""
    (joined.cwd / "text").write_text("t")
    for words in (["backup"], ["audit", "export"]):
        wrong = joined.no("USAGE", *words, target)
        assert "cannot write to the workspace" not in wrong["message"]


# --- workspaces that cannot be used


def _coded(place: Place, *codes: str) -> None:
    """Check that reads and writes are refused with one of these codes, and with a text."""
    for words in (["status"], ["join", "otto"], ["inbox"], ["claim", "list"], ["audit", "verify"]):
        done = place.run(*words, "--json")
        assert done.json["code"] in codes, done
        shown = place.run(*words)
        assert (shown.status, shown.out) == (done.status, b""), shown
        assert len(shown.complaint) > 20


def test_a_workspace_that_is_a_file_is_refused(place: Place) -> None:
    place.workspace.write_text("mine")
    _coded(place, "NOT_A_WORKSPACE")
    assert place.workspace.read_text() == "mine"


@pytest.mark.parametrize("below", ["file/below", "file/far/below"])
def test_a_workspace_below_a_file_is_refused(below: str, place: Place) -> None:
    (place.root / "file").write_text("mine")
    _coded(place.but(INTERLOCK_WORKSPACE=str(place.root / below)), "ENGINE_UNAVAILABLE")


@pytest.mark.parametrize("path", ["/dev/null", "/proc/self/nothing", "/sys/nothing", "x" * 5000])
def test_workspace_that_cannot_be_created_is_refused(path: str, place: Place) -> None:
    _coded(place.but(INTERLOCK_WORKSPACE=path), "ENGINE_UNAVAILABLE", "NOT_A_WORKSPACE")


def test_workspace_path_that_is_not_utf8_works_or_is_refused(place: Place) -> None:
    named = os.fsdecode(os.fsencode(str(place.root)) + b"/\xff\xfe")
    done = place.run("status", "--json", INTERLOCK_WORKSPACE=named)
    assert done.status in (0, 2, 4), done


def test_directory_with_other_files_is_left_alone(place: Place) -> None:
    place.workspace.mkdir()
    (place.workspace / "thesis.txt").write_text("mine")
    _coded(place, "NOT_A_WORKSPACE")
    assert [file.name for file in place.workspace.iterdir()] == ["thesis.txt"]


def _is_root() -> bool:
    return os.geteuid() == 0


def test_a_directory_that_cannot_be_written_is_refused(place: Place) -> None:
    place.workspace.mkdir()
    place.workspace.chmod(0o500)
    if _is_root():
        # Root ignores file modes, but cannot write to a directory of the kernel.
        place = place.but(INTERLOCK_WORKSPACE="/proc/self")
        _coded(place, "NOT_A_WORKSPACE", "ENGINE_UNAVAILABLE")
    else:
        _coded(place, "ENGINE_UNAVAILABLE")


def test_a_directory_where_the_log_should_be_is_refused(place: Place) -> None:
    (place.workspace / "log.db").mkdir(parents=True)
    _coded(place, "ENGINE_UNAVAILABLE", "NOT_A_WORKSPACE")
    assert list((place.workspace / "log.db").iterdir()) == []


def _foreign(place: Place, data: bytes) -> Path:
    place.workspace.mkdir()
    log = place.workspace / "log.db"
    log.write_bytes(data)
    return log


@pytest.mark.parametrize("data", [b"just text, and no database\n" * 400, NOISE[:50_000]])
def test_log_that_is_not_a_database_is_refused_and_left_alone(data: bytes, place: Place) -> None:
    log = _foreign(place, data)
    _coded(place, "NOT_A_WORKSPACE")
    assert log.read_bytes() == data
    assert [file.name for file in place.workspace.iterdir()] == ["log.db"]


def _database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_foreign_database_is_refused_and_left_alone(place: Place) -> None:
    place.workspace.mkdir()
    log = place.workspace / "log.db"
    _database(log, "CREATE TABLE mine(x)", "INSERT INTO mine VALUES (1)")
    before = log.read_bytes()
    _coded(place, "NOT_A_WORKSPACE")
    assert log.read_bytes() == before
    assert [file.name for file in place.workspace.iterdir()] == ["log.db"]


def test_database_with_our_application_id_and_foreign_tables_is_refused(place: Place) -> None:
    place.workspace.mkdir()
    mark = f"PRAGMA application_id = {0x494C4B31}"
    _database(place.workspace / "log.db", mark, "CREATE TABLE mine(x)")
    _coded(place, "NOT_A_WORKSPACE", "LOG_DAMAGED")


def test_newer_format_is_refused_with_a_request_to_upgrade(joined: Place) -> None:
    joined.query("PRAGMA user_version = 99")
    _coded(joined, "NEWER_VERSION")
    assert "Upgrade" in joined.no("NEWER_VERSION", "status")["message"]


def test_a_log_last_used_on_another_host_is_refused_until_it_is_adopted(joined: Place) -> None:
    joined.query("UPDATE file_meta SET value = 'elsewhere' WHERE name IN ('host', 'boot')")
    _coded(joined, "OTHER_HOST")
    joined.ok("init", "--adopt")
    joined.ok("status")


def test_truncated_log_is_refused_or_found_damaged(joined: Place) -> None:
    for number in range(30):
        joined.ok("send", "@vera", f"message {number} " * 200, "--from", "otto-cli")
    log = joined.workspace / "log.db"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    for words in (["status"], ["inbox", "--from", "vera"], ["audit", "verify"]):
        done = joined.run(*words, "--json")
        assert done.status == 0 or done.json["code"] in ("LOG_DAMAGED", "NOT_A_WORKSPACE"), done
    assert joined.run("audit", "verify", "--json").status != 0


@pytest.mark.parametrize(
    "name",
    [
        *("credentials", "presence", "bells", "checkpoints"),
        pytest.param("keys", marks=pytest.mark.embedded("a node writes nothing without the key")),
    ],
)
def test_file_in_place_of_a_directory_causes_at_most_a_coded_error(
    name: str, joined: Place
) -> None:
    """A full disk or a wrong mode has the same effect: a file next to the log cannot be written.
    The answers must still be correct."""
    directory = joined.workspace / name
    if directory.is_dir():
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
    token = joined.ok("token", "mint", "--sender", "vera")["token"] if name != "bells" else ""
    directory.write_text("in the way")
    joined = joined.but(INTERLOCK_TOKEN=token)
    for words in (
        ["whoami"],
        ["send", "@otto", "hi"],
        ["inbox", "--wait", "1s"],
        ["claim", "acquire", "--item", "B-1"],
        ["audit", "verify"],
    ):
        done = joined.run(*words, "--json")
        assert done.status in (0, 1, 3, 4), done
    before = joined.query("SELECT count(*) FROM identity_senders")
    done = joined.but(INTERLOCK_TOKEN=None).run("join", "rita", "--json")
    if done.status:
        assert joined.query("SELECT count(*) FROM identity_senders") == before, done


def test_answer_is_correct_if_the_checkpoint_cannot_be_written(
    joined: Place,
) -> None:
    """After a number of entries, a checkpoint is written next to the log, after the commit."""
    (joined.workspace / "checkpoints").write_text("in the way")
    for number in range(130):
        before = len(joined.query("SELECT seq FROM mail_messages"))
        done = joined.run("send", "@vera", str(number), "--from", "otto-cli", "--json")
        stored = len(joined.query("SELECT seq FROM mail_messages")) - before
        assert (done.status, stored) == (0, 1), done


def test_commands_work_or_refuse_in_a_removed_directory(joined: Place) -> None:
    """This happens when a user removes the worktree of a running client."""
    gone = joined.root / "gone"
    gone.mkdir()
    script = (
        "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); "
        "from interlock.doors.cli import main; sys.exit(main(sys.argv[2:]))"
    )
    for words in (
        ["status"],
        ["send", "@vera", "hi", "--from", "otto-cli"],
        ["init", "--here"],
        ["backup", "relative.db"],
        ["audit", "export", "relative.jsonl"],
        ["status", "--workspace", "relative"],
        ["claim", "check", "--path", "src"],
    ):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", script, str(gone), *words, "--json"],
            env=joined.environ,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode in (0, 2, 4), (words, done)
        assert json.loads(done.stdout).get("code") != "INTERNAL", (words, done)


# --- standard streams that are closed or full


def _shell(place: Place, script: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["sh", "-c", f'interlock() {{ "$PY" -m interlock "$@"; }}; {script}'],
        env=place.environ,
        cwd=place.cwd,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_closed_standard_input_is_refused_without_a_defect(joined: Place) -> None:
    before = joined.entries()
    done = _shell(joined, "interlock send @vera - --from otto-cli --json <&-")
    assert done.returncode == 2, done
    assert json.loads(done.stdout)["code"] in ("USAGE", "INVALID_MESSAGE")
    assert joined.entries() == before


@pytest.mark.parametrize("flag", ["", "--json"])
def test_closed_standard_output_is_reported_without_a_defect(flag: str, joined: Place) -> None:
    done = _shell(joined, f"interlock send @vera hi --from otto-cli {flag} >&-")
    assert b"Traceback" not in done.stderr, done
    assert b"cannot write its answer (standard output is closed)." in done.stderr, done
    assert done.returncode != 70, done


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_run_with_closed_streams_is_recorded_with_its_exit_status(
    closed: str, joined: Place
) -> None:
    command = "sh -c 'echo out; echo err >&2; exit 3'"
    done = _shell(joined, f"interlock evidence run --from otto-cli -- {command} {closed}")
    assert done.returncode == 3, done
    assert (b"out\n" in done.stdout) is (closed == "2>&-")
    assert (b"err\n" in done.stderr) is (closed == ">&-")
    ((kept,),) = joined.query("SELECT id FROM work_evidence")
    assert sorted(joined.ok("evidence", "show", kept)["content"]["text"].split()) == ["err", "out"]


@pytest.mark.parametrize("flag", ["", "--json"])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_full_standard_output_does_not_claim_that_nothing_was_done(
    flag: str, joined: Place
) -> None:
    before = joined.entries()
    done = _shell(joined, f"interlock send @vera hi --from otto-cli {flag} >/dev/full")
    assert joined.entries() == before + 1
    assert done.returncode not in (0, 70), done
    assert b"Traceback" not in done.stderr, done
    assert b"Nothing was done" not in done.stderr, done


# --- real processes


def test_bytes_that_are_not_utf8_are_refused_as_arguments_of_a_process(joined: Place) -> None:
    before = joined.entries()
    for words in ([b"send", b"@vera", b"\xff\xfe"], [b"\xff"], [b"read", b"\x80" * 8]):
        done = subprocess.run(
            [os.fsencode(sys.executable), b"-m", b"interlock", *words, b"--json"],
            env=joined.environ,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (2, b""), done
        assert json.loads(done.stdout)["code"] == "USAGE"
    assert joined.entries() == before


def test_random_bytes_are_refused_by_a_real_process(joined: Place) -> None:
    before = joined.entries()
    done = joined.process("send", "@vera", "-", "--from", "otto-cli", "--json", stdin=NOISE)
    assert (done.status, done.json["code"]) == (2, "INVALID_MESSAGE")
    assert joined.entries() == before


def test_longest_argument_of_a_process_is_accepted(joined: Place) -> None:
    text = "x" * 131_000
    words = ("send", "@vera", text, "--from", "otto-cli", "--json")
    id = joined.process(*words).json["message"]["id"]
    assert joined.ok("read", id, "--from", "vera")["payload"]["text"] == text
