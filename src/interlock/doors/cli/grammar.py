"""The grammar of the command line: commands, their arguments and their flags.

The parser, the help, the completion and the usage errors read the same commands, so that they
cannot disagree.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from interlock.verbs import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.verbs.types import Shape, ValueKind
    from interlock.verbs.verb import Verb

    Help = Mapping[str, str | tuple[str, Shape]]
    Action = TypeVar("Action", bound=Callable[..., Any])


class Flag(Record):
    """`--ttl D`, or a switch where there is neither a value nor choices."""

    name: str
    value: str = ""
    help: str = ""
    many: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()
    kind: "ValueKind" = "text"
    minimum: int | None = None
    maximum: int | None = None

    @property
    def key(self) -> str:
        """Its name among the parsed values: `--reply-to` is `reply_to`."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def placeholder(self) -> str:
        """The placeholder of its value in help; empty for a switch."""
        return self.value or "|".join(self.choices)

    @property
    def form(self) -> str:
        """As it is written: `--ttl D`."""
        return f"{self.name} {self.placeholder}".rstrip()


class Argument(Record):
    """A positional argument. `TEXT|-` shows that `-` is standard input; its key is `text`."""

    name: str
    help: str = ""
    optional: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    kind: "ValueKind" = "text"
    minimum: int | None = None
    maximum: int | None = None

    @property
    def key(self) -> str:
        return self.name.split("|")[0].lower().replace("-", "_")

    @property
    def form(self) -> str:
        form = self.name + "..." * self.many
        return f"[{form}]" if self.optional else form


class OneOf(Record):
    """Flags and arguments of which at most one may be given, or exactly one where required."""

    names: tuple[str, ...]
    required: bool = False


class Command(Record):
    """A command. With `rest`, the words after the arguments or `--` are a foreign command. A
    command calls its `verb`, unless an `action` performs it."""

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
    action: Any = None

    @property
    def name(self) -> str:
        return " ".join(self.words)


class Parsed(Record):
    """A parsed command line. `values` holds only given values: a list where several are allowed,
    True for a switch, whole numbers for ints and durations (in seconds).

    On a request for help or the version, `command` is HELP or VERSION, `rest` holds the words of
    the command that help is about, and `values` only the common switches such as `--json`.
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


# Each command that a function performs: usage line, function, verb, help and examples.
DECLARED: "list[tuple[str, Callable[..., Any], type[Verb] | None, Help, tuple[str, ...]]]" = []


def command(
    usage: str,
    verb: "type[Verb] | None" = None,
    *,
    help: "Help | None" = None,
    examples: tuple[str, ...] = (),
) -> "Callable[[Action], Action]":
    """Declare that the decorated function performs the command of a usage line (see `derived`).

    The docstring of the function, or else of the verb, is the summary and the notes of the help
    page. `help` says what an argument or a flag means that fills no field of the verb. It comes
    with a shape where it is a number, a duration or one of some words.
    """

    def declare(action: "Action") -> "Action":
        DECLARED.append((usage, action, verb, help or {}, examples))
        return action

    return declare
