"""The words of the command line as a table: commands, their arguments and their flags.

One table drives the parser, the help, the completion and the usage errors, so that they cannot
disagree. It holds no rule about what a command does; `faults` says where a table contradicts
itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "int", "duration"]


class Flag(NamedTuple):
    """`--ttl D`, or a switch where there is neither a value nor choices."""

    name: str
    value: str = ""
    help: str = ""
    many: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()
    kind: Kind = "text"
    minimum: int | None = None
    maximum: int | None = None

    @property
    def key(self) -> str:
        """Its name among the parsed values: `--reply-to` is `reply_to`."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def placeholder(self) -> str:
        """What stands for its value in help; empty for a switch."""
        return self.value or "|".join(self.choices)

    @property
    def form(self) -> str:
        """As it is written: `--ttl D`."""
        return f"{self.name} {self.placeholder}".rstrip()


class Argument(NamedTuple):
    """A positional argument. `TEXT|-` shows that `-` is standard input; its key is `text`."""

    name: str
    help: str = ""
    optional: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    kind: Kind = "text"
    minimum: int | None = None
    maximum: int | None = None

    @property
    def key(self) -> str:
        return self.name.split("|")[0].lower().replace("-", "_")

    @property
    def form(self) -> str:
        form = self.name + "..." * self.many
        return f"[{form}]" if self.optional else form


class OneOf(NamedTuple):
    """Flags and arguments of which at most one may be given, or exactly one where required."""

    names: tuple[str, ...]
    required: bool = False


class Command(NamedTuple):
    """A command. With `rest`, the words after the arguments or `--` are a foreign command. With a
    `verb`, the command line is derived from that verb."""

    words: tuple[str, ...]
    summary: str
    arguments: tuple[Argument, ...] = ()
    flags: tuple[Flag, ...] = ()
    one_of: tuple[OneOf, ...] = ()
    rest: bool = False
    examples: tuple[str, ...] = ()
    group: str = ""
    notes: str = ""
    verb: Any = None

    @property
    def name(self) -> str:
        return " ".join(self.words)


class Parsed(NamedTuple):
    """What was typed. `values` holds only what was given: a list where many may be, True for a
    switch, whole numbers for ints and durations (in seconds).

    Where help or the version was asked for, `command` is HELP or VERSION, `rest` holds the words
    of the command that help is about, and `values` only the common switches, so that a door still
    sees `--json`.
    """

    command: Command
    values: dict[str, Any]
    rest: list[str]


COMMON = (
    Flag("--json", help="print exactly one JSON document, on success and on failure"),
    Flag("--workspace", "PATH", "the workspace, instead of INTERLOCK_WORKSPACE or the nearest"),
    Flag("--from", "SENDER", "the sender that acts, one of the stored credentials"),
    Flag("--session", "S", "the session that acts, instead of INTERLOCK_SESSION"),
)
HELP = Command(
    ("help",),
    "Show the overview, or the page of one command",
    (Argument("COMMAND", "the command's words, such as claim acquire", optional=True, many=True),),
)
VERSION = Command(("version",), "Print the version")
BUILT_IN = (
    Flag("--help", help="show help for what is typed so far (also -h)"),
    Flag("--version", help="print the version"),
)


def faults(commands: Sequence[Command], common: Sequence[Flag]) -> list[str]:
    """What is wrong with a table, in sentences; empty for one that can be parsed by."""
    found: list[str] = []
    every = (*commands, HELP, VERSION)
    names = [command.name for command in every]
    found += [f"{name}: stands twice" for name in {n for n in names if names.count(n) > 1}]
    takes_value: dict[str, bool] = {flag.name: bool(flag.placeholder) for flag in BUILT_IN}
    for command in every:
        found += [f"{command.name}: {fault}" for fault in _faults_of(command, common)]
        for flag in (*common, *command.flags):
            # Before the command's words, only a flag's name can say whether a value follows.
            if takes_value.setdefault(flag.name, bool(flag.placeholder)) != bool(flag.placeholder):
                found.append(f"{command.name}: {flag.name} takes a value here but not elsewhere")
    return found


def _faults_of(command: Command, common: Sequence[Flag]) -> Iterator[str]:
    flags = (*BUILT_IN, *common, *command.flags)
    alternatives = {name for one in command.one_of for name in one.names}
    keys = [flag.key for flag in flags]
    keys += [a.key for a in command.arguments if a.name not in alternatives]
    yield from (f"two things are called {key}" for key in set(keys) if keys.count(key) > 1)
    for flag in flags:
        if not flag.name.startswith("--") or not flag.name[2:].replace("-", "").isalnum():
            yield f"{flag.name} is not a flag's name"
    for before, after in zip(command.arguments, command.arguments[1:], strict=False):
        if before.many:
            yield f"{before.name} takes many and is not last"
        if before.optional and not after.optional:
            yield f"{before.name} is optional and {after.name} after it is not"
    if command.rest and any(a.many or a.optional for a in command.arguments):
        yield "nobody can tell where its arguments end and the foreign command begins"
    own = {flag.name for flag in command.flags} | {arg.name for arg in command.arguments}
    for names, _ in command.one_of:
        yield from (f"{name} is not its flag" for name in names if name not in own)
