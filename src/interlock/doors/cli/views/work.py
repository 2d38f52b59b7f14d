"""Tasks, evidence, gates and blockers. What was run and what was said never look alike."""

import shlex

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views.claims import claim_line
from interlock.doors.cli.views.parts import INDENT, count, indented, quoted, table, time
from interlock.rooms.mail.message_types import MAIN_MEMBER
from interlock.verbs.answers import Answer

# So much of a message stands in a story.
MAX_LINES = 5
MAX_SHOWN_LENGTH = 500
_STATES = {"done": green, "failed": yellow, "cancelled": dim, "submitted": yellow}


def _state(state: str) -> str:
    return _STATES.get(state, str)(state)


def _line(task: Answer) -> str:
    who = f"  {task['worker']}" if "worker" in task else ""
    return f"{bold(task['id'])}  {_state(task['state'])}{who}  {task['title']}"


def _made(answer: Answer) -> str:
    task = answer["task"]
    rows = [f"{green('Created')} {_line(task)}", *_notices(answer)]
    return "\n".join([*rows, dim(f"To work on it: interlock task take {task['id']}")])


def _notices(answer: Answer) -> list[str]:
    return [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]


def _list(answer: Answer) -> str:
    rows = [
        (
            task["id"],
            task["state"],
            task.get("priority", ""),
            task.get("worker") or task.get("assignee", ""),
            task["title"],
        )
        for task in answer["tasks"]
    ]
    more = f"\n{dim('more: --after')} {answer['next']}" if "next" in answer else ""
    ended = "No live tasks. interlock task list --state all shows those that ended."
    return table(rows, ended if answer.get("state") == "live" else "No tasks.") + more


def _needs(answer: Answer) -> list[str]:
    """What is missing, each with the command under it; one that serves several is said once."""
    rows: list[str] = []
    said = ""
    for need in reversed(answer.get("missing", ())):
        command = f"\n    {dim(need['do'])}" if need["do"] != said else ""
        said = need["do"]
        rows.append(f"  {need['message']}{_fixes(need)}{command}")
    return rows[::-1]


def _no(answer: Answer) -> str:
    return f"{yellow(answer['error'])}: {answer['message']}"


def _taken(answer: Answer) -> str:
    if not answer["taken"]:
        held = [f"  {claim_line(claim)}" for claim in answer.get("held_by", ())]
        return "\n".join([_no(answer), *held, *(_needs(answer) if not held else ())])
    rows = [f"{green('Yours:')} {_line(answer['task'])}", f"  {claim_line(answer['claim'])}"]
    return "\n".join([*rows, *_notices(answer)])


def _submitted(answer: Answer) -> str:
    task = answer["task"]
    rows = [
        f"{green('Submitted')} {task['id']} at {task['artifact']['commit'][:12]}",
        *_notices(answer),
    ]
    if answer["missing"]:
        return "\n".join([*rows, "Before it is done:", *_needs(answer)])
    return "\n".join([*rows, f"Nothing is missing: interlock task complete {task['id']}"])


def _completed(answer: Answer) -> str:
    if answer["completed"]:
        return f"{green('Done:')} {_line(answer['task'])}"
    return "\n".join([yellow("Not done yet. Before it is:"), *_needs(answer)])


def _ended(answer: Answer) -> str:
    return _line(answer["task"])


def _shown(answer: Answer) -> str:
    task = answer["task"]
    rows = [_line(task), *_about(task)]
    if "brief" in task:
        rows += ["", quoted(task["brief"])]
    if task["criteria"]:
        rows += ["", bold("Criteria"), *(_criterion(found) for found in task["criteria"])]
    if task["gates"]:
        rows += ["", bold("Gates"), *(_gate_line(found) for found in task["gates"])]
    if answer["missing"]:
        rows += ["", bold("Missing"), *_needs(answer)]
    elif task["state"] == "submitted":
        take = "" if "claim" in task else f"interlock task take {task['id']}, then "
        rows += ["", f"Nothing is missing: {take}interlock task complete {task['id']}"]
    rows += ["", bold("Story"), *(_entry(entry) for entry in answer["story"])]
    return "\n".join(rows)


def _about(task: Answer) -> list[str]:
    rows = [f"  created by {task['created_by']}  {time(task['created_at'])}"]
    for name in ("assignee", "priority"):
        rows += [f"  {name} {task[name]}"] if name in task else []
    for name in ("labels", "depends_on"):
        rows += [f"  {name.replace('_', ' ')} {' '.join(task[name])}"] if name in task else []
    if "claim" in task:
        rows.append(f"  {claim_line(task['claim'])}")
    if "artifact" in task:
        artifact = task["artifact"]
        rows.append(f"  commit {artifact['commit'][:12]}  tree {artifact['tree'][:12]}")
    return rows


def _criterion(found: Answer) -> str:
    mark = green("met    ") if found["met"] else yellow("not met")
    if found["met"]:
        ran, said = found.get("ran_by"), found.get("said_by")
        how = f"by a run of {ran}" if ran else f"by a {found['by']} of {said}, on a holder's word"
    else:
        how = found["why"]
    return f"  {found['number']}  {mark}  {_flat(found['text'])}\n       {dim(how)}"


def _gate_line(found: Answer) -> str:
    style = {"pass": green, "fail": yellow, "due": yellow}.get(found["state"], dim)
    who = f"by {found['by']}" if "by" in found else f"held by {' '.join(found['holders'])}"
    return f"  {found['gate']}  {style(found['state'])}  {who}"


def _entry(entry: Answer) -> str:
    head = f"  #{entry['seq']}  {time(entry['at'])}  {entry['by']}  "
    if "evidence" in entry:
        found = entry["evidence"]
        return f"{head}{_evidence_line(found)}  {dim(found['id'][:8])}"
    if "verdict" in entry:
        return head + _verdict_line(entry["verdict"])
    if "blocker" in entry:
        return head + _blocker_line(entry["blocker"])
    if "message" in entry:
        message = entry["message"]
        told = f"{_TOLD.get(message['type'], message['type'])} {message['to']}"
        return f"{head}{told}{_words(message)}"
    kind = str(entry["kind"])
    if entry.get("taken_over"):
        return f"{head}claim taken over" + _below(entry.get("reason"))
    return head + _WHAT.get(kind, kind).format_map(_Said(entry)) + _below(entry.get("note"))


def _words(message: Answer) -> str:
    """What a message says, where that may be read; a command whole, or not at all."""
    text = message.get("payload", {}).get(MAIN_MEMBER.get(message["type"]))
    if text is None:
        return ""
    shown = "\n".join(text.split("\n")[:MAX_LINES])[:MAX_SHOWN_LENGTH]
    is_part = message.get("part") or shown != text
    below = _below(shown) if shown and not (is_part and message["type"] == "command") else ""
    part = yellow(f"A part; all of it: interlock read {message['id']}")
    return below + (f"\n{INDENT}{part}" if is_part else "")


class _Said(dict[str, object]):
    """What a fact does not say is left out of its line."""

    def __missing__(self, name: str) -> str:
        return ""


_TOLD = {
    "task_created": "told of it:",
    "task_claimed": "told who works on it:",
    "task_completed": "told how it ended:",
    "gate_verdict": "told the verdict:",
    "wake": "asked for a verdict:",
    "send": "wrote to",
}
_WHAT = {
    "task_created": "created: {title}",
    "task_taken": "taken, fence {fence}",
    "task_submitted": "submitted {commit:.12}",
    "task_ended": "{status}",
    "blocker_resolved": "blocker resolved",
    "claim_released": "claim given up: {reason}",
    "claim_expired": "lease ended",
    "body_redacted": "redacted what was said at #{target}",
}


def _evidence_line(found: Answer) -> str:
    tie = f" for criterion {found['criterion']}" if "criterion" in found else ""
    title = f"  {found['title']}" if "title" in found else ""
    if found["kind"] != "run":
        said = _flat(found.get("name") or found.get("url") or found.get("text", ""))
        masked = f"  {count(found['masked'], 'secret')} masked" if "masked" in found else ""
        return f"said{tie} ({found['kind']}): {said}{title}{masked}"
    if found.get("redacted"):
        return f"ran{tie}, redacted"
    style = green if found["exit_code"] == 0 and not found.get("interrupted") else yellow
    facts = [style(f"exit {found['exit_code']}"), *_run_facts(found)]
    return f"ran{tie}: {_command(found)}  {'  '.join(facts)}{title}"


def _run_facts(found: Answer) -> list[str]:
    """What a reader must know of a run before believing it."""
    facts = []
    if "tests" in found:
        facts.append(", ".join(f"{number} {what}" for what, number in found["tests"].items()))
    if "tree" not in found:
        facts.append(yellow("no tree"))
    elif found.get("dirty"):
        facts.append(yellow("uncommitted changes"))
    else:
        facts.append(f"tree {found['tree'][:12]}")
    if found.get("ended_by") == "time limit":
        facts.append(yellow("time limit"))
    elif found.get("interrupted"):
        facts.append(yellow("interrupted"))
    elif "ended_by" in found:
        facts.append(yellow(found["ended_by"]))
    if "produced" in found:
        kept = f"{found['output']['size']} of {count(found['produced'], 'byte')} kept"
        facts.append(yellow(kept))
    if found.get("spooled"):
        facts.append(yellow("handed over in a file"))
    if found.get("masked"):
        facts.append(f"{count(found['masked'], 'secret')} masked")
    return facts


def _command(found: Answer) -> str:
    command = found["command"]
    return _flat(command if isinstance(command, str) else shlex.join(command))


def _verdict_line(found: Answer) -> str:
    style = green if found["verdict"] == "pass" else yellow
    commit = found["artifact"]["commit"][:12]
    said = _below(found.get("note")) + _fixes(found)
    return f"{style(found['verdict'])} {found['gate']} on {commit}{said}"


def _below(text: str | None) -> str:
    """What somebody wrote, quoted under our own line."""
    return f"\n{indented(text)}" if text is not None else ""


def _fixes(found: Answer) -> str:
    return "".join(
        f"\n{INDENT}{dim('to put it right:')}{_below(fix)}" for fix in found.get("fix", ())
    )


def _flat(text: str) -> str:
    """What somebody wrote, on one line of ours."""
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"


def _blocker_line(found: Answer) -> str:
    gate = f" (gate {found['gate']})" if "gate" in found else ""
    solved = f"  {green('resolved by')} {found['resolved_by']}" if "resolved_by" in found else ""
    said = _below(found.get("what", "(redacted)")) + _fixes(found)
    kind = yellow("blocker" if found["severity"] == "stop" else "warning")
    return f"{kind} of {found['by']} to {found['to']}{gate}{solved}  {dim(found['id'])}{said}"


def _kept(answer: Answer) -> str:
    if "spooled" in answer:
        return (
            f"{yellow('Kept in a file:')} {answer['spooled']}\nHand it over with the evidence "
            f"tool, or: {answer['do']}"
        )
    found = answer["evidence"]
    tail = f"  {dim(answer['why'])}" if "why" in answer else ""
    return f"{green('Evidence')} {found['id']}  {_evidence_line(found)}{tail}"


def _evidence(answer: Answer) -> str:
    found = answer["evidence"]
    rows = [
        f"{bold(found['id'])}  #{found['seq']}  {time(found['at'])}  {found['by']}"
        + (f"  {found['task']}" if "task" in found else ""),
        _evidence_line(found),
        *_run_details(found),
    ]
    if "text" in found:
        rows.append(quoted(found["text"]))
    if "why" in answer:
        rows.append(dim(answer["why"]))
    if (content := answer.get("content")) is not None:
        rows += _content(content, found.get("produced"))
    return "\n".join(rows)


def _run_details(found: Answer) -> list[str]:
    """All that is known of a run, for whoever looks at it alone."""
    if found["kind"] != "run" or found.get("redacted"):
        return []
    command = found["command"]
    rows = [quoted(command if isinstance(command, str) else shlex.join(command))]
    for name in ("cwd", "commit", "tree"):
        rows += [f"  {dim(name)}  {found[name]}"] if name in found else []
    return [*rows, f"  {dim('took')}  {found['duration_ms'] / 1000:.1f} s"]


def _content(content: Answer, produced: int | None) -> list[str]:
    rows = [f"{count(content['size'], 'byte')} kept, sha256 {content['sha256']}"]
    if produced is not None:
        rows.append(yellow(f"It wrote {produced} bytes; its beginning and its end are kept."))
    text = content["text"] if "text" in content else content["hex"]
    if content.get("part"):
        shown = len(text.encode()) if "text" in content else len(text) // 2
        rows.append(yellow(f"A part: {shown} bytes from {content['offset']}; all: --raw"))
    return [*rows, quoted(text)]


def _gate(answer: Answer) -> str:
    return f"{green('Gate')} {_gate_row(answer['gate'])}"


def _gate_row(gate: Answer) -> str:
    due = f"  due: {' '.join(gate['due'])}" if gate["due"] else ""
    nobody = "" if gate["can_judge"] else f"  {yellow('nobody can judge')}"
    return f"{bold(gate['name'])}  {' '.join(gate['holders'])}{nobody}{due}"


def _gates(answer: Answer) -> str:
    return "\n".join(_gate_row(gate) for gate in answer["gates"]) or dim("No gates.")


def _judged(answer: Answer) -> str:
    rows = [_verdict_line(answer["verdict"]), f"  {_line(answer['task'])}"]
    if "blocker" in answer:
        return "\n".join([*rows, f"  The worker was told: {answer['blocker']['to']}"])
    if answer["missing"]:
        rows += ["Before it is done:", *_needs(answer)]
    return "\n".join(rows)


def _blocker(answer: Answer) -> str:
    return _blocker_line(answer["blocker"])


def _blockers(answer: Answer) -> str:
    rows = [
        (f"{bold(found['task'])}  " if "task" in found else "") + _blocker_line(found)
        for found in answer["blockers"]
    ]
    return "\n".join(rows) or dim("Nothing stands in the way.")


def _reported(answer: Answer) -> str:
    if "report" in answer:
        return str(answer["report"])
    file = answer["file"]
    return f"{green('Written:')} {file}\nIts proofs: interlock audit check-proof {file}"


VIEWS = {
    "task create": _made,
    "task import": _made,
    "task list": _list,
    "task show": _shown,
    "task take": _taken,
    "task submit": _submitted,
    "task complete": _completed,
    "task fail": _ended,
    "task cancel": _ended,
    "evidence run": _kept,
    "evidence add": _kept,
    "evidence show": _evidence,
    "gate create": _gate,
    "gate pass": _judged,
    "gate fail": _judged,
    "gate list": _gates,
    "blocker raise": _blocker,
    "blocker resolve": _blocker,
    "blocker list": _blockers,
    "report": _reported,
}
