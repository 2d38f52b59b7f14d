"""The checks of a repository, and their findings. A finding never contains the secret itself."""

import hashlib
import re
from collections.abc import Iterator
from itertools import chain
from shlex import quote
from typing import Any, Final, NamedTuple

from interlock.errors import Usage
from interlock.scrub import names
from interlock.scrub.fixes import Fixes, without_refs
from interlock.scrub.git import Git, Objects, TreeEntry
from interlock.scrub.rules import FINGERPRINT_DIGITS, Rules
from interlock.scrub.scanner import Scanner
from interlock.scrub.texts import Hit, HitFinder

# The order of findings: checks of the whole repository are first.
CHECKS: Final = ("root", "ref", "secret", "word", "path", "generated", "outside")

_BRANCHES: Final = "refs/heads/"
_IDENTITY: Final = "-c user.name=NAME -c user.email=ADDRESS "  # the person replaces both words
_START: Final = 128
_FIELD: Final = re.compile(rb"\n(?! )")
_PEOPLE: Final = ("author", "committer", "tagger")
# Ids, and signatures, whose random text can contain any word.
_UNREAD_FIELDS: Final = ("tree", "parent", "object", "type", "gpgsig", "gpgsig-sha256", "encoding")


class Finding(NamedTuple):
    """Content that must not become public."""

    check: str  # one of CHECKS
    what: str  # part of the fingerprint, so another wording would invalidate lists of `ignore`
    fix: str  # a shell command for the root of the repository
    fingerprint: str  # the same in all versions of a file, so that a person can ignore the finding
    commit: str | None = None  # the first commit with this finding
    path: str | None = None
    line: int | None = None  # in the file of that commit, or in the commit's message

    def view(self) -> dict[str, Any]:
        """Return the finding as doors show it, without absent members."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def findings(repository: str, rules: Rules) -> list[Finding]:
    """Return all findings in order. A repository without findings can become public.

    Raise Usage if the repository cannot be checked, or if detect-secrets is not installed."""
    scrub = _Scrub(repository, rules)
    scrub.check_refs()
    scrub.check_roots()
    scrub.check_names()
    with scrub.git.objects() as objects:
        scrub.check_contents(objects)
        scrub.check_commits(objects)
        scrub.check_tags(objects)
    scrub.check_ref_names()
    order = {commit: number for number, commit in enumerate(scrub.commits)}

    def position(finding: Finding) -> tuple[int, int, str, int, str]:
        return (
            CHECKS.index(finding.check),
            order.get(finding.commit or "", -1),
            finding.path or "",
            finding.line or 0,
            finding.what,
        )

    return sorted(scrub.found.values(), key=position)


class _Scrub:
    """A repository, its rules, and the findings so far."""

    def __init__(self, repository: str, rules: Rules) -> None:
        self._rules = rules
        self._finder = HitFinder(rules, Scanner())
        self.git = git = Git(repository)
        self.found: dict[str, Finding] = {}
        self.commits = git.commits("--all", "--single-worktree", "--topo-order", "--reverse")
        if not self.commits:
            raise Usage("The repository has no commit yet. Make a commit first.")

        # The public branch is HEAD's branch. If HEAD is detached, it is preferably a branch at the
        # same commit.
        refs = git.refs()
        if git.branch is not None:
            candidates = [ref for ref in refs if ref.name == git.branch]
        else:
            candidates = [ref for ref in refs if ref.name.startswith(_BRANCHES)]
            candidates.sort(key=lambda ref: (ref.id != git.head, rules.allows_ref(ref.name)))
        self._branch = next(iter(candidates), None)
        others = [ref for ref in refs if ref != self._branch]
        self._allowed = [ref for ref in others if rules.allows_ref(ref.name)]
        self._stray = [ref for ref in others if not rules.allows_ref(ref.name)]
        is_detached = self._branch is not None and git.branch is None
        checkout = self._branch.name.removeprefix(_BRANCHES) if self._branch else None
        self._checkout = checkout if is_detached else None
        self._fixes = Fixes(git, [ref.name for ref in self._allowed], self._checkout)

        # Each path and each content of the history, with its first commit.
        self._present: dict[bytes, TreeEntry] = {}
        self._paths: dict[bytes, str] = {}
        self._blobs: dict[str, dict[bytes, str]] = {}
        for commit, entry in git.brought(self.commits):
            if rules.ignores(_text(entry.path)):
                continue
            self._paths.setdefault(entry.path, commit)
            if entry.is_blob:
                self._blobs.setdefault(entry.id, {}).setdefault(entry.path, commit)
        for entry in git.tree() if git.head else ():
            if entry.path in self._paths:
                self._present[entry.path] = entry

    def _add(
        self,
        check: str,
        what: str,
        fix: str,
        *,
        mark: str = "",
        commit: str | None = None,
        path: bytes | None = None,
        line: int | None = None,
        present: bool = False,
    ) -> None:
        """Add a finding, unless the rules ignore it. Callers add the oldest commits first.

        Several versions of a file can have the same finding. It has the oldest commit, and the fix
        for the version that is `present` in HEAD."""
        place = None
        if path is not None:
            place = path.decode("utf-8", "backslashreplace")
            place = place if place.isprintable() else place.encode("unicode_escape").decode()
        joined = "\0".join((check, what, mark, place or "")).encode("utf-8", "surrogateescape")
        fingerprint = hashlib.sha256(joined).hexdigest()[:FINGERPRINT_DIGITS]
        if fingerprint in self._rules.ignored_findings:
            return
        if fingerprint not in self.found:
            self.found[fingerprint] = Finding(check, what, fix, fingerprint, commit, place, line)
        elif present:
            self.found[fingerprint] = self.found[fingerprint]._replace(fix=fix)

    def check_refs(self) -> None:
        """Check that HEAD is on the only branch, and that the rules allow all other refs."""
        git, branch = self.git, self._branch
        if branch is None and git.branch is None:
            self._add("ref", "HEAD is on no branch, and there is none", "git checkout -q -b main")
        elif branch is None:
            heads = [ref.name for ref in self._stray if ref.name.startswith(_BRANCHES)]
            fix = f"git symbolic-ref HEAD {quote(heads[0])}" if heads else "git checkout -q -b main"
            self._add("ref", f"HEAD points to {git.branch}, which does not exist", fix)
        elif self._checkout is not None and branch.id != git.head:
            what = f"HEAD is detached, and elsewhere than the branch {self._checkout}"
            self._add("ref", what, f"git checkout -q {quote(self._checkout)}")
        for ref in self._stray:
            what = f"The ref {ref.name} would be public too"
            self._add("ref", what, without_refs([ref.name]))

    def check_roots(self) -> None:
        if self.git.is_shallow:
            what = "This is a shallow clone: Interlock cannot check the commits that are not here"
            self._add("root", what, "git fetch --unshallow")
        roots = self.git.commits("--all", "--single-worktree", "--max-parents=0", "--reverse")
        expected = roots[:1]
        if self.git.head:
            expected = self.git.commits("--first-parent", "--reverse", "HEAD")[:1]
        for root in roots:
            if root not in expected:
                what = f"One of {len(roots)} root commits; one is expected"
                self._add("root", what, self._fixes.history(root), mark=root, commit=root)

    def check_names(self) -> None:
        """Check each path of the history."""
        generated = {names.generated_part(path) for path in self._present}
        for path, commit in self._paths.items():
            is_present = path in self._present
            if part := names.generated_part(path):
                fix = self._fixes.removal(part, commit, present=part in generated)
                self._add("generated", "A cache or a database", fix, commit=commit, path=part)
            unwanted = []
            if not self._rules.allows(_text(path)):
                unwanted.append(("outside", "Not among the allowed paths"))
            if names.holds_secrets(path):
                unwanted.append(("secret", "A file that holds secrets, by its name"))
            for check, what in unwanted:
                fix = self._fixes.removal(path, commit, present=is_present)
                self._add(check, what, fix, commit=commit, path=path)
            for hit in self._finder.hits([path]):
                fix = self._fixes.renaming(path, commit, present=is_present)
                what = f"{hit.what}, in the file's name"
                self._add(hit.check, what, fix, mark=hit.mark, commit=commit, path=path)

    def check_contents(self, objects: Objects) -> None:
        """Check each file content once, for all commits and paths that have it."""
        for blob, places in self._blobs.items():
            pieces = objects.pieces(blob)
            first = next(pieces, b"")
            settings = any(map(names.holds_settings, places)) or names.is_script(first[:_START])
            hits = list(self._finder.hits(chain((first,), pieces), settings=settings))
            if kind := names.generated_kind(first[:_START]):
                hits.insert(0, Hit("generated", f"It is {kind}", "", 1))
            if not hits:
                continue
            current = [
                path for path in places if path in self._present and self._present[path].id == blob
            ]
            for path in current or list(places)[:1]:
                for hit in hits:
                    self._add_content(hit, path, places[path], is_present=bool(current))

    def _add_content(self, hit: Hit, path: bytes, commit: str, *, is_present: bool) -> None:
        line: int | None = hit.line
        if hit.check == "generated":
            if names.generated_part(path):
                return  # its name has a finding already
            fix, line = self._fixes.removal(path, commit, present=is_present), None
        elif is_present:
            fix = self._fixes.editing(self._present[path], hit.line)
        else:
            fix = self._fixes.history(commit)
        self._add(
            hit.check,
            hit.what,
            fix,
            mark=hit.mark,
            commit=commit,
            path=path,
            line=line,
            present=is_present,
        )

    def check_commits(self, objects: Objects) -> None:
        """Check messages and other texts of commits, and each author or committer once."""
        people: set[tuple[str, bytes]] = set()
        for commit in self.commits:
            for title, text in _texts(objects.whole(commit)):
                is_person = title in _PEOPLE
                if is_person and (title, text) in people:
                    continue
                people.add((title, text))
                for hit in self._finder.hits([text]):
                    self._add(
                        hit.check,
                        f"{hit.what}, in the commit's {title}",
                        self._fixes.history(commit, _IDENTITY if is_person else ""),
                        mark=hit.mark if is_person else f"{hit.mark}\0{commit}",
                        commit=commit,
                        line=None if is_person else hit.line,
                    )

    def check_tags(self, objects: Objects) -> None:
        """Check annotated tags, including tags of tags. Each allowed ref must lead to a commit."""
        for ref in (*self._allowed, *self._stray):
            kind, object_id = ref.kind, ref.id
            fix = without_refs([ref.name])
            while kind == "tag":
                raw = objects.whole(object_id)
                fields = dict(_fields(raw))
                kind, object_id = fields["type"].decode(), fields["object"].decode()
                for title, text in _texts(raw):
                    for hit in self._finder.hits([text]):
                        what = f"{hit.what}, in the {title} of the tag {ref.name}"
                        line = hit.line if title == "message" else None
                        self._add(hit.check, what, fix, mark=hit.mark, line=line)
            if kind != "commit" and ref in self._allowed:
                what = f"The ref {ref.name} points to a {kind}, which is in no commit that was "
                self._add("ref", f"{what}judged", fix)

    def check_ref_names(self) -> None:
        """Check the names of the branch and the allowed refs. Any other ref is a finding
        already."""
        for ref in (*([self._branch] if self._branch else []), *self._allowed):
            is_branch = ref == self._branch
            fix = "git branch -m NEW-NAME" if is_branch else without_refs([ref.name])
            for hit in self._finder.hits([ref.name.encode("utf-8", "surrogateescape")]):
                self._add(hit.check, f"{hit.what}, in the name of a ref", fix, mark=hit.mark)


def _fields(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the header fields of a commit or tag. A line with a space at its start continues the
    field."""
    for field in _FIELD.split(raw.partition(b"\n\n")[0]):
        name, _, value = field.partition(b" ")
        yield name.decode("latin-1"), value


def _texts(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of a commit or tag that a person wrote, each with its title."""
    for name, value in _fields(raw):
        if name in _PEOPLE:
            yield name, value.rpartition(b">")[0] + b">"
        elif name not in _UNREAD_FIELDS:
            yield f"field {name}", value
    yield "message", raw.partition(b"\n\n")[2]


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
