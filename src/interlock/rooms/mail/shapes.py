"""The shapes that members of messages have: names, ids, digests, times, texts, numbers.

Each is a Pydantic type whose constraints JSON Schema can say too, so that a reader with the
published schema and nothing else refuses exactly what Interlock refuses.
"""

from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic_core import CoreSchema, PydanticCustomError

# The dialect that Rust, Python and ECMAScript read alike: ASCII classes, no look-around, no \d.
ADDRESS: Final = r"^@[A-Za-z0-9_-]{1,128}$"
DIGEST: Final = r"^[0-9a-f]{64}$"
HTTP_URL: Final = r"^https?://[!-~]+$"
LABEL: Final = r"^[a-z0-9][a-z0-9_.:/-]{0,63}$"
NAME: Final = r"^[a-z][a-z0-9-]{0,63}$"
OBJECT_ID: Final = r"^[0-9a-f]{40,64}$"
TASK_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
TIME: Final = (
    r"^[0-9]{4}-"
    r"((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$"
)
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

SHAPES: Final[dict[str, str]] = {
    ADDRESS: "the address of an agent, such as @otto-cli",
    DIGEST: "a SHA-256 digest: 64 lower-case hexadecimal digits",
    HTTP_URL: "an http or https URL in ASCII, without spaces",
    LABEL: "a lower-case label: 1 to 64 of a-z, 0-9 and _ . : / -",
    NAME: "a name: a lower-case letter, then up to 63 of a-z, 0-9 and -",
    OBJECT_ID: "a git object id: 40 to 64 lower-case hexadecimal digits",
    TASK_ID: "a task id: a letter or digit, then up to 63 letters, digits and _ . -",
    TIME: "an RFC 3339 time in UTC with milliseconds, such as 2026-01-02T03:04:05.678Z",
    UUID: "a message id: a lower-case UUID",
}

T = TypeVar("T")


class _NeverNull:
    """Lets a member be left out, as its default of None says, but not be given as null."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "nullable"
        inner: CoreSchema = schema["schema"]
        return inner


def _unique(entries: list[str]) -> list[str]:
    if len(set(entries)) != len(entries):
        raise PydanticCustomError("repeated", "must not repeat an entry")
    return entries


Maybe = Annotated[T | None, _NeverNull()]
Unique = Annotated[list[T], AfterValidator(_unique), Field(json_schema_extra={"uniqueItems": True})]

Address = Annotated[str, Field(pattern=ADDRESS, description=SHAPES[ADDRESS])]
Digest = Annotated[str, Field(pattern=DIGEST, description=SHAPES[DIGEST])]
Label = Annotated[str, Field(pattern=LABEL, description=SHAPES[LABEL])]
MessageId = Annotated[str, Field(pattern=UUID, description=SHAPES[UUID])]
Name = Annotated[str, Field(pattern=NAME, description=SHAPES[NAME])]
ObjectId = Annotated[str, Field(pattern=OBJECT_ID, description=SHAPES[OBJECT_ID])]
TaskId = Annotated[str, Field(pattern=TASK_ID, description=SHAPES[TASK_ID])]
Time = Annotated[str, Field(pattern=TIME, description=SHAPES[TIME])]
Url = Annotated[str, Field(pattern=HTTP_URL, max_length=2048, description=SHAPES[HTTP_URL])]

Text = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1, max_length=280)]
Remark = Annotated[str, Field(min_length=1, max_length=2000)]
Note = Annotated[str, Field(min_length=1, max_length=10_000)]
Path = Annotated[str, Field(min_length=1, max_length=4096)]
ShellCommand = Annotated[str, Field(min_length=1, max_length=4096)]
Argument = Annotated[str, Field(max_length=131_072)]  # the longest that Linux hands to a process

# JSON Schema cannot tell 1.0 from 1 and advises against writing the former; it is refused here.
WHOLE: Final = "a whole number, written without fraction or exponent"
LARGEST: Final = 2**63 - 1
Count = Annotated[int, Field(ge=0, le=LARGEST, description=WHOLE)]
Fence = Annotated[int, Field(ge=1, le=LARGEST, description=WHOLE)]
Pid = Annotated[int, Field(ge=1, le=2**32 - 1, description=WHOLE)]
ExitCode = Annotated[int, Field(ge=-(2**31), le=2**32 - 1, description=WHOLE)]
Seconds = Annotated[int, Field(ge=1, le=86_400, description=WHOLE)]
Criterion = Annotated[int, Field(ge=1, le=100, description=WHOLE)]

Criteria = Annotated[list[Remark], Field(max_length=100)]
Fixes = Annotated[list[ShellCommand], Field(max_length=20)]
EvidenceIds = Annotated[Unique[MessageId], Field(max_length=100)]
Gates = Annotated[Unique[Name], Field(max_length=20)]
Labels = Annotated[Unique[Label], Field(max_length=20)]
Options = Annotated[Unique[Line], Field(max_length=20)]
TaskIds = Annotated[Unique[TaskId], Field(max_length=100)]


def _argv_or_line(value: object) -> str | None:
    if isinstance(value, list):
        return "argv"
    return "line" if isinstance(value, str) else None


RunCommand = Annotated[
    Annotated[list[Argument], Field(min_length=1, max_length=4096), Tag("argv")]
    | Annotated[Text, Tag("line")],
    Discriminator(_argv_or_line),
]
