"""What answers of several rooms have in common."""

from typing import Any, Literal

from typing_extensions import TypedDict

# Any answer, for code that only passes it on.
Answer = dict[str, Any]
State = Literal["accepted", "woken", "shown", "read", "acked", "declined", "expired"]
Reach = Literal["wakes", "working", "waits", "offline", "unknown"]
Kind = Literal["agent", "human"]
Priority = Literal["low", "normal", "high", "critical"]
From = TypedDict("From", {"from": str})


class No(TypedDict):
    """The members of an error object, beside its code."""

    error: str
    message: str
