"""Types that the answers of several rooms share."""

from typing_extensions import TypedDict

from interlock.verbs.answers import Kind, Priority, Reach, State

__all__ = ["From", "Kind", "No", "Priority", "Reach", "State"]

From = TypedDict("From", {"from": str})


class No(TypedDict):
    """The members of an error object, except its code."""

    error: str
    message: str
