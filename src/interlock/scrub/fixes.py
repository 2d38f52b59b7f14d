"""The commands that fix a finding: plain git, for a POSIX shell at the repository's root.

Only a new history removes content from the history. `start_over` makes one new root commit of
HEAD's files, and deletes the other refs, which would keep the old commits. The old commits stay in
the reflog, which clones do not contain.
"""

from collections.abc import Sequence
from shlex import quote
from typing import Final

from interlock.scrub.git import LINK, Git, TreeEntry

_COMMIT: Final = "git commit -q -m 'Prepare for the public'"


class Fixes:
    """The commands for one repository. `others` are the refs that the rules allow in addition to
    the branch. `checkout` is the branch to check out first, if HEAD is detached."""

    def __init__(self, git: Git, others: Sequence[str], checkout: str | None) -> None:
        self._git = git
        self._others = others
        self._checkout = checkout
        self._ancestors = frozenset(git.commits("HEAD")) if git.head else frozenset()
        self._holding: dict[str, list[str]] = {}

    def start_over(self, settings: str = "", edits: Sequence[str] = ()) -> str:
        """Return the command that makes the edits and a new history, on the branch. On a detached
        HEAD, the edits would not be on any branch."""
        steps = [f"git checkout -q {quote(self._checkout)}"] if self._checkout else []
        steps += [*edits, _COMMIT] if edits else []
        root = f"git {settings}commit-tree -m 'First public commit' 'HEAD^{{tree}}'"
        steps.append(f'git update-ref HEAD "$({root})"')
        if self._others:
            steps.append(without_refs(self._others))
        return " && ".join(steps)

    def history(self, commit: str, settings: str = "") -> str:
        """Return the command that removes a commit from the content of clones."""
        if commit in self._ancestors:
            return self.start_over(settings)
        if commit not in self._holding:
            self._holding[commit] = self._git.refs_with(commit)
        return without_refs(self._holding[commit])

    def removal(self, path: bytes, commit: str, *, present: bool) -> str:
        """Return the command that removes a file or a directory from HEAD and from the history."""
        if not present:
            return self.history(commit)
        return self.start_over(edits=[f"git rm -r -q --cached -- {_quoted(_literal(path))}"])

    def renaming(self, path: bytes, commit: str, *, present: bool) -> str:
        if not present:
            return self.history(commit)
        return self.start_over(edits=[f"git mv -- {_quoted(path)} NEW-NAME"])

    def editing(self, entry: TreeEntry, line: int) -> str:
        """Return the command that opens the file of HEAD at the line, then commits the saved
        file."""
        if entry.mode == LINK:
            return self.removal(entry.path, "", present=True)
        opened = f"${{EDITOR:-vi}} +{line} {_quoted(b'./' + entry.path)}"
        added = f"git add -- {_quoted(_literal(entry.path))}"
        return self.start_over(edits=[opened, added])


def without_refs(names: Sequence[str]) -> str:
    """Return the command that deletes refs, but not the targets of symbolic refs."""
    words = [_quoted(name.encode("utf-8", "surrogateescape")) for name in names]
    if len(words) == 1:
        return f"git update-ref --no-deref -d {words[0]}"
    return rf"printf 'option no-deref\ndelete %s\n' {' '.join(words)} | git update-ref --stdin"


def _quoted(text: bytes) -> str:
    """Return the bytes as one word of the shell. Unprintable bytes need $'…' of bash or zsh."""
    try:
        plain = text.decode()
    except UnicodeDecodeError:
        plain = "\0"
    if plain.isprintable():
        return quote(plain)
    escaped = (chr(b) if 32 <= b < 127 and chr(b) not in "'\\" else f"\\{b:03o}" for b in text)
    return f"$'{''.join(escaped)}'"


def _literal(path: bytes) -> bytes:
    """Return a path that git does not take for a pattern. Git does so for a path with wildcards or
    a colon at the start."""
    return b":(literal)" + path if path.startswith(b":") or set(path) & set(b"*?[\\") else path
