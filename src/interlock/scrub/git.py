"""Read a repository with git's plumbing: refs, commits, the files of each commit, objects.

Replacements and grafts are off, because clones do not contain them. The user's settings that change
the output of git are off too. Names are bytes, as in git.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from tempfile import TemporaryFile
from typing import IO, Final, NamedTuple

from interlock.errors import Usage
from interlock.machine.git import TRUTHFUL

PIECE: Final = 1 << 20

# These variables make git use another repository than the named one.
_ELSEWHERE: Final = re.compile(
    "GIT_(DIR|WORK_TREE|COMMON_DIR|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|"
    "NAMESPACE|SHALLOW_FILE|REPLACE_REF_BASE|PREFIX)"
)
_PLAIN: Final = TRUTHFUL | {"GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
LINK: Final = "120000"


class Ref(NamedTuple):
    name: str
    kind: str  # commit, tag, tree or blob
    id: str


class TreeEntry(NamedTuple):
    """A file at a path: a blob, a symbolic link, or (mode 160000) another repository's commit."""

    path: bytes
    mode: str
    id: str

    @property
    def is_blob(self) -> bool:
        return self.mode != "160000"


class Git:
    """Reads one repository, bare or not, or any worktree of it."""

    def __init__(self, place: str) -> None:
        here = {name: os.environ[name] for name in os.environ if not _ELSEWHERE.fullmatch(name)}
        self._environment = here | _PLAIN
        self._command = ["git", "-C", place]
        if self._try("rev-parse", "--git-dir") is None:
            raise Usage(f"{place!r} is not a readable git repository. Name one.")
        if self._try("config", "--get-regexp", r"^remote\..*\.promisor$|^extensions\.partialclone"):
            raise Usage(
                "This is a partial clone, and the scrub cannot check the missing files. Clone the "
                "repository without --filter, and scrub that clone."
            )

    @property
    def is_shallow(self) -> bool:
        return self._read("rev-parse", "--is-shallow-repository").strip() == b"true"

    @cached_property
    def branch(self) -> str | None:
        """Return the ref that HEAD points to, even if it does not exist; None if HEAD is
        detached."""
        name = self._try("symbolic-ref", "-q", "HEAD")
        return name.decode().strip() if name else None

    @cached_property
    def head(self) -> str | None:
        found = self._try("rev-parse", "-q", "--verify", "HEAD^{commit}")
        return found.decode().strip() if found else None

    def refs(self) -> list[Ref]:
        form = "--format=%(objecttype) %(objectname) %(refname)"
        lines = self._read("for-each-ref", form).decode("utf-8", "surrogateescape").splitlines()
        kinds = (line.split(" ", 2) for line in lines)
        return [Ref(name, kind, object_id) for kind, object_id, name in kinds]

    def refs_with(self, commit: str) -> list[str]:
        """Return the refs that reach this commit."""
        found = self._read("for-each-ref", "--format=%(refname)", f"--contains={commit}")
        return found.decode("utf-8", "surrogateescape").splitlines()

    def commits(self, *words: str) -> list[str]:
        """Return the commits that `git rev-list` selects with these words."""
        return self._read("rev-list", *words).decode().split()

    def tree(self) -> Iterator[TreeEntry]:
        """Yield the files of HEAD."""
        for line in self._read("ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0")[:-1]:
            about, path = line.split(b"\t", 1)
            mode, _, object_id = about.decode().split()
            yield TreeEntry(path, mode, object_id)

    def brought(self, commits: list[str]) -> Iterator[tuple[str, TreeEntry]]:
        """Yield for each commit the files that differ from all of its parents.

        A file that a merge shares with one of its parents came in with an ancestor."""
        words = ("--stdin", "-r", "-c", "--root", "--raw", "-z", "--no-renames", "--no-abbrev")
        with TemporaryFile() as asked, TemporaryFile() as errors:
            asked.write("".join(f"{commit}\n" for commit in commits).encode())
            asked.seek(0)
            diff_tree = ("diff-tree", *words, "--ignore-submodules=none")
            with self._start(*diff_tree, stdin=asked, stderr=errors) as child:
                assert child.stdout is not None
                # The output has a commit, then a description and a path for each file. The
                # description has one colon for each parent, then the old modes, the new mode, the
                # old ids and the new id.
                commit = ""
                fields = _fields(child.stdout)
                for field in fields:
                    if not field.startswith(b":"):
                        commit = field.decode()
                        continue
                    described = field.decode().split(" ")
                    parents = field.count(b":")
                    path = next(fields)
                    mode = described[parents].lstrip(":")
                    if mode != "000000":
                        yield commit, TreeEntry(path, mode, described[2 * parents + 1])
                if child.wait() != 0:
                    errors.seek(0)
                    raise _unreadable(errors.read())

    @contextmanager
    def objects(self) -> Iterator["Objects"]:
        with self._start("cat-file", "--batch", stdin=subprocess.PIPE) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                yield Objects(child.stdin, child.stdout)
            finally:
                child.kill()

    def _try(self, *words: str) -> bytes | None:
        done = self._run(*words)
        return done.stdout if done.returncode == 0 else None

    def _read(self, *words: str) -> bytes:
        done = self._run(*words)
        if done.returncode != 0:
            raise _unreadable(done.stderr)
        return done.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603 - our own words, no shell
                [*self._command, *words],
                capture_output=True,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as trouble:
            raise Usage(f"Cannot run git: {trouble.strerror}. Install git first.") from None

    def _start(
        self, *words: str, stdin: int | IO[bytes], stderr: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own words, no shell
            [*self._command, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self._environment,
        )


class Objects:
    """Reads the contents of objects, one after the other, from one git process."""

    def __init__(self, ask: IO[bytes], answer: IO[bytes]) -> None:
        self._ask = ask
        self._answer = answer

    def pieces(self, object_id: str) -> Iterator[bytes]:
        """Yield the content in pieces. Callers must read it to its end before they read the next
        object."""
        self._ask.write(object_id.encode() + b"\n")
        self._ask.flush()
        _, _, size = self._answer.readline().rpartition(b" ")
        left = int(size) if size.strip().isdigit() else -1
        while left > 0 and (piece := self._answer.read(min(left, PIECE))):
            left -= len(piece)
            yield piece
        if left != 0:
            raise Usage(f"Cannot read the object {object_id}. Check the repository: git fsck")
        self._answer.read(1)

    def whole(self, object_id: str) -> bytes:
        return b"".join(self.pieces(object_id))


def _fields(out: IO[bytes]) -> Iterator[bytes]:
    """Yield the fields between NULs."""
    rest = b""
    while piece := out.read(PIECE):
        *fields, rest = (rest + piece).split(b"\0")
        yield from fields


def _unreadable(errors: bytes) -> Usage:
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return Usage(f"git cannot read the repository: {last[:300]}")
