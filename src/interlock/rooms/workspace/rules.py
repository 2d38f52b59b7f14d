"""The rules of the workspace itself: the pause, repeated requests, and recorded refusals.

The log records a refusal that matters, such as a forged sender or a stale fence: its code, its
sender and a digest of the request, never a body. A limit keeps callers from filling the log.
"""

from __future__ import annotations

from interlock.errors import IdempotencyConflict, Paused
from interlock.log.times import rfc3339
from interlock.rooms.transaction import FoldedState, KeyedRequest, Transaction

MAX_REFUSALS_PER_MINUTE = 20
QUIET_MS = 600_000


def is_paused(state: FoldedState) -> bool:
    row = state.execute("SELECT paused_at FROM workspace_self").fetchone()
    return bool(row and row[0] is not None)


def refuse_paused(state: FoldedState) -> None:
    """Raise Paused while the workspace is paused."""
    row = state.execute("SELECT paused_at, paused_by, pause_reason FROM workspace_self").fetchone()
    if row and row[0] is not None:
        why = f" Reason: {row[2]}" if row[2] else ""
        raise Paused(
            f"The workspace was paused by @{row[1]}: nothing may be written until "
            f"interlock resume.{why}",
            since=rfc3339(row[0]),
            reason=row[2],
        )


def done_before(tx: Transaction, keyed: KeyedRequest | None) -> int | None:
    """The position of the fact of an earlier request with this key, or None.

    Raises IdempotencyConflict for a different request with the same key, and for a key whose first
    body was redacted, because the two can no longer be compared.
    """
    if keyed is None:
        return None
    first = "SELECT seq FROM workspace_acts WHERE sender = ? AND key = ?"
    seq: int | None = tx.value(first, tx.caller.sender, keyed.key)
    if seq is None:
        return None
    if not tx.store.same_request(seq, keyed.content):
        raise IdempotencyConflict(
            f"The key {keyed.key!r} was used before, at #{seq}, with another body. Use a new "
            "key for a new act.",
            key=keyed.key,
            seq=seq,
        )
    return seq


def record_refusal(tx: Transaction, code: str, digest: str, sender: str | None = None) -> None:
    """Record a refusal, unless the log has enough of them from this sender in the last minute."""
    sender = sender or tx.caller.sender
    lately = "SELECT count(*) FROM refusals WHERE sender = ? AND at > ?"
    if tx.value(lately, sender, tx.now - 60_000) < MAX_REFUSALS_PER_MINUTE:
        tx.append("request_refused", {"code": code, "digest": digest}, sender=sender)


def is_quiet(tx: Transaction, code: str, sender: str) -> bool:
    """Whether the log has the same refusal of this sender from the last ten minutes."""
    same = "SELECT 1 FROM refusals WHERE sender = ? AND at > ? AND code = ?"
    return tx.has(same, sender, tx.now - QUIET_MS, code)
