"""Evidence: what was run, and what was said, kept apart for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import IdempotencyConflict, Usage
from interlock.log.encoding import canonical
from interlock.rooms.claims.records import Claim
from interlock.rooms.mail.records import damaged, kept_bytes
from interlock.rooms.mail.sending import keep_upload
from interlock.rooms.transaction import Request, RuleAnswer, Transaction
from interlock.rooms.work.criteria import Standing
from interlock.rooms.work.records import (
    Evidence,
    Task,
    body,
    evidence_view,
    find_evidence,
    find_task,
    open_task,
    under_claim,
    workers,
)
from interlock.rooms.workspace.rules import done_before
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.work.verbs import AddEvidence, ShowEvidence

# So much of the end of an output tells how it went.
SHOWN_BYTES = 16_384
_INSIDE = bytes(range(0x80, 0xC0))


def add(tx: Transaction, act: AddEvidence) -> RuleAnswer:
    """Keeps a piece of evidence, once per key. The worker writes under its claim; anybody else as
    a reader."""
    payload = act.payload
    request = _request(act)
    if (before := _kept_before(tx, act, request)) is not None:
        task = find_task(tx, before.task) if before.task is not None else None
        return {"evidence": evidence_view(tx, before)} | _counts(tx, before, task)
    task = None
    if (id := payload.get("task_id")) is not None:
        task = open_task(tx, id)
        claim_of_worker(tx, task, act.fence)
        refuse_criterion(task, payload.get("criterion"))
    made = tx.new_id()
    outcome = without_none(
        id=made,
        kind=payload["kind"],
        task=task.id if task is not None else None,
        criterion=payload.get("criterion"),
        exit_code=payload.get("exit_code"),
        commit=payload.get("commit"),
        tree=payload.get("tree"),
        dirty=payload.get("dirty"),
        interrupted=payload.get("interrupted"),
        spooled=payload.get("spooled"),
    )
    blob = blob_of(payload)
    fact = tx.append("evidence_added", outcome, canonical(payload), request=request)
    if blob is not None and blob["size"] > 0:
        if act.upload is None:
            raise Usage("Upload the bytes first, and name the upload.")
        keep_upload(tx, act.upload, blob["sha256"], blob["size"], fact)
    found = find_evidence(tx, made)
    return {"evidence": evidence_view(tx, found)} | _counts(tx, found, task)


def _request(act: AddEvidence) -> Request | None:
    """What makes two the same: what is shown, and of what. Under which fence, and whether by way
    of a file, is no part of that."""
    if act.key is None:
        return None
    said = {name: value for name, value in act.payload.items() if name != "spooled"}
    return Request(act.key, canonical(said))


def _kept_before(tx: Transaction, act: AddEvidence, request: Request | None) -> Evidence | None:
    try:
        seq = done_before(tx, request)
    except IdempotencyConflict as conflict:
        if not act.payload.get("spooled"):
            raise
        seq = conflict.members["seq"]
        raise IdempotencyConflict(
            f"This run was handed over before, at #{seq}, with another task, criterion or title, "
            "or was redacted since. What it should show beside that needs a run of its own.",
            **conflict.members,
        ) from None
    return find_evidence(tx, f"#{seq}") if seq is not None else None


def lease_of(tx: Transaction, claim: Claim) -> RuleAnswer:
    left = max(0, claim.expires_at - tx.now)
    return {"fence": claim.fence, "lease_s": claim.ttl // 1000, "left_s": left // 1000}


def claim_of_worker(tx: Transaction, task: Task, fence: int | None) -> Claim | None:
    if fence is None and tx.caller.agent not in workers(tx, task.id):
        return None
    return under_claim(tx, task, fence)


def blob_of(payload: RuleAnswer) -> RuleAnswer | None:
    """The digest and the size of what is kept with the evidence, if anything is."""
    if payload["kind"] == "run":
        output: RuleAnswer = payload["output"]
        return output
    return payload if payload["kind"] == "file" else None


def refuse_criterion(task: Task, number: int | None) -> None:
    if number is not None and number > task.criteria:
        many = {0: "no criteria", 1: "1 criterion"}.get(task.criteria, f"{task.criteria} criteria")
        raise Usage(
            f"{task.id} has {many}, and no number {number}. See interlock task show {task.id}"
        )


def _counts(tx: Transaction, found: Evidence, task: Task | None) -> RuleAnswer:
    """Whether it can meet its criterion as things stand, and if not, why."""
    if task is None or found.criterion is None:
        return {"counts": False, "why": "It is tied to no criterion of a task."}
    met, _ = Standing(tx, task).of(found.criterion)
    if met is not None:
        another = "Another piece of evidence meets its criterion."
        return {"counts": True} if met.id == found.id else {"counts": False, "why": another}
    if found.kind != "run":
        return {"counts": False, "why": "What was said counts when a passing verdict names it."}
    tree = task.tree if task.state == "submitted" else found.tree
    why = found.why_not(tree)
    return {"counts": False, "why": f"The run {why}."} if why else {"counts": True}


def show(tx: Transaction, act: ShowEvidence) -> RuleAnswer:
    """The evidence, with the bytes that were asked for of what it kept."""
    found = find_evidence(tx, act.id)
    answer: RuleAnswer = {"evidence": evidence_view(tx, found)}
    if found.task is not None:
        answer |= _counts(tx, found, find_task(tx, found.task))
    blob = _kept(tx, found) if not found.redacted else None
    return answer | ({"content": _content(tx, found.seq, blob, act)} if blob else {})


def _kept(tx: Transaction, found: Evidence) -> RuleAnswer | None:
    try:
        return blob_of(body(tx, found.seq))
    except (KeyError, TypeError):
        raise damaged(found.seq) from None


def _content(tx: Transaction, seq: int, blob: RuleAnswer, act: ShowEvidence) -> RuleAnswer:
    size = blob["size"]
    start = act.start if act.start is not None else max(0, size - SHOWN_BYTES)
    if act.start is None and act.stop is not None:
        start = 0
    if start > size:
        raise Usage(f"It has {size} bytes; {start} is beyond its end.", size=size)
    stop = min(size, act.stop if act.stop is not None else start + (1 << 20))
    data = kept_bytes(tx, seq, blob["sha256"], start, stop)
    if act.start is None and act.stop is None:
        # The end that nobody asked for byte by byte begins with a whole character.
        whole = data.lstrip(_INSIDE) if start else data
        start, data = start + len(data) - len(whole), whole
    return without_none(
        **_readable(data),
        size=size,
        sha256=blob["sha256"],
        part=True if len(data) < size else None,
        offset=start if len(data) < size else None,
        next_offset=stop if stop < size else None,
    )


def _readable(data: bytes) -> RuleAnswer:
    """Text where it is text; any other bytes as hexadecimal digits, so that none is changed."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}
