"""The verbs of claims: acquire, renew, release, take over, check, list, and the guard's checks.

A claim is exclusive, leased and fenced. The holder is a sender with its session, so two windows of
one agent are two holders. At any position of the log an item has at most one holder, and every
grant has a fence above all earlier fences. `rules` reads the tables and serves waiters, `guard`
compares files with claims, and `fold` writes the tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.errors import ClaimHeld, MissingScope, NotFound, NotHolder, Remedy, StaleFence, Usage
from interlock.rooms.claims import DEFAULT_LEASE_S, LEASE_HELP
from interlock.verbs import LazyModule
from interlock.verbs.answers import without_none
from interlock.verbs.types import (
    GLOB,
    MAX_FILES,
    OBJECT_ID,
    Annotated,
    Branch,
    ClaimNote,
    Duration,
    Fence,
    Files,
    Item,
    ObjectId,
    Reason,
    Repository,
    Several,
    Text,
    Worktree,
)
from interlock.verbs.verb import V, Verb

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.claims import guard, rules
    from interlock.rooms.claims.rules import Claim, Target
    from interlock.rooms.transaction import Transaction
else:
    guard = LazyModule("interlock.rooms.claims.guard")
    rules = LazyModule("interlock.rooms.claims.rules")

MAX_GLOBS = 100
# The wait in the remedy of a held claim. MCP allows no longer one.
OFFERED_WAIT_S = 45

ClaimId = Annotated[
    str, Text("the id of a claim", "ID", "the claim's id", max_length=64, line=True)
]
Globs = Annotated[tuple[str, ...], Several(GLOB, maximum=MAX_GLOBS)]
Commits = Annotated[tuple[str, ...], Several(OBJECT_ID, maximum=MAX_FILES)]

ITEM_OR_PATHS = (("item", "paths"),)
ID_ITEM_OR_PATHS = (("id", "item", "paths"),)
EVERYWHERE = "guard the paths in every worktree; by default, other worktrees only get a warning"


def with_canonical_paths(request: V) -> V:
    """Return the request with its globs in canonical form: `checked` of the verbs with the fields
    `paths` and `repo`.

    Raises Usage for paths without a repository, and for globs that exclude paths."""
    from interlock.verbs.globs import canonical

    given: Any = request
    if bool(given.paths) != (given.repo is not None):
        raise Usage("Give paths and repo together: paths are relative to the repository's root.")
    paths = tuple(canonical(path) for path in given.paths)
    for path in paths:
        if path.startswith("!"):
            raise Usage(
                f"{path[:200]!r} excludes paths, and a claim cannot exclude any. Give only the "
                "paths that you need. If the name of a file begins with !, write ? in that place.",
                path=path[:200],
            )
    return request._replace(paths=paths)


class AcquireClaim(
    Verb,
    http="POST /v1/claims",
    cli="claim acquire (ITEM | --item I | --path GLOB...) [--repo R] [--worktree P] [--branch B] "
    "[--note N] [--everywhere] [--ttl D] [--wait D]",
    examples=(
        "interlock claim acquire B-0444 --ttl 2h",
        "interlock claim acquire --path 'src/**' # no other agent edits there",
        "interlock claim acquire B-0444 --wait 10m # wait in the queue",
    ),
    method="acquire",
    scope="claim",
    exactly_one=ITEM_OR_PATHS,
    help={
        "ttl_s": LEASE_HELP,
        "wait_s": "wait in the queue for this long",
        "everywhere": EVERYWHERE,
    },
):
    """Acquire a claim, or extend your own.

    Exit 0: you hold the claim, and the answer has its fence. Exit 1: another holder has it, and
    the answer names the holder and the end of the lease."""

    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None
    branch: Branch | None = None
    worktree: Worktree | None = None
    note: ClaimNote | None = None
    ttl_s: Duration = DEFAULT_LEASE_S
    wait_s: Duration | None = None
    everywhere: bool = False

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.Acquired | answers.Held:
        """Grant the claim, extend the caller's own, or return its holders.

        In a race the first request in the log wins, and the others get its claim as the answer.
        With `wait_s` the caller enters the queue, and asks again until it has the claim or stops
        waiting."""
        refuse_ended_session(tx)
        target = rules.target_of(self)
        rules.expire(tx)
        own, others = split(tx, target)
        if own is not None:
            everywhere = int(self.everywhere) or None
            fields = {"branch": self.branch, "worktree": self.worktree, "note": self.note}
            return acquired(tx, extend(tx, own, self.ttl_s, everywhere=everywhere, **fields))
        ahead = rules.ahead(tx, target)
        if others or ahead:
            if self.wait_s is not None:
                rules.wait(tx, self, target)
            return held(tx, target, others, len(ahead))
        rules.leave(tx, target)
        claim = rules.grant(tx, target, rules.wish_of(tx.caller, self), self.ttl_s * 1000)
        return acquired(tx, claim)


class RenewClaim(
    Verb,
    http="POST /v1/claims/renew",
    http_also=("POST /v1/claims/{id}/renew",),
    cli="claim renew (ITEM | --item I | --path GLOB...) [--repo R] [--ttl D] [--fence N]",
    method="renew",
    scope="claim",
    exactly_one=ID_ITEM_OR_PATHS,
    help={"ttl_s": LEASE_HELP},
):
    """Extend a claim that you hold."""

    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None
    ttl_s: Duration = DEFAULT_LEASE_S
    fence: Fence | None = None
    id: ClaimId | None = None

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.Renewed:
        target = rules.named(tx, self)
        if target is None:
            raise NotHolder(
                f"The claim {self.id} has ended. Acquire its target again:",
                Remedy("interlock claim acquire ITEM", AcquireClaim("ITEM")),
            )
        claim = extend(tx, own_claim(tx, target, self.fence), self.ttl_s)
        return {"renewed": True, "claim": claim.view()}


class ReleaseClaim(
    Verb,
    http="POST /v1/claims/release",
    http_also=("POST /v1/claims/{id}/release",),
    cli="claim release (ITEM | --item I | --path GLOB...) [--repo R] [--fence N]",
    method="release",
    scope="claim",
    exactly_one=ID_ITEM_OR_PATHS,
):
    """Release a claim that you hold."""

    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None
    fence: Fence | None = None
    id: ClaimId | None = None

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.Released:
        target = rules.named(tx, self)
        if target is None:
            return {"released": False}
        rules.expire(tx)
        own, others = split(tx, target)
        if own is None and not others and self.fence is None:
            return {"released": False}
        claim = own_claim(tx, target, self.fence)
        tx.append("claim_released", {"id": claim.id, "reason": "released"})
        rules.serve(tx)
        return {"released": True}


class TakeOverClaim(
    Verb,
    http="POST /v1/claims/take-over",
    cli="claim take-over (ITEM | --item I | --path GLOB...) --reason R [--repo R] [--worktree P] "
    "[--branch B] [--note N] [--everywhere] [--ttl D]",
    method="take_over item",
    scope="claim",
    exactly_one=ITEM_OR_PATHS,
    help={"ttl_s": LEASE_HELP, "everywhere": EVERYWHERE},
):
    """Take over another holder's claim, with a reason.

    Only people and admins may take over a claim. The log records the reason, and the former holder
    gets a message."""

    reason: Reason
    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None
    branch: Branch | None = None
    worktree: Worktree | None = None
    note: ClaimNote | None = None
    ttl_s: Duration = DEFAULT_LEASE_S
    everywhere: bool = False

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.TakenOver:
        """Release the other holders' claims, which makes their fences stale, and grant a new
        claim."""
        from interlock.rooms.mail.sending import notify

        if not tx.caller.is_person_or_admin:
            raise MissingScope(
                "Only a person, or a token with the scope admin, may take over a claim. Ask the "
                "holder to release it, or a person to take it over.",
                scope="admin",
            )
        refuse_ended_session(tx)
        target = rules.target_of(self)
        rules.expire(tx)
        own, others = split(tx, target)
        if own is None and not others:
            raise NotFound(f"{target} has no holder. Acquire it:", to_acquire(target))
        for claim in others if own is None else [own, *others]:
            tx.append("claim_released", {"id": claim.id, "reason": self.reason, "taken_over": True})
            if not claim.held_by(tx.caller):
                notify(
                    tx,
                    claim.sender,
                    f"Your claim on {claim.target} (fence {claim.fence}) was taken over by "
                    f"@{tx.caller.sender}: {self.reason}",
                )
        rules.leave(tx, target)
        claim = rules.grant(tx, target, rules.wish_of(tx.caller, self), self.ttl_s * 1000)
        rules.serve(tx)
        return {**acquired(tx, claim), "taken_from": [f"@{other.sender}" for other in others]}


class StopWaiting(
    Verb,
    name="claim stop-waiting",
    http="POST /v1/claims/stop-waiting",
    method="stop_waiting",
    scope="claim",
    exactly_one=ITEM_OR_PATHS,
):
    """Leave the queue for a claim.

    A client that waits for a claim calls this when its wait ends."""

    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.NotWaiting:
        rules.leave(tx, rules.target_of(self))
        rules.serve(tx)
        return {"waiting": False}


class CheckClaim(
    Verb,
    http="POST /v1/claims/check",
    http_also=("GET /v1/claims/check",),
    cli="claim check (ITEM | --item I | --path GLOB...) [--repo R]",
    method="check",
    read_only=True,
    open=True,
    exactly_one=ITEM_OR_PATHS,
):
    """Check whether an item or paths are claimed.

    The answer names the holders. Exit 0: free. Exit 1: claimed by any holder, you included."""

    item: Item | None = None
    paths: Globs = ()
    repo: Repository | None = None

    checked = with_canonical_paths

    def decide(self, tx: Transaction) -> answers.Checked:
        found = rules.in_the_way(tx, rules.target_of(self))
        return {"claimed": bool(found), "claims": [claim.view() for claim in found]}


class ListClaims(
    Verb,
    http="GET /v1/claims",
    cli="claim list [--mine]",
    method="claims",
    read_only=True,
    open=True,
    help={"mine": "only your own claims"},
):
    """List the live claims."""

    mine: bool = False

    def decide(self, tx: Transaction) -> answers.Claims:
        found = rules.live(tx, "sender = ?", tx.caller.sender) if self.mine else rules.live(tx)
        return {"claims": [claim.view() for claim in found]}


class CheckPaths(
    Verb,
    name="guard check",
    http="POST /v1/claims/guard",
    method="guard",
    read_only=True,
    open=True,
    help={
        "worktree": "the worktree where you would change the files",
        "commits": "check the files that these commits were reported to change",
    },
):
    """Check whether you may change files of a repository.

    A path is a file's name from the repository's root, not a pattern. A path that ends with / is a
    directory with everything in it. The path ./ is the whole repository. With commits, the answer
    lists the files that one of them was reported to change under another holder's claim."""

    paths: Files
    repo: Repository
    worktree: Worktree | None = None
    commits: Commits = ()

    def checked(self) -> CheckPaths:
        guard.refuse_outside(self.paths)
        return self

    def decide(self, tx: Transaction) -> answers.PathsFree | answers.PathsClaimed:
        return guard.check_paths(tx, self)


class ReportCommit(
    Verb,
    name="guard note",
    http="POST /v1/claims/commits",
    method="report_commit",
    read_only=True,
    open=True,
    help={"commit": "the commit", "worktree": "the worktree of the commit"},
):
    """Report a commit and the files that it touched.

    If the commit touched files under another holder's claim, the log records that, and the holder
    gets a message."""

    commit: ObjectId
    paths: Files
    repo: Repository
    worktree: Worktree | None = None

    def checked(self) -> ReportCommit:
        guard.refuse_outside(self.paths)
        return self

    def decide(self, tx: Transaction) -> answers.CommitReported:
        return guard.report_commit(tx, self)


def refuse_ended_session(tx: Transaction) -> None:
    """Raise NotHolder for a caller whose session has ended, because it cannot hold a claim."""
    ended = "SELECT 1 FROM identity_sessions WHERE session = ? AND ended_at IS NOT NULL"
    if tx.has(ended, tx.caller.session):
        raise NotHolder(
            f"The session {tx.caller.session} has ended, so it cannot hold a claim.",
            Remedy(
                "Start a new session: interlock run SENDER -- COMMAND",
                http="Send the id of a new session in the header `Interlock-Session`.",
                mcp="Ask your user to start a new session: `interlock run SENDER -- COMMAND` in a "
                "shell",
            ),
        )


def split(tx: Transaction, target: Target) -> tuple[Claim | None, list[Claim]]:
    """The caller's own live claim on the target, and the live claims of other holders that overlap
    it. Neither has the caller's own claims on other, overlapping paths."""
    found = rules.in_the_way(tx, target)
    exact = (c for c in found if c.held_by(tx.caller) and c.target == target)
    return next(exact, None), [c for c in found if not c.held_by(tx.caller)]


def own_claim(tx: Transaction, target: Target, fence: int | None) -> Claim:
    """The caller's live claim on the target. Raises NotHolder, or StaleFence for another fence."""
    own, others = split(tx, target)
    if fence is not None and (own is None or own.fence != fence):
        raise StaleFence(
            f"You hold no claim on {target} with the fence {fence}. You lost that claim, or it "
            "never had this fence. Stop the work under it, and acquire the claim again:",
            to_acquire(target),
            fence=fence,
            held_by=[claim.view() for claim in others] or None,
        )
    if own is None:
        why = f"You do not hold {target}. Nothing was changed."
        if others:
            holder = holder_of(tx, others[0])
            raise NotHolder(
                f"{why} {holder} holds it. Ask {holder} to release it.",
                held_by=[claim.view() for claim in others],
            )
        raise NotHolder(f"{why} It is free. Acquire it:", to_acquire(target), held_by=[])
    return own


def extend(tx: Transaction, claim: Claim, ttl_s: int, **fields: Any) -> Claim:
    """Extend the caller's claim, and set the given fields. The lease never gets shorter."""
    ttl = ttl_s * 1000
    expires_at = max(claim.expires_at, tx.now + ttl)
    extended = without_none(id=claim.id, ttl=ttl, expires_at=expires_at, **fields)
    tx.append("claim_extended", extended)
    return rules.by_id(tx, claim.id)


def acquired(tx: Transaction, claim: Claim) -> answers.Acquired:
    """The answer for a granted claim, with a warning for each other holder in its worktree."""
    answer: answers.Acquired = {"acquired": True, "claim": claim.view()}
    if claim.worktree is not None:
        sharing = [
            other
            for other in rules.live(tx, "worktree = ?", claim.worktree)
            if (other.sender, other.session) != (claim.sender, claim.session)
        ]
        notices: list[answers.SharedWorktree] = [
            {
                "code": "SHARED_WORKTREE",
                "message": f"@{other.sender} also works in {claim.worktree}, on {other.target}. "
                "Two holders in one worktree see each other's unfinished work. Use one worktree "
                "for each holder.",
                "claim": other.view(),
            }
            for other in sharing
        ]
        if notices:
            answer["notices"] = notices
    return answer


def held(tx: Transaction, target: Target, others: list[Claim], ahead: int) -> answers.Held:
    """The answer for a claim that another holder has, or that earlier waiters get first."""
    from interlock.log.times import rfc3339

    if others:
        until = rfc3339(others[0].expires_at)
        why = f"{target} is held by {holder_of(tx, others[0])} until {until}. Do other work, ask "
        why += "the holder, or wait in the queue:"
    else:
        callers = "1 caller is" if ahead == 1 else f"{ahead} callers are"
        why = f"{target} is free, but {callers} ahead of you in the queue. Do other work, or wait "
        why += "in the queue:"
    refusal = ClaimHeld(why, to_acquire(target, OFFERED_WAIT_S))
    answer: answers.Held = {
        "acquired": False,
        "error": refusal.title,
        "code": "CLAIM_HELD",
        "message": refusal.message,
        "held_by": [claim.view() for claim in others],
    }
    if ahead:
        answer["queued"] = ahead
    return answer


def holder_of(tx: Transaction, claim: Claim) -> str:
    """The holder of a claim, for the caller. Two sessions of one sender are two holders."""
    if claim.sender != tx.caller.sender:
        return f"@{claim.sender}"
    session = tx.caller.session
    theirs = f"in the session {claim.session}" if claim.session else "without a session"
    own = f"your session is {session}" if session else "you have no session"
    return f"@{claim.sender} {theirs} ({own})"


def to_acquire(target: Target, wait_s: int | None = None) -> Remedy:
    """The remedy for a claim that the caller does not hold: acquire it, or wait in its queue."""
    import shlex

    wait = f" --wait {wait_s}s" if wait_s is not None else ""
    words = target.item or " ".join(f"--path {shlex.quote(glob)}" for glob in target.paths)
    repo = f" --repo {shlex.quote(target.repo)}" if target.repo is not None else ""
    return Remedy(
        f"interlock claim acquire {words}{repo}{wait}",
        AcquireClaim(target.item, target.paths, target.repo, wait_s=wait_s),
    )
