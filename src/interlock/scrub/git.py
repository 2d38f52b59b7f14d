"""The repository as git's plumbing tells it: refs, commits, what each brought in, objects.

Replacements and grafts are switched off, since clones do not have them; so are settings of the
user's that change what git prints. Names are bytes, as in git.
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

# What points git somewhere else than to the repository that was named.
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


class Entry(NamedTuple):
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
            raise Usage(f"{place!r} is no git repository that can be read. Name one.")
        if self._try("config", "--get-regexp", r"^remote\..*\.promisor$|^extensions\.partialclone"):
            raise Usage(
                "This is a partial clone: contents that it lacks cannot be judged. Clone the "
                "repository without --filter, and scrub that."
            )

    @property
    def is_shallow(self) -> bool:
        return self._read("rev-parse", "--is-shallow-repository").strip() == b"true"

    @cached_property
    def branch(self) -> str | None:
        """The ref that HEAD points to, born or not; None where HEAD is detached."""
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

    def commits(self) -> list[str]:
        """Every commit that a ref or HEAD reaches, parents first."""
        words = ("rev-list", "--all", "--single-worktree", "--topo-order", "--reverse")
        return self._read(*words).decode().split()

    def roots(self) -> list[str]:
        words = ("rev-list", "--all", "--single-worktree", "--max-parents=0", "--reverse")
        return self._read(*words).decode().split()

    def line(self) -> list[str]:
        """HEAD and its first parents, oldest first."""
        return self._read("rev-list", "--first-parent", "--reverse", "HEAD").decode().split()

    def ancestors(self) -> frozenset[str]:
        """HEAD and every commit that it reaches."""
        return frozenset(self._read("rev-list", "HEAD").decode().split())

    def refs_with(self, commit: str) -> list[str]:
        """The refs that reach this commit."""
        found = self._read("for-each-ref", "--format=%(refname)", f"--contains={commit}")
        return found.decode("utf-8", "surrogateescape").splitlines()

    def tree(self) -> Iterator[Entry]:
        """The files of HEAD."""
        for line in self._read("ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0")[:-1]:
            about, path = line.split(b"\t", 1)
            mode, _, object_id = about.decode().split()
            yield Entry(path, mode, object_id)

    def brought(self, commits: list[str]) -> Iterator[tuple[str, Entry]]:
        """For each commit, the files that none of its parents has so.

        What a merge shares with one of its parents was brought in by an ancestor."""
        words = ("--stdin", "-r", "-c", "--root", "--raw", "-z", "--no-renames", "--no-abbrev")
        with TemporaryFile() as asked:
            asked.write("".join(f"{commit}\n" for commit in commits).encode())
            asked.seek(0)
            with self._reading("diff-tree", *words, "--ignore-submodules=none", stdin=asked) as out:
                yield from _parsed(_fields(out))

    @contextmanager
    def objects(self) -> Iterator["Objects"]:
        child = self._start("cat-file", "--batch", stdin=subprocess.PIPE)
        with child:
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
            raise _trouble(done.stderr)
        return done.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603 - words of ours, no shell
                [*self._command, *words],
                capture_output=True,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as trouble:
            raise Usage(f"git cannot be run: {trouble.strerror}. Install it first.") from None

    @contextmanager
    def _reading(self, *words: str, stdin: IO[bytes]) -> Iterator[IO[bytes]]:
        with TemporaryFile() as errors, self._start(*words, stdin=stdin, stderr=errors) as child:
            assert child.stdout is not None
            yield child.stdout
            if child.wait() != 0:
                errors.seek(0)
                raise _trouble(errors.read())

    def _start(
        self, *words: str, stdin: int | IO[bytes], stderr: int | IO[bytes] = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - words of ours, no shell
            [*self._command, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self._environment,
        )


class Objects:
    """The contents of objects, one after the other, from one process."""

    def __init__(self, ask: IO[bytes], answer: IO[bytes]) -> None:
        self._ask = ask
        self._answer = answer

    def pieces(self, object_id: str) -> Iterator[bytes]:
        """The content, a piece at a time; to be read to its end before the next is asked for."""
        self._ask.write(object_id.encode() + b"\n")
        self._ask.flush()
        _, _, size = self._answer.readline().rpartition(b" ")
        left = int(size) if size.strip().isdigit() else -1
        while left > 0 and (piece := self._answer.read(min(left, PIECE))):
            left -= len(piece)
            yield piece
        if left != 0:
            raise Usage(f"The object {object_id} cannot be read. Mend the repository: git fsck")
        self._answer.read(1)

    def whole(self, object_id: str) -> bytes:
        return b"".join(self.pieces(object_id))


def _fields(out: IO[bytes]) -> Iterator[bytes]:
    """What stands between NULs."""
    rest = b""
    while piece := out.read(PIECE):
        *fields, rest = (rest + piece).split(b"\0")
        yield from fields


def _parsed(fields: Iterator[bytes]) -> Iterator[tuple[str, Entry]]:
    """Of `diff-tree`: a commit, then for each file a description and its path. The description
    has as many colons as the commit has parents, and the new mode and id after the old ones."""
    commit = ""
    for field in fields:
        if not field.startswith(b":"):
            commit = field.decode()
            continue
        words = field.decode().split(" ")
        parents = field.count(b":")
        mode, object_id = words[parents].lstrip(":"), words[2 * parents + 1]
        path = next(fields)
        if mode != "000000":
            yield commit, Entry(path, mode, object_id)


def _trouble(errors: bytes) -> Usage:
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return Usage(f"git could not read the repository: {last[:300]}")
