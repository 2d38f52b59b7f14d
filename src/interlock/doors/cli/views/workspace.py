"""Views of the commands about the workspace: status, settings, review, audit, server, engine."""

from itertools import groupby
from typing import Any

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views import count, entries, failure, table, time
from interlock.log.times import rfc3339
from interlock.verbs.answers import Answer

MAX_SHOWN = 20
_REAFFIRM = "Every token is suspended until you trust it again: interlock token reaffirm --all"


def status(answer: Answer) -> str:
    size = count(answer["bytes"], "byte")
    # Only the owner sees the directory and the URL of the log.
    log = f"{bold(answer['directory'])}  " if "directory" in answer else ""
    log += answer["engine"]
    if "workspace" in answer:
        rows = [
            f"{log}, workspace {answer['workspace']}",
            f"{entries(answer['entries'])}, epoch {answer['epoch']}, {size}",
            f"{count(answer['agents'], 'agent')}, {count(answer['messages'], 'message')}, "
            f"{count(answer['open_deliveries'], 'delivery', 'deliveries')} open",
            f"{count(answer['claims'], 'claim')}, {answer['waiting']} waiting",
        ]
    else:
        rows = [log, f"{entries(answer['entries'])}, {size}"]
    if "nodes" in answer:
        node, nodes = answer["node"], answer["nodes"]
        if "url" in answer:
            rows.append(f"Engine {answer['url']}")
        rows.append(f"Node {node} of {answer['name']}, with {count(len(nodes), 'node')}:")
        for other in sorted(nodes, key=lambda other: other["node"] != node):
            lag = f"{other['lag']} behind" if other["lag"] else "level"
            here = ", this one" if other["node"] == node else ""
            heard = f"heard {other['seen_s_ago']} s ago{here}"
            rows.append(f"  {other['node']}  #{other['seq']}, {lag}, {heard}")
        if answer["set_aside"]:
            rows.append(yellow(f"{entries(answer['set_aside'])} set aside: interlock doctor"))
        if "trouble" in answer:
            rows.append(yellow(answer["trouble"]))
    if answer.get("refusals"):
        rows.append(f"{count(answer['refusals'], 'refusal')} on record: interlock review")
    if answer.get("paused"):
        rows.append(yellow(f"Paused: {answer.get('pause_reason', 'no reason given')}"))
    rows.append(f"Credentials here: {' '.join(answer['credentials']) or 'none'}")
    return "\n".join(rows)


def settings(answer: Answer) -> str:
    if "settings" not in answer:
        return f"{answer['name']} is now {answer['value']!r}"
    return table(
        (found["name"], found["value"] or '""', dim(f"default {found['default'] or 'none'}"))
        for found in answer["settings"]
    )


_REVIEW = (
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


class _Row(dict[str, Any]):
    """The members of an entry: times in short, texts cut to their first line, others empty."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if value and name in ("at", "since"):
            return time(value)
        return value.split("\n")[0] if isinstance(value, str) else value

    def __missing__(self, name: str) -> str:
        return ""


def review(answer: Answer) -> str:
    """Return the entries that wait for a person, each with the command to type."""
    sections = []
    for title, name, form in _REVIEW:
        # Refusals with the same code and sender make one row, with the last of them.
        groups: dict[tuple[str, ...], list[Answer]] = {}
        for number, found in enumerate(answer[name]):
            key = (found["sender"], found["code"]) if "code" in found else (str(number),)
            groups.setdefault(key, []).append(found)
        rows = [bold(title)]
        for group in groups.values():
            times = f"  ({len(group)} times)" if len(group) > 1 else ""
            rows.append(f"  {form.format_map(_Row(group[-1])).strip()}{times}")
            rows.append(f"    {dim(group[-1]['do'])}")
        if groups:
            sections.append("\n".join(rows))
    return "\n\n".join(sections) or green("Nothing needs a person.")


# --- the audit


def audit_verify(answer: Answer) -> str:
    if not answer["ok"]:
        return failure(answer)
    return (
        f"{green('The log is whole:')} {entries(answer['entries'])}, "
        f"{count(answer['checkpoints'], 'checkpoint')}, root {answer['root']}"
    )


def audit_show(answer: Answer) -> str:
    """Return the facts, one a line. Long members of an outcome are only in --json."""
    rows = []
    for fact in answer["facts"]:
        members = []
        for name, value in fact["outcome"].items():
            if name in ("expires_at", "due_at", "lease"):
                shown = time(rfc3339(value))
            elif isinstance(value, dict):
                shown = " ".join(f"{inner} {held}" for inner, held in value.items())
            else:
                shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            if shown and len(shown) <= 64:
                members.append(f"{name} {shown}")
        head = f"#{fact['seq']}  {time(fact['at'])}  {bold(fact['kind'])}  {fact['sender']}"
        rows.append(f"{head}  {dim(', '.join(members))}")
    if "next" in answer:
        rows.append(dim(f"more: --after {answer['next']}"))
    return "\n".join(rows) or dim("Nothing.")


def audit_checkpoint(answer: Answer) -> str:
    return str(answer["checkpoint"])


def audit_export(answer: Answer) -> str:
    return (
        f"{green('Exported')} {entries(answer['entries'])} into {answer['file']}\n"
        f"Check it anywhere: interlock audit verify {answer['file']}"
    )


def audit_prove(answer: Answer) -> str:
    what = (
        f"entry {answer['seq']} is in" if "seq" in answer else f"{answer['old_size']} entries begin"
    )
    return (
        f"A proof that {what} the log of {entries(answer['tree_size'])}, "
        f"{count(len(answer['path']), 'hash', 'hashes')} long.\nroot {answer['root']}\n"
        "To hand it on: --json > proof.json, then interlock audit check-proof proof.json"
    )


def audit_check_proof(answer: Answer) -> str:
    if not answer["ok"]:
        return failure(answer)
    holds = (
        f"{green('The proof holds')} for the log of {entries(answer['tree_size'])}"
        f" signed by {answer['signed_by']}.\nThe verifier key was {answer['verifier']}."
    )
    if "facts" not in answer:
        return holds
    proven = "This is proven, and whole with --json; compare the report with it:"
    return f"{holds}\n{proven}\n{audit_show(answer)}"


# --- the server, backups, pauses


def up(answer: Answer) -> str:
    where = f" at {answer['url']}" if "url" in answer else ""
    row = f"A server runs{where} for {answer['directory']} already. interlock down ends it."
    return row + (f"\nDashboard: {answer['dashboard']}" if "dashboard" in answer else "")


def down(answer: Answer) -> str:
    return "The server has ended." if answer["stopped"] else "No server runs for this workspace."


def backup(answer: Answer) -> str:
    return (
        f"{green('Backed up')} {entries(answer['entries'])} into "
        f"{answer['file']}, {count(answer['bytes'], 'byte')}. Tokens and keys are not in it."
    )


def restore(answer: Answer) -> str:
    return (
        f"{green('Restored')} as epoch {answer['epoch']}, {entries(answer['entries'])}. "
        f"What was there before is kept in {answer['abandoned']}\n{_REAFFIRM}"
    )


def rebuild(answer: Answer) -> str:
    was = yellow("it differs from what was there") if answer["changed"] else "as it was before"
    return (
        f"{green('Rebuilt')} from {entries(answer['entries'])}: {was}.\n"
        f"State {answer['digest']} under schema {answer['schema']}"
    )


def pause(answer: Answer) -> str:
    if answer["paused"]:
        return yellow("Paused.") + " Nothing is written until interlock resume."
    return green("Writes go on.")


resume = pause


# --- the engine, and what the doctor found


def migrate(answer: Answer) -> str:
    return (
        f"{green('Moved')} {entries(answer['entries'])} to "
        f"{answer['engine']}, as the workspace {bold(answer['workspace'])}. This directory is a "
        f"node of it now: interlock up\nAnother node needs a copy of {answer['key']}:\n"
        f"  interlock up --engine '{answer['url']}' --key FILE"
    )


def repair(answer: Answer) -> str:
    if "discarded" in answer:
        aside = entries(answer["discarded"])
        return f"{green('Discarded')} {aside} that had been set aside."
    common = answer["common_seq"]
    if "restored" in answer:
        done = []
        if answer["restored"]:
            restored = entries(answer["restored"])
            done.append(
                f"{green('Put back')} {restored} after #{common}, up to #{answer['node_seq']}."
            )
        if mended := answer["mended"]:
            shown = ", ".join(f"#{seq}" for seq in mended[:MAX_SHOWN])
            more = " …" if len(mended) > MAX_SHOWN else ""
            done.append(f"{green('Put back')} {entries(len(mended))} further in: {shown}{more}.")
        return " ".join([*done, "The log says so."])
    if "given_up" in answer:
        return (
            f"{yellow('Given up')} {entries(answer['given_up'])} after #{common}; epoch "
            f"{answer['epoch']} begins. What this node had of it is kept in {answer['kept']}\n"
            f"{_REAFFIRM}"
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
    rows = []
    if changed:
        rows.append(
            f"{yellow('Removed or changed in the engine')}: {entries(len(changed))}, which no new "
            "node gets:"
        )
        rows += _facts(changed)
    if lost:
        rows.append(f"{yellow('The engine lacks')} {entries(len(lost))} of this node:")
        rows += _facts(lost)
    if not lost or answer["is_tail"]:
        rows.append("Put them back: interlock repair --restore")
    else:
        rows.append(f"It has others in their place, up to #{answer['engine_seq']}.")
    if lost:
        rows.append("Let go of them, as a new epoch: interlock repair --give-up")
    return "\n".join(rows)


def _facts(facts: list[Answer]) -> list[str]:
    rows = [
        f"  #{fact['seq']}  {time(fact['at'])}  {fact['kind']}  {fact['sender']}"
        for fact in facts[:MAX_SHOWN]
    ]
    if len(facts) > MAX_SHOWN:
        rows.append(dim(f"  and {len(facts) - MAX_SHOWN} more: --json"))
    return rows


def doctor(answer: Answer) -> str:
    checks = count(answer["checks"], "check")
    if answer["ok"]:
        return f"{green('Well:')} {checks}, nothing found."
    rows = [f"Found by {checks}, the smallest change first:"]
    shown: dict[str, Answer] = {}
    for check, group in groupby(answer["findings"], key=lambda found: found["check"]):
        rows += ["", yellow(check)]
        for found in group:
            # Show a command once: minting twice, for example, would make a token too many.
            first = shown.setdefault(found["do"], found)
            again = f"The same as for {first['check']}."
            do = bold(found["do"]) if first is found else again
            rows += [f"  {found['message']}", f"    {do}"]
    return "\n".join(rows)
