"""Types of members of answers. Commands import this module, so it defines no slow types."""

from typing import Any, Literal

# Any answer, for code that only passes it on.
Answer = dict[str, Any]
State = Literal["accepted", "woken", "shown", "read", "acked", "declined", "expired"]
Reach = Literal["wakes", "working", "waits", "offline", "unknown"]
Kind = Literal["agent", "human"]
Priority = Literal["low", "normal", "high", "critical"]


def without_none(**members: Any) -> Any:
    """The members in order, without those that are None."""
    return {name: value for name, value in members.items() if value is not None}
