"""Evidence: what was run, and what was said, kept apart for ever."""

from interlock.contracts.acts import AddEvidence, PrepareEvidence, ShowEvidence
from interlock.contracts.encoding import canonical
from interlock.errors import IdempotencyConflict, Usage
from interlock.kernel.claims.records import Claim
from interlock.kernel.mail.messages import damaged, kept_bytes
from interlock.kernel.mail.sending import keep_upload
from interlock.kernel.moment import Answer, Moment, Request, absent_dropped
from interlock.kernel.work.criteria import Standing
from interlock.kernel.work.records import (
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
from interlock.kernel.workspace import done_before

# So much of the end of an output tells how it went.
SHOWN_BYTES = 16_384
_INSIDE = bytes(range(0x80, 0xC0))


def add(moment: Moment, act: AddEvidence) -> Answer:
    """Keeps a piece of evidence, once per key. The worker writes under its claim; anybody else as
    a reader."""
    payload = act.payload
    request = _request(act)
    if (before := _kept_before(moment, act, request)) is not None:
        task = find_task(moment, before.task) if before.task is not None else None
        return {"evidence": evidence_view(moment, before)} | _counts(moment, before, task)
    task = None
    if (id := payload.get("task_id")) is not None:
        task = open_task(moment, id)
        _claim_of_worker(moment, task, act.fence)
        _refuse_criterion(task, payload.get("criterion"))
    made = moment.new_id()
    outcome = absent_dropped(
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
    fact = moment.record("evidence_added", outcome, canonical(payload), request=request)
    if blob is not None and blob["size"] > 0:
        if act.upload is None:
            raise Usage("Upload the bytes first, and name the upload.")
        keep_upload(moment, act.upload, blob["sha256"], blob["size"], fact)
    found = find_evidence(moment, made)
    return {"evidence": evidence_view(moment, found)} | _counts(moment, found, task)


def _request(act: AddEvidence) -> Request | None:
    """What makes two the same: what is shown, and of what. Under which fence, and whether by way
    of a file, is no part of that."""
    if act.key is None:
        return None
    said = {name: value for name, value in act.payload.items() if name != "spooled"}
    return Request(act.key, canonical(said))


def _kept_before(moment: Moment, act: AddEvidence, request: Request | None) -> Evidence | None:
    try:
        seq = done_before(moment, request)
    except IdempotencyConflict as conflict:
        if not act.payload.get("spooled"):
            raise
        seq = conflict.members["seq"]
        raise IdempotencyConflict(
            f"This run was handed over before, at #{seq}, with another task, criterion or title, "
            "or was redacted since. What it should show beside that needs a run of its own.",
            **conflict.members,
        ) from None
    return find_evidence(moment, f"#{seq}") if seq is not None else None


def prepare(moment: Moment, act: PrepareEvidence) -> Answer:
    """Refuses as `add` would, while nothing was run yet."""
    task = open_task(moment, act.task)
    claim = _claim_of_worker(moment, task, act.fence)
    _refuse_criterion(task, act.criterion)
    return {"task": task.id} | (_lease(moment, claim) if claim is not None else {})


def _lease(moment: Moment, claim: Claim) -> Answer:
    left = max(0, claim.expires_at - moment.now)
    return {"fence": claim.fence, "lease_s": claim.ttl // 1000, "left_s": left // 1000}


def _claim_of_worker(moment: Moment, task: Task, fence: int | None) -> Claim | None:
    if fence is None and moment.caller.agent not in workers(moment, task.id):
        return None
    return under_claim(moment, task, fence)


def blob_of(payload: Answer) -> Answer | None:
    """The digest and the size of what is kept with the evidence, if anything is."""
    if payload["kind"] == "run":
        output: Answer = payload["output"]
        return output
    return payload if payload["kind"] == "file" else None


def _refuse_criterion(task: Task, number: int | None) -> None:
    if number is not None and number > task.criteria:
        many = {0: "no criteria", 1: "1 criterion"}.get(task.criteria, f"{task.criteria} criteria")
        raise Usage(
            f"{task.id} has {many}, and no number {number}. See interlock task show {task.id}"
        )


def _counts(moment: Moment, found: Evidence, task: Task | None) -> Answer:
    """Whether it can meet its criterion as things stand, and if not, why."""
    if task is None or found.criterion is None:
        return {"counts": False, "why": "It is tied to no criterion of a task."}
    met, _ = Standing(moment, task).of(found.criterion)
    if met is not None:
        another = "Another piece of evidence meets its criterion."
        return {"counts": True} if met.id == found.id else {"counts": False, "why": another}
    if found.kind != "run":
        return {"counts": False, "why": "What was said counts when a passing verdict names it."}
    tree = task.tree if task.state == "submitted" else found.tree
    why = found.why_not(tree)
    return {"counts": False, "why": f"The run {why}."} if why else {"counts": True}


def show(moment: Moment, act: ShowEvidence) -> Answer:
    """The evidence, with the bytes that were asked for of what it kept."""
    found = find_evidence(moment, act.id)
    answer: Answer = {"evidence": evidence_view(moment, found)}
    if found.task is not None:
        answer |= _counts(moment, found, find_task(moment, found.task))
    blob = _kept(moment, found) if not found.redacted else None
    return answer | ({"content": _content(moment, found.seq, blob, act)} if blob else {})


def _kept(moment: Moment, found: Evidence) -> Answer | None:
    try:
        return blob_of(body(moment, found.seq))
    except (KeyError, TypeError):
        raise damaged(found.seq) from None


def _content(moment: Moment, seq: int, blob: Answer, act: ShowEvidence) -> Answer:
    size = blob["size"]
    start = act.start if act.start is not None else max(0, size - SHOWN_BYTES)
    if act.start is None and act.stop is not None:
        start = 0
    if start > size:
        raise Usage(f"It has {size} bytes; {start} is beyond its end.", size=size)
    stop = min(size, act.stop if act.stop is not None else start + (1 << 20))
    data = kept_bytes(moment, seq, blob["sha256"], start, stop)
    if act.start is None and act.stop is None:
        # The end that nobody asked for byte by byte begins with a whole character.
        whole = data.lstrip(_INSIDE) if start else data
        start, data = start + len(data) - len(whole), whole
    return absent_dropped(
        **_readable(data),
        size=size,
        sha256=blob["sha256"],
        part=True if len(data) < size else None,
        offset=start if len(data) < size else None,
        next_offset=stop if stop < size else None,
    )


def _readable(data: bytes) -> Answer:
    """Text where it is text; any other bytes as hexadecimal digits, so that none is changed."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"hex": data.hex()}
