"""What setup found, changed or would change."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.checks import VIEWS as CHECKS
from interlock.doors.cli.views.parts import Answer, table


def _set_up(answer: Answer) -> str:
    if "clients" in answer:
        return _detected(answer)
    if "hooks" in answer:
        return CHECKS["guard install"](answer)
    rows = []
    if answer.get("joined"):
        rows.append(f"{bold(answer['sender'])} joined.")
    if answer.get("joins"):
        rows.append(f"{bold(answer['sender'])} would join.")
    for change in answer["changes"]:
        rows.append(f"{green(change['state'])}  {change['file']}")
        if "diff" in change:
            rows += [f"  {line}" for line in change["diff"].rstrip("\n").split("\n")]
    if not answer["changes"]:
        rows.append("Nothing to change.")
    rows += [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]
    rows += [f"To do: {sentence}" for sentence in answer.get("confirm", ())]
    return "\n".join(rows)


def _detected(answer: Answer) -> str:
    return table(
        (
            (
                client["client"],
                "set up"
                if client["set_up"]
                else "found"
                if "found" in client
                else dim("not found"),
                client["command"],
            )
            for client in answer["clients"]
        ),
        "",
    )


VIEWS = {"setup": _set_up}
