"""The audit, and the workspace itself."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.parts import Answer, table, time


def _verified(answer: Answer) -> str:
    if not answer["ok"]:
        return f"{yellow(answer['error'])}: {answer['message']}"
    return (
        f"{green('The log is whole:')} {answer['entries']} entries, {answer['checkpoints']} "
        f"checkpoints, root {answer['root']}"
    )


def _facts(answer: Answer) -> str:
    rows = [
        f"#{fact['seq']}  {time(fact['at'])}  {bold(fact['kind'])}  {fact['sender']}  "
        + dim(", ".join(f"{k} {v}" for k, v in fact["outcome"].items() if not _long(v)))
        for fact in answer["facts"]
    ]
    if "next" in answer:
        rows.append(dim(f"more: --after {answer['next']}"))
    return "\n".join(rows) or dim("Nothing.")


def _long(value: object) -> bool:
    return len(str(value)) > 60


def _checkpoint(answer: Answer) -> str:
    return str(answer["checkpoint"])


def _status(answer: Answer) -> str:
    rows = [
        f"{bold(answer['directory'])}  {answer['engine']}, workspace {answer['workspace']}",
        f"{answer['entries']} entries, epoch {answer['epoch']}, {answer['bytes']} bytes",
        f"{answer['agents']} agents, {answer['messages']} messages, "
        f"{answer['open_deliveries']} deliveries open",
        f"{answer['claims']} claims, {answer['waiting']} waiting",
    ]
    if answer["refusals"]:
        rows.append(f"{answer['refusals']} refusals on record: interlock review")
    if answer["paused"]:
        rows.append(yellow(f"Paused: {answer.get('pause_reason', 'no reason given')}"))
    rows.append(f"Credentials here: {' '.join(answer['credentials']) or 'none'}")
    return "\n".join(rows)


def _settings(answer: Answer) -> str:
    if "settings" not in answer:
        return f"{answer['name']} is now {answer['value']!r}"
    return table(
        (
            (found["name"], found["value"] or '""', dim(f"default {found['default'] or 'none'}"))
            for found in answer["settings"]
        ),
        "",
    )


def _review(answer: Answer) -> str:
    sections: list[tuple[str, list[str]]] = [
        (
            "Asks without an answer",
            [f"{a['from']} to {a['to']}  {time(a['at'])}  {a['id']}" for a in answer["unanswered"]],
        ),
        (
            "Mail that expired unread",
            [f"{m['from']} to {m['to']}  {time(m['at'])}  {m['id']}" for m in answer["expired"]],
        ),
        (
            "Refusals",
            [
                f"#{r['seq']}  {time(r['at'])}  {r['sender']}  {r['code']}"
                for r in answer["refusals"]
            ],
        ),
        (
            "Holders whose lease ended",
            [f"{d['holder']}  {d['on']}  since {time(d['since'])}" for d in answer["dead_holders"]],
        ),
    ]
    shown = [
        f"{bold(title)}\n" + "\n".join(f"  {row}" for row in rows)
        for title, rows in sections
        if rows
    ]
    return "\n\n".join(shown) or green("Nothing needs a person.")


def _restored(answer: Answer) -> str:
    return (
        f"{green('Restored')} as epoch {answer['epoch']}, {answer['entries']} entries. What was "
        f"there before is kept in {answer['abandoned']}\n"
        "Every token is suspended until you trust it again: interlock token reaffirm --all"
    )


def _paused(answer: Answer) -> str:
    if answer["paused"]:
        return yellow("Paused.") + " Nothing is written until interlock resume."
    return green("Writes go on.")


VIEWS = {
    "audit verify": _verified,
    "audit show": _facts,
    "audit checkpoint": _checkpoint,
    "status": _status,
    "settings": _settings,
    "review": _review,
    "restore": _restored,
    "pause": _paused,
    "resume": _paused,
}
