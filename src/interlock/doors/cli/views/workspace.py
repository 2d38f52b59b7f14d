"""Views of the commands about the workspace: status, settings, review, audit, server, engine."""

from itertools import groupby
from typing import Any

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views import count, entries, failure, table, time
from interlock.log.times import rfc3339
from interlock.verbs.answers import Answer

MAX_SHOWN = 20
_REAFFIRM = "Every token is suspended. To allow all of them again: interlock token reaffirm --all"


def status(answer: Answer) -> str:
    log = f"Log: {entries(answer['entries'])}, {count(answer['bytes'], 'byte')}"
    rows = []
    if "workspace" in answer:
        rows.append(f"Workspace: {answer['workspace']}")
        log += f", epoch {answer['epoch']}"
    if "directory" in answer:  # only the owner sees the directory and the engine's URL
        rows.append(f"Directory: {bold(answer['directory'])}")
    rows += [f"Engine: {answer.get('url', answer['engine'])}", log]
    if "workspace" in answer:
        rows += [
            f"Agents and people: {answer['agents']}",
            f"Mail: {count(answer['messages'], 'message')}, "
            f"{count(answer['open_deliveries'], 'delivery', 'deliveries')} not acknowledged",
            f"Claims: {answer['claims']}, {count(answer['waiting'], 'request')} in the queue",
        ]
    if "nodes" in answer:
        node, nodes = answer["node"], answer["nodes"]
        rows.append(f"Nodes of {answer['name']}: {len(nodes)}")
        for other in sorted(nodes, key=lambda other: other["node"] != node):
            lag = f"{entries(other['lag'])} behind" if other["lag"] else "up to date"
            here = ", this node" if other["node"] == node else ""
            seen = f"seen {other['seen_s_ago']} s ago{here}"
            rows.append(f"  {other['node']}  at #{other['seq']}, {lag}, {seen}")
        if answer["set_aside"]:
            aside = f"{entries(answer['set_aside'])} without a valid signature, set aside."
            rows.append(yellow(f"{aside} For details: interlock doctor"))
        if "trouble" in answer:
            rows.append(yellow(answer["trouble"]))
    if answer.get("refusals"):
        refused = count(answer["refusals"], "refused request")
        rows.append(f"The log has {refused}. To list them: interlock review")
    if answer.get("paused"):
        rows.append(yellow(f"Paused: {answer.get('pause_reason', 'no reason given')}"))
    rows.append(f"Stored credentials: {' '.join(answer['credentials']) or 'none'}")
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
        "Verdicts due (first read the task: interlock task show TASK)",
        "verdicts_due",
        "{task}  gate {gate}  worker {worker}  since {since}",
    ),
    ("Blockers", "blockers", "{task}  {severity}  {by} to {to}: {what}"),
    ("Unanswered questions", "unanswered", "{from} to {to}  {at}"),
    ("Mail that expired unread", "expired", "{from} to {to}  {at}"),
    ("Mail to unregistered names", "unknown_recipients", "{to}  {open} open"),
    ("Expired claims", "dead_holders", "{on}  held by {holder}  expired {since}"),
    ("Refused requests", "refusals", "#{seq}  {at}  {sender}  {code}"),
)


class _Row(dict[str, Any]):
    """The members of a row: short times, the first line of each text, and "" for other names."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if value and name in ("at", "since"):
            return time(value)
        return value.split("\n")[0] if isinstance(value, str) else value

    def __missing__(self, name: str) -> str:
        return ""


def review(answer: Answer) -> str:
    """Return the matters that need a person, each with the next step."""
    sections = []
    for title, name, form in _REVIEW:
        # Refusals with the same code and sender make one row, which shows the last of them.
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
    return "\n\n".join(sections) or green("Nothing needs your attention.")


# --- the audit


def audit_verify(answer: Answer) -> str:
    if not answer["ok"]:
        return failure(answer)
    return (
        f"{green('The log is intact:')} {entries(answer['entries'])}, "
        f"{count(answer['checkpoints'], 'checkpoint')}, root hash {answer['root']}"
    )


def audit_show(answer: Answer) -> str:
    """Return the entries, one a line. Long members of a fact are only in --json."""
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
        rows.append(dim(f"To list more: --after {answer['next']}"))
    return "\n".join(rows) or dim("No entries.")


def audit_checkpoint(answer: Answer) -> str:
    return str(answer["checkpoint"])


def audit_export(answer: Answer) -> str:
    return (
        f"{green('Exported')} {entries(answer['entries'])} into {answer['file']}\n"
        f"To verify it, on any machine: interlock audit verify {answer['file']}"
    )


def audit_prove(answer: Answer) -> str:
    log = f"the log of {entries(answer['tree_size'])}"
    if "seq" in answer:
        what = f"entry {answer['seq']} is in {log}"
    else:
        what = f"{log} starts with the same {entries(answer['old_size'])}"
    return (
        f"The proof shows that {what}. It has {count(len(answer['path']), 'hash', 'hashes')}.\n"
        f"Root hash: {answer['root']}\n"
        "To save the proof, add: --json > proof.json\n"
        "To check the saved proof: interlock audit check-proof proof.json"
    )


def audit_check_proof(answer: Answer) -> str:
    if not answer["ok"]:
        return failure(answer)
    key = "Interlock checked it with the verifier key that you gave."
    if answer["verifier"] != "given":
        key = (
            "The verifier key came from the proof itself. To be sure of the signer: --verifier KEY"
        )
    valid = (
        f"{green('The proof is valid')} for the log of {entries(answer['tree_size'])}, "
        f"signed by {answer['signed_by']}.\n{key}"
    )
    if "facts" not in answer:
        return valid
    proven = "These entries are proven (--json shows them in full). Compare the report with them:"
    return f"{valid}\n{proven}\n{audit_show(answer)}"


# --- the server, backups, pauses


def up(answer: Answer) -> str:
    where = f" at {answer['url']}" if "url" in answer else ""
    row = f"A server already runs{where} for {answer['directory']}. To stop it: interlock down"
    return row + (f"\nDashboard: {answer['dashboard']}" if "dashboard" in answer else "")


def down(answer: Answer) -> str:
    return "The server has stopped." if answer["stopped"] else "No server runs for this workspace."


def backup(answer: Answer) -> str:
    return (
        f"{green('Backed up')} {entries(answer['entries'])} into "
        f"{answer['file']}, {count(answer['bytes'], 'byte')}. The file has no tokens and no keys."
    )


def restore(answer: Answer) -> str:
    return (
        f"{green('Restored')} as epoch {answer['epoch']}, {entries(answer['entries'])}. "
        f"The previous log is saved in {answer['abandoned']}\n{_REAFFIRM}"
    )


def rebuild(answer: Answer) -> str:
    was = yellow("It differs from the state before.") if answer["changed"] else "It is unchanged."
    return (
        f"{green('Rebuilt')} the state from {entries(answer['entries'])}. {was}\n"
        f"State digest {answer['digest']}, schema {answer['schema']}"
    )


def pause(answer: Answer) -> str:
    if answer["paused"]:
        return yellow("Paused.") + " Interlock refuses writes. To allow them: interlock resume"
    return green("Resumed.") + " Interlock accepts writes again."


resume = pause


# --- the engine, and the doctor's findings


def migrate(answer: Answer) -> str:
    return (
        f"{green('Moved')} {entries(answer['entries'])} to "
        f"{answer['engine']}, as the workspace {bold(answer['workspace'])}. This directory is now "
        "a node of it. To start the node: interlock up\n"
        f"To start another node, copy {answer['key']} to its machine as FILE, and run there:\n"
        f"  interlock up --engine '{answer['url']}' --key FILE"
    )


def repair(answer: Answer) -> str:
    if "discarded" in answer:
        aside = entries(answer["discarded"])
        return f"{green('Deleted')} {aside} that had been set aside."
    common = answer["common_seq"]
    if "restored" in answer:
        done = []
        if answer["restored"]:
            restored = entries(answer["restored"])
            done.append(
                f"{green('Restored')} {restored} after #{common}, up to #{answer['node_seq']}."
            )
        if mended := answer["mended"]:
            shown = ", ".join(f"#{seq}" for seq in mended[:MAX_SHOWN])
            more = " …" if len(mended) > MAX_SHOWN else ""
            done.append(f"{green('Restored')} {entries(len(mended))} further back: {shown}{more}.")
        return " ".join([*done, "The log records this repair."])
    if "given_up" in answer:
        return (
            f"{yellow('Abandoned')} {entries(answer['given_up'])} after #{common}. Epoch "
            f"{answer['epoch']} starts. This node's previous log is saved in {answer['kept']}\n"
            f"{_REAFFIRM}"
        )
    if answer["ok"]:
        return f"{green('Nothing to repair:')} the engine has every entry that this node has."
    if "elsewhere" in answer:
        return (
            f"{yellow('The engine has lost entries')} that the node {answer['elsewhere']} has.\n"
            "To restore them, run on that node: interlock repair --restore\n"
            "To abandon them and start a new epoch: interlock repair --give-up"
        )
    if answer.get("unsaid"):
        return (
            f"{yellow('An interrupted repair is not in the log yet.')} The engine has every entry "
            "that this node has. To record the repair: interlock repair --restore"
        )
    lost, changed = answer["lost"], answer["changed"]
    rows = []
    if changed:
        rows.append(
            f"{yellow('The engine has lost or changed')} {entries(len(changed))}, which a new node "
            "would not get:"
        )
        rows += _facts(changed)
    if lost:
        rows.append(f"{yellow('The engine lacks')} {entries(len(lost))} of this node:")
        rows += _facts(lost)
    if not lost or answer["is_tail"]:
        rows.append("To restore them: interlock repair --restore")
    else:
        rows.append(f"The engine has other entries instead, up to #{answer['engine_seq']}.")
    if lost:
        rows.append("To abandon them and start a new epoch: interlock repair --give-up")
    return "\n".join(rows)


def _facts(facts: list[Answer]) -> list[str]:
    rows = [
        f"  #{fact['seq']}  {time(fact['at'])}  {fact['kind']}  {fact['sender']}"
        for fact in facts[:MAX_SHOWN]
    ]
    if len(facts) > MAX_SHOWN:
        rows.append(dim(f"  and {len(facts) - MAX_SHOWN} more. To list all of them: --json"))
    return rows


def doctor(answer: Answer) -> str:
    checks = count(answer["checks"], "check")
    if answer["ok"]:
        return f"{green('No problems found.')} Interlock ran {checks}."
    rows = [f"Problems found by {checks}, the smallest fix first:"]
    shown: dict[str, Answer] = {}
    for check, group in groupby(answer["findings"], key=lambda found: found["check"]):
        rows += ["", yellow(check)]
        for found in group:
            # Show each command once: a user who mints twice, for example, has a token too many.
            first = shown.setdefault(found["do"], found)
            again = f"The same command as for {first['check']}."
            do = bold(found["do"]) if first is found else again
            rows += [f"  {found['message']}", f"    {do}"]
    return "\n".join(rows)
