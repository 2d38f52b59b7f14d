"""What setup found, changed or would change."""

from interlock.doors.cli.output import bold, green, yellow
from interlock.doors.cli.views.checks import VIEWS as CHECKS
from interlock.doors.cli.views.parts import table
from interlock.verbs.answers import Answer

WOULD = {"created": "would create", "changed": "would change", "removed": "would remove"}
WHERE = {"worktree": "here", "user": "in every project", "plugin": "with this plugin"}


def _set_up(answer: Answer) -> str:
    if "clients" in answer:
        return _detected(answer)
    if "hooks" in answer:
        return CHECKS["guard install"](answer)
    rows = _who(answer)
    for change in answer["changes"]:
        state = change["state"] if answer["applied"] else WOULD.get(change["state"], "unchanged")
        rows.append(f"{green(state)}  {change['file']}")
        if "diff" in change:
            rows += [f"  {line}" for line in change["diff"].rstrip("\n").split("\n")]
    if not answer["changes"]:
        rows.append("Nothing to change.")
    rows += [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]
    rows += [f"To do: {sentence}" for sentence in answer.get("confirm", ())]
    return "\n".join(rows)


def _who(answer: Answer) -> list[str]:
    """Who the client is, and whether that is somebody new."""
    from interlock.agents.setup.clients import client_named

    if "sender" not in answer:
        return []
    sender, would = bold(answer["sender"]), "" if answer["applied"] else "would "
    acts = "acts" if answer["applied"] else "would act"
    title, where = client_named(answer["client"]).TITLE, WHERE[answer["place"]]
    rows = [f"{sender} {would}join{'' if would else 'ed'}."] if _is_new(answer) else []
    return [*rows, f"{title} {acts} as {sender} {where}."]


def _is_new(answer: Answer) -> bool:
    return bool(answer.get("joined") or answer.get("joins"))


def _detected(answer: Answer) -> str:
    return table(
        (
            (
                client["client"],
                "installed" if "found" in client else "not installed",
                _state(client),
                client["command"],
            )
            for client in answer["clients"]
        ),
        "",
    )


def _state(client: Answer) -> str:
    """Whether it is set up, as whom, and what is wrong with that."""
    as_whom = f" as {client['sender']}" if "sender" in client else ""
    if client["set_up"]:
        return f"set up{as_whom}" + (", but what it calls is gone" * ("dead" in client))
    if "no_repository" in client:
        return "no repository here"
    half = [name for name in ("hooks", "server") if client.get(name)]
    return f"{half[0]} only{as_whom}" if half else "not set up"


VIEWS = {"setup": _set_up}
