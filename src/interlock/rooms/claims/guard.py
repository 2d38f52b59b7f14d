"""The guard: whether the caller may change files that other holders have claimed.

A claim that names a worktree guards the files in it. The same file in another worktree is another
copy: a caller that changes it gets a warning, unless the claim is for everywhere. A claim without a
worktree guards every copy. The guard never refuses a holder's own changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import ClaimHeld, Remedy, Usage
from interlock.log.encoding import canonical, decode
from interlock.log.times import rfc3339
from interlock.rooms.claims.rules import Claim, live
from interlock.rooms.claims.verbs import OFFERED_WAIT_S, AcquireClaim
from interlock.rooms.transaction import RuleAnswer, Transaction, is_paused
from interlock.verbs.addresses import address
from interlock.verbs.durations import covering as lasting
from interlock.verbs.globs import covering, matches, overlap

if TYPE_CHECKING:
    from interlock.rooms import answers
    from interlock.rooms.claims.verbs import CheckPaths, ReportCommit

MAX_NAMED = 3
MAX_RECORDED = 20


def refuse_outside(paths: tuple[str, ...]) -> None:
    """Raise Usage for a name that is not inside the repository."""
    for path in paths:
        if not path or "\0" in path:
            raise Usage(
                f"{path[:80]!r} is not a file name: it is empty or has a null character.",
                member="paths",
            )
        if path.startswith("/") or ".." in path.split("/"):
            raise Usage(
                f"{path[:80]!r} is not inside the repository. Give the path from its root.",
                member="paths",
            )


class Crossing(NamedTuple):
    """A file, and another holder's claim on it."""

    path: str
    claim: Claim


def check_paths(tx: Transaction, request: CheckPaths) -> answers.PathsFree | answers.PathsClaimed:
    """Return which of the files are under another holder's claim. With commits, check the files
    that the commits were reported to change. A commit without a report is most likely the
    holder's own."""
    if not request.commits:
        return guarded(tx, request.repo, request.paths, request.worktree)
    rows = tx.all(
        'SELECT "commit", holder, paths FROM claims_crossed WHERE repo = ? ORDER BY seq',
        request.repo,
    )
    wanted = set(request.commits)
    changed: dict[str, dict[str, None]] = {}
    for commit, holder, paths in rows:
        if commit in wanted:
            changed.setdefault(holder, {}).update(dict.fromkeys(decode(paths)))
    found = [
        Crossing(path, claim)
        for claim in _claims_of_others(tx, request.repo)
        for path in changed.get(claim.sender, ())
        if _covers(claim, path)
    ]
    return _answer(tx, found, []) if tx.setting("guard") == "deny" else _answer(tx, [], found)


def guarded(tx: Transaction, repo: str, paths: Sequence[str], worktree: str | None) -> RuleAnswer:
    """Return which of these files are under another holder's claim, and whether the caller may
    change them."""
    denied: list[Crossing] = []
    warned: list[Crossing] = []
    for claim in _claims_of_others(tx, repo):
        is_here = claim.everywhere or _is_same_worktree(claim.worktree, worktree)
        found = denied if tx.setting("guard") == "deny" and is_here else warned
        found += [Crossing(path, claim) for path in paths if _covers(claim, path)]
    return _answer(tx, denied, warned)


def _claims_of_others(tx: Transaction, repo: str) -> list[Claim]:
    """The claims on files of a repository that are not the caller's; none if the guard is off."""
    if tx.setting("guard") == "off":
        return []
    return [claim for claim in live(tx, "repo = ?", repo) if not claim.is_own(tx.caller)]


def _answer(tx: Transaction, denied: list[Crossing], warned: list[Crossing]) -> RuleAnswer:
    answer: RuleAnswer = {
        "allowed": not denied,
        "denied": [{"path": path, "claim": claim.view()} for path, claim in denied],
        "warned": [{"path": path, "claim": claim.view()} for path, claim in warned],
    }
    if tx.setting("guard") == "off":
        answer["guard"] = "off"
    return answer | (ClaimHeld(*_why(tx, denied)).as_dict() if denied else {})


def report_commit(tx: Transaction, request: ReportCommit) -> answers.CommitReported:
    """Record that a commit crossed other holders' claims, and tell each holder once."""
    from interlock.rooms.mail.sending import post

    crossed = guarded(tx, request.repo, request.paths, request.worktree)["denied"]
    notified = tx.all(
        'SELECT holder FROM claims_crossed WHERE repo = ? AND "commit" = ?',
        request.repo,
        request.commit,
    )
    by_holder: dict[str, list[str]] = {}
    for entry in crossed if not is_paused(tx.state) else ():
        holder = entry["claim"]["holder"].removeprefix("@")
        if (holder,) not in notified:
            by_holder.setdefault(holder, []).append(entry["path"])
    for holder, paths in by_holder.items():
        outcome = {"repo": request.repo, "commit": request.commit, "paths": paths[:MAX_RECORDED]}
        tx.append("claim_crossed", outcome | {"holder": holder})
        more = f" and {len(paths) - MAX_NAMED} more" if paths[MAX_NAMED:] else ""
        text = (
            f"The commit {request.commit[:12]} touches files that you claimed in {request.repo}: "
            f"{', '.join(map(_quoted, paths[:MAX_NAMED]))}{more}"
        )
        # The reporter sends it, so it counts towards the reporter's rate limit.
        post(tx, holder, "send", {"text": text}, wake=False)
    return {"commit": request.commit, "crossed": crossed}


def _is_same_worktree(claimed: str | None, here: str | None) -> bool:
    """Whether the worktree of a claim is, or may be, this one. The holder may have given a path
    relative to a directory that the log does not record."""
    if claimed is None or here is None or claimed.rstrip("/") == here:
        return True
    if claimed.startswith("/"):
        return False
    names = [name for name in claimed.split("/") if name not in ("", ".", "..")]
    return here.split("/")[-len(names) :] == names if names else True


def _covers(claim: Claim, path: str) -> bool:
    """Whether a claim covers a file, or may cover a file in a directory."""
    if not path.endswith("/"):
        return any(matches(pattern, path) for pattern in claim.target.paths)
    # No pattern can name some directories. They may meet every pattern.
    beneath = (covering(path) if path != "./" else None) or "**"
    return any(overlap(pattern, beneath) for pattern in claim.target.paths)


def _why(tx: Transaction, denied: list[Crossing]) -> list[str]:
    """The parts of the refusal's message: the claimed files, their holders, and the remedies."""
    sentences = []
    for path, claim in denied:
        session = f" (session {claim.session})" if claim.session is not None else ""
        note = f", with the note {_quoted(claim.note)}" if claim.note is not None else ""
        until = rfc3339(claim.expires_at)
        sentences.append(
            f"{path} is claimed by {address(claim.sender)}{session} until {until}{note}."
        )
    sentences = list(dict.fromkeys(sentences))
    if sentences[MAX_NAMED:]:
        sentences[MAX_NAMED:] = [f"{len(sentences) - MAX_NAMED} more are claimed too."]

    others = [each for each in denied if each.claim.sender != tx.caller.sender]
    if others:
        holders = dict.fromkeys(address(claim.sender) for _, claim in others)
        ask = f"ask {' and '.join(holders)}"
        paths = list(dict.fromkeys(path for path, _ in others))
        globs = [glob for path in paths if (glob := covering(path)) is not None]
        # The owner cannot wait for a claim, and a long command does not help.
        if tx.caller.owner or not len(globs) == len(paths) <= MAX_NAMED:
            sentences.append(f"Do other work, or {ask}.")
        else:
            rest_s = -((tx.now - max(claim.expires_at for _, claim in others)) // 1000)
            wait_s = min(rest_s, OFFERED_WAIT_S)
            repo = others[0].claim.target.repo
            queue = Remedy(
                f"interlock claim acquire {_flags(globs)} --wait {lasting(rest_s)} --from "
                f"{tx.caller.sender}",
                AcquireClaim(paths=tuple(globs), repo=repo, wait_s=wait_s),
            )
            sentences += [f"Do other work, {ask}, or wait in the queue:", queue]

    own = dict.fromkeys(claim for _, claim in denied if claim.sender == tx.caller.sender)
    for claim in list(own)[:MAX_NAMED]:
        release = Remedy(
            f"interlock claim release {_flags(claim.target.paths)} --session {claim.session} "
            f"--from {claim.sender}",
            http=f"`POST /v1/claims/{claim.id}/release` with the header "
            f"`Interlock-Session: {claim.session}`",
        )
        sentences += [
            f"{claim.session} is another session of yours. If it has ended, release its claim:",
            release,
        ]
    return sentences


def _flags(globs: Iterable[str]) -> str:
    return " ".join(f"--path {shlex.quote(glob)}" for glob in globs)


def _quoted(text: str) -> str:
    """Quote and escape another sender's text, so that no part of it looks like a tag."""
    # The import takes a third of the time of a command, and few commands need it.
    from interlock.rooms.envelope import escaped

    return escaped(canonical(text).decode())
