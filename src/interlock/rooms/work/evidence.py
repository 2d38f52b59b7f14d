"""Evidence: runs, which the machine measured, and files, URLs and notes, which a sender states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import IdempotencyConflict, Remedy, Usage
from interlock.log.encoding import canonical
from interlock.rooms.claims.rules import Claim
from interlock.rooms.mail.records import damaged, kept_bytes
from interlock.rooms.mail.sending import keep_upload
from interlock.rooms.transaction import KeyedRequest, RuleAnswer, Transaction, done_before
from interlock.rooms.work.fold import RUN_MEMBERS
from interlock.rooms.work.missing import criteria
from interlock.rooms.work.records import (
    Evidence,
    Task,
    body,
    evidence_view,
    find_evidence,
    find_task,
    open_task,
    to_show,
    under_claim,
    workers,
)
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.work.verbs import AddEvidence, ShowEvidence

# By default, the answer shows this much of the end of an output.
SHOWN_BYTES = 16_384
MAX_SHOWN_BYTES = 1 << 20
CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def add(tx: Transaction, request: AddEvidence) -> answers.EvidenceAdded:
    """Add evidence, once for each key. A worker of the task needs its claim on it. Other senders
    need no claim."""
    payload = request.payload
    keyed = None
    if request.key is not None:
        # A request with another fence is the same request, and so is one whose run was spooled
        # to a file while offline.
        content = {name: value for name, value in payload.items() if name != "spooled"}
        keyed = KeyedRequest(request.key, canonical(content))
    try:
        seq = done_before(tx, keyed)
    except IdempotencyConflict as conflict:
        if not payload.get("spooled"):
            raise
        raise IdempotencyConflict(
            f"This run was added before, at #{conflict.members['seq']}, with another task, "
            "criterion or title, or it was redacted since. Record another run:",
            Remedy("interlock evidence run --task T --criterion N -- COMMAND"),
            **conflict.members,
        ) from None
    if seq is not None:
        before = find_evidence(tx, f"#{seq}")
        task = find_task(tx, before.task) if before.task is not None else None
        return _with_standing(tx, before, task)

    task = None
    if (task_id := payload.get("task_id")) is not None:
        task = open_task(tx, task_id)
        worker_claim(tx, task, request.fence, payload.get("criterion"))
    id = tx.new_id()
    outcome = without_none(
        id=id,
        kind=payload["kind"],
        task=task.id if task is not None else None,
        **{name: payload.get(name) for name in ("criterion", *RUN_MEMBERS)},
    )
    fact = tx.append("evidence_added", outcome, canonical(payload), keyed=keyed)
    blob = blob_of(payload)
    if blob is not None and blob["size"] > 0:
        if request.upload is None:
            raise Usage(
                f"upload is missing. Upload the {blob['size']} bytes first, and give the id of "
                "the upload."
            )
        keep_upload(tx, request.upload, blob["sha256"], blob["size"], fact)
    return _with_standing(tx, find_evidence(tx, id), task)


def worker_claim(
    tx: Transaction, task: Task, fence: int | None, criterion: int | None
) -> Claim | None:
    """The claim under which a worker adds evidence; None for a caller that never took the task.

    Raises StaleFence or NotHolder for a worker without its claim, and Usage for a criterion that
    the task does not have."""
    claim = None
    if fence is not None or tx.caller.agent in workers(tx, task.id):
        claim = under_claim(tx, task, fence)
    if criterion is not None and criterion > task.criteria:
        many = {0: "no criteria", 1: "1 criterion"}.get(task.criteria, f"{task.criteria} criteria")
        raise Usage(
            f"{task.id} has {many}, so it has no criterion {criterion}. List the criteria:",
            to_show(task.id),
        )
    return claim


def blob_of(payload: dict[str, Any]) -> RuleAnswer | None:
    """The members `sha256` and `size` of the output or file; None for a URL or a note."""
    if payload["kind"] == "run":
        return payload["output"]
    return payload if payload["kind"] == "file" else None


def _with_standing(tx: Transaction, found: Evidence, task: Task | None) -> RuleAnswer:
    """The evidence, whether it can meet its criterion now, and if not, why."""
    why: str | None
    if task is None or found.criterion is None:
        why = "The evidence has no criterion, so it meets none."
    elif (met := criteria(tx, task)[found.criterion - 1].met_by) is not None:
        why = "Another piece of evidence meets its criterion." if met.id != found.id else None
    elif found.kind != "run":
        why = "A file, URL or note counts when a passing verdict names it."
    else:
        reason = found.why_not(task.tree if task.state == "submitted" else found.tree)
        why = f"The run {reason}." if reason else None
    return without_none(evidence=evidence_view(tx, found), counts=why is None, why=why)


def show(tx: Transaction, request: ShowEvidence) -> answers.EvidenceShown:
    """Return the evidence with a range of its output or file, by default the end of it."""
    found = find_evidence(tx, request.id)
    answer: RuleAnswer = {"evidence": evidence_view(tx, found)}
    if found.task is not None:
        answer = _with_standing(tx, found, find_task(tx, found.task))
    try:
        blob = blob_of(body(tx, found.seq)) if not found.redacted else None
    except (KeyError, TypeError):
        raise damaged(found.seq) from None
    if not blob:
        return answer

    size = blob["size"]
    is_end = request.start is None and request.stop is None
    start = max(0, size - SHOWN_BYTES) if is_end else request.start or 0
    if start > size:
        raise Usage(
            f"The range begins at byte {start}, but the content has only {size} bytes.", size=size
        )
    stop = min(size, request.stop if request.stop is not None else start + MAX_SHOWN_BYTES)
    data = kept_bytes(tx, found.seq, blob["sha256"], start, stop)
    if is_end and start:
        # The default range begins with a whole character.
        whole = data.lstrip(CONTINUATION_BYTES)
        start, data = start + len(data) - len(whole), whole
    try:
        shown = {"text": data.decode()}
    except UnicodeDecodeError:
        shown = {"hex": data.hex()}
    is_part = len(data) < size
    answer["content"] = without_none(
        **shown,
        size=size,
        sha256=blob["sha256"],
        part=True if is_part else None,
        offset=start if is_part else None,
        next_offset=stop if stop < size else None,
    )
    return answer
