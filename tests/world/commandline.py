"""Run the command `interlock`: in the test's process, which takes milliseconds, or in a new one.
Each `Place` is a workspace and a home directory of one test.

Every call checks the rules for all commands. With `--json`, a command prints one JSON document and
nothing on stderr. The document has no nulls, and valid times. Text has no control characters.
"""

import contextlib
import copy
import fcntl
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import apsw

from interlock.doors.cli import main
from world import chosen
from world.fork_server import ServersByWorkspace

LIMIT_S = 60.0
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
TIMES = {"at", "now", "since", "last_seen"}
BAR = "│ "
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
STEERING = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}]")

# The exit status of each code: the codes of the interface, and the additional ones.
EXITS = {
    1: "CLAIM_HELD NO_ANSWER GATES_NOT_PASSED LOG_DAMAGED",
    2: "USAGE INVALID_RECIPIENT_SHAPE INVALID_MESSAGE UNKNOWN_TYPE USE_VERB DIGEST_MISMATCH "
    "GATE_HAS_NO_HOLDER NOT_FOUND UNKNOWN_RECIPIENT NAME_TAKEN IDEMPOTENCY_CONFLICT ALREADY_DONE "
    "TOO_LARGE TOO_MANY_HOPS NOT_A_WORKSPACE NOT_SUBMITTED",
    3: "NO_IDENTITY BAD_TOKEN TOKEN_EXPIRED UNKNOWN_SENDER IDENTITY_MISMATCH MISSING_SCOPE "
    "OWN_WORK NOT_HOLDER STALE_FENCE WRONG_AUDIENCE",
    4: "RATE_LIMITED PAUSED ENGINE_UNAVAILABLE LOG_FORKED NEWER_VERSION UNSAFE_FILESYSTEM "
    "OTHER_HOST ADDRESS_UNAVAILABLE",
    70: "INTERNAL",
}
# A shell that runs the tests in the background may make them and their children ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

EXIT_OF = {code: status for status, codes in EXITS.items() for code in codes.split()}


class Done(NamedTuple):
    """A command that has ended."""

    words: tuple[str, ...]
    status: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def complaint(self) -> str:
        return self.err.decode()

    @property
    def json(self) -> Any:
        """The JSON document on stdout."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"not one JSON document: {self}") from None

    def __str__(self) -> str:
        words = [word if len(word) < 80 else f"{word[:60]}… ({len(word)})" for word in self.words]
        report = re.search(rb"/\S*interlock-defect-\w+\.txt", self.out + self.err)
        why = Path(os.fsdecode(report[0])).read_text()[-1500:] if report else ""
        return (
            f"{' '.join(map(repr, words))} -> exit {self.status}\n"
            f"{self.out[:600]!r}\n{self.err[:1500]!r}\n{why}"
        )


class Place:
    """A workspace, a home and a working directory, all empty at first. With `served`, a server runs
    for every workspace that the environment of a command names."""

    def __init__(self, root: Path, served: ServersByWorkspace | None = None) -> None:
        self.root = root
        self.served = served
        self.home = root / "home"
        self.workspace = root / "workspace"
        self.cwd = root / "cwd"
        self.home.mkdir(exist_ok=True)
        self.cwd.mkdir(exist_ok=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "INTERLOCK_WORKSPACE": str(self.workspace),
            "TMPDIR": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PY": sys.executable,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **chosen.variables(),
        }

    def copied(self, root: Path, served: ServersByWorkspace | None = None) -> "Place":
        """Copy this place, while no command runs."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        place = Place(root, served)
        chosen.move_out(place.workspace)
        return place

    def but(self, **environ: str | None) -> "Place":
        """Return this place with other variables. A variable with None is not set."""
        other = copy.copy(self)
        other.environ = self._variables(environ)
        return other

    # --- in this process

    def run(self, *words: str, stdin: bytes = b"", **environ: str | None) -> Done:
        """Call the command's `main` with its own standard streams, environment and directory. A
        variable with None is not set."""
        self._serve(environ)
        outer = sys.stdin, sys.stdout, sys.stderr
        out, err = io.BytesIO(), io.BytesIO()
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
        sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace")
        try:
            with self._standing(environ):
                status = main(words)
            sys.stdout.flush()
            sys.stderr.flush()
            done = Done(words, status, out.getvalue(), err.getvalue())
        finally:
            sys.stdin, sys.stdout, sys.stderr = outer
        _check(done)
        return done

    @contextlib.contextmanager
    def _standing(self, environ: Mapping[str, str | None]) -> Iterator[None]:
        before, cwd, execv = dict(os.environ), os.getcwd(), os.execv
        _change_environment(before, self._variables(environ))
        os.chdir(self.cwd)
        tempfile.tempdir = str(self.root)  # the directory for the report of a defect
        os.execv = _not_here
        try:
            yield
        finally:
            os.execv = execv
            tempfile.tempdir = None
            os.chdir(cwd)
            _change_environment(dict(os.environ), before)

    def _variables(self, environ: Mapping[str, str | None]) -> dict[str, str]:
        merged: dict[str, str | None] = {**self.environ, **environ}
        return {name: value for name, value in merged.items() if value is not None}

    def _serve(self, environ: Mapping[str, str | None]) -> None:
        workspace = self._variables(environ).get("INTERLOCK_WORKSPACE")
        if self.served is not None and workspace and "://" not in workspace:
            self.served.at(workspace, self.environ, str(self.cwd))

    # --- in a new process

    def process(self, *words: str, stdin: bytes = b"", **environ: str | None) -> Done:
        """Run `python -m interlock` to its end."""
        with self.start(*words, **environ) as child:
            try:
                out, err = child.communicate(stdin, timeout=LIMIT_S)
            finally:
                child.kill()
        done = Done(words, child.returncode, out, err)
        if words[:1] != ("run",):
            _check(done)
        return done

    def start(self, *words: str, **environ: str | None) -> subprocess.Popen[bytes]:
        self._serve(environ)
        return subprocess.Popen(
            [sys.executable, "-m", "interlock", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._variables(environ),
            cwd=self.cwd,
        )

    # --- short forms for calls that must succeed, or must be refused

    def ok(self, *words: str, stdin: bytes = b"", **environ: str | None) -> Any:
        """Run a command that must exit with 0. Return its JSON answer."""
        done = self.run(*words, "--json", stdin=stdin, **environ)
        assert done.status == 0, done
        return done.json

    def no(
        self, code: str, *words: str, stdin: bytes = b"", **environ: str | None
    ) -> dict[str, Any]:
        """Run a command that must be refused with this code. Return its JSON error."""
        done = self.run(*words, "--json", stdin=stdin, **environ)
        assert done.json.get("code") == code, done
        assert done.status == EXIT_OF[code], done
        answer: dict[str, Any] = done.json
        return answer

    def join(self, name: str, surface: str | None = None, *words: str) -> str:
        """Register a sender, and return its token."""
        on = ["--surface", surface] if surface else []
        return str(self.ok("join", name, *on, *words)["token"])

    def token_of(self, sender: str) -> str:
        """Return the stored token of a sender."""
        kept = self.workspace / "credentials" / f"{sender}.json"
        return str(json.loads(kept.read_text())["token"])

    def facts(self, kind: str | None = None) -> list[Any]:
        """Return the facts of the log, newest last."""
        only = ["--kind", kind] if kind else []
        found: list[Any] = self.ok("audit", "show", "--limit", "1000", *only)["facts"]
        return found

    def entries(self) -> int:
        """Return the length of the log. Read it with SQLite, so that the call changes nothing."""
        return int(self.query("SELECT seq FROM head")[0][0])

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.workspace / "log.db"))
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()


def _change_environment(now: dict[str, str], wanted: dict[str, str]) -> None:
    """Change only the differing variables. Replacing all would take as long as a command."""
    for name in now.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted.items() - now.items())


def _not_here(*_: Any) -> NoReturn:
    raise AssertionError("the command would have replaced the process of the tests")


def until(what: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Return the first true answer. Fail the test if none comes in time."""
    deadline = time.monotonic() + limit_s
    while not (answer := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        select.select([], [], [], 0.01)
    return answer


def owner_command(workspace: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run a command as the owner in a process, and return its exit status and JSON document."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.parent / "home"),
        "INTERLOCK_WORKSPACE": str(workspace),
    }
    command = [sys.executable, "-m", "interlock", *words, "--json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert done.stderr == b"", done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def stop_outside_the_turn(workspace: Path, send: Callable[[int], None]) -> None:
    """Suspend a process while it does not hold the turn. Otherwise all writers would wait."""

    def stopped() -> bool:
        send(signal.SIGSTOP)
        with open(workspace / "turnstile.turn", "a") as turn:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                send(signal.SIGCONT)
                return False
        return True

    until(stopped)


def lines(child: subprocess.Popen[bytes], limit_s: float = LIMIT_S) -> Iterator[str]:
    """Yield the lines that a process prints. Fail the test if a line does not come in time."""
    assert child.stdout is not None
    pending = b""
    while True:
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            yield line.decode()
        readable, _, _ = select.select([child.stdout], [], [], limit_s)
        assert readable, f"no line came in time; so far {pending!r}"
        more = os.read(child.stdout.fileno(), 65_536)
        if not more:
            return
        pending += more


# --- rules for every command


def _check(done: Done) -> None:
    assert done.status != 70, done
    assert b"Traceback" not in done.err, done
    before_dashes = done.words[: done.words.index("--")] if "--" in done.words else done.words
    if "--json" in before_dashes:
        if done.words[0] != "watch":
            check_document(done)
        return
    for stream in (done.out, done.err):
        assert not steering(stream.decode()), done


def check_document(done: Done) -> None:
    """Check for one document on stdout and nothing on stderr. A code decides the status."""
    assert done.err == b"", done
    assert done.out.endswith(b"\n"), done
    assert done.out.isascii(), done
    document = done.json
    check_answer(document)
    if isinstance(document, dict) and "code" in document:
        assert {"error", "code", "message"} <= set(document), done
        assert done.status == EXIT_OF[document["code"]], done
    else:
        assert done.status in (0, 1), done


def check_answer(value: Any, path: str = "$") -> None:
    """Check that no member is null, and that times are RFC 3339 in UTC with milliseconds."""
    assert value is not None, f"{path} is null"
    if isinstance(value, list):
        for number, item in enumerate(value):
            check_answer(item, f"{path}[{number}]")
    if isinstance(value, dict):
        for name, item in value.items():
            check_answer(item, f"{path}.{name}")
            # Facts are shown as in the log. In a schema or a payload, members can have any name.
            if (name in TIMES or name.endswith("_at")) and not _foreign(path):
                assert isinstance(item, str), f"{path}.{name} is {item!r}"
                assert TIME.fullmatch(item), f"{path}.{name} is {item!r}"


def _foreign(path: str) -> bool:
    return any(name in path for name in (".outcome", ".payload", ".properties"))


def steering(text: str) -> list[str]:
    """Return the characters that could control a terminal or change the direction of text."""
    return STEERING.findall(text)
