"""What looks at a repository: the checks of gates, the scrub, and the guard on pushes."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.verbs.answers import Answer


def _checked(answer: Answer) -> str:
    rows = []
    for found in answer["gates"]:
        style = green if found["verdict"] == "pass" else yellow
        rows.append(f"{bold(found['gate'])}  {style(found['verdict'])}")
        rows += [
            f"  {check['check']}  {check['why']}  {dim(check['evidence'][:8])}"
            for check in found["checks"]
        ]
    return "\n".join(rows)


def _scrubbed(answer: Answer) -> str:
    if answer["clean"]:
        return green("Nothing found in what is committed.") + (
            ""
            if answer["rules"]
            else f"\n{yellow('No private words, paths or list of allowed')}"
            f"{yellow(' paths were given: see [scrub] in interlock.toml.')}"
        )
    rows = []
    for found in answer["findings"]:
        where = " ".join(
            part
            for part in (
                found.get("commit", "")[:12],
                found.get("path", ""),
                f"line {found['line']}" if "line" in found else "",
            )
            if part
        )
        rows.append(
            f"{yellow(found['check'])}  {where}  {dim(found['fingerprint'])}\n  {found['what']}\n"
            f"  {dim(found['fix'])}"
        )
    return "\n".join([*rows, yellow(answer["message"])])


def _installed(answer: Answer) -> str:
    rows = []
    for hook in answer["hooks"]:
        first = f"  after {hook['runs_first']}" if "runs_first" in hook else ""
        rows.append(f"{green(hook['state'])}  {hook['hook']}  {dim(hook['path'])}{first}")
    rows += [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]
    return "\n".join(rows)


def _guarded(answer: Answer) -> str:
    if "guard" in answer:
        return yellow("The guard is off, so no claim was looked at: interlock settings guard deny")
    lines = [answer["message"]] if "code" in answer else []
    return "\n".join([*lines, *_warnings(answer)] or ["Nobody else has claimed any of it."])


def _warnings(answer: Answer) -> list[str]:
    return [
        f"warning: {found['path']} is claimed by {found['claim']['holder']}"
        + (f" in {found['claim']['worktree']}" if "worktree" in found["claim"] else "")
        for found in answer.get("warned", ())
    ]


def _noted(answer: Answer) -> str:
    commit = f"The commit {answer['commit'][:12]} touches"
    lines = [
        f"{commit} {found['path']}, which {holder} has claimed. {holder} is told."
        for found in answer["crossed"]
        for holder in [found["claim"]["holder"]]
    ]
    return "\n".join(lines or [f"{commit} nothing that another has claimed."])


def _pushed(answer: Answer) -> str:
    if "code" in answer:
        return "\n".join([answer["message"], *_warnings(answer)])
    return "\n".join([*_warnings(answer), green("May be pushed.")])


VIEWS = {
    "gate run": _checked,
    "scrub": _scrubbed,
    "guard install": _installed,
    "guard check": _guarded,
    "guard note": _noted,
    "guard push": _pushed,
}
