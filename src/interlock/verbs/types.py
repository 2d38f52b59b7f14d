"""The types of fields: the check of a value, its JSON Schema, and its form on a command line.

A type is a Python type with a `Shape`: `Item` is a `str` for type checkers, and for the doors a
text of a certain pattern. `bool`, `dict[str, Any]`, `bytes`, `Literal["a", "b"]` and
`tuple[T, ...]` need no `Shape`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, get_args

from interlock.errors import BadInput, Usage
from interlock.verbs.addresses import unicode

if TYPE_CHECKING:
    from typing import Annotated as Annotated
else:

    class Annotated:
        """`Annotated[str, ITEM]` is a `str` for type checkers and `ITEM` at run time. The class of
        `typing` would take 0.3 ms of every command."""

        def __class_getitem__(cls, parts: tuple[Any, Shape]) -> Shape:
            return parts[1]


MAX_TTL_S = 365 * 86_400
MAX_ROWS = 1000
MAX_FILES = 10_000
MAX_POSITION = (1 << 62) - 1
MAX_QUERY_LENGTH = 1000
# Patterns are compiled on first use: most commands check nothing.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"

Schema = dict[str, Any]
ValueKind = Literal["text", "int", "duration", "switch"]


class Shape:
    """The shape of a value. `metavar` stands for the value in usage lines. `help` explains the
    value. `form` describes the allowed values, for refusals."""

    kind: ClassVar[ValueKind] = "text"
    many: ClassVar[bool] = False
    python: ClassVar[str] = "str"

    def __init__(self, form: str, metavar: str = "", help: str = "") -> None:
        self.form, self.metavar, self.help = form, metavar, help

    def check(self, name: str, value: Any) -> None:
        """Raise Usage unless the value has this shape."""
        raise NotImplementedError

    def schema(self) -> Schema:
        """The JSON Schema that accepts exactly the values that `check` accepts, as far as JSON
        Schema can express that."""
        raise NotImplementedError

    def refuse(self, name: str, value: Any) -> NoReturn:
        given = f"{value[:80]!r}" if isinstance(value, str) else str(value)[:80]
        raise Usage(f"{name} is {given}. Give {self.form}.", member=name)


class Text(Shape):
    """Text of a pattern, or of at most so many characters. A `line` is not blank and has no control
    characters. A refusal does not repeat a `secret`."""

    def __init__(
        self,
        form: str = "text",
        metavar: str = "TEXT",
        help: str = "",
        *,
        pattern: str | None = None,
        max_length: int | None = None,
        line: bool = False,
        secret: bool = False,
    ) -> None:
        super().__init__(form, metavar, help)
        self.max_length, self.line, self.secret = max_length, line, secret
        self.pattern = pattern

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise Usage(f"{name} must be text.", member=name)
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            if self.secret:
                raise Usage(f"{name} is not valid. Give {self.form}.", member=name)
            self.refuse(name, value)
        if self.max_length is not None and len(value) > self.max_length:
            raise Usage(
                f"{name} has {len(value)} characters, and at most {self.max_length} are allowed.",
                member=name,
            )
        if self.line:
            if not value.strip():
                raise Usage(f"{name} is empty. Give {self.form}.", member=name)
            if re.search(_CONTROL, value):
                raise Usage(f"{name} has control characters. Give {self.form}.", member=name)
        if not unicode(value):
            raise Usage(f"{name} is not valid UTF-8 text.", member=name)

    def schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if self.pattern is not None:
            schema["pattern"] = f"^(?:{self.pattern})$"
        if self.line:
            schema["minLength"] = 1
        if self.max_length is not None:
            schema["maxLength"] = self.max_length
        return schema


def one_line(metavar: str, help: str, max_length: int) -> Text:
    return Text("one line of text", metavar, help, max_length=max_length, line=True)


class Integer(Shape):
    """A whole number between two bounds."""

    kind: ClassVar[ValueKind] = "int"
    python = "int"

    def __init__(
        self,
        minimum: int = 0,
        maximum: int = MAX_POSITION,
        form: str = "",
        metavar: str = "N",
        help: str = "",
    ) -> None:
        bounds = f"at least {minimum}" if maximum == MAX_POSITION else f"{minimum} to {maximum}"
        super().__init__(form or f"a whole number, {bounds}", metavar, help)
        self.minimum, self.maximum = minimum, maximum

    def check(self, name: str, value: Any) -> None:
        if type(value) is not int or not self.minimum <= value <= self.maximum:
            self.refuse(name, value)

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


class Seconds(Integer):
    """A duration. On the command line it is `90s`, `15m`, `2h` or `7d`."""

    kind = "duration"


def described(help: str, form: str) -> str:
    """The help of a duration, with the form of an interface before the default: `the lease, in
    seconds; by default …`."""
    meaning, *default = help.split("; ", 1)
    return "; ".join((meaning + form, *default))


class Switch(Shape):
    kind = "switch"
    python = "bool"

    def __init__(self) -> None:
        super().__init__("true or false")

    def check(self, name: str, value: Any) -> None:
        if type(value) is not bool:
            self.refuse(name, value)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Choice(Shape):
    """One of several words. For a member of a message, `refusal` is InvalidMessage."""

    def __init__(self, *choices: str, refusal: type[BadInput] = Usage) -> None:
        super().__init__(f"one of {', '.join(choices)}")
        self.choices, self.refusal = choices, refusal

    @property
    def annotation(self) -> str:
        return f"Literal[{', '.join(map(repr, self.choices))}]"

    def check(self, name: str, value: Any) -> None:
        if value not in self.choices:
            given = f"{value[:80]!r}" if isinstance(value, str) else "not text"
            raise self.refusal(f"{name} is {given}. Give {self.form}.", member=name)

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.choices)}


class Several(Shape):
    """A list of values of one shape."""

    many = True

    def __init__(
        self, each: Shape, minimum: int = 0, maximum: int | None = None, advice: str = ""
    ) -> None:
        bounds = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
        super().__init__(f"{bounds} values", each.metavar, each.help)
        self.each, self.minimum, self.maximum = each, minimum, maximum
        self.advice = advice

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, tuple):
            raise Usage(f"{name} must be a list.", member=name)
        most = len(value) if self.maximum is None else self.maximum
        if not self.minimum <= len(value) <= most:
            message = f"{name} has {len(value)} values. Give {self.form}. {self.advice}"
            raise Usage(message.rstrip(), member=name)
        for one in value:
            self.each.check(name, one)

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.each.schema()}
        if self.minimum:
            schema["minItems"] = self.minimum
        if self.maximum is not None:
            schema["maxItems"] = self.maximum
        return schema


class Object(Shape):
    """A JSON object. The verb's own `checked` checks its members."""

    python = "dict[str, Any]"

    def __init__(self, form: str = "a JSON object", metavar: str = "JSON", help: str = "") -> None:
        super().__init__(form, metavar, help)

    def check(self, name: str, value: Any) -> None:
        # The refusal does not repeat the value, which may contain a secret.
        if not isinstance(value, dict):
            raise Usage(f"{name} is not an object. Give {self.form}.", member=name)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": True}


class Binary(Shape):
    """Bytes: the unchanged body of a request."""

    python = "bytes"

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, bytes):
            self.refuse(name, value)

    def schema(self) -> Schema:
        return {"type": "string", "format": "binary"}


_PLAIN: dict[str, Shape] = {
    "str": Text(),
    "int": Integer(-MAX_POSITION),
    "bool": Switch(),
    "bytes": Binary("bytes"),
    "dict[str, Any]": Object(),
}


def shape_of(annotation: str, names: dict[str, Any]) -> tuple[Shape, bool]:
    """The shape that an annotation names, and whether it admits None. `names` are those of the
    module where the annotation is written."""
    bare = annotation.removesuffix(" | None")
    optional = bare != annotation
    if bare.startswith("tuple["):
        each, _ = shape_of(bare[len("tuple[") : -len(", ...]")], names)
        return Several(each), optional
    if bare.startswith("Literal["):
        return Choice(*get_args(eval(bare, {"Literal": Literal}))), optional  # noqa: S307
    if bare in _PLAIN:
        return _PLAIN[bare], optional
    named = names[bare]
    if isinstance(named, Shape):
        return named, optional
    if not all(isinstance(choice, str) for choice in get_args(named)):
        raise TypeError(f"{bare} has no shape. Import Annotated from interlock.verbs.types.")
    return Choice(*get_args(named)), optional


# --- names and references

ITEM = Text(
    "an item: a letter or digit, then letters, digits and _ . : / # @ + -, at most 200",
    "I",
    "a work item, such as B-0444",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.:/#@+-]{0,199}",
)
SESSION_ID = Text(
    "a session: a letter or digit, then letters, digits and _ . : -, at most 128",
    "S",
    "the session",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}",
)
OBJECT_ID = Text(
    "the whole id of a git object, 40 to 64 hexadecimal digits, from git rev-parse",
    "C",
    "a commit",
    pattern=r"[0-9a-f]{40,64}",
)
MESSAGE_REF = Text(
    "the id of a message, at least 6 characters of it, or #SEQ",
    "ID",
    "the message: its id, a prefix of 6 or more characters, or #SEQ",
    pattern=r"#?[A-Za-z0-9-]{1,64}",
)
TASK_ID = Text(
    "a task id: a letter or digit, then letters, digits and _ . -, at most 64",
    "ID",
    "the task, such as B-0444",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
)
SHA256 = Text(
    "a SHA-256, as 64 hexadecimal digits in lower case",
    "SHA256",
    pattern=r"(?:[0-9a-f]{64})?",
    secret=True,
)
LINE = one_line("TEXT", "", 280)
GLOB = Text("a glob", "GLOB", "paths from the repository's root, such as 'src/**'")
FILE = Text("a file's name from the repository's root", "PATH", "a file", max_length=4096)

Item = Annotated[str, ITEM]
SessionId = Annotated[str, SESSION_ID]
ObjectId = Annotated[str, OBJECT_ID]
MessageRef = Annotated[str, MESSAGE_REF]
TaskId = Annotated[str, TASK_ID]
# A name that a rule only compares. It may be any text that can be encoded.
Query = Annotated[str, Text("text of at most 1000 characters", "NAME", max_length=MAX_QUERY_LENGTH)]
# Empty if the node makes the secret itself.
Sha256 = Annotated[str, SHA256]
Files = Annotated[tuple[str, ...], Several(FILE, maximum=MAX_FILES)]

# --- text

Line = Annotated[str, LINE]
Reason = Annotated[str, one_line("R", "the reason, which the log records", 1024)]
Note = Annotated[str, one_line("N", "a note", 4096)]
ClaimNote = Annotated[str, one_line("N", "what you are doing", 1024)]
Key = Annotated[
    str, one_line("K", "the same key with the same body gives the first answer again", 200)
]
Branch = Annotated[str, one_line("B", "the branch of the work", 255)]
Worktree = Annotated[str, one_line("P", "the worktree of the work", 4096)]
Repository = Annotated[
    str,
    one_line("R", "the repository of the paths; commands default to the one that you are in", 1024),
]
# A file on the server's machine.
ABSOLUTE_PATH = Text("the absolute path of a file", "FILE", "a file", pattern=r"/[^\0]*")
AbsolutePath = Annotated[str, ABSOLUTE_PATH]

# --- numbers

Duration = Annotated[
    int,
    Seconds(
        1,
        MAX_TTL_S,
        f"whole seconds, 1 to {MAX_TTL_S}",
        "D",
        "how long it lasts",
    ),
]
Fence = Annotated[int, Integer(1, help="the fence that you were granted")]
Limit = Annotated[int, Integer(1, MAX_ROWS, help="the maximum number of results")]
Position = Annotated[
    int, Integer(0, metavar="SEQ", help="only results after this position of the log")
]
Offset = Annotated[int, Integer(0, help="the position of a byte of the body")]
