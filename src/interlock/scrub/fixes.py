"""The commands that correct a finding: plain git, for a POSIX shell at the repository's root.

Only a new history removes something from the history. `start_over` makes one new root commit of
HEAD's files, and removes the other refs, which would keep the old commits. The old ones stay in
the reflog, which no clone gets.
"""

from collections.abc import Sequence
from shlex import quote
from typing import Final

from interlock.scrub.git import LINK, Git, TreeEntry

_COMMIT: Final = "git commit -q -m 'Prepare for the public'"


class Fixes:
    """The commands for one repository. `others` are the refs beside the branch that the rules
    allow; `checkout` is the branch to check out where HEAD is detached."""

    def __init__(self, git: Git, others: Sequence[str], checkout: str | None) -> None:
        self._git = git
        self._others = others
        self._checkout = checkout
        self._ancestors = frozenset(git.commits("HEAD")) if git.head else frozenset()
        self._holding: dict[str, list[str]] = {}

    def start_over(self, settings: str = "", edits: Sequence[str] = ()) -> str:
        """Makes corrections on the branch: on a detached HEAD they would be left behind."""
        steps = [f"git checkout -q {quote(self._checkout)}"] if self._checkout else []
        steps += [*edits, _COMMIT] if edits else []
        root = f"git {settings}commit-tree -m 'First public commit' 'HEAD^{{tree}}'"
        steps.append(f'git update-ref HEAD "$({root})"')
        if self._others:
            steps.append(without_refs(self._others))
        return " && ".join(steps)

    def history(self, commit: str, settings: str = "") -> str:
        """Removes a commit from what a clone gets."""
        if commit in self._ancestors:
            return self.start_over(settings)
        if commit not in self._holding:
            self._holding[commit] = self._git.refs_with(commit)
        return without_refs(self._holding[commit])

    def removal(self, path: bytes, commit: str, *, present: bool) -> str:
        """Removes a file, or a directory, from HEAD and from the history."""
        if not present:
            return self.history(commit)
        return self.start_over(edits=[f"git rm -r -q --cached -- {_quoted(_literal(path))}"])

    def renaming(self, path: bytes, commit: str, *, present: bool) -> str:
        if not present:
            return self.history(commit)
        return self.start_over(edits=[f"git mv -- {_quoted(path)} NEW-NAME"])

    def editing(self, entry: TreeEntry, line: int) -> str:
        """Opens the file of HEAD at the line, and continues when it is saved."""
        if entry.mode == LINK:
            return self.removal(entry.path, "", present=True)
        opened = f"${{EDITOR:-vi}} +{line} {_quoted(b'./' + entry.path)}"
        added = f"git add -- {_quoted(_literal(entry.path))}"
        return self.start_over(edits=[opened, added])


def without_refs(names: Sequence[str]) -> str:
    """Removes refs, but not the targets of symbolic ones."""
    words = [_quoted(name.encode("utf-8", "surrogateescape")) for name in names]
    if len(words) == 1:
        return f"git update-ref --no-deref -d {words[0]}"
    return rf"printf 'option no-deref\ndelete %s\n' {' '.join(words)} | git update-ref --stdin"


def _quoted(text: bytes) -> str:
    """The bytes as one word of the shell. Unprintable bytes are written as $'…' of bash, zsh."""
    try:
        plain = text.decode()
    except UnicodeDecodeError:
        plain = "\0"
    if plain.isprintable():
        return quote(plain)
    escaped = (chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\{b:03o}" for b in text)
    return f"$'{''.join(escaped)}'"


def _literal(path: bytes) -> bytes:
    """Git takes a path for a pattern where it has wildcards or begins with a colon."""
    return b":(literal)" + path if path.startswith(b":") or set(path) & set(b"*?[\\") else path
