"""What keeps the log: moving it, repairing it, and what the doctor found."""

from itertools import groupby

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.parts import Answer, count, time

MOST_SHOWN = 20


def _migrated(answer: Answer) -> str:
    return (
        f"{green('Moved')} {count(answer['entries'], 'entry', 'entries')} to "
        f"{answer['engine']}, as the workspace {bold(answer['workspace'])}. This directory is a "
        f"node of it now: interlock up\nAnother node needs a copy of {answer['key']}:\n"
        f"  interlock up --engine '{answer['url']}' --key FILE"
    )


def _repair(answer: Answer) -> str:
    common = answer["common_seq"]
    if "restored" in answer:
        return (
            f"{green('Put back')} {count(answer['restored'], 'entry', 'entries')} after "
            f"#{common}, up to #{answer['node_seq']}. The log says so."
        )
    if "given_up" in answer:
        return (
            f"{yellow('Given up')} {count(answer['given_up'], 'entry', 'entries')} after "
            f"#{common}; epoch {answer['epoch']} begins. What this node had of it is kept in "
            f"{answer['kept']}\nEvery token is suspended until you trust it again: interlock token "
            "reaffirm --all"
        )
    if answer["ok"]:
        return f"{green('Nothing to repair here:')} the engine has all that this node has."
    if "elsewhere" in answer:
        return (
            f"{yellow('The engine has lost entries')} that the node {answer['elsewhere']} has. Put "
            "them back there: interlock repair --restore\n"
            "Or let go of them, as a new epoch: interlock repair --give-up"
        )
    lost = answer["lost"]
    rows = [
        f"{yellow('The engine lacks')} {count(len(lost), 'entry', 'entries')} of this node:",
        *(
            f"  #{fact['seq']}  {time(fact['at'])}  {fact['kind']}  {fact['sender']}"
            for fact in lost[:MOST_SHOWN]
        ),
    ]
    if len(lost) > MOST_SHOWN:
        rows.append(dim(f"  and {len(lost) - MOST_SHOWN} more: --json"))
    if answer["is_tail"]:
        rows.append("Put them back: interlock repair --restore")
    else:
        rows.append(f"It has others in their place, up to #{answer['engine_seq']}.")
    rows.append("Let go of them, as a new epoch: interlock repair --give-up")
    return "\n".join(rows)


def _doctor(answer: Answer) -> str:
    checks = count(answer["checks"], "check")
    if answer["ok"]:
        return f"{green('Well:')} {checks}, nothing found."
    rows = [f"Found by {checks}, the smallest change first:"]
    for check, group in groupby(answer["findings"], key=lambda found: found["check"]):
        rows += ["", yellow(check)]
        for found in group:
            rows += [f"  {found['message']}", f"    {bold(found['do'])}"]
    return "\n".join(rows)


VIEWS = {"migrate": _migrated, "repair": _repair, "doctor": _doctor}
