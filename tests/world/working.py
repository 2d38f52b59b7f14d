"""A git repository, a gate that vera holds, and the commands that record evidence."""

import copy
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from world.commandline import LIMIT_S, Done, Place
from world.fork_server import ServersByWorkspace

GATE = "athena"
TASK = "B-12"
BRIEF = """\
---
id: B-12
gates: [athena]
priority: high
assignee: "@otto"
---
# Add a greeting

The program greets its user.

## Acceptance criteria
- [ ] it says hello
"""
WORKER = ("--from", "otto-cli")
HOLDER = ("--from", "vera")


class Workshop:
    """A place whose working directory is a repository with one commit. Its senders are otto-cli,
    the worker, and vera, who holds the gate athena."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "otto@example.com")
        self.git("config", "user.name", "Otto")
        self.commit(**{"greet.sh": "echo goodbye\n"})
        place.ok("gate", "create", GATE, "--holder", "vera")

    def copied(self, root: Path, served: ServersByWorkspace | None = None) -> "Workshop":
        """Copy this workshop."""
        other = copy.copy(self)
        other.place = self.place.copied(root, served)
        return other

    def but(self, **environ: str | None) -> "Workshop":
        """Return this workshop with other variables."""
        other = copy.copy(self)
        other.place = self.place.but(**environ)
        return other

    # --- the repository

    def git(self, *words: str) -> str:
        done = self.tried("git", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the repository, with any exit status. `interlock` is on its path."""
        return subprocess.run(
            words,
            cwd=self.place.cwd,
            env=self.place.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def write(self, name: str, text: str) -> None:
        file = self.place.cwd / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, **files: str) -> str:
        """Commit these files, and return the id of the commit."""
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=work")
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def tree(self) -> str:
        return self.git("rev-parse", "HEAD^{tree}")

    # --- tasks

    def create(self, *words: str, id: str = TASK) -> None:
        self.place.ok("task", "create", "--title", "Add a greeting", "--id", id, *words, *HOLDER)

    def taken(self, *words: str) -> int:
        """Create the task with its criterion and gate, and take it. Return the fence."""
        self.create("--criterion", "it says hello", "--gate", GATE)
        answer = self.place.ok("task", "take", TASK, *words, *WORKER)
        return int(answer["claim"]["fence"])

    def submitted(self) -> None:
        """Take the task, record evidence, and submit it."""
        self.taken()
        self.proven("--task", TASK, "--criterion", "1", "--", "true")
        self.place.ok("task", "submit", TASK, *WORKER)

    def completed(self) -> None:
        """Take, submit, pass and complete the task."""
        self.submitted()
        self.place.ok("gate", "pass", TASK, GATE, *HOLDER)
        assert self.place.ok("task", "complete", TASK, *WORKER)["completed"]

    def proven(self, *words: str) -> dict[str, Any]:
        """Record a run as the worker, and return the evidence."""
        done = self.run(*WORKER, "--json", *words)
        assert "evidence" in done.json, done
        evidence: dict[str, Any] = done.json["evidence"]
        return evidence

    def run(self, *words: str, stdin: bytes = b"", **environ: str | None) -> Done:
        """Run `interlock evidence run` to its end. Unlike other commands, with --json it prints the
        command's output on stderr and exits with the command's status."""
        words = ("evidence", "run", *words)
        with self.place.start(*words, **environ) as child:
            try:
                out, err = child.communicate(stdin, timeout=2 * LIMIT_S)
            finally:
                child.kill()
        return Done(words, child.returncode, out, err)

    def show(self, id: str = TASK) -> dict[str, Any]:
        shown: dict[str, Any] = self.place.ok("task", "show", id)
        return shown

    def kept(self, id: str) -> bytes:
        """Return the stored bytes of a piece of evidence."""
        with self.place.start("evidence", "show", id, "--raw") as child:
            out, err = child.communicate(timeout=LIMIT_S)
        assert (child.returncode, err) == (0, b"")
        return out

    def is_waiting(self, address: str) -> bool:
        agents = self.place.ok("agents")["agents"]
        return any(agent["address"] == address and agent["reach"] == "wakes" for agent in agents)

    @contextmanager
    def nothing_written(self, *recorded: str) -> Iterator[None]:
        """Check that the log gets no entries in the block, except refusals with these codes, and
        that the tasks do not change."""
        before, tasks = self.place.entries(), self._tasks()
        yield
        facts = self.place.query(f"SELECT header FROM log WHERE seq > {before} ORDER BY seq")
        grown = [json.loads(header) for (header,) in facts]
        assert [fact["outcome"].get("code") for fact in grown] == list(recorded), grown
        assert all(fact["kind"] == "request_refused" for fact in grown), grown
        assert self._tasks() == tasks

    def _tasks(self) -> list[Any]:
        return self.place.query("SELECT * FROM work_tasks ORDER BY id")


def processes_with(mark: str) -> list[str]:
    """Return the running processes that have this word in their command line."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
    )
    return [line for line in listed.stdout.splitlines() if mark in line]


def memory(pid: int) -> int:
    """Return the memory that a process uses, in bytes, or 0 if it has ended."""
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return int(told.stdout or 0) * 1024
