"""The audit, and the workspace itself."""

from typing import Any

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.parts import count, table, time
from interlock.log.times import rfc3339
from interlock.verbs.answers import Answer


def _verified(answer: Answer) -> str:
    if not answer["ok"]:
        return f"{yellow(answer['error'])}: {answer['message']}"
    return (
        f"{green('The log is whole:')} {count(answer['entries'], 'entry', 'entries')}, "
        f"{count(answer['checkpoints'], 'checkpoint')}, root {answer['root']}"
    )


def _facts(answer: Answer) -> str:
    rows = [
        f"#{fact['seq']}  {time(fact['at'])}  {bold(fact['kind'])}  {fact['sender']}  "
        + dim(_outcome(fact["outcome"]))
        for fact in answer["facts"]
    ]
    if "next" in answer:
        rows.append(dim(f"more: --after {answer['next']}"))
    return "\n".join(rows) or dim("Nothing.")


def _outcome(outcome: Answer) -> str:
    """What fits on the line; the rest is in --json."""
    told = [(name, _told(name, value)) for name, value in outcome.items()]
    return ", ".join(f"{name} {text}" for name, text in told if text and len(text) <= 64)


def _told(name: str, value: Any) -> str:
    if name in ("expires_at", "due_at", "lease"):
        return time(rfc3339(value))
    if isinstance(value, dict):
        return " ".join(f"{inner} {said}" for inner, said in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _checkpoint(answer: Answer) -> str:
    return str(answer["checkpoint"])


def _up(answer: Answer) -> str:
    where = f" at {answer['url']}" if "url" in answer else ""
    said = f"A server runs{where} for {answer['directory']} already. interlock down ends it."
    return said + (f"\nDashboard: {answer['dashboard']}" if "dashboard" in answer else "")


def _down(answer: Answer) -> str:
    return "The server has ended." if answer["stopped"] else "No server runs for this workspace."


def _status(answer: Answer) -> str:
    entries, size = count(answer["entries"], "entry", "entries"), count(answer["bytes"], "byte")
    if "workspace" in answer:
        rows = [
            f"{bold(answer['directory'])}  {answer['engine']}, workspace {answer['workspace']}",
            f"{entries}, epoch {answer['epoch']}, {size}",
            f"{count(answer['agents'], 'agent')}, {count(answer['messages'], 'message')}, "
            f"{count(answer['open_deliveries'], 'delivery', 'deliveries')} open",
            f"{count(answer['claims'], 'claim')}, {answer['waiting']} waiting",
        ]
    else:
        rows = [f"{bold(answer['directory'])}  {answer['engine']}", f"{entries}, {size}"]
    if "nodes" in answer:
        rows += _nodes(answer)
    if answer.get("refusals"):
        rows.append(f"{count(answer['refusals'], 'refusal')} on record: interlock review")
    if answer.get("paused"):
        rows.append(yellow(f"Paused: {answer.get('pause_reason', 'no reason given')}"))
    rows.append(f"Credentials here: {' '.join(answer['credentials']) or 'none'}")
    return "\n".join(rows)


def _nodes(answer: Answer) -> list[str]:
    """Where every node stands, as the engine heard it last; this one first."""
    rows = [
        f"Engine {answer['url']}",
        f"Node {answer['node']} of {answer['name']}, with {count(len(answer['nodes']), 'node')}:",
    ]
    for other in sorted(answer["nodes"], key=lambda other: other["node"] != answer["node"]):
        lag = f"{other['lag']} behind" if other["lag"] else "level"
        here = ", this one" if other["node"] == answer["node"] else ""
        heard = f"heard {other['seen_s_ago']} s ago{here}"
        rows.append(f"  {other['node']}  #{other['seq']}, {lag}, {heard}")
    if answer["set_aside"]:
        aside = count(answer["set_aside"], "entry", "entries")
        rows.append(yellow(f"{aside} set aside: interlock doctor"))
    if "trouble" in answer:
        rows.append(yellow(answer["trouble"]))
    return rows


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
    """One screen: what waits, and under each the command to type."""
    sections = (
        (
            "Verdicts due, after a look at interlock task show",
            "verdicts_due",
            "{task}  {gate}  {worker}  since {since}",
        ),
        ("Blockers", "blockers", "{task}  {severity}  {by} to {to}: {what}"),
        ("Asks without an answer", "unanswered", "{from} to {to}  {at}"),
        ("Mail that expired unread", "expired", "{from} to {to}  {at}"),
        ("Mail to names that nobody has", "unknown_recipients", "{to}  {open} open"),
        ("Holders whose lease ended", "dead_holders", "{holder}  {on}  since {since}"),
        ("Refusals", "refusals", "#{seq}  {at}  {sender}  {code}"),
    )
    shown = []
    for title, name, form in sections:
        rows = [
            f"  {form.format_map(_Row(found)).strip()}{_times(found)}\n    {dim(found['do'])}"
            for found in _grouped(answer[name])
        ]
        if rows:
            shown.append("\n".join([bold(title), *rows]))
    return "\n\n".join(shown) or green("Nothing needs a person.")


def _grouped(found: list[Answer]) -> list[Answer]:
    """Refusals of one kind to one sender are one entry, the last of them."""
    groups: dict[tuple[str, ...], Answer] = {}
    for number, entry in enumerate(found):
        key = (entry["sender"], entry["code"]) if "code" in entry else (str(number),)
        groups[key] = entry | {"times": groups.get(key, {}).get("times", 0) + 1}
    return list(groups.values())


def _times(found: Answer) -> str:
    return f"  ({found['times']} times)" if found["times"] > 1 else ""


class _Row(dict[str, Any]):
    """An entry whose times are for people, and whose text is its first line."""

    def __init__(self, found: Answer) -> None:
        times = {name: time(found[name]) for name in ("at", "since") if name in found}
        super().__init__(found | times)

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value.split("\n")[0] if isinstance(value, str) else value

    def __missing__(self, name: str) -> str:
        return ""


def _restored(answer: Answer) -> str:
    return (
        f"{green('Restored')} as epoch {answer['epoch']}, "
        f"{count(answer['entries'], 'entry', 'entries')}. What was "
        f"there before is kept in {answer['abandoned']}\n"
        "Every token is suspended until you trust it again: interlock token reaffirm --all"
    )


def _paused(answer: Answer) -> str:
    if answer["paused"]:
        return yellow("Paused.") + " Nothing is written until interlock resume."
    return green("Writes go on.")


def _rebuilt(answer: Answer) -> str:
    was = yellow("it differs from what was there") if answer["changed"] else "as it was before"
    return (
        f"{green('Rebuilt')} from {count(answer['entries'], 'entry', 'entries')}: {was}.\n"
        f"State {answer['digest']} under schema {answer['schema']}"
    )


def _backed_up(answer: Answer) -> str:
    return (
        f"{green('Backed up')} {count(answer['entries'], 'entry', 'entries')} into "
        f"{answer['file']}, {count(answer['bytes'], 'byte')}. Tokens and keys are not in it."
    )


def _exported(answer: Answer) -> str:
    return (
        f"{green('Exported')} {count(answer['entries'], 'entry', 'entries')} into "
        f"{answer['file']}\nCheck it anywhere: interlock audit verify {answer['file']}"
    )


def _proof(answer: Answer) -> str:
    what = (
        f"entry {answer['seq']} is in" if "seq" in answer else f"{answer['old_size']} entries begin"
    )
    return (
        f"A proof that {what} the log of {count(answer['tree_size'], 'entry', 'entries')}, "
        f"{count(len(answer['path']), 'hash', 'hashes')} long.\nroot {answer['root']}\n"
        "To hand it on: --json > proof.json, then interlock audit check-proof proof.json"
    )


def _checked(answer: Answer) -> str:
    if not answer["ok"]:
        return f"{yellow(answer['error'])}: {answer['message']}"
    holds = (
        f"{green('The proof holds')} for the log of "
        f"{count(answer['tree_size'], 'entry', 'entries')}"
        f" signed by {answer['signed_by']}.\nThe verifier key was {answer['verifier']}."
    )
    if "facts" not in answer:
        return holds
    proven = "This is proven, and whole with --json; compare the report with it:"
    return f"{holds}\n{proven}\n{_facts(answer)}"


VIEWS = {
    "up": _up,
    "down": _down,
    "rebuild": _rebuilt,
    "backup": _backed_up,
    "audit export": _exported,
    "audit prove": _proof,
    "audit check-proof": _checked,
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
