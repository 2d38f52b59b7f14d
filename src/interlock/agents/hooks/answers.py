"""How what is said becomes text that a client takes, and the form that two of them share."""

from typing import Any

from interlock.agents.hooks import Said

# Claude Code moves text of more than 10,000 characters into a file that the agent is not asked to
# read; Codex does so above 2,500 tokens, which it counts as four bytes each. Bytes of UTF-8 are
# never fewer than the characters, so one number keeps both.
LIMIT = 10_000
# What the note on a part takes at most.
NOTE = 160


def spoken(text: str | None, limit: int | None = None) -> str:
    """Text as it can be handed over: valid, within the limit, and empty where nothing is said."""
    if text is None or not text.strip():
        return ""
    data = text.encode("utf-8", "replace")
    if limit is None or len(data) <= limit:
        return data.decode()
    head = data[: limit - NOTE].decode("utf-8", "ignore")
    head = head.rpartition("\n")[0].rstrip() or head
    return (
        f"{head}\n(This is a part: {len(head)} of {len(text)} characters."
        " `interlock whoami` and `interlock inbox` have the rest.)"
    )


def nested(event: str, kind: str, said: Said, takes_context: bool) -> dict[str, Any]:
    """The answer to Claude Code, whose form Codex has taken over."""
    if kind == "stop":
        hold = spoken(said.hold, LIMIT)
        return {"decision": "block", "reason": hold} if hold else {}
    specific: dict[str, str] = {}
    if kind == "edit" and (denial := spoken(said.denial, LIMIT)):
        specific |= {"permissionDecision": "deny", "permissionDecisionReason": denial}
    if takes_context and (context := spoken(said.context, LIMIT)):
        specific["additionalContext"] = context
    return {"hookSpecificOutput": {"hookEventName": event, **specific}} if specific else {}
