"""Views of the commands that work in a repository: `setup`, `guard`, `scrub` and `gate run`."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views import notices, table
from interlock.verbs.answers import Answer

_WOULD = {"created": "would create", "changed": "would change", "removed": "would remove"}
_WHERE = {"worktree": "here", "user": "in every project", "plugin": "with this plugin"}


def setup(answer: Answer) -> str:
    if "clients" in answer:
        return table(
            (
                client["client"],
                "installed" if "found" in client else "not installed",
                _client_state(client),
                client["command"],
            )
            for client in answer["clients"]
        )
    if "hooks" in answer:
        return guard_install(answer)
    rows = []
    applied = answer["applied"]
    if "sender" in answer:
        from interlock.agents.setup.clients import client_named

        sender, title = bold(answer["sender"]), client_named(answer["client"]).TITLE
        if answer.get("joined") or answer.get("joins"):
            rows.append(f"{sender} {'joined' if applied else 'would join'}.")
        acts = "acts" if applied else "would act"
        rows.append(f"{title} {acts} as {sender} {_WHERE[answer['place']]}.")
    for change in answer["changes"]:
        state = change["state"] if applied else _WOULD.get(change["state"], "unchanged")
        rows.append(f"{green(state)}  {change['file']}")
        if "diff" in change:
            rows += [f"  {line}" for line in change["diff"].rstrip("\n").split("\n")]
    if not answer["changes"]:
        rows.append("Nothing to change.")
    rows += notices(answer)
    rows += [f"To do: {sentence}" for sentence in answer.get("confirm", ())]
    return "\n".join(rows)


def _client_state(client: Answer) -> str:
    sender = f" as {client['sender']}" if "sender" in client else ""
    if client["set_up"]:
        dead = ", but the command that it calls no longer exists"
        return f"set up{sender}" + (dead if "dead" in client else "")
    if "no_repository" in client:
        return "no repository here"
    for name in ("hooks", "server"):
        if client.get(name):
            return f"{name} only{sender}"
    return "not set up"


def guard_install(answer: Answer) -> str:
    rows = []
    for hook in answer["hooks"]:
        first = f"  runs after {hook['runs_first']}" if "runs_first" in hook else ""
        rows.append(f"{green(hook['state'])}  {hook['hook']}  {dim(hook['path'])}{first}")
    return "\n".join([*rows, *notices(answer)])


def guard_check(answer: Answer) -> str:
    if "guard" in answer:
        return yellow(
            "The guard is off and checked no claim. To turn it on: interlock settings guard deny"
        )
    rows = [answer["message"]] if "code" in answer else []
    return "\n".join([*rows, *_warnings(answer)] or ["No other holder has claimed these files."])


def guard_push(answer: Answer) -> str:
    if "code" in answer:
        return "\n".join([answer["message"], *_warnings(answer)])
    return "\n".join([*_warnings(answer), green("The push is allowed.")])


def _warnings(answer: Answer) -> list[str]:
    return [
        f"warning: {found['path']} is claimed by {found['claim']['holder']}"
        + (f" in {found['claim']['worktree']}" if "worktree" in found["claim"] else "")
        for found in answer.get("warned", ())
    ]


def guard_note(answer: Answer) -> str:
    commit = f"The commit {answer['commit'][:12]} touches"
    rows = []
    for found in answer["crossed"]:
        holder = found["claim"]["holder"]
        rows.append(
            f"{commit} {found['path']}, which {holder} has claimed. Interlock told {holder}."
        )
    return "\n".join(rows or [f"{commit} no file that another holder has claimed."])


def scrub(answer: Answer) -> str:
    if answer["clean"]:
        rows = [green("No problem found in the committed files and the history.")]
        if not answer["rules"]:
            none = "interlock.toml lists no private words, no private paths and no allowed paths."
            rows.append(yellow(f"{none} To list them, add the table [scrub]."))
        return "\n".join(rows)
    rows = []
    for found in answer["findings"]:
        line = f"line {found['line']}" if "line" in found else ""
        where = " ".join(filter(None, (found.get("commit", "")[:12], found.get("path"), line)))
        rows += [
            f"{yellow(found['check'])}  {where}  {dim(found['fingerprint'])}",
            f"  {found['what']}",
            f"  {dim(found['fix'])}",
        ]
    return "\n".join([*rows, yellow(answer["message"])])


def gate_run(answer: Answer) -> str:
    rows = []
    for found in answer["gates"]:
        style = green if found["verdict"] == "pass" else yellow
        rows.append(f"{bold(found['gate'])}  {style(found['verdict'])}")
        rows += [
            f"  {check['check']}  {check['why']}  {dim(check['evidence'][:8])}"
            for check in found["checks"]
        ]
    return "\n".join(rows)
