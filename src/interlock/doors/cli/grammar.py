"""The grammar of the command line: commands, their arguments and their flags, and the parser.

The parser, the help, the completion and the usage errors read the same commands, so that they
cannot disagree.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from interlock.errors import Usage
from interlock.verbs import LazyModule, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from interlock.verbs import spelling
    from interlock.verbs.types import Shape, ValueKind
    from interlock.verbs.verb import Verb

    Help = Mapping[str, str | tuple[str, Shape]]
    Action = TypeVar("Action", bound=Callable[..., Any])
else:
    spelling = LazyModule("interlock.verbs.spelling")


class Flag(Record):
    """A flag such as `--ttl D`. Without a value and choices it is a switch."""

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
    """Flags and arguments of which the user gives at most one, or exactly one if required."""

    names: tuple[str, ...]
    required: bool = False


class Command(Record):
    """A command. With `rest`, the words after the arguments or `--` are a foreign command. A
    command calls its `verb`, unless it has an `action`."""

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

    On a request for help or the version, `command` is HELP or VERSION, and `values` holds only the
    common switches such as `--json`. `rest` holds the words of the command that help is about.
    """

    command: Command
    values: dict[str, Any]
    rest: list[str]


COMMON = (
    Flag("--json", help="print exactly one JSON document, on success and on failure"),
    Flag("--workspace", "PATH", "the workspace's directory or URL (default: the nearest one)"),
    Flag("--from", "SENDER", "act as this sender, with its stored credential"),
    Flag("--session", "S", "act in this session (default: INTERLOCK_SESSION)"),
)
HELP = Command(
    ("help",),
    "List all commands, or show the help of one",
    (Argument("COMMAND", "the command's words, such as claim acquire", optional=True, many=True),),
)
VERSION = Command(("version",), "Print the version")
BUILT_IN = (
    Flag("--help", help="show the help of the command (also -h)"),
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
    """Declare that the decorated function runs the command of a usage line (see `derived`).

    The docstring of the function, or else of the verb, is the summary and the notes of the help
    page. `help` describes each argument or flag that fills no field of the verb. It has a shape if
    the value is a number, a duration or one of several words.
    """

    def declare(action: "Action") -> "Action":
        DECLARED.append((usage, action, verb, help or {}, examples))
        return action

    return declare


# --- reading the words of a command line
#
# Not argparse: it takes longer to import than most commands take to run, it guesses abbreviations,
# and it writes its own error texts. Modules that only errors need are imported on an error.

_ASKS = {"-h": HELP, "--help": HELP, "--version": VERSION}


def parse(argv: Sequence[str], commands: Sequence[Command], common: Sequence[Flag]) -> Parsed:
    """Read the words after the program's name.

    Raises Usage, and nothing else, with the member `usage` and where they help `did_you_mean`,
    `choices` or `commands`. A request for help wins over any error.
    """
    reader = _Reader(argv, commands, common)
    try:
        return reader.parsed()
    except Usage:
        words = _before_dashes(argv)
        asked = [_ASKS[word] for word in words if word in _ASKS]
        if not asked:
            raise
        return Parsed(asked[0], reader.switches(words), reader.topic(words))


def switched_on(argv: Sequence[str], name: str) -> bool:
    """Return whether a switch is among words that may not parse. It decides the error's format."""
    return name in _before_dashes(argv)


class _Reader:
    """One pass over the words. Flags may precede the words of their command, so the reader stores
    them as typed and converts them when it knows the command."""

    def __init__(
        self, argv: Sequence[str], commands: Sequence[Command], common: Sequence[Flag]
    ) -> None:
        self.todo = list(reversed(argv))
        self.commands = (*commands, HELP, VERSION)
        self.common = common
        self.path: tuple[str, ...] = ()
        self.command: Command | None = None
        self.asked: Command | None = None
        self.flags: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.rest: list[str] = []

    def parsed(self) -> Parsed:
        if not self.todo:
            return Parsed(HELP, {}, [])
        self._scan()
        seen = [name for name, _ in self.flags]
        if self.asked:
            return Parsed(self.asked, self.switches(seen), list(self.path))
        if self.command is None and not self.path:
            self._refuse("No command was given. To list the commands: interlock help")
        command = self.command or self._exact()
        if command is None:
            group, members = " ".join(self.path), [c.name for c in self._below(self.path)]
            message = f"'{group}' is a group of commands. Use one of: {', '.join(members)}."
            self._refuse(message, commands=members)
        self.command = command
        if command is HELP:
            self.path = ()
            for word in self.words:
                if not self._below((*self.path, word)):
                    self._refuse_command(word)
                self.path = (*self.path, word)
            return Parsed(HELP, self.switches(seen), self.words)
        flags, arguments = self._flag_values(command), self._arguments(command)
        specs: dict[str, Flag | Argument] = {flag.name: flag for flag in command.flags}
        specs |= {argument.name: argument for argument in command.arguments}
        for one_of in command.one_of:
            names = one_of.names
            given = [n for n in names if specs[n].key in (flags if n[0] == "-" else arguments)]
            if len(given) > 1:
                self._refuse(f"{spelling.listed(given)} exclude each other. Give one.")
            if one_of.required and not given:
                forms = [n if n[0] != "-" else specs[n].form for n in names]
                self._refuse(f"{command.name} needs {' or '.join(forms)}.")
        return Parsed(command, flags | arguments, self.rest)

    def switches(self, words: Sequence[str]) -> dict[str, Any]:
        """The common switches among some words."""
        return {f.key: True for f in self.common if f.name in words and not f.placeholder}

    def topic(self, words: Sequence[str]) -> list[str]:
        """Return the words that name a command or a group, and skip the others."""
        path: tuple[str, ...] = ()
        for word in words:
            if self._below((*path, word)):
                path = (*path, word)
        return list(path)

    # Reading words

    def _scan(self) -> None:
        flags_ended = False
        while self.todo:
            word = self._next()
            if flags_ended or not is_flag(word):
                self._take_word(word)
            elif word == "--":
                flags_ended = True
                command = self.command or self._exact()
                if command and command.rest:
                    self.rest = [self._next() for _ in list(self.todo)]
            elif word in _ASKS:
                self.asked = self.asked or _ASKS[word]
            else:
                self._take_flag(word)

    def _next(self) -> str:
        word = self.todo.pop()
        try:
            word.encode()
        except UnicodeEncodeError:
            word = spelling.shown(word)
            self._refuse(f"'{word}' is not UTF-8 text. Put such content into a file.")
        if "\0" in word:
            word = spelling.shown(word)
            self._refuse(f"'{word}' contains a NUL character. Put such content into a file.")
        return word

    def _take_word(self, word: str) -> None:
        if self.command is None:
            below = self._below((*self.path, word))
            if below:
                self.path = (*self.path, word)
                self.command = below[0] if [c.words for c in below] == [self.path] else None
                return
            self.command = self._exact() or self._refuse_command(word)
        if self.command.rest and len(self.words) == len(self.command.arguments):
            self.rest = [word, *(self._next() for _ in list(self.todo))]
        else:
            self.words.append(word)

    def _take_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        forms = {bool(flag.placeholder): flag for flag in self._known() if flag.name == name}
        if not forms:
            self._refuse_flag(name)
        if len(forms) == 2:
            self._refuse(
                f"{name} has several meanings. Put it after the words of the command that you mean."
            )
        if True not in forms:
            if equals:
                self._refuse(f"{name} is a switch and takes no value.")
            self.flags.append((name, None))
            return
        flag = forms[True]
        if not equals:
            if not self.todo or self.todo[-1].startswith("--") or self.todo[-1] in _ASKS:
                self._refuse(
                    f"{name} needs a value: {flag.form}. Write a value that starts with -- after "
                    f"an equals sign: {name}=--value"
                )
            value = self._next()
        if not value:
            self._refuse(f"{name} needs a value that is not empty: {flag.form}.")
        self.flags.append((name, value))

    # Finding the command

    def _below(self, path: tuple[str, ...]) -> list[Command]:
        return [c for c in self.commands if c.words[: len(path)] == path]

    def _exact(self) -> Command | None:
        return next((c for c in self.commands if c.words == self.path), None)

    def _known(self) -> list[Flag]:
        """Return the flags of the command, or of every command that the words so far may name."""
        owners = [self.command] if self.command else self._below(self.path)
        return [*self.common, *BUILT_IN, *(flag for owner in owners for flag in owner.flags)]

    # Values

    def _flag_values(self, command: Command) -> dict[str, Any]:
        own = {flag.name: flag for flag in (*self.common, *command.flags)}
        values: dict[str, Any] = {}
        for name, text in self.flags:
            flag = own.get(name) or self._refuse_flag(name)
            value = True if text is None else self._convert(flag, name, text)
            if flag.many:
                values.setdefault(flag.key, []).append(value)
            elif flag.key in values:
                self._refuse(f"{name} was given twice, and can be given once.")
            else:
                values[flag.key] = value
        missing = [flag.form for flag in command.flags if flag.required and flag.key not in values]
        if missing:
            self._refuse(f"{command.name} needs {spelling.listed(missing)}.")
        return values

    def _arguments(self, command: Command) -> dict[str, Any]:
        values: dict[str, Any] = {}
        words = list(self.words)
        for argument in command.arguments:
            count = len(words) if argument.many else 1
            taken, words = words[:count], words[count:]
            converted = [self._convert(argument, argument.name, word) for word in taken]
            if converted:
                values[argument.key] = converted if argument.many else converted[0]
        if words:
            names = [argument.name for argument in command.arguments]
            self._refuse(
                f"'{spelling.shown(words[0])}' is one argument too many: {command.name} takes "
                + (
                    f"{spelling.listed(names)}. Quote a text of several words."
                    if names
                    else "none."
                )
            )
        missing = [a.name for a in command.arguments if not a.optional and a.key not in values]
        if command.rest and not self.rest:
            missing.append("a COMMAND to run, after --")
        if missing:
            self._refuse(f"{command.name} needs {spelling.listed(missing)}.")
        return values

    def _convert(self, spec: Flag | Argument, name: str, text: str) -> str | int:
        if spec.choices and text not in spec.choices:
            close = spelling.near(text, spec.choices)
            hint = f"Did you mean {' or '.join(close)}? " if close else ""
            self._refuse(
                f"{name} cannot be '{spelling.shown(text)}'. {hint}It is one of: "
                f"{', '.join(spec.choices)}.",
                choices=list(spec.choices),
                did_you_mean=close,
            )
        if spec.kind == "duration":
            from interlock.verbs import durations

            try:
                return durations.seconds(text)
            except ValueError as error:
                self._refuse(f"{name} cannot be '{spelling.shown(text)}'. {error}")
        if spec.kind == "text":
            return text
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            self._refuse(
                f"{name} cannot be '{spelling.shown(text)}'. It is a whole number of at most 18 "
                "digits."
            )
        number = int(text)
        if spec.minimum is not None and number < spec.minimum:
            self._refuse(f"{name} cannot be {number}. It is at least {spec.minimum}.")
        if spec.maximum is not None and number > spec.maximum:
            self._refuse(f"{name} cannot be {number}. It is at most {spec.maximum}.")
        return number

    # Refusing

    def _refuse(self, message: str, **members: list[str]) -> NoReturn:
        from interlock.doors.cli import help

        command = self.command or self._exact()
        usage = help.usage(command) if command else help.group_usage(self.path, self.commands)
        raise Usage(message, usage=usage, **{name: some for name, some in members.items() if some})

    def _refuse_flag(self, name: str) -> NoReturn:
        place = (self.command.name if self.command else " ".join(self.path)) or "interlock"
        close = spelling.near(name, [flag.name for flag in self._known()])
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        self._refuse(
            f"{place} has no flag {spelling.shown(name)}. {hint}"
            "If it is not a flag, write it after --.",
            did_you_mean=close,
        )

    def _refuse_command(self, word: str) -> NoReturn:
        depth = len(self.path)
        below = [c for c in self._below(self.path) if len(c.words) > depth]
        by_word = {c.words[depth]: " ".join(c.words[: depth + 1]) for c in below}
        close = [by_word[match] for match in spelling.near(word, list(by_word))]
        close += [c.name for c in below if word in c.words[depth + 1 :]][: 4 - len(close)]
        group = " ".join(self.path)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        self._refuse(
            f"There is no command '{spelling.shown(f'{group} {word}'.strip())}'. {hint}"
            f"To list the commands: {f'interlock help {group}'.strip()}",
            did_you_mean=close,
        )


def is_flag(word: str) -> bool:
    # "-", "-5" and "- a list item" are words, because no flag has such a name.
    return word.startswith("--") or (
        word[:1] == "-" and word[1:2].isascii() and word[1:2].isalpha()
    )


def _before_dashes(argv: Sequence[str]) -> Sequence[str]:
    return argv[: argv.index("--")] if "--" in argv else argv
