"""Tasks: create, take, submit and end them, and show one with its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import (
    DigestMismatch,
    GateHasNoHolder,
    GatesNotPassed,
    NameTaken,
    NotFound,
    Remedy,
    UnknownRecipient,
    Usage,
    message,
)
from interlock.log.encoding import canonical
from interlock.log.facts import Header
from interlock.log.times import rfc3339
from interlock.rooms.claims.rules import serve
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.names import agent_of, is_known, members, names
from interlock.rooms.identity.verbs import ListAgents
from interlock.rooms.mail.records import by_seq, content, envelope, load, visible
from interlock.rooms.mail.sending import post
from interlock.rooms.transaction import OWNER, SYSTEM, RuleAnswer, Transaction
from interlock.rooms.work import verbs
from interlock.rooms.work.missing import (
    criteria,
    holders,
    judges,
    listed,
    missing,
    open_dependencies,
    to_add_holder,
    to_pass,
)
from interlock.rooms.work.records import (
    Task,
    blocker_view,
    blockers,
    body,
    claim_on,
    evidence,
    evidence_view,
    find_task,
    in_force,
    near_tasks,
    open_task,
    task_view,
    under_claim,
    verdict_view,
    verdicts,
    workers,
)
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers

# The history shows only the beginning of a longer text.
MAX_STORY_LENGTH = 4096


def create(tx: Transaction, request: verbs.CreateTask) -> answers.TaskMade:
    """Create a task. Its dependencies must exist, so that no cycle is possible. Each of its gates
    must have a holder that is not the assignee's agent."""
    id = request.id
    if id is None:
        # The number after the highest of T-1, T-2, …
        highest = tx.value(
            "SELECT max(cast(substr(id, 3) AS INTEGER)) FROM work_tasks "
            "WHERE id GLOB 'T-[1-9]*' AND length(id) <= 12 AND substr(id, 3) NOT GLOB '*[^0-9]*'"
        )
        id = f"T-{(highest or 0) + 1}"
    if tx.one("SELECT 1 FROM work_tasks WHERE id = ?", id):
        raise NameTaken(f"A task has the id {id} already. Choose another id.", name=id)
    if id in request.depends_on:
        raise Usage(f"{id} cannot depend on itself, because no worker could ever take it.")
    for other in request.depends_on:
        if not tx.has("SELECT 1 FROM work_tasks WHERE id = ?", other):
            raise NotFound(
                f"No task has the id {other!r}, so {id} cannot depend on it. Create that task "
                "first:",
                Remedy(
                    f"interlock task create --title TITLE --id {other}",
                    verbs.CreateTask("TITLE", other),
                ),
                did_you_mean=near_tasks(tx, other),
            )
    assignee = request.assignee.removeprefix("@") if request.assignee is not None else None
    is_unknown = assignee is not None and not is_known(tx.state, assignee)
    if assignee is not None and is_unknown:
        if (group := members(tx.state, assignee)) is not None:
            raise Usage(
                f"@{assignee} is a group, and a task has one assignee. Name one of its members: "
                f"{' '.join(map(address, group))}"
            )
        if tx.setting("recipients") == "strict":
            raise UnknownRecipient(
                f"@{assignee} is not registered, and this workspace delivers only to registered "
                "names. List the addresses:",
                Remedy("interlock agents", ListAgents()),
                to=f"@{assignee}",
                did_you_mean=near(assignee, names(tx.state)),
            )
    _refuse_unheld(tx, request.gates, assignee)

    fields = request._asdict()
    del fields["id"]
    payload = verbs.message_payload(task_id=id, **fields)
    outcome = without_none(
        task=id,
        thread=tx.new_id(),
        criteria=len(request.criteria),
        gates=list(request.gates),
        depends_on=list(request.depends_on),
        labels=list(request.labels),
        priority=request.priority,
        assignee=request.assignee,
    )
    tx.append("task_created", outcome, canonical(payload))
    task = find_task(tx, id)
    answer: answers.TaskMade = {"task": task_view(tx, task)}
    if assignee is not None:
        _tell(tx, task, assignee, "task_created", payload)
    if is_unknown:
        text = f"@{assignee} is not registered. It gets a message about the task when it joins. "
        text += "Until then, any other agent can take the task."
        answer["notices"] = [{"code": "UNKNOWN_RECIPIENT", "message": text}]
    return answer


def _refuse_unheld(tx: Transaction, gates: tuple[str, ...], assignee: str | None) -> None:
    """Raise GateHasNoHolder for a gate without a holder, or with the assignee as its only one."""
    working = agent_of(tx.state, assignee) if assignee is not None else None
    for gate in gates:
        if not holders(tx, gate):
            is_there = bool(listed(tx, gate))
            near_gates = None
            if not is_there:
                known = tx.column("SELECT name FROM work_gates ORDER BY name")
                near_gates = [found.removeprefix("@") for found in near(gate, known) or ()] or None
            why = f"The gate {gate} has no holder" if is_there else f"No gate has the name {gate}"
            raise GateHasNoHolder(
                f"{why}, so no worker could complete the task. "
                f"{'Add a holder' if is_there else 'Create it with a holder'}:",
                to_add_holder(tx, gate),
                gate=gate,
                did_you_mean=near_gates,
            )
        if not judges(tx, gate, (working,)):
            raise GateHasNoHolder(
                f"Only the assignee @{working} holds the gate {gate}, and an agent cannot give a "
                "verdict on its own work. Add a holder:",
                to_add_holder(tx, gate),
                gate=gate,
            )


def take(
    tx: Transaction, request: verbs.TakeTask
) -> answers.TaskTaken | answers.TaskHeld | answers.TaskWaits:
    """Take the task by a claim on it, extend the caller's own claim, or return its holder."""
    task = open_task(tx, request.id)
    if waiting := open_dependencies(tx, task):
        return {"taken": False} | not_done_yet(f"{task.id} cannot be taken yet.", waiting)
    asked = AcquireClaim(
        request.id,
        branch=request.branch,
        worktree=request.worktree,
        note=request.note,
        ttl_s=request.ttl_s,
    )
    answer: RuleAnswer = asked.decide(tx)
    if not answer.pop("acquired"):
        for first in answer["held_by"][:1]:
            answer["message"] = (
                f"{task.id} is held by {first['holder']} until {first['expires_at']}. Do other "
                "work, or ask the holder."
            )
        return {"taken": False} | answer

    me = tx.caller.agent
    claim = claim_on(tx, task.id)
    assert claim is not None
    if claim.fence != task.fence:
        is_own = task.worker is not None and agent_of(tx.state, task.worker) == me
        state = "submitted" if task.state == "submitted" and is_own else "taken"
        outcome = {"task": task.id, "claim": claim.id, "fence": claim.fence, "state": state}
        tx.append("task_taken", outcome)
        payload = {
            "task_id": task.id,
            "fence": claim.fence,
            "expires_at": rfc3339(claim.expires_at),
        }
        _tell(tx, task, task.sender, "task_claimed", payload)

    notices: list[answers.TaskNotice] = answer.get("notices", [])
    if task.assignee is not None and agent_of(tx.state, task.assignee[1:]) != me:
        text = f"{task.id} is assigned to {task.assignee}. Tell them that you have taken it."
        notices.append({"code": "ASSIGNED_TO_ANOTHER", "message": text})
    own = {me, *workers(tx, task.id)}
    for gate in task.gates.split():
        if not judges(tx, gate, own):
            text = message(
                f"Only workers of {task.id} hold the gate {gate}, and an agent cannot give a "
                "verdict on its own work. Add a holder:",
                to_add_holder(tx, gate),
            )
            notices.append({"code": "GATE_HAS_NO_HOLDER", "message": text})
    return without_none(
        taken=True,
        task=task_view(tx, find_task(tx, task.id)),
        claim=answer["claim"],
        notices=notices or None,
    )


def submit(tx: Transaction, request: verbs.SubmitTask) -> answers.TaskSubmitted:
    """Submit a commit and its tree. Verdicts on an earlier submission do not count for it."""
    task = open_task(tx, request.id)
    claim = under_claim(tx, task, request.fence)
    commit, tree = request.commit, request.tree
    # Only the worker's own clean runs decide which tree a commit has. Runs of other agents must
    # not prevent a submission.
    trees = [
        run.tree
        for run in evidence(tx, "commit_id = ? AND dirty = 0", commit)
        if run.tree is not None and agent_of(tx.state, run.sender) == tx.caller.agent
    ]
    if tree is None:
        if not trees:
            shell = f"interlock task submit {task.id} --commit {commit}"
            tree_of = f"git rev-parse '{commit}^{{tree}}'"
            raise Usage(
                f"The tree of the commit {commit[:12]} is unknown, because you have no clean run "
                "at that commit.",
                Remedy(
                    f"Run this in its repository: {shell}",
                    http=f"Give `tree` too. `{tree_of}` prints it.",
                    mcp=f"Run this in a shell, in its repository: `{shell}`",
                ),
            )
        tree = trees[-1]
    if trees and tree not in trees:
        raise DigestMismatch(
            f"You submit the commit {commit[:12]} with the tree {tree[:12]}, but your runs at that "
            f"commit were on the tree {trees[-1][:12]}. Give the tree that git prints: git "
            f"rev-parse '{commit[:12]}^{{tree}}'"
        )
    outcome = {"task": task.id, "commit": commit, "tree": tree, "fence": claim.fence}
    tx.append("task_submitted", outcome)
    submitted = find_task(tx, task.id)
    if (task.commit, task.tree) != (commit, tree) or in_force(tx, task):
        _ask_for_verdicts(tx, submitted)
    return {
        "submitted": True,
        "task": task_view(tx, submitted),
        "missing": missing(tx, submitted),
    }


def _ask_for_verdicts(tx: Transaction, task: Task) -> None:
    """Wake each sender whose verdict is due."""
    own = workers(tx, task.id)
    due: dict[str, list[str]] = {}
    for gate in task.gates.split():
        for sender in judges(tx, gate, own):
            due.setdefault(sender, []).append(gate)
    for sender, gates in due.items():
        commands = " and ".join(f"`{to_pass(tx, task, gate)}`" for gate in gates)
        text = (
            f"@{tx.caller.sender} submitted {task.id} at {(task.commit or '')[:12]}. Your verdict "
            f"is due at the {'gates' if gates[1:] else 'gate'} {', '.join(gates)}. To review the "
            f"task: `interlock task show {task.id}`, or the MCP tool `task`. To pass it: "
            f"{commands}, or the MCP tool `verdict`. To fail it: "
            f"`interlock gate fail {task.id} {gates[0]} --note TEXT`, or the MCP tool `verdict`."
        )
        post(tx, sender, "wake", {"text": text}, thread=task.thread, wake=True)


def not_done_yet(what: str, needs: list[answers.Need]) -> RuleAnswer:
    """The members of the error object for open requirements."""
    messages = " ".join(need["message"] for need in needs)
    return GatesNotPassed(f"{what} {messages}", missing=needs).as_dict()


def end_task(tx: Transaction, task: Task, status: str, note: str | None) -> answers.TaskEnded:
    """End a task as done, failed or cancelled, and release the worker's claim on it."""
    note_body = canonical({"note": note}) if note is not None else None
    claim = claim_on(tx, task.id)
    tx.append("task_ended", {"task": task.id, "status": status}, note_body)
    if claim is not None and claim.fence == task.fence:
        tx.append("claim_released", {"id": claim.id, "reason": f"task {status}"})
        serve(tx)
    payload = without_none(
        task_id=task.id, status=status, artifact=task.artifact if status == "done" else None
    )
    for name in dict.fromkeys((task.sender, task.worker)):
        if name is not None:
            _tell(tx, task, name, "task_completed", payload)
    return {"task": task_view(tx, find_task(tx, task.id))}


def _tell(tx: Transaction, task: Task, name: str, type: str, payload: RuleAnswer) -> None:
    """Send a message of the task's thread, except to the caller's own agent."""
    is_own = agent_of(tx.state, name) == tx.caller.agent
    if not is_own and name not in (SYSTEM, OWNER):
        post(tx, name, type, payload, thread=task.thread, wake=False)


# --- one task in full


def show_task(tx: Transaction, id: str) -> answers.TaskShown:
    task = find_task(tx, id)
    view = task_view(tx, task)
    view |= without_none(brief=body(tx, task.seq).get("brief"))
    view["criteria"] = [criterion.view() for criterion in criteria(tx, task)]
    given = in_force(tx, task)
    gates: list[answers.GateShown] = []
    for gate in task.gates.split():
        verdict = given.get(gate)
        waiting = "due" if task.state == "submitted" else "waits"
        gates.append(
            without_none(
                gate=gate,
                state=verdict.verdict if verdict is not None else waiting,
                holders=[address(sender) for sender in holders(tx, gate)],
                by=address(verdict.sender) if verdict is not None else None,
                id=verdict.id if verdict is not None else None,
            )
        )
    view["gates"] = gates
    story = tx.column("SELECT seq FROM work_story WHERE task = ? ORDER BY seq", task.id)
    return {
        "task": view,
        "missing": [] if task.has_ended else missing(tx, task),
        "story": [_entry(tx, next(iter(tx.store.facts(seq - 1)))) for seq in story],
    }


def _entry(tx: Transaction, fact: Header) -> dict[str, Any]:
    """A fact of the history with its time, its sender and its content."""
    entry: dict[str, Any] = without_none(
        seq=fact.seq,
        at=rfc3339(fact.at),
        kind=fact.kind,
        by=address(fact.sender),
        session=fact.session,
    )
    if fact.kind == "task_created":
        entry["title"] = body(tx, fact.seq).get("title", "")
    elif fact.kind == "evidence_added":
        (found,) = evidence(tx, "seq = ?", fact.seq)
        entry["evidence"] = view = dict(evidence_view(tx, found))
        command = view.get("command", "")
        words = command if isinstance(command, str) else " ".join(command)
        if len(words) > MAX_STORY_LENGTH:
            view |= {"command": words[:MAX_STORY_LENGTH], "part": True}
        if len(text := view.get("text", "")) > MAX_STORY_LENGTH:
            view |= {"text": text[:MAX_STORY_LENGTH], "part": True}
    elif fact.kind == "verdict_given":
        (verdict,) = verdicts(tx, "seq = ?", fact.seq)
        entry["verdict"] = verdict_view(tx, verdict)
    elif fact.kind == "message_sent":
        if raised := blockers(tx, "seq = ?", fact.seq):
            entry["blocker"] = blocker_view(tx, raised[0])
        else:
            entry["message"] = _message(tx, fact.seq)
    else:
        shown = {name: v for name, v in fact.outcome.items() if name not in ("task", "thread")}
        if "id" in shown and fact.kind.startswith("claim_"):
            shown["claim"] = shown.pop("id")
        entry |= shown | without_none(note=body(tx, fact.seq).get("note"))
    return entry


def _message(tx: Transaction, seq: int) -> RuleAnswer:
    """A message of the task's thread, with its content if the caller may read it."""
    message = by_seq(tx, seq)
    written = load(tx, message) if visible(tx, message) else None
    if written is None:
        return envelope(message, None)
    stop = None
    if written["size"] > MAX_STORY_LENGTH:
        stop = 0 if message.type == "command" else MAX_STORY_LENGTH
    return envelope(message, written) | content(tx, message, written, 0, stop)
