"""The names of the message types, the commands that write them, and the patterns of members.

The models are in `payloads`, because importing Pydantic takes longer than a whole command should.
"""

from typing import Any, Final

from interlock.errors import Remedy, UnknownType, UseVerb

MESSAGE_VERSION: Final = "1.0"
# A longer body is uploaded in chunks, because neither the log nor one request should carry it.
MAX_INLINE_BYTES: Final = 1 << 20

# The member that the TEXT of a command line fills.
MAIN_MEMBER: Final[dict[str, str]] = {
    "send": "text",
    "ask": "question",
    "answer": "text",
    "announce": "text",
    "wake": "text",
    "command": "command",
    "blocker": "what",
}

SENDABLE: Final[frozenset[str]] = frozenset(MAIN_MEMBER)

# Only the command itself writes these, so that no sender can claim "completed" by mail.
WRITTEN_BY: Final[dict[str, Remedy]] = {
    "evidence": Remedy(
        "interlock evidence run or interlock evidence add",
        http="`POST /v1/evidence`",
        mcp="the tool `evidence`",
    ),
    "gate_verdict": Remedy(
        "interlock gate pass or interlock gate fail",
        http="`POST /v1/verdicts`",
        mcp="the tool `verdict`",
    ),
    "task_created": Remedy(
        "interlock task create", http="`POST /v1/tasks`", mcp="`task(action: create)`"
    ),
    "task_claimed": Remedy(
        "interlock task take", http="`POST /v1/tasks/{id}/take`", mcp="`task(action: take)`"
    ),
    "task_completed": Remedy(
        "interlock task complete",
        http="`POST /v1/tasks/{id}/complete`",
        mcp="`task(action: complete)`",
    ),
    "agent_joined": Remedy("interlock join", http="`POST /v1/agents`"),
}

TYPES: Final[tuple[str, ...]] = (*MAIN_MEMBER, *WRITTEN_BY)

# Rust, Python and ECMAScript give these patterns the same meaning: they have ASCII classes, no
# look-around and no \d.
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

# The description of each pattern, for refusals and schemas.
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


def sendable(type: str) -> None:
    """Raise UnknownType or UseVerb unless a caller may send messages of this type. The `use` of a
    UseVerb names the command that writes them."""
    if type not in TYPES:
        raise unknown(type, tuple(MAIN_MEMBER))
    if type not in SENDABLE:
        use = WRITTEN_BY[type]
        raise UseVerb(
            f"You cannot send a message of type {type}, which Interlock writes itself. "
            "Use instead:",
            use,
            type=type,
            use=use,
        )


def plain(type: str, payload: object) -> bool:
    """Whether the payload is valid because it has only the main text, and its type needs no other
    member. A command that sends such a text needs no models. If False, call `payloads.check`."""
    if type not in ("send", "ask", "announce", "wake") or not isinstance(payload, dict):
        return False
    text = payload.get(MAIN_MEMBER[type])
    if len(payload) != 1 or not isinstance(text, str) or not text:
        return False
    try:
        text.encode()  # arguments of a command line can have bytes that are not UTF-8
    except UnicodeEncodeError:
        return False
    return True


def is_large(type: str, payload: object) -> bool:
    """Whether the main text of a message must be uploaded before the message is sent."""
    text = payload.get(MAIN_MEMBER.get(type, "")) if isinstance(payload, dict) else None
    if not isinstance(text, str) or len(text) * 4 <= MAX_INLINE_BYTES:
        return False
    return len(text.encode("utf-8", "surrogatepass")) > MAX_INLINE_BYTES


def unknown(type: str, valid: tuple[str, ...] = TYPES) -> UnknownType:
    """The refusal of an unknown type, with the nearest valid ones."""
    from difflib import get_close_matches  # slow to import, and only needed here

    given = clip(str(type))
    near = get_close_matches(given, valid, n=3)
    members: dict[str, Any] = {"did_you_mean": near} if near else {}
    return UnknownType(
        f"Unknown message type '{given}'. Use one of: {', '.join(valid)}.",
        type=given,
        valid_types=list(valid),
        **members,
    )


def clip(text: str, most: int = 64) -> str:
    """Return a caller's text, shortened and printable, for an error message."""
    short = text if len(text) <= most else text[:most] + "…"
    return short if short.isprintable() else short.encode("unicode_escape").decode("ascii")
