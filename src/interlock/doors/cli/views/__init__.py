"""Answers as people read them, a module for each family of commands.

Every body is quoted line by line behind a bar, so that text which another agent wrote can never
pass for a line of ours.
"""

from collections.abc import Callable, Mapping

from interlock.doors.cli.views.parts import members
from interlock.verbs.answers import Answer


def text(command: str, answer: Answer) -> str:
    """The answer of a command; one that has no form of its own is shown member by member."""
    family = _FAMILIES.get(command) or _FAMILIES.get(command.partition(" ")[0])
    if family is None:
        return members(answer)
    views: Mapping[str, Callable[[Answer], str]]
    views = __import__(f"interlock.doors.cli.views.{family}", fromlist=["VIEWS"]).VIEWS
    return views.get(command, members)(answer)


_FAMILIES = {
    **dict.fromkeys(("init", "join", "whoami", "agents", "token", "group"), "identity"),
    **dict.fromkeys(("send", "ask", "answer", "inbox", "read", "ack"), "mail"),
    **dict.fromkeys(("receipts", "thread", "search", "explain", "redact", "mute"), "mail"),
    **dict.fromkeys(("invite", "connection"), "people"),
    "claim": "claims",
    **dict.fromkeys(("task", "evidence", "gate", "blocker"), "work"),
    "report": "work",
    **dict.fromkeys(("gate run", "scrub", "guard"), "checks"),
    "setup": "setting_up",
    **dict.fromkeys(("audit", "status", "settings", "review"), "upkeep"),
    **dict.fromkeys(("backup", "restore", "rebuild", "pause", "resume"), "upkeep"),
    **dict.fromkeys(("up", "down"), "upkeep"),
    **dict.fromkeys(("migrate", "repair", "doctor"), "engines"),
}
