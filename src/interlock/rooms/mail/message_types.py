"""The names of the message types and who writes them, for callers that validate nothing.

Apart from the models because those need Pydantic, whose import alone costs more than a whole
command of the CLI should.
"""

from typing import Any, Final

from interlock.errors import UnknownType, UseVerb

MESSAGE_VERSION: Final = "1.0"

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

# What tells of an act is written by the act itself, so that nobody can say "completed" by mail.
WRITTEN_BY: Final[dict[str, str]] = {
    "evidence": "interlock evidence run|add",
    "gate_verdict": "interlock gate pass|fail",
    "task_created": "interlock task create",
    "task_claimed": "interlock task take",
    "task_completed": "interlock task complete",
    "agent_joined": "interlock join",
}

TYPES: Final[tuple[str, ...]] = (*MAIN_MEMBER, *WRITTEN_BY)


def sendable(type: str) -> None:
    """Return if a message of this type may be sent by hand.

    Raises UnknownType, or UseVerb with the command that writes such messages in `use`.
    """
    if type not in TYPES:
        raise unknown(type, tuple(MAIN_MEMBER))
    if type not in SENDABLE:
        use = WRITTEN_BY[type]
        raise UseVerb(
            f"Messages of type {type} are written by {use} and cannot be sent by hand.",
            type=type,
            use=use,
        )


def plain(type: str, payload: object) -> bool:
    """Whether the payload is its main text and nothing else, where that is all the type asks for.

    Such a payload fits its contract, so a command that only sends a text can do without the
    models. False says nothing: ask `messages.check`.
    """
    if type not in ("send", "ask", "announce", "wake") or not isinstance(payload, dict):
        return False
    text = payload.get(MAIN_MEMBER[type])
    if len(payload) != 1 or not isinstance(text, str) or not text:
        return False
    try:
        text.encode()  # arguments of a command line can hold bytes that are no text
    except UnicodeEncodeError:
        return False
    return True


def unknown(type: str, valid: tuple[str, ...] = TYPES) -> UnknownType:
    """The refusal of a type that is not among the valid ones, with the nearest of them."""
    from difflib import get_close_matches  # only a mistake pays for it

    said = clip(str(type))
    near = get_close_matches(said, valid, n=3)
    members: dict[str, Any] = {"did_you_mean": near} if near else {}
    return UnknownType(
        f"There is no message type '{said}' here. Use one of: {', '.join(valid)}.",
        type=said,
        valid_types=list(valid),
        **members,
    )


def clip(said: str, most: int = 64) -> str:
    """What somebody wrote, short enough and clean enough to stand in an error message."""
    short = said if len(said) <= most else said[:most] + "…"
    return short if short.isprintable() else short.encode("unicode_escape").decode("ascii")
