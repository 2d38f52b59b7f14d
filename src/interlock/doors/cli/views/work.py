"""Views of the commands about claims, tasks, evidence, gates and blockers.

Recorded runs and attached evidence look different everywhere: only a recorded run starts with
"ran".
"""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views import (
    INDENT,
    claim_line,
    count,
    failure,
    notices,
    quoted,
    table,
    time,
)
from interlock.verbs.answers import Answer

# A history shows this much of a message.
MAX_LINES = 5
MAX_SHOWN_LENGTH = 500
_STATES = {"done": green, "failed": yellow, "cancelled": dim, "submitted": yellow}
_GATE_STATES = {
    "pass": (green, "passed"),
    "fail": (yellow, "failed"),
    "due": (yellow, "verdict due"),
    "waits": (dim, "waits for a submission"),
}
_KINDS = {"file": "file", "url": "URL", "note": "note"}
_OPEN = "Open requirements:"
_READY = "All requirements are met. To complete the task:"


# --- claims


def claim_acquire(answer: Answer) -> str:
    if not answer["acquired"]:
        return "\n".join([failure(answer), *(f"  {claim_line(c)}" for c in answer["held_by"])])
    previous = " ".join(answer.get("taken_from", ()))
    taken = f" (taken over from {previous})" if previous else ""
    mine = f"{green('Claimed:')} {claim_line(answer['claim'])}{taken}"
    return "\n".join([mine, *notices(answer)])


claim_take_over = claim_acquire


def claim_renew(answer: Answer) -> str:
    return f"{green('Renewed:')} {claim_line(answer['claim'])}"


def claim_release(answer: Answer) -> str:
    return green("Released.") if answer["released"] else "Nothing to release: it was not claimed."


def claim_check(answer: Answer) -> str:
    return "\n".join(map(claim_line, answer["claims"])) or dim("Free: no holder has claimed it.")


def claim_list(answer: Answer) -> str:
    return "\n".join(map(claim_line, answer["claims"])) or dim("No claims.")


# --- tasks


def task_create(answer: Answer) -> str:
    rows = [f"{green('Created')} {_task_line(answer['task'])}", *notices(answer)]
    return "\n".join([*rows, dim(f"To work on it: interlock task take {answer['task']['id']}")])


task_import = task_create


def task_list(answer: Answer) -> str:
    rows = []
    for task in answer["tasks"]:
        who = task.get("worker") or task.get("assignee", "")
        rows.append((task["id"], task["state"], task.get("priority", ""), who, task["title"]))
    more = f"\n{dim('To list more: --after')} {answer['next']}" if "next" in answer else ""
    ended = "No live tasks. To list ended tasks too: interlock task list --state all"
    return table(rows, ended if answer.get("state") == "live" else "No tasks.") + more


def task_take(answer: Answer) -> str:
    if not answer["taken"]:
        held = [f"  {claim_line(claim)}" for claim in answer.get("held_by", ())]
        return "\n".join([failure(answer), *(held or _missing(answer))])
    task = answer["task"]
    taken = f"{green('Taken:')} {bold(task['id'])}  {task['title']}"
    rows = [taken, f"  {claim_line(answer['claim'])}"]
    return "\n".join([*rows, *notices(answer)])


def task_submit(answer: Answer) -> str:
    task = answer["task"]
    commit = task["artifact"]["commit"][:12]
    rows = [f"{green('Submitted')} {task['id']} at commit {commit}", *notices(answer)]
    if answer["missing"]:
        return "\n".join([*rows, _OPEN, *_missing(answer)])
    return "\n".join([*rows, f"{_READY} interlock task complete {task['id']}"])


def task_complete(answer: Answer) -> str:
    if answer["completed"]:
        return f"{green('Done:')} {_task_line(answer['task'])}"
    return "\n".join([f"{yellow('Not complete yet.')} {_OPEN}", *_missing(answer)])


def task_fail(answer: Answer) -> str:
    return _task_line(answer["task"])


task_cancel = task_fail


def _task_line(task: Answer) -> str:
    who = f"  {task['worker']}" if "worker" in task else ""
    state = _STATES.get(task["state"], str)(task["state"])
    return f"{bold(task['id'])}  {state}{who}  {task['title']}"


def _missing(answer: Answer) -> list[str]:
    """Return the open requirements, each with its command below. Neighbours with the same command
    share it."""
    rows: list[str] = []
    command_below = ""
    for need in reversed(answer.get("missing", ())):
        command = f"\n    {dim(need['do'])}" if need["do"] != command_below else ""
        command_below = need["do"]
        rows.append(f"  {need['message']}{_fixes(need)}{command}")
    return rows[::-1]


def task_show(answer: Answer) -> str:
    task = answer["task"]
    rows = [_task_line(task), f"  created by {task['created_by']}  {time(task['created_at'])}"]
    for name in ("assignee", "priority", "labels", "depends_on"):
        if name in task:
            value = task[name] if isinstance(task[name], str) else " ".join(task[name])
            rows.append(f"  {name.replace('_', ' ')} {value}")
    if "claim" in task:
        rows.append(f"  {claim_line(task['claim'])}")
    if "artifact" in task:
        artifact = task["artifact"]
        rows.append(f"  commit {artifact['commit'][:12]}  tree {artifact['tree'][:12]}")
    if "brief" in task:
        rows += ["", quoted(task["brief"])]
    if task["criteria"]:
        rows += ["", bold("Criteria")]
    for found in task["criteria"]:
        if found["met"]:
            mark = green("met    ")
            if ran := found.get("ran_by"):
                how = f"by a recorded run of {ran}"
            else:
                kind, sender = _KINDS[found["by"]], found["said_by"]
                how = f"by a {kind} of {sender}, which a passing verdict names"
        else:
            mark, how = yellow("not met"), found["why"]
        rows.append(f"  {found['number']}  {mark}  {_one_line(found['text'])}\n       {dim(how)}")
    if task["gates"]:
        rows += ["", bold("Gates")]
    for found in task["gates"]:
        style, state = _GATE_STATES[found["state"]]
        who = f"by {found['by']}" if "by" in found else f"held by {' '.join(found['holders'])}"
        rows.append(f"  {found['gate']}  {style(state)}  {who}")
    if answer["missing"]:
        rows += ["", bold("Open requirements"), *_missing(answer)]
    elif task["state"] == "submitted":
        take = "" if "claim" in task else f"interlock task take {task['id']}, then "
        rows += ["", f"{_READY} {take}interlock task complete {task['id']}"]
    rows += ["", bold("History")]
    for entry in answer["story"]:
        head = f"  #{entry['seq']}  {time(entry['at'])}  {entry['by']}  "
        rows.append(head + _entry(entry))
    return "\n".join(rows)


class _OrEmpty(dict[str, object]):
    def __missing__(self, name: str) -> str:
        return ""


_TOLD = {
    "task_created": "told {to} about the new task",
    "task_claimed": "told {to} that the task was taken",
    "task_completed": "told {to} how the task ended",
    "gate_verdict": "told {to} the verdict",
    "wake": "sent a wake-up to {to}",
    "send": "wrote to {to}",
}
_HAPPENED = {
    "task_created": "created the task: {title}",
    "task_taken": "took the task, fence {fence}",
    "task_submitted": "submitted commit {commit:.12}",
    "task_ended": "ended the task: {status}",
    "blocker_resolved": "resolved a blocker",
    "claim_released": "released the claim ({reason})",
    "claim_expired": "recorded that the claim expired",
    "body_redacted": "redacted the text of #{target}",
}


def _entry(entry: Answer) -> str:
    """Return an entry of a history. A command in a message is shown whole, or not at all."""
    if "evidence" in entry:
        return f"{_evidence_line(entry['evidence'])}  {dim(entry['evidence']['id'][:8])}"
    if "verdict" in entry:
        return _verdict_line(entry["verdict"])
    if "blocker" in entry:
        return _blocker_line(entry["blocker"])
    if "message" in entry:
        from interlock.rooms.mail.message_types import MAIN_MEMBER

        message = entry["message"]
        row = _TOLD.get(message["type"], "sent {type} to {to}").format_map(message)
        text = message.get("payload", {}).get(MAIN_MEMBER.get(message["type"]))
        if text is None:
            return row
        shown = "\n".join(text.split("\n")[:MAX_LINES])[:MAX_SHOWN_LENGTH]
        is_part = message.get("part") or shown != text
        if shown and not (is_part and message["type"] == "command"):
            row += _below(shown)
        if is_part:
            rest = f"Not all of it is shown. To read it: interlock read {message['id']}"
            row += f"\n{INDENT}" + yellow(rest)
        return row
    if entry.get("taken_over"):
        return "took over the claim" + _below(entry.get("reason"))
    if entry.get("reason") == "released":
        return "released the claim"
    kind = str(entry["kind"])
    return _HAPPENED.get(kind, kind).format_map(_OrEmpty(entry)) + _below(entry.get("note"))


def _below(text: str | None) -> str:
    """Return a text of another author, quoted under a line of Interlock."""
    return f"\n{quoted(text, INDENT)}" if text is not None else ""


def _fixes(found: Answer) -> str:
    return "".join(
        f"\n{INDENT}{dim('suggested fix:')}{_below(fix)}" for fix in found.get("fix", ())
    )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"


# --- evidence


def evidence_run(answer: Answer) -> str:
    if "spooled" in answer:
        return (
            f"{yellow('Saved in a file:')} {answer['spooled']}\nTo submit it, use the MCP tool "
            f"evidence, or: {answer['do']}"
        )
    found = answer["evidence"]
    why = f"  {dim(answer['why'])}" if "why" in answer else ""
    return f"{green('Evidence')} {found['id']}  {_evidence_line(found)}{why}"


evidence_add = evidence_run


def evidence_show(answer: Answer) -> str:
    found = answer["evidence"]
    task = f"  {found['task']}" if "task" in found else ""
    rows = [
        f"{bold(found['id'])}  #{found['seq']}  {time(found['at'])}  {found['by']}{task}",
        _evidence_line(found),
    ]
    if found["kind"] == "run" and not found.get("redacted"):
        rows.append(quoted(_command(found)))
        known = [name for name in ("cwd", "commit", "tree") if name in found]
        rows += [f"  {dim(name)}  {found[name]}" for name in known]
        rows.append(f"  {dim('took')}  {found['duration_ms'] / 1000:.1f} s")
    if "text" in found:
        rows.append(quoted(found["text"]))
    if "why" in answer:
        rows.append(dim(answer["why"]))
    if (content := answer.get("content")) is not None:
        rows.append(f"{count(content['size'], 'byte')} stored, SHA-256 {content['sha256']}")
        if (produced := found.get("produced")) is not None:
            cut = f"The command wrote {produced} bytes. Only the start and the end are stored."
            rows.append(yellow(cut))
        text = content["text"] if "text" in content else content["hex"]
        if content.get("part"):
            shown = len(text.encode()) if "text" in content else len(text) // 2
            part = (
                f"Only {shown} bytes from byte {content['offset']} are shown. To print all: --raw"
            )
            rows.append(yellow(part))
        rows.append(quoted(text))
    return "\n".join(rows)


def _command(found: Answer) -> str:
    command: str | list[str] = found["command"]
    if isinstance(command, str):
        return command
    import shlex

    return shlex.join(command)


def _evidence_line(found: Answer) -> str:
    """Return a piece of evidence on one line. A run has the facts that decide whether it counts."""
    tie = f" for criterion {found['criterion']}" if "criterion" in found else ""
    title = f"  {found['title']}" if "title" in found else ""
    masked = f"{count(found['masked'], 'secret')} masked" if found.get("masked") else ""
    if found["kind"] != "run":
        text = _one_line(found.get("name") or found.get("url") or found.get("text", ""))
        attached = f"attached a {_KINDS[found['kind']]}{tie}: {text}{title}"
        return attached + (f"  {masked}" if masked else "")
    if found.get("redacted"):
        return f"ran a command{tie}, redacted"
    succeeded = found["exit_code"] == 0 and not found.get("interrupted")
    facts = [(green if succeeded else yellow)(f"exit {found['exit_code']}")]
    if "tests" in found:
        facts.append(", ".join(f"{number} {what}" for what, number in found["tests"].items()))
    if "tree" not in found:
        facts.append(yellow("not in a repository"))
    elif found.get("dirty"):
        facts.append(yellow("uncommitted changes"))
    else:
        facts.append(f"tree {found['tree'][:12]}")
    if found.get("interrupted") and found.get("ended_by") != "time limit":
        facts.append(yellow("interrupted"))
    elif "ended_by" in found:
        facts.append(yellow(found["ended_by"]))
    if "produced" in found:
        produced = count(found["produced"], "byte")
        facts.append(yellow(f"{found['output']['size']} of {produced} stored"))
    if found.get("spooled"):
        facts.append(yellow("recorded offline"))
    if masked:
        facts.append(masked)
    return f"ran{tie}: {_one_line(_command(found))}  {'  '.join(facts)}{title}"


# --- gates and blockers


def gate_create(answer: Answer) -> str:
    return f"{green('Gate')} {_gate_line(answer['gate'])}"


def gate_list(answer: Answer) -> str:
    return "\n".join(map(_gate_line, answer["gates"])) or dim("No gates.")


def _gate_line(gate: Answer) -> str:
    due = f"  verdict due: {' '.join(gate['due'])}" if gate["due"] else ""
    none = "" if gate["can_judge"] else f"  {yellow('no holder can give a verdict')}"
    return f"{bold(gate['name'])}  held by {' '.join(gate['holders'])}{none}{due}"


def gate_pass(answer: Answer) -> str:
    rows = [_verdict_line(answer["verdict"]), f"  {_task_line(answer['task'])}"]
    if "blocker" in answer:
        rows.append(f"  Interlock told the worker, {answer['blocker']['to']}")
    elif answer["missing"]:
        rows += [_OPEN, *_missing(answer)]
    return "\n".join(rows)


gate_fail = gate_pass


def _verdict_line(found: Answer) -> str:
    style = green if found["verdict"] == "pass" else yellow
    commit = found["artifact"]["commit"][:12]
    text = _below(found.get("note")) + _fixes(found)
    return f"verdict {style(found['verdict'])} of gate {found['gate']} on commit {commit}{text}"


def blocker_raise(answer: Answer) -> str:
    return _blocker_line(answer["blocker"])


blocker_resolve = blocker_raise


def blocker_list(answer: Answer) -> str:
    rows = [
        (f"{bold(found['task'])}  " if "task" in found else "") + _blocker_line(found)
        for found in answer["blockers"]
    ]
    return "\n".join(rows) or dim("No open blockers.")


def _blocker_line(found: Answer) -> str:
    gate = f" (gate {found['gate']})" if "gate" in found else ""
    solved = f"  {green('resolved by')} {found['resolved_by']}" if "resolved_by" in found else ""
    text = _below(found.get("what", "(redacted)")) + _fixes(found)
    kind = yellow("blocker" if found["severity"] == "stop" else "warning")
    return f"{kind} from {found['by']} to {found['to']}{gate}{solved}  {dim(found['id'])}{text}"


def report(answer: Answer) -> str:
    if "report" in answer:
        return str(answer["report"])
    file = answer["file"]
    return f"{green('Written:')} {file}\nTo check its proofs: interlock audit check-proof {file}"
