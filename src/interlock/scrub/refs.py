"""One branch, one root: what `git show-ref --head` shows, and where the history begins."""

from collections.abc import Sequence
from shlex import quote
from typing import Final, NamedTuple

from interlock.scrub.fixes import Fixes, without_refs
from interlock.scrub.git import Git, Ref
from interlock.scrub.ledger import Ledger
from interlock.scrub.rules import Rules

_BRANCHES: Final = "refs/heads/"


class Refs(NamedTuple):
    """The refs of a repository, sorted by what may become of them."""

    own: Ref | None  # the one branch
    allowed: tuple[Ref, ...]
    stray: tuple[Ref, ...]
    detached: bool


def sorted_out(git: Git, refs: Sequence[Ref], rules: Rules) -> Refs:
    """The one branch is HEAD's; where HEAD is detached, one that points to the same commit."""
    branch = git.branch
    if branch is not None:
        own = next((ref for ref in refs if ref.name == branch), None)
    else:
        heads = [ref for ref in refs if ref.name.startswith(_BRANCHES)]
        heads.sort(key=lambda ref: (ref.id != git.head, rules.allows_ref(ref.name)))
        own = next(iter(heads), None)
    others = [ref for ref in refs if ref != own]
    return Refs(
        own,
        tuple(ref for ref in others if rules.allows_ref(ref.name)),
        tuple(ref for ref in others if not rules.allows_ref(ref.name)),
        branch is None,
    )


def fixes_for(git: Git, refs: Refs) -> Fixes:
    checkout = refs.own.name.removeprefix(_BRANCHES) if refs.own and refs.detached else None
    return Fixes(git, [ref.name for ref in refs.allowed], checkout)


def check_refs(git: Git, refs: Refs, ledger: Ledger) -> None:
    _check_head(git, refs, ledger)
    for ref in refs.stray:
        what = f"The ref {ref.name} would be public too"
        ledger.add("ref", what, without_refs([ref.name]))


def _check_head(git: Git, refs: Refs, ledger: Ledger) -> None:
    if refs.own is None and git.branch is None:
        ledger.add("ref", "HEAD is on no branch, and there is none", "git checkout -q -b main")
    elif refs.own is None:
        heads = [ref.name for ref in refs.stray if ref.name.startswith(_BRANCHES)]
        fix = f"git symbolic-ref HEAD {quote(heads[0])}" if heads else "git checkout -q -b main"
        ledger.add("ref", f"HEAD points to {git.branch}, which does not exist", fix)
    elif refs.detached and refs.own.id != git.head:
        name = refs.own.name.removeprefix(_BRANCHES)
        what = f"HEAD is detached, and elsewhere than the branch {name}"
        ledger.add("ref", what, f"git checkout -q {quote(name)}")


def check_roots(git: Git, fixes: Fixes, ledger: Ledger) -> None:
    if git.is_shallow:
        what = "This is a shallow clone: nobody can vouch for the commits that are not here"
        ledger.add("root", what, "git fetch --unshallow")
    first = git.line()[:1] if git.head else []
    roots = git.roots()
    for root in roots:
        if root not in (first or roots[:1]):
            what = f"One of {len(roots)} root commits; one is expected"
            ledger.add("root", what, fixes.history(root), mark=root, commit=root)
