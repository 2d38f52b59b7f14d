"""What keeps the log: moving it, repairing it, and what the doctor found."""

from itertools import groupby

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.parts import count, time
from interlock.verbs.answers import Answer

MAX_SHOWN = 20


def _migrated(answer: Answer) -> str:
    return (
        f"{green('Moved')} {count(answer['entries'], 'entry', 'entries')} to "
        f"{answer['engine']}, as the workspace {bold(answer['workspace'])}. This directory is a "
        f"node of it now: interlock up\nAnother node needs a copy of {answer['key']}:\n"
        f"  interlock up --engine '{answer['url']}' --key FILE"
    )


def _repair(answer: Answer) -> str:
    if "discarded" in answer:
        aside = count(answer["discarded"], "entry", "entries")
        return f"{green('Discarded')} {aside} that had been set aside."
    common = answer["common_seq"]
    if "restored" in answer:
        return _restored(answer)
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
    if answer.get("unsaid"):
        return (
            f"{yellow('The engine has all that this node has')} since a repair that was broken "
            "off, and the log does not say so yet: interlock repair --restore"
        )
    lost, changed = answer["lost"], answer["changed"]
    if not lost:
        return "\n".join((*_changed(changed), "Put them back: interlock repair --restore"))
    rows = [
        *_changed(changed),
        f"{yellow('The engine lacks')} {count(len(lost), 'entry', 'entries')} of this node:",
        *_facts(lost),
    ]
    if answer["is_tail"]:
        rows.append("Put them back: interlock repair --restore")
    else:
        rows.append(f"It has others in their place, up to #{answer['engine_seq']}.")
    rows.append("Let go of them, as a new epoch: interlock repair --give-up")
    return "\n".join(rows)


def _restored(answer: Answer) -> str:
    rows = []
    if answer["restored"]:
        rows.append(
            f"{green('Put back')} {count(answer['restored'], 'entry', 'entries')} after "
            f"#{answer['common_seq']}, up to #{answer['node_seq']}."
        )
    if mended := answer["mended"]:
        shown = ", ".join(f"#{seq}" for seq in mended[:MAX_SHOWN])
        more = " …" if len(mended) > MAX_SHOWN else ""
        what = count(len(mended), "entry", "entries")
        rows.append(f"{green('Put back')} {what} further in: {shown}{more}.")
    return " ".join((*rows, "The log says so."))


def _changed(changed: list[Answer]) -> list[str]:
    if not changed:
        return []
    what = f"{count(len(changed), 'entry', 'entries')}, which no new node gets:"
    return [f"{yellow('Removed or changed in the engine')}: {what}", *_facts(changed)]


def _facts(facts: list[Answer]) -> list[str]:
    rows = [
        f"  #{fact['seq']}  {time(fact['at'])}  {fact['kind']}  {fact['sender']}"
        for fact in facts[:MAX_SHOWN]
    ]
    if len(facts) > MAX_SHOWN:
        rows.append(dim(f"  and {len(facts) - MAX_SHOWN} more: --json"))
    return rows


def _doctor(answer: Answer) -> str:
    checks = count(answer["checks"], "check")
    if answer["ok"]:
        return f"{green('Well:')} {checks}, nothing found."
    rows = [f"Found by {checks}, the smallest change first:"]
    said: dict[str, Answer] = {}
    for check, group in groupby(answer["findings"], key=lambda found: found["check"]):
        rows += ["", yellow(check)]
        for found in group:
            # What puts several things right is typed once: to mint twice is one token too many.
            first = said.setdefault(found["do"], found)
            again = f"The same as for {first['check']}."
            do = bold(found["do"]) if first is found else again
            rows += [f"  {found['message']}", f"    {do}"]
    return "\n".join(rows)


VIEWS = {"migrate": _migrated, "repair": _repair, "doctor": _doctor}
