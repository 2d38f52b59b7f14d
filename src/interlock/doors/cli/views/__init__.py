"""Answers as text for people.

The view of a command is the function of the same name in one of these modules: `task_show` is the
view of `task show`. The generated index names the module. A view quotes every line of a body behind
a bar, so that the text of another agent cannot look like a line of Interlock.
"""

from collections.abc import Iterable

from interlock.doors.cli.index import VIEWS
from interlock.doors.cli.output import bold, dim, fold, yellow
from interlock.verbs.answers import Answer

BAR = "│ "
INDENT = " " * 6


def text(command: str, answer: Answer) -> str:
    """Return the answer of a command as text: its view, or one member a line."""
    if command not in VIEWS:
        return members(answer)
    views = vars(__import__(f"{__name__}.{VIEWS[command]}", fromlist=["*"]))
    shown: str = views[function_name(command)](answer)
    return shown


def function_name(command: str) -> str:
    """Return the name of the function that is the view of a command."""
    return command.replace(" ", "_").replace("-", "_")


def members(answer: Answer, indent: str = "") -> str:
    """Return an answer that has no view of its own: one member a line."""
    left = max((len(name) for name in answer), default=0)
    rows = []
    for name, value in answer.items():
        if isinstance(value, dict):
            rows.append(f"{indent}{name}\n{members(value, indent + '  ')}")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            rows.append(f"{indent}{dim(name.ljust(left))}  {shown}")
    return "\n".join(rows)


def table(rows: Iterable[tuple[str, ...]], empty: str = "") -> str:
    lines = list(rows)
    if not lines:
        return dim(empty)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )


def time(at: str) -> str:
    return at[:19].replace("T", " ") + "Z"


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def entries(number: int) -> str:
    return count(number, "entry", "entries")


def quoted(body: str, indent: str = "") -> str:
    lines = body.split("\n")
    return "\n".join(indent + BAR + piece for line in lines for piece in fold(line, len(indent)))


def notices(answer: Answer) -> list[str]:
    return [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]


def failure(answer: Answer) -> str:
    return f"{yellow(answer['error'])} ({answer['code']}): {answer['message']}"


def claim_line(claim: Answer) -> str:
    on = claim["item"] if "item" in claim else f"{' '.join(claim['paths'])} in {claim['repo']}"
    where = "".join(
        f"  {name} {claim[name]}" for name in ("branch", "worktree", "session") if name in claim
    )
    note = f"  note {claim['note']}" if "note" in claim else ""
    return (
        f"{bold(on)}  held by {claim['holder']} until {time(claim['expires_at'])}  "
        f"fence {claim['fence']}{where}{note}"
    )
