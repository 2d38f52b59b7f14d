"""The parts of the embedded engine: the turnstile, the doorbell, the recognition of the file, and
presence. The tests start real processes and kill some of them."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO

import apsw
import pytest

from interlock.errors import (
    EngineUnavailable,
    NewerVersion,
    NotAWorkspace,
    OtherHost,
    Refusal,
    UnsafeFilesystem,
)
from interlock.stores import recognition
from interlock.stores.doorbell import Bell, Doorbell
from interlock.stores.presence import FRESH_MS, GLANCE_MS, Presence
from interlock.stores.recognition import APPLICATION_ID, FORMAT
from interlock.stores.sqlite import LogFile, SqliteEngine, Turnstile, clock_ms

LIMIT_S = 30.0


@contextmanager
def process(script: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Run `script` in a Python process, and kill the process at the end if it still runs."""
    command = [sys.executable, "-c", script, *map(str, words)]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def line_of(running: subprocess.Popen[str]) -> str:
    """Return the next line that the process prints. Processes print a line when they are ready."""
    pipe: IO[str] | None = running.stdout
    assert pipe is not None
    return pipe.readline().strip()


def eventually(condition: Callable[[], bool]) -> bool:
    """Return whether the condition became true within the limit. The condition itself waits."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


def within_limit(work: Callable[[], object]) -> bool:
    """Return whether blocking work ended within the limit."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return not thread.is_alive()


# --- the turnstile


COUNTING = """
import sys
from interlock.stores.sqlite import Turnstile
turnstile, path = Turnstile(sys.argv[1]), sys.argv[2]
for _ in range(int(sys.argv[3])):
    with turnstile.passed():
        with open(path) as file:
            count = int(file.read())
        with open(path, "w") as file:
            file.write(str(count + 1))
print("done", flush=True)
"""

HOLDING = """
import sys
from interlock.stores.sqlite import Turnstile
with Turnstile(sys.argv[1]).passed():
    print("held", flush=True)
    sys.stdin.read()
"""

QUEUEING = """
import sys
from interlock.stores.sqlite import Turnstile
turnstile = Turnstile(sys.argv[1])
print("queueing", flush=True)
with turnstile.passed():
    print("passed", flush=True)
"""


def test_processes_pass_the_turnstile_one_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with (
        process(COUNTING, tmp_path, counter, 300) as one,
        process(COUNTING, tmp_path, counter, 300) as two,
        process(COUNTING, tmp_path, counter, 300) as three,
    ):
        assert [line_of(running) for running in (one, two, three)] == ["done"] * 3
    assert counter.read_text() == "900"


def test_passing_without_waiting_fails_while_another_process_has_the_turn(
    tmp_path: Path,
) -> None:
    with closing(Turnstile(str(tmp_path))) as turnstile:
        with process(HOLDING, tmp_path) as holder:
            assert line_of(holder) == "held"
            with pytest.raises(BlockingIOError), turnstile.passed(wait=False):
                pass
            holder.communicate("")
        with turnstile.passed(wait=False):
            pass


def test_a_killed_process_loses_the_turn(tmp_path: Path) -> None:
    turnstile = Turnstile(str(tmp_path))

    def pass_through() -> None:
        with turnstile.passed():
            pass

    with process(HOLDING, tmp_path) as holder:
        assert line_of(holder) == "held"
        holder.send_signal(signal.SIGKILL)
        assert within_limit(pass_through)
    turnstile.close()


def test_a_process_killed_in_the_queue_does_not_block_the_next(tmp_path: Path) -> None:
    turnstile = Turnstile(str(tmp_path))
    with process(HOLDING, tmp_path) as holder, process(QUEUEING, tmp_path) as waiter:
        assert line_of(holder) == "held"
        assert line_of(waiter) == "queueing"
        with process(QUEUEING, tmp_path) as last:
            assert line_of(last) == "queueing"
            waiter.kill()
            waiter.wait(LIMIT_S)
            holder.communicate("")
            assert line_of(last) == "passed"
    with turnstile.passed(wait=False):
        pass
    turnstile.close()


def test_an_exception_releases_the_turn(tmp_path: Path) -> None:
    with closing(Turnstile(str(tmp_path))) as first, closing(Turnstile(str(tmp_path))) as second:
        with pytest.raises(KeyError), first.passed():
            raise KeyError
        with second.passed(wait=False):
            pass


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_turnstile_that_cannot_be_opened_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "turnstile.turn").mkdir()
    before = descriptors()
    for _ in range(5):
        with pytest.raises(IsADirectoryError):
            Turnstile(str(tmp_path))
    assert descriptors() == before


# --- the doorbell


LISTENING = """
import sys
from interlock.stores.doorbell import Doorbell
bell = Doorbell(sys.argv[1] + "/bells").listen()
print("listening", flush=True)
print("rung" if bell.wait(30) else "silent", flush=True)
sys.stdin.read()
"""


def test_an_old_draft_of_a_killed_listener_is_removed(tmp_path: Path) -> None:
    hung = tmp_path / "bells"
    hung.mkdir()
    os.mkfifo(hung / ".1-old")
    os.utime(hung / ".1-old", (0, 0))
    os.mkfifo(hung / ".2-being-made")
    with closing(Doorbell(str(hung)).listen()):
        assert {path.name for path in hung.iterdir() if path.name.startswith(".")} == {
            ".2-being-made"
        }


def bells(directory: Path) -> list[Path]:
    return sorted((directory / "bells").iterdir())


def test_ringing_reaches_every_listener(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    with closing(doorbell.listen()) as one, closing(doorbell.listen()) as two:
        assert not one.wait(0)
        doorbell.ring()
        assert one.wait(LIMIT_S)
        assert two.wait(LIMIT_S)
        assert not one.wait(0)


def test_ringing_reaches_another_process(tmp_path: Path) -> None:
    with process(LISTENING, tmp_path) as listener:
        assert line_of(listener) == "listening"
        Doorbell(str(tmp_path / "bells")).ring()
        assert line_of(listener) == "rung"


def test_ringing_reaches_a_listener_that_starts_after_idle_time(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    for _ in range(3):
        doorbell.ring()
    with closing(Doorbell(str(tmp_path / "bells")).listen()) as bell:
        doorbell.ring()
        assert bell.wait(LIMIT_S)


def test_several_rings_before_a_wait_count_as_one(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    with closing(doorbell.listen()) as bell:
        for _ in range(10):
            doorbell.ring()
        assert bell.wait(LIMIT_S)
        assert not bell.wait(0)


def test_closing_a_listener_removes_its_pipe(tmp_path: Path) -> None:
    bell = Doorbell(str(tmp_path / "bells")).listen()
    assert len(bells(tmp_path)) == 1
    bell.close()
    assert bells(tmp_path) == []


def test_the_next_ring_removes_the_pipe_of_a_killed_listener(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    with process(LISTENING, tmp_path) as listener, closing(doorbell.listen()) as bell:
        assert line_of(listener) == "listening"
        assert len(bells(tmp_path)) == 2
        listener.kill()
        listener.wait(LIMIT_S)
        doorbell.ring()
        assert len(bells(tmp_path)) == 1
        assert bell.wait(LIMIT_S)


def test_a_full_pipe_still_wakes_its_listener(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    with closing(doorbell.listen()) as bell:
        pipe = os.open(bells(tmp_path)[0], os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while os.write(pipe, b"!" * 4096):
                pass
        os.close(pipe)
        doorbell.ring()
        assert bell.wait(LIMIT_S)
        assert not bell.wait(0)
        doorbell.ring()
        assert bell.wait(LIMIT_S)


def test_other_files_among_the_bells_are_ignored(tmp_path: Path) -> None:
    doorbell = Doorbell(str(tmp_path / "bells"))
    (tmp_path / "bells" / "directory").mkdir(parents=True)
    (tmp_path / "bells" / "nowhere").symlink_to(tmp_path / "absent")
    with closing(doorbell.listen()) as bell:
        doorbell.ring()
        assert bell.wait(LIMIT_S)


def test_listeners_can_start_while_other_threads_ring_without_pause(tmp_path: Path) -> None:
    stop = threading.Event()

    def ring() -> None:
        doorbell = Doorbell(str(tmp_path / "bells"))
        while not stop.is_set():
            doorbell.ring()

    ringers = [threading.Thread(target=ring) for _ in range(2)]
    for ringer in ringers:
        ringer.start()
    doorbell = Doorbell(str(tmp_path / "bells"))
    troubles: list[str] = []
    try:
        for _ in range(1500):
            try:
                with closing(doorbell.listen()) as bell:
                    if not bell.wait(2.0):
                        troubles.append("no ring reached the bell")
            except OSError as trouble:
                troubles.append(repr(trouble))
            if len(troubles) == 3:
                break
    finally:
        stop.set()
        for ringer in ringers:
            ringer.join(LIMIT_S)
    assert troubles == []


def appended(file: LogFile, name: str) -> None:
    with file.writing() as db:
        db.execute("INSERT OR REPLACE INTO file_meta VALUES (?, 'x')", (name,))


def test_a_commit_is_noticed_by_another_file_at_once(tmp_path: Path) -> None:
    with (
        closing(LogFile(str(tmp_path))) as writer,
        closing(LogFile(str(tmp_path))) as reader,
        closing(reader.listen()) as listener,
    ):
        assert not listener.wait(0)
        appended(writer, "one")
        assert listener.wait(LIMIT_S)
        assert not listener.wait(0)


def test_a_commit_without_a_ring_is_noticed_by_polling(tmp_path: Path) -> None:
    with (
        closing(LogFile(str(tmp_path))) as writer,
        closing(LogFile(str(tmp_path))) as reader,
        closing(reader.listen()) as listener,
    ):
        for bell in bells(tmp_path):
            bell.unlink()
        appended(writer, "one")
        assert eventually(lambda: listener.wait(0.05))


LISTENING_WITH_MANY_FILES = """
import os, resource, sys
from interlock.stores.doorbell import Doorbell
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
others = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
bell = Doorbell(sys.argv[1] + "/bells").listen()
print(bell.wait(0), flush=True)
print("rung" if bell.wait(30) else "silent", flush=True)
"""


@pytest.mark.skipif(
    0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200,
    reason="the limit of open files is too low",
)
def test_ringing_reaches_a_process_with_many_open_files(tmp_path: Path) -> None:
    with process(LISTENING_WITH_MANY_FILES, tmp_path) as listener:
        assert line_of(listener) == "False"
        Doorbell(str(tmp_path / "bells")).ring()
        assert line_of(listener) == "rung"


def test_a_turn_that_changes_nothing_does_not_ring(tmp_path: Path) -> None:
    with (
        closing(LogFile(str(tmp_path))) as file,
        closing(Doorbell(str(tmp_path / "bells")).listen()) as bell,
    ):
        with file.writing():
            pass
        assert not bell.wait(0)


def test_a_commit_succeeds_even_if_no_bell_can_be_rung(tmp_path: Path) -> None:
    with closing(LogFile(str(tmp_path))) as file:
        shutil.rmtree(tmp_path / "bells", ignore_errors=True)
        appended(file, "one")
        (tmp_path / "bells").write_text("not a directory")
        appended(file, "two")
        with file.reading() as db:
            found = db.execute("SELECT name FROM file_meta WHERE value = 'x'").fetchall()
    assert found == [("one",), ("two",)]


def test_a_listener_without_a_bell_still_notices_commits(tmp_path: Path) -> None:
    with closing(LogFile(str(tmp_path))) as writer, closing(LogFile(str(tmp_path))) as reader:
        shutil.rmtree(tmp_path / "bells", ignore_errors=True)
        (tmp_path / "bells").write_text("not a directory")
        with closing(reader.listen()) as listener:
            appended(writer, "one")
            assert eventually(lambda: listener.wait(0.05))


# --- which filesystem


def mounts(*rows: tuple[str, str]) -> str:
    """Return a mount table in the format of this system, from mount points and types."""
    if sys.platform == "darwin":
        return "\n".join(f"source on {point} ({kind}, nodev)" for point, kind in rows)
    lines = []
    for point, kind in rows:
        for character in "\\ \t\n":
            point = point.replace(character, f"\\{ord(character):03o}")
        lines.append(f"source {point} {kind} rw,relatime 0 0")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_a_network_filesystem_is_recognized(kind: str) -> None:
    table = mounts(("/", "ext4"), ("/srv/team", kind))
    assert recognition.network_filesystem("/srv/team/work", table) == kind
    assert recognition.network_filesystem("/srv/team", table) == kind


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "apfs", "tmpfs", "overlay", "zfs"])
def test_a_local_filesystem_gives_none(kind: str) -> None:
    assert recognition.network_filesystem("/srv/team/work", mounts(("/", kind))) is None


def test_the_deepest_mount_decides() -> None:
    table = mounts(("/", "nfs"), ("/srv", "ext4"), ("/srv/team", "nfs4"), ("/srv/team/x", "xfs"))
    assert recognition.network_filesystem("/elsewhere", table) == "nfs"
    assert recognition.network_filesystem("/srv/other", table) is None
    assert recognition.network_filesystem("/srv/team/work", table) == "nfs4"
    assert recognition.network_filesystem("/srv/team/x/work", table) is None


def test_the_order_of_the_table_does_not_decide() -> None:
    table = mounts(("/srv/team", "nfs4"), ("/srv", "ext4"), ("/", "ext4"))
    assert recognition.network_filesystem("/srv/team/work", table) == "nfs4"


def test_the_last_mount_on_a_mount_point_decides() -> None:
    table = mounts(("/srv", "nfs"), ("/srv", "ext4"))
    assert recognition.network_filesystem("/srv/work", table) is None


def test_a_path_that_only_starts_like_a_mount_point_is_outside_it() -> None:
    table = mounts(("/", "ext4"), ("/srv/team", "nfs"))
    assert recognition.network_filesystem("/srv/teamwork", table) is None


@pytest.mark.parametrize("name", ["our team", "tab\there", "back\\slash", r"\040", "two  blanks"])
def test_a_mount_with_strange_characters_in_its_name_is_found(name: str) -> None:
    table = mounts(("/", "ext4"), (f"/srv/{name}", "nfs"))
    assert recognition.network_filesystem(f"/srv/{name}/work", table) == "nfs"
    assert recognition.network_filesystem("/srv/other", table) is None


def test_a_symbolic_link_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    table = mounts(("/", "ext4"), (os.path.realpath(tmp_path / "there"), "nfs"))
    assert recognition.network_filesystem(str(tmp_path / "link" / "work"), table) == "nfs"


@pytest.mark.parametrize("table", ["", "\n\n", "nonsense", "one two"])
def test_an_unreadable_mount_table_refuses_no_directory(table: str) -> None:
    if sys.platform != "darwin" or table:
        assert recognition.network_filesystem("/srv", table) is None


@pytest.fixture
def on_a_network_filesystem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every filesystem of this machine count as a network filesystem."""
    kinds = {kind for _, kind in recognition.mount_points()}
    monkeypatch.setattr(recognition, "NETWORK_FILESYSTEMS", frozenset(kinds))


@pytest.mark.usefixtures("on_a_network_filesystem")
def test_no_log_is_created_on_a_network_filesystem(tmp_path: Path) -> None:
    with pytest.raises(UnsafeFilesystem):
        LogFile(str(tmp_path))
    found = tmp_path / "log.db"
    assert not found.exists() or found.stat().st_size == 0


def test_a_log_that_was_moved_to_a_network_filesystem_is_refused(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    LogFile(str(tmp_path)).close()
    change_meta(tmp_path, device="another")
    request.getfixturevalue("on_a_network_filesystem")
    with pytest.raises(UnsafeFilesystem):
        LogFile(str(tmp_path))
    assert meta(tmp_path)["device"] == "another"


# --- which host used the file


def change_meta(directory: Path, **values: str) -> None:
    with closing(apsw.Connection(str(directory / "log.db"))) as db:
        for name, value in values.items():
            db.execute("UPDATE file_meta SET value = ? WHERE name = ?", (value, name))
            assert db.changes() == 1


def meta(directory: Path) -> dict[str, str]:
    with closing(apsw.Connection(str(directory / "log.db"))) as db:
        return {
            str(name): str(value) for name, value in db.execute("SELECT name, value FROM file_meta")
        }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A closed workspace with an empty log."""
    with closing(LogFile(str(tmp_path))) as file:
        SqliteEngine(file)
    return tmp_path


def test_a_file_used_on_another_host_is_refused_with_the_name_of_that_host(
    workspace: Path,
) -> None:
    change_meta(workspace, host="another", boot="another", name="far-away")
    before = meta(workspace)
    with pytest.raises(OtherHost, match="far-away") as refused:
        LogFile(str(workspace))
    assert refused.value.members["host"] == "far-away"
    assert "init --adopt" in refused.value.message
    assert meta(workspace) == before


def test_a_refused_file_is_closed(workspace: Path) -> None:
    change_meta(workspace, host="another", boot="another")
    before = descriptors()
    refusals = []
    for _ in range(5):
        with pytest.raises(OtherHost) as refused:
            LogFile(str(workspace))
        refusals.append(refused)  # keeps the objects of its stack frames alive
    assert descriptors() == before


def test_the_same_boot_under_another_hostname_is_the_same_machine(workspace: Path) -> None:
    change_meta(workspace, host="another", name="container-7")
    LogFile(str(workspace)).close()
    assert meta(workspace)["host"] == recognition.host_id()


def test_the_same_host_after_a_reboot_is_accepted(workspace: Path) -> None:
    change_meta(workspace, boot="yesterday")
    LogFile(str(workspace)).close()
    assert meta(workspace)["boot"] == recognition.boot_id()


def test_an_adopted_file_belongs_to_this_host(workspace: Path) -> None:
    change_meta(workspace, host="another", boot="another")
    LogFile(str(workspace), adopt=True).close()
    LogFile(str(workspace)).close()
    assert meta(workspace)["host"] == recognition.host_id()


def test_a_file_without_a_record_of_its_host_can_be_adopted(workspace: Path) -> None:
    with closing(apsw.Connection(str(workspace / "log.db"))) as db:
        db.execute("DELETE FROM file_meta")
    with suppress(Refusal):
        LogFile(str(workspace)).close()
    LogFile(str(workspace), adopt=True).close()
    LogFile(str(workspace)).close()


def test_a_newer_format_is_refused_and_left_unchanged(workspace: Path) -> None:
    with closing(apsw.Connection(str(workspace / "log.db"))) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = (workspace / "log.db").read_bytes()
    with pytest.raises(NewerVersion, match="Upgrade"):
        LogFile(str(workspace))
    assert (workspace / "log.db").read_bytes() == before


def foreign_database(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(
            "CREATE TABLE bookmarks(url); INSERT INTO bookmarks VALUES ('https://a.example')"
        )


def foreign_wal_database(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA journal_mode = WAL")
    foreign_database(path)


def foreign_id(path: Path) -> None:
    foreign_database(path)
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID + 1}")


def foreign_empty_database(path: Path) -> None:
    """Make a database of another program that has no tables yet."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("PRAGMA application_id = 1234; PRAGMA user_version = 7")


def no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 1000)


def cut_off_database(path: Path) -> None:
    foreign_database(path)
    path.write_bytes(path.read_bytes()[:700])


@pytest.mark.parametrize(
    "make",
    [
        foreign_database,
        foreign_wal_database,
        foreign_id,
        foreign_empty_database,
        no_database,
        cut_off_database,
    ],
)
def test_a_foreign_file_is_refused_and_left_unchanged(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "log.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises((NotAWorkspace, Refusal)) as refused:
        LogFile(str(tmp_path))
    assert refused.value.code in ("NOT_A_WORKSPACE", "LOG_DAMAGED")
    assert path.read_bytes() == before


def test_a_directory_that_cannot_be_used_is_refused_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineUnavailable):
        LogFile(str(tmp_path / "file"))
    with pytest.raises(EngineUnavailable):
        LogFile(str(tmp_path / "absent"))
    (tmp_path / "log.db").mkdir()
    with pytest.raises(EngineUnavailable):
        LogFile(str(tmp_path))


def test_closing_twice_closes_no_other_files(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path))
    file.close()
    others = [os.open(tmp_path / "log.db-other", os.O_RDWR | os.O_CREAT) for _ in range(8)]
    with suppress(Refusal):
        file.close()
    for other in others:
        os.close(other)


# --- a log that was only partly created


def only_a_file(directory: Path) -> None:
    (directory / "log.db").touch()


def only_the_journal_mode(directory: Path) -> None:
    with closing(apsw.Connection(str(directory / "log.db"))) as db:
        db.execute("PRAGMA journal_mode = WAL")


def only_the_marks(directory: Path) -> None:
    LogFile(str(directory)).close()


@pytest.mark.parametrize("half", [only_a_file, only_the_journal_mode, only_the_marks])
def test_a_partly_created_log_is_completed(tmp_path: Path, half: Callable[[Path], None]) -> None:
    half(tmp_path)
    with closing(LogFile(str(tmp_path))) as file:
        engine = SqliteEngine(file)
        with engine.turn():
            assert engine.head(file.writer).seq == 0
        with file.reading() as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert set(meta(tmp_path)) == {"host", "boot", "device", "name"}


MAKING = """
import sys
from interlock.stores.sqlite import LogFile
from interlock.stores.sqlite import SqliteEngine
print("ready", flush=True)
sys.stdin.readline()
SqliteEngine(LogFile(sys.argv[1])).file.close()
print("made", flush=True)
"""


def test_processes_that_create_a_log_at_once_create_one_log(tmp_path: Path) -> None:
    for number in range(3):
        directory = tmp_path / str(number)
        directory.mkdir()
        with (
            process(MAKING, directory) as one,
            process(MAKING, directory) as two,
            process(MAKING, directory) as three,
        ):
            makers = (one, two, three)
            assert [line_of(maker) for maker in makers] == ["ready"] * 3
            for maker in makers:
                assert maker.stdin is not None
                maker.stdin.write("\n")
                maker.stdin.flush()
            assert [line_of(maker) for maker in makers] == ["made"] * 3


# --- presence


PRESENT = """
import sys
from interlock.stores.presence import Presence
presence = Presence(sys.argv[1])
with presence.listening(sys.argv[2]):
    print("listening", flush=True)
    sys.stdin.read()
"""


class Looks:
    """Reads presence at increasing times, so that no answer comes from the cache."""

    def __init__(self, directory: Path) -> None:
        self.presence = Presence(str(directory))
        self.now = clock_ms()

    def reach(self, *senders: str) -> str:
        self.now += GLANCE_MS
        return self.presence.reach(senders, self.now)[0]


def test_a_sender_that_was_never_seen_is_unknown(tmp_path: Path) -> None:
    assert Looks(tmp_path).presence.reach(["otto"], clock_ms()) == ("unknown", None)
    assert Looks(tmp_path).reach() == "unknown"


def test_a_sender_that_acted_recently_waits_and_later_is_offline(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    looks.presence.touch("otto")
    state, seen = looks.presence.reach(["otto"], looks.now)
    assert state == "waits"
    assert seen is not None
    assert abs(seen - clock_ms()) < 60_000
    looks.now = seen + FRESH_MS
    assert looks.reach("otto") == "offline"


def test_a_listening_sender_can_be_woken_until_its_process_ends(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    with process(PRESENT, tmp_path, "otto-cli") as listener:
        assert line_of(listener) == "listening"
        assert looks.reach("otto-cli") == "wakes"
        assert looks.reach("vera") == "unknown"
        assert looks.reach("vera", "otto-cli") == "wakes"
        listener.send_signal(signal.SIGKILL)
        listener.wait(LIMIT_S)
        assert looks.reach("otto-cli") != "wakes"


def test_a_sender_stays_reachable_while_one_of_two_listeners_remains(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    with looks.presence.listening("otto"):
        with Presence(str(tmp_path)).listening("otto"):
            assert looks.reach("otto") == "wakes"
        assert looks.reach("otto") == "wakes"
    assert looks.reach("otto") != "wakes"


def test_a_cached_answer_expires_after_a_moment(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    assert looks.presence.reach(["otto"], 1000) == ("unknown", None)
    Presence(str(tmp_path)).touch("otto")  # another process
    assert looks.presence.reach(["otto"], 1000 + GLANCE_MS - 1) == ("unknown", None)
    assert looks.presence.reach(["otto"], 1000 + GLANCE_MS)[0] != "unknown"


def test_a_touch_by_this_process_is_seen_at_once(tmp_path: Path) -> None:
    looks = Looks(tmp_path)
    assert looks.presence.reach(["otto"], 1000) == ("unknown", None)
    looks.presence.touch("otto")
    assert looks.presence.reach(["otto"], 1001)[0] != "unknown"


def test_sender_names_are_not_used_as_paths(tmp_path: Path) -> None:
    directory = tmp_path / "workspace"
    directory.mkdir()
    looks = Looks(directory)
    for name in ("../escaped", "/etc/passwd", "a/b", "..", "ünïcode", "kim@example.org"):
        looks.presence.touch(name)
        assert looks.reach(name) != "unknown"
    assert [path.name for path in tmp_path.iterdir()] == ["workspace"]


def test_concurrent_readers_do_not_count_as_listeners(tmp_path: Path) -> None:
    with Presence(str(tmp_path)).listening("otto"):
        pass
    mistaken: list[str] = []

    def look() -> None:
        looks = Looks(tmp_path)
        for _ in range(8000):
            if mistaken or looks.reach("otto") == "wakes":
                mistaken.append("otto")
                return

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert mistaken == []


def test_presence_that_cannot_be_written_raises_no_error(tmp_path: Path) -> None:
    (tmp_path / "presence").write_text("not a directory")
    looks = Looks(tmp_path)
    looks.presence.touch("otto")
    assert looks.reach("otto") == "unknown"
    with looks.presence.listening("otto"):
        pass


def test_closing_a_bell_removes_its_own_pipe(tmp_path: Path) -> None:
    with closing(Bell(str(tmp_path), "pipe")) as bell:
        assert not bell.wait(-1)
    assert list(tmp_path.iterdir()) == []
