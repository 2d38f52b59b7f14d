"""Views over several rooms: the caller's identity and work, the news for a step of a client's
session, the status, and the review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import MissingScope, Remedy
from interlock.log.encoding import decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.guard import guarded
from interlock.rooms.claims.rules import live, release_session, renew_session, session_claims
from interlock.rooms.claims.verbs import CheckClaim
from interlock.rooms.identity import names
from interlock.rooms.identity.names import agent_of
from interlock.rooms.identity.verbs import Join, ListAgents
from interlock.rooms.mail import waking
from interlock.rooms.mail.records import counts, envelope
from interlock.rooms.mail.verbs import AnswerAsk, Explain, SendMessage
from interlock.rooms.transaction import is_paused
from interlock.rooms.work.gates import may_see
from interlock.rooms.work.missing import (
    due,
    due_from,
    half_judged,
    holders,
    to_resolve,
    verdict_due,
)
from interlock.rooms.work.records import (
    STANDING,
    Task,
    blocker_view,
    blockers,
    claim_on,
    task_view,
    tasks,
    workers,
)
from interlock.rooms.work.verbs import GiveVerdict, SubmitTask
from interlock.rooms.workspace.verbs import ShowLog
from interlock.verbs.addresses import address, near
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.transaction import Transaction
    from interlock.rooms.workspace import answers, verbs

# The most tasks, and the most due verdicts, that `whoami` lists.
MAX_LISTED = 50


def whoami(tx: Transaction) -> answers.Whoami:
    """Show the caller's identity, and the open work of its session."""
    caller = tx.caller
    answer = without_none(
        sender=caller.sender,
        address=address(caller.sender),
        agent=caller.agent,
        surface=caller.surface,
        session=caller.session,
        kind=caller.kind,
        scopes=sorted(caller.scopes),
        workspace=tx.value("SELECT id FROM workspace_self"),
    )
    held = live(tx, "sender = ? AND session IS ?", caller.sender, caller.session)
    where = "worker = ? AND session IS ? AND ended IS NULL"
    taken = []
    for task in tasks(tx, where, caller.sender, caller.session):
        claim = claim_on(tx, task.id)
        if claim is not None and claim.fence == task.fence:
            taken.append(task)
    lines = [
        {"id": task.id, "title": task_view(tx, task)["title"], "state": task.state}
        for task in taken[:MAX_LISTED]
    ]
    wanted = [verdict_due(tx, task, gate) for task, gate in due_from(tx, caller)[:MAX_LISTED]]
    work = {"claims": [claim.view() for claim in held], "tasks": lines, "verdicts_due": wanted}
    return answer | counts(tx) | work


def attend(tx: Transaction, request: verbs.Attend) -> answers.Attended:
    """Renew the claims of the session, and return the news for its step. If the client's shell does
    not know the session, renew the sender's claims without a session too. The news by step:

    start         the held claims, and new mail
    prompt, tool  new mail
    edit          other holders' claims on the files
    stop          urgent mail
    idle          mail that may wake the client
    busy, rest    none
    end           none; the session's claims are released"""
    caller, session = tx.caller, tx.caller.session
    paused = is_paused(tx.state)
    about = without_none(
        address=address(caller.sender),
        agent=caller.agent,
        session=session,
        paused=True if paused else None,
    ) | counts(tx)
    if request.step == "end":
        if session is not None and not paused:
            release_session(tx, session)
        return about
    claims = renew_session(tx, None) if request.unbound else session_claims(tx, None)
    if session is not None:
        claims = [*renew_session(tx, session), *claims]
    if request.step == "edit":
        assert request.repo is not None
        return about | guarded(tx, request.repo, request.paths, request.worktree)

    news: dict[str, list[Any]] = {}
    if request.step == "start":
        news["claims"] = [claim.view() for claim in claims]
    if request.step not in ("busy", "rest") and "mail" in caller.scopes:
        if request.step == "stop":
            news["messages"] = waking.hand_over(tx, request.adapter, request.held)
        else:
            tell = waking.wake if request.step == "idle" else waking.point
            news["news"] = [envelope(message, None) for message in tell(tx, request.adapter)]
    return about | {name: found for name, found in news.items() if found}


def status(tx: Transaction) -> answers.Status:
    """Show whether the workspace is paused, and count its agents, mail, claims and work."""
    row = tx.one("SELECT id, epoch, created_at, paused_at, pause_reason FROM workspace_self")
    assert row is not None
    id, epoch, created_at, paused_at, reason = row

    def count(table: str, where: str = "1", *bindings: int, of: str = "count(*)") -> int:
        return int(tx.value(f"SELECT {of} FROM {table} WHERE {where}", *bindings))

    return without_none(
        workspace=id,
        epoch=epoch,
        created_at=rfc3339(created_at),
        now=rfc3339(tx.now),
        paused=paused_at is not None,
        pause_reason=reason,
        agents=count("identity_agents"),
        senders=count("identity_senders"),
        messages=count("mail_messages"),
        open_deliveries=count("mail_boxes", of="coalesce(sum(open), 0)"),
        claims=count("claims_held", "expires_at > ?", tx.now),
        waiting=count("claims_waiting", "lease > ?", tx.now),
        tasks=count("work_tasks", "ended IS NULL"),
        blockers=count("work_blockers", STANDING),
        refusals=count("refusals"),
    )


# --- the review


def review(tx: Transaction, since_s: int) -> answers.Review:
    """List the matters that need a person, each with the next step. Raises MissingScope unless
    a person or an admin calls."""
    caller = tx.caller
    if not caller.is_person_or_admin:
        raise MissingScope(
            "Only a person, or a token with the scope admin, may call review.", scope="admin"
        )
    since = tx.now - since_s * 1000

    verdicts: list[Any] = []
    for task, gate in [*due(tx), *half_judged(tx)]:
        wanted = verdict_due(tx, task, gate)
        able = [address(name) for name in holders(tx, gate)]
        do = _by_its_sender(tx, wanted["do"], task, gate)
        verdicts.append(wanted | {"holders": able, "do": do})

    standing: list[Any] = []
    for found in blockers(tx, STANDING):
        if may_see(tx, found):
            stopped = next(iter(tasks(tx, "id = ?", found.task)), None)
            do = to_resolve(tx, found, stopped)
            if stopped is None or found.gate is None:
                do = _as(tx, [found.sender], do)
            else:
                do = _by_its_sender(tx, do, stopped, found.gate)
            standing.append(blocker_view(tx, found) | {"do": do})

    unanswered: list[Any] = []
    for id, seq, sender, to, at, due_at in tx.all(
        "SELECT m.id, m.seq, m.sender, m.recipient, m.at, a.due_at FROM mail_asks a "
        "JOIN mail_messages m USING (seq) WHERE a.answer IS NULL AND m.at > ? ORDER BY m.seq",
        since,
    ):
        if to in (address(caller.sender), address(caller.agent)):
            do = Remedy(f"interlock answer {id} TEXT", AnswerAsk(id, "TEXT"))
        else:
            please = f"Please answer {id}"
            reminder = Remedy(
                f"interlock send '{to}' '{please}' --type wake",
                SendMessage(to, {"text": please}, "wake"),
                mcp=f'`send(to: {to}, text: "{please}", wake: true)`',
            )
            do = _as(tx, [sender], reminder)
        overdue = True if due_at is not None and due_at <= tx.now else None
        ask = {"id": id, "seq": seq, "from": address(sender), "to": to, "at": rfc3339(at)}
        unanswered.append(ask | without_none(overdue=overdue, do=do))

    expired: list[Any] = [
        {
            "id": id,
            "seq": seq,
            "from": address(sender),
            "to": address(to),
            "at": rfc3339(at),
            "do": Remedy(f"interlock explain {id}", Explain(id)),
        }
        for id, seq, sender, to, at in tx.all(
            "SELECT m.id, m.seq, m.sender, r.recipient, r.at FROM mail_receipts r "
            "JOIN mail_messages m USING (seq) WHERE r.state = 'expired' AND r.at > ? "
            "ORDER BY r.at, m.seq, r.recipient",
            since,
        )
    ]

    unknown: list[Any] = []
    known = names.names(tx.state)
    for name, count, last in tx.all(
        "SELECT b.recipient, b.open, m.id FROM mail_boxes b JOIN mail_messages m ON m.seq = "
        "(SELECT max(seq) FROM mail_deliveries d WHERE d.recipient = b.recipient AND closed = 0) "
        "WHERE b.open > 0 AND b.recipient NOT IN "
        "(SELECT sender FROM identity_senders UNION SELECT name FROM identity_agents) "
        "ORDER BY b.recipient"
    ):
        meant = near(name, known)
        # The sender of a mistyped name has to send the message again. Any other name can still
        # join.
        is_mistyped = meant or not names.may_join(tx, name)
        do = Remedy(f"interlock join {name}", Join(name))
        if is_mistyped:
            do = Remedy(f"interlock explain {last}", Explain(last))
        unknown.append(without_none(to=address(name), open=count, did_you_mean=meant, do=do))

    lapsed: list[Any] = []
    for item, repo, paths, sender, at in tx.all(
        "SELECT item, repo, paths, sender, at FROM claims_lapsed WHERE at > ? ORDER BY seq", since
    ):
        on = item
        do = Remedy(f"interlock claim check --item {item}", CheckClaim(item))
        if item is None:
            on = f"{' '.join(decode(paths or '[]'))} in {repo}"
            do = Remedy(f"interlock agents {sender}", ListAgents(sender))
        lapsed.append({"on": on, "holder": address(sender), "since": rfc3339(at), "do": do})

    refused: list[Any] = [
        without_none(
            seq=seq,
            at=rfc3339(at),
            sender=address(sender),
            code=code,
            token=token,
            do=Remedy(
                f"interlock audit show --after {seq - 1} --limit 1", ShowLog(seq - 1, limit=1)
            ),
        )
        for seq, at, sender, code, token in tx.all(
            "SELECT seq, at, sender, code, token FROM refusals WHERE at > ? ORDER BY seq", since
        )
    ]
    return {
        "verdicts_due": verdicts,
        "blockers": standing,
        "unanswered": unanswered,
        "expired": expired,
        "unknown_recipients": unknown,
        "dead_holders": lapsed,
        "refusals": refused,
    }


def _by_its_sender(tx: Transaction, do: Remedy, task: Task, gate: str) -> Remedy:
    """For the owner, add a sender that can run the command: a holder of the gate for a verdict,
    the worker for a submission."""
    if isinstance(do.request, GiveVerdict):
        own = workers(tx, task.id)
        able = [who for who in holders(tx, gate) if agent_of(tx.state, who) not in own]
        return _as(tx, able, do)
    if isinstance(do.request, SubmitTask) and task.worker is not None:
        return _as(tx, [task.worker], do)
    return do


def _as(tx: Transaction, senders: list[str], do: Remedy) -> Remedy:
    """For the owner, who has no sender, add the first of these senders to the command."""
    if not (tx.caller.owner and senders):
        return do
    return Remedy(f"{do} --from {senders[0]}", do.request, http=do.http, mcp=do.mcp)
