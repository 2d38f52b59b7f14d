"""Refusals that matter (a forged sender, a missing scope, a stale fence), and what needs a person.

A refusal is a small fact: the code, who, and the digest of the request; never its body. A flood
of them is cut off, so that being refused is no way to fill the log.
"""

from interlock.contracts.acts import Review
from interlock.contracts.addresses import address
from interlock.contracts.encoding import decode
from interlock.contracts.facts import Header
from interlock.contracts.times import rfc3339
from interlock.kernel.moment import Answer, Moment, State, absent_dropped

# map: refusals  one row a recorded refusal
TABLES = """
CREATE TABLE refusals(seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, sender TEXT NOT NULL,
    code TEXT NOT NULL, token TEXT, digest TEXT NOT NULL) STRICT;
CREATE INDEX refusals_recent ON refusals(sender, at);
"""

PER_MINUTE = 20


def record_refusal(moment: Moment, code: str, digest: str) -> None:
    row = moment.one(
        "SELECT count(*) FROM refusals WHERE sender = ? AND at > ?",
        moment.caller.sender,
        moment.now - 60_000,
    )
    if row is not None and row[0] < PER_MINUTE:
        moment.record("request_refused", {"code": code, "digest": digest})


def review(moment: Moment, act: Review) -> Answer:
    """What needs a person: unanswered asks, mail that expired unread, refusals, dead holders."""
    since = moment.now - act.since_s * 1000
    asks = moment.all(
        "SELECT m.id, m.seq, m.sender, m.recipient, m.at, a.due_at FROM mail_asks a "
        "JOIN mail_messages m USING (seq) WHERE a.answer IS NULL AND m.at > ? ORDER BY m.seq",
        since,
    )
    expired = moment.all(
        "SELECT m.id, m.seq, m.sender, r.recipient, r.at FROM mail_receipts r "
        "JOIN mail_messages m USING (seq) WHERE r.state = 'expired' AND r.at > ? "
        "ORDER BY r.at, m.seq, r.recipient",
        since,
    )
    refused = moment.all(
        "SELECT seq, at, sender, code, token FROM refusals WHERE at > ? ORDER BY seq", since
    )
    dead = moment.all(
        "SELECT item, repo, paths, sender, at FROM claims_lapsed WHERE at > ? ORDER BY seq", since
    )
    return {
        "unanswered": [
            absent_dropped(
                id=id,
                seq=seq,
                **{"from": address(sender)},
                to=to,
                at=rfc3339(at),
                overdue=True if due is not None and due <= moment.now else None,
            )
            for id, seq, sender, to, at, due in asks
        ],
        "expired": [
            {"id": id, "seq": seq, "from": address(sender), "to": address(to), "at": rfc3339(at)}
            for id, seq, sender, to, at in expired
        ],
        "refusals": [
            absent_dropped(seq=seq, at=rfc3339(at), sender=address(sender), code=code, token=token)
            for seq, at, sender, code, token in refused
        ],
        "dead_holders": [
            {"on": _on(item, repo, paths), "holder": address(sender), "since": rfc3339(at)}
            for item, repo, paths, sender, at in dead
        ],
    }


def _on(item: str | None, repo: str | None, paths: str | None) -> str:
    return item if item is not None else f"{' '.join(decode(paths or '[]'))} in {repo}"


def _fold_refused(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO refusals VALUES (?, ?, ?, ?, ?, ?)",
        (
            fact.seq,
            fact.at,
            fact.sender,
            fact.outcome["code"],
            fact.token,
            fact.outcome["digest"],
        ),
    )


FOLDS = {"request_refused": _fold_refused}
