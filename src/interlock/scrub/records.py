"""Commits and annotated tags: their messages, and the people named in them."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from interlock.scrub.fixes import Fixes, without_refs
from interlock.scrub.git import Objects, Ref
from interlock.scrub.ledger import Ledger
from interlock.scrub.refs import Refs
from interlock.scrub.texts import Judge

_FIELD: Final = re.compile(rb"\n(?! )")
_PEOPLE: Final = ("author", "committer", "tagger")
# Ids, and signatures, which are random text in which any word may turn up.
_SILENT: Final = ("tree", "parent", "object", "type", "gpgsig", "gpgsig-sha256", "encoding")


class _Part(NamedTuple):
    """A part of a commit or tag that a person wrote."""

    title: str
    text: bytes


def check_commits(
    commits: Sequence[str], objects: Objects, judge: Judge, fixes: Fixes, ledger: Ledger
) -> None:
    seen: set[_Part] = set()
    for commit in commits:
        for part in _parts(objects.whole(commit)):
            person = part.title in _PEOPLE
            if person and part in seen:
                continue
            seen.add(part)
            for hit in judge.hits([part.text]):
                ledger.add(
                    hit.check,
                    f"{hit.what}, in the commit's {part.title}",
                    fixes.identity(commit) if person else fixes.history(commit),
                    mark=hit.mark if person else f"{hit.mark}\0{commit}",
                    commit=commit,
                    line=None if person else hit.line,
                )


def check_tags(refs: Refs, objects: Objects, judge: Judge, ledger: Ledger) -> None:
    """Annotated tags, also of tags; and that what is at the end of a ref is a commit."""
    for ref in (*refs.allowed, *refs.stray):
        kind, object_id = ref.kind, ref.id
        while kind == "tag":
            raw = objects.whole(object_id)
            fields = dict(_fields(raw))
            kind, object_id = fields["type"].decode(), fields["object"].decode()
            _check_tag(ref, raw, judge, ledger)
        if kind != "commit" and ref in refs.allowed:
            what = f"The ref {ref.name} points to a {kind}, which is in no commit that was judged"
            ledger.add("ref", what, without_refs([ref.name]))


def check_ref_names(refs: Refs, judge: Judge, ledger: Ledger) -> None:
    """A stray ref is a finding already, whatever its name."""
    for ref in (refs.own, *refs.allowed):
        if ref is None:
            continue
        fix = "git branch -m NEW-NAME" if ref == refs.own else without_refs([ref.name])
        for hit in judge.hits([ref.name.encode("utf-8", "surrogateescape")]):
            ledger.add(hit.check, f"{hit.what}, in the name of a ref", fix, mark=hit.mark)


def _check_tag(ref: Ref, raw: bytes, judge: Judge, ledger: Ledger) -> None:
    for part in _parts(raw):
        for hit in judge.hits([part.text]):
            what = f"{hit.what}, in the {part.title} of the tag {ref.name}"
            line = hit.line if part.title == "message" else None
            ledger.add(hit.check, what, without_refs([ref.name]), mark=hit.mark, line=line)


def _fields(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """What stands above the message; a field goes on where a line begins with a space."""
    for field in _FIELD.split(raw.partition(b"\n\n")[0]):
        name, _, value = field.partition(b" ")
        yield name.decode("latin-1"), value


def _parts(raw: bytes) -> Iterator[_Part]:
    for name, value in _fields(raw):
        if name in _PEOPLE:
            yield _Part(name, value.rpartition(b">")[0] + b">")
        elif name not in _SILENT:
            yield _Part(f"field {name}", value)
    yield _Part("message", raw.partition(b"\n\n")[2])
