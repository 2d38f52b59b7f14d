"""The words in answers. Commands import this module, so it defines no types that cost time."""

from typing import Any, Literal

# Any answer, for code that only passes it on.
Answer = dict[str, Any]
State = Literal["accepted", "woken", "shown", "read", "acked", "declined", "expired"]
Reach = Literal["wakes", "working", "waits", "offline", "unknown"]
Kind = Literal["agent", "human"]
Priority = Literal["low", "normal", "high", "critical"]
