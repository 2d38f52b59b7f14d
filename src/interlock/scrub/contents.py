"""Files, by name and by content. A content is read once, however many commits and paths have it."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from interlock.scrub import names
from interlock.scrub.fixes import Fixes
from interlock.scrub.git import Entry, Git, Objects
from interlock.scrub.ledger import Ledger
from interlock.scrub.rules import Rules
from interlock.scrub.texts import Hit, Judge

_START: Final = 128


class Files:
    """Every file that any commit has had, under the commit that first had it so."""

    def __init__(self, git: Git, commits: Sequence[str], rules: Rules) -> None:
        self.present: dict[bytes, Entry] = {}
        self.paths: dict[bytes, str] = {}
        self.blobs: dict[str, dict[bytes, str]] = {}
        for commit, entry in git.brought(list(commits)):
            if rules.ignores(_text(entry.path)):
                continue
            self.paths.setdefault(entry.path, commit)
            if entry.is_blob:
                self.blobs.setdefault(entry.id, {}).setdefault(entry.path, commit)
        for entry in git.tree() if git.head else ():
            if entry.path in self.paths:
                self.present[entry.path] = entry


def check_names(files: Files, judge: Judge, rules: Rules, fixes: Fixes, ledger: Ledger) -> None:
    made = {names.generated_part(path) for path in files.present}
    for path, commit in files.paths.items():
        present = path in files.present
        if part := names.generated_part(path):
            fix = fixes.removal(part, commit, present=part in made)
            ledger.add("generated", "A cache or a database", fix, commit=commit, path=part)
        for check, what in _amiss(path, rules):
            fix = fixes.removal(path, commit, present=present)
            ledger.add(check, what, fix, commit=commit, path=path)
        for hit in judge.hits([path]):
            fix = fixes.renaming(path, commit, present=present)
            what = f"{hit.what}, in the file's name"
            ledger.add(hit.check, what, fix, mark=hit.mark, commit=commit, path=path)


def _amiss(path: bytes, rules: Rules) -> Iterator[tuple[str, str]]:
    if not rules.allows(_text(path)):
        yield "outside", "Not among the allowed paths"
    if names.holds_secrets(path):
        yield "secret", "A file that holds secrets, by its name"


def check_contents(
    files: Files, objects: Objects, judge: Judge, fixes: Fixes, ledger: Ledger
) -> None:
    for blob, places in files.blobs.items():
        now = [path for path in places if path in files.present and files.present[path].id == blob]
        hits = list(_hits(list(places), objects.pieces(blob), judge))
        for path in (now or list(places)[:1]) if hits else ():
            entry = files.present[path] if now else None
            for hit in hits:
                if hit.check != "generated" or not names.generated_part(path):
                    _note(hit, path, places[path], entry, fixes, ledger)


def _note(
    hit: Hit, path: bytes, commit: str, entry: Entry | None, fixes: Fixes, ledger: Ledger
) -> None:
    present = entry is not None
    if hit.check == "generated":
        fix = fixes.removal(path, commit, present=present)
    else:
        fix = fixes.editing(entry, hit.line) if entry else fixes.history(commit)
    ledger.add(
        hit.check,
        hit.what,
        fix,
        mark=hit.mark,
        commit=commit,
        path=path,
        line=None if hit.check == "generated" else hit.line,
        present=present,
    )


def _hits(paths: Sequence[bytes], pieces: Iterator[bytes], judge: Judge) -> Iterator[Hit]:
    first = next(pieces, b"")
    if kind := names.generated_kind(first[:_START]):
        yield Hit("generated", f"It is {kind}", "", 1)
    settings = any(map(names.holds_settings, paths)) or names.is_script(first[:_START])
    yield from judge.hits(chain((first,), pieces), settings=settings)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
