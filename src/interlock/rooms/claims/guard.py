"""The guard: whether the caller may change files that other holders have claimed.

A claim that names a worktree guards the files there. The same file in another worktree is another
copy: a change of it gets a warning, unless the claim is for everywhere. A claim without a worktree
guards every copy. The guard never stops a holder's own changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import ClaimHeld, Usage
from interlock.log.encoding import canonical, decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.records import Claim, live
from interlock.rooms.transaction import RuleAnswer, Transaction
from interlock.rooms.workspace.rules import is_paused
from interlock.verbs.addresses import address
from interlock.verbs.durations import covering as lasting
from interlock.verbs.globs import covering, matches, overlap

if TYPE_CHECKING:
    from interlock.rooms.claims.verbs import CheckPaths, ReportCommit

MAX_NAMED = 3
MAX_KEPT = 20


def refuse_outside(paths: tuple[str, ...]) -> None:
    """Raise Usage for a name that is not inside the repository."""
    for path in paths:
        if not path or "\0" in path:
            raise Usage(f"{path[:80]!r} is not a file name.", member="paths")
        if path.startswith("/") or ".." in path.split("/"):
            raise Usage(
                f"{path[:80]!r} is not inside the repository. Name files from its root.",
                member="paths",
            )


class Crossing(NamedTuple):
    """A file, and another holder's claim on it."""

    path: str
    claim: Claim


def check_paths(tx: Transaction, request: CheckPaths) -> RuleAnswer:
    if not request.commits:
        return guarded(tx, request.repo, request.paths, request.worktree)
    found = _reported(tx, request)
    met = [
        Crossing(path, claim)
        for claim in _others(tx, request.repo)
        for path in found.get(claim.sender, ())
        if _covers(claim, path)
    ]
    denies = tx.setting("guard") == "deny"
    return _guarded(tx, met if denies else [], [] if denies else met)


def guarded(tx: Transaction, repo: str, paths: Sequence[str], worktree: str | None) -> RuleAnswer:
    """Which of these files are under another's claim, and whether that denies a change of them."""
    denied: list[Crossing] = []
    warned: list[Crossing] = []
    for claim in _others(tx, repo):
        here = claim.everywhere or _is_same_place(claim.worktree, worktree)
        found = denied if tx.setting("guard") == "deny" and here else warned
        found += [Crossing(path, claim) for path in paths if _covers(claim, path)]
    return _guarded(tx, denied, warned)


def _others(tx: Transaction, repo: str) -> list[Claim]:
    """The claims on files of a repository that are not the caller's; none where nobody guards."""
    if tx.setting("guard") == "off":
        return []
    return [claim for claim in live(tx, "repo = ?", repo) if not claim.is_own(tx.caller)]


def _reported(tx: Transaction, request: CheckPaths) -> dict[str, list[str]]:
    """By holder, the files of theirs that any of the commits was reported to have changed. Whose a
    commit is that nobody reported, nobody knows; most are the holder's own."""
    wanted = set(request.commits)
    rows = tx.all(
        'SELECT "commit", holder, paths FROM claims_crossed WHERE repo = ? ORDER BY seq',
        request.repo,
    )
    found: dict[str, dict[str, None]] = {}
    for commit, holder, paths in rows:
        if commit in wanted:
            found.setdefault(holder, {}).update(dict.fromkeys(decode(paths)))
    return {holder: list(paths) for holder, paths in found.items()}


def _guarded(tx: Transaction, denied: list[Crossing], warned: list[Crossing]) -> RuleAnswer:
    answer: RuleAnswer = {"allowed": not denied, "denied": _views(denied), "warned": _views(warned)}
    answer |= {"guard": "off"} if tx.setting("guard") == "off" else {}
    return answer | (ClaimHeld(_why(tx, denied)).as_dict() if denied else {})


def _views(found: list[Crossing]) -> list[RuleAnswer]:
    return [{"path": path, "claim": claim.view()} for path, claim in found]


def report_commit(tx: Transaction, request: ReportCommit) -> RuleAnswer:
    """Record that a commit crossed other holders' claims, and tell each holder once."""
    from interlock.rooms.mail.sending import post

    crossed = guarded(tx, request.repo, request.paths, request.worktree)["denied"]
    by_holder: dict[str, list[str]] = {}
    for entry in crossed if not is_paused(tx.state) else ():
        holder = entry["claim"]["holder"].removeprefix("@")
        if not _knows(tx, request, holder):
            by_holder.setdefault(holder, []).append(entry["path"])
    for holder, paths in by_holder.items():
        said = {"repo": request.repo, "commit": request.commit, "paths": paths[:MAX_KEPT]}
        tx.append("claim_crossed", said | {"holder": holder})
        more = f" and {len(paths) - MAX_NAMED} more" if paths[MAX_NAMED:] else ""
        text = (
            f"The commit {request.commit[:12]} touches what you have claimed in {request.repo}: "
            f"{', '.join(map(_quoted, paths[:MAX_NAMED]))}{more}"
        )
        # The reporter sends it, so it counts towards the reporter's rate limit.
        post(tx, holder, "send", {"text": text}, wake=False)
    return {"commit": request.commit, "crossed": crossed}


def _knows(tx: Transaction, request: ReportCommit, holder: str) -> bool:
    row = tx.one(
        'SELECT 1 FROM claims_crossed WHERE repo = ? AND "commit" = ? AND holder = ?',
        request.repo,
        request.commit,
        holder,
    )
    return row is not None


def crossings(tx: Transaction, since: int) -> list[tuple[str, str, str, str]]:
    """Commits that crossed a claim since then: repository, commit, holder, and who made it."""
    rows = tx.all(
        'SELECT repo, "commit", holder, sender FROM claims_crossed WHERE at >= ? ORDER BY seq',
        since,
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def _is_same_place(claimed: str | None, here: str | None) -> bool:
    """Whether a claim's worktree is where the files are, or may be: it stands there as its holder
    wrote it, perhaps from elsewhere."""
    if claimed is None or here is None or claimed.rstrip("/") == here:
        return True
    if claimed.startswith("/"):
        return False
    names = [name for name in claimed.split("/") if name not in ("", ".", "..")]
    return here.split("/")[-len(names) :] == names if names else True


def _covers(claim: Claim, path: str) -> bool:
    """Whether a file is under a claim, or a directory holds something that could be."""
    if not path.endswith("/"):
        return any(matches(pattern, path) for pattern in claim.target.paths)
    # A name that no pattern can spell stands for any.
    beneath = (covering(path) if path != "./" else None) or "**"
    return any(overlap(pattern, beneath) for pattern in claim.target.paths)


def _why(tx: Transaction, denied: list[Crossing]) -> str:
    """What is in the way, in words: the files, whose they are until when, and what to do."""
    named = list(dict.fromkeys(map(_held, denied)))
    more = [f"{len(named) - MAX_NAMED} more are claimed too."] if named[MAX_NAMED:] else []
    own = [each for each in denied if each.claim.sender == tx.caller.sender]
    others = [each for each in denied if each.claim.sender != tx.caller.sender]
    advice = [*_to_wait(tx, others), *_to_give_up(own)]
    return " ".join([*named[:MAX_NAMED], *more, *advice])


def _to_wait(tx: Transaction, others: list[Crossing]) -> list[str]:
    """Whom to ask, and the command that waits as long as their leases last, where there is one
    that the caller can type."""
    if not others:
        return []
    holders = dict.fromkeys(address(claim.sender) for _, claim in others)
    ask = f"Do other work, or ask {' and '.join(holders)}."
    paths = list(dict.fromkeys(path for path, _ in others))
    globs = [glob for path in paths if (glob := covering(path)) is not None]
    if tx.caller.owner or len(globs) < len(paths) or paths[MAX_NAMED:]:
        return [ask]
    rest_ms = max(claim.expires_at for _, claim in others) - tx.now
    it = "them when they are free" if paths[1:] else "it when it is free"
    command = f"interlock claim acquire {_flags(globs)} --wait {lasting(-(-rest_ms // 1000))}"
    return [f"{ask} To have {it}: {command} --from {tx.caller.sender}"]


def _to_give_up(own: list[Crossing]) -> list[str]:
    claims = list(dict.fromkeys(claim for _, claim in own))
    return [
        f"The session {claim.session} is another of yours. Where it is over, give it up for it: "
        f"interlock claim release {_flags(claim.target.paths)} --session {claim.session} --from "
        f"{claim.sender}"
        for claim in claims[:MAX_NAMED]
    ]


def _flags(globs: Iterable[str]) -> str:
    return " ".join(f"--path {shlex.quote(glob)}" for glob in globs)


def _quoted(text: str) -> str:
    """What others wrote stands in quotation marks, and looks like nothing of ours."""
    # It takes a third of a whole command to import, and few commands deny anything.
    from interlock.rooms.envelope import escaped

    return escaped(canonical(text).decode())


def _held(crossing: Crossing) -> str:
    path, claim = crossing
    session = f" (session {claim.session})" if claim.session is not None else ""
    note = f", with the note {_quoted(claim.note)}" if claim.note is not None else ""
    until = rfc3339(claim.expires_at)
    return f"{path} is claimed by {address(claim.sender)}{session} until {until}{note}."
