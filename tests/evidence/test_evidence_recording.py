"""Recording commands that end normally: their output is shown live and stored with its digest."""

import hashlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest

from interlock.errors import Usage
from interlock.evidence import Limits, NotStarted, Recorded, record
from interlock.evidence.recording import MAX_WORDS
from interlock.rooms.mail import payloads

TOKEN = "gh" + "p_" + "aB3" * 12


class Seen:
    """The output that a run showed, and the output to store."""

    def __init__(self, recorded: Recorded, out: bytes, err: bytes) -> None:
        self.payload: dict[str, Any] = payloads.check("evidence", recorded.payload)
        self.status = recorded.exit_status
        self.out, self.err = out, err
        with open(recorded.output, "rb") as file:
            self.stored = file.read()
        assert self.payload["output"] == {
            "sha256": hashlib.sha256(self.stored).hexdigest(),
            "size": len(self.stored),
        }


def seen(command: Sequence[str], limits: Limits | None = None) -> Seen:
    out, err = io.BytesIO(), io.BytesIO()
    with record(command, limits, out=out, err=err) as recorded:
        found = Seen(recorded, out.getvalue(), err.getvalue())
    assert not os.path.exists(recorded.output)
    return found


def shell(script: str, limits: Limits | None = None) -> Seen:
    return seen(["sh", "-c", script], limits)


@pytest.fixture(autouse=True)
def alone(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory for the test, and a directory for temporary files that must be empty at the
    end."""
    place, spare = os.path.join(tmp_path, "place"), os.path.join(tmp_path, "spare")
    os.mkdir(place)
    os.mkdir(spare)
    monkeypatch.chdir(place)
    monkeypatch.setattr(tempfile, "tempdir", spare)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.path.realpath(tmp_path))


def left_over() -> list[str]:
    return os.listdir(tempfile.gettempdir())


def test_a_run_is_shown_live_and_recorded_with_its_exit_code() -> None:
    ran = shell("echo out; echo err >&2; exit 3")
    assert (ran.out, ran.err, ran.status) == (b"out\n", b"err\n", 3)
    assert sorted(ran.stored.splitlines()) == [b"err", b"out"]
    assert ran.payload["command"] == ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert ran.payload["exit_code"] == 3
    assert set(ran.payload) == {"kind", "command", "cwd", "exit_code", "duration_ms", "output"}
    assert left_over() == []


def test_streams_to_the_same_file_keep_their_exact_order() -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; printf x; done"
    with tempfile.TemporaryFile() as shown:
        with (
            open(shown.fileno(), "wb", closefd=False) as out,
            open(os.dup(shown.fileno()), "wb") as err,
            record(["sh", "-c", script], out=out, err=err) as recorded,
            open(recorded.output, "rb") as file,
        ):
            stored = file.read()
        shown.seek(0)
        assert shown.read() == stored
    assert stored == b"x".join(b"out %d\nerr %d\n" % (i, i) for i in range(1, 10)) + b"x"


def test_output_bytes_are_shown_and_stored_unchanged() -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    ran = seen([sys.executable, "-c", program])
    assert ran.out == ran.stored == bytes(range(256)) * 1000


def test_a_run_that_a_signal_ended_has_ended_by_signal() -> None:
    ran = shell("kill -SEGV $$")
    assert (ran.status, ran.payload["exit_code"]) == (139, 139)
    assert ran.payload["ended_by"] == "signal"
    assert "interrupted" not in ran.payload


def test_a_command_that_cannot_start_leaves_no_files() -> None:
    out, err = io.BytesIO(), io.BytesIO()
    for word, status, why in (
        ("no-such-command-here", 127, "command not found"),
        ("./nowhere", 127, "command not found"),
        (os.getcwd(), 126, "Permission denied"),
    ):
        for limits in (Limits(), Limits(memory_bytes=1 << 30)):
            with pytest.raises(NotStarted, match=f"{word}: {why}") as refused:
                record([word], limits, out=out, err=err)
            assert refused.value.status == status
    assert left_over() == []


@pytest.mark.parametrize(
    ("command", "limits"),
    [
        ([], Limits()),
        ([""], Limits()),
        (["a\0b"], Limits()),
        (["true"], Limits(time_s=0)),
        (["true"], Limits(output_bytes=-1)),
        (["true"], Limits(memory_bytes=5)),
    ],
)
def test_invalid_arguments_are_refused_before_the_command_runs(
    command: list[str], limits: Limits
) -> None:
    with pytest.raises(Usage):
        record(command, limits, out=io.BytesIO(), err=io.BytesIO())
    assert left_over() == []


def test_output_above_the_limit_is_cut_in_the_middle_with_a_note() -> None:
    ran = shell("printf 0123456789abcdef", Limits(output_bytes=6))
    assert ran.out == b"0123456789abcdef"
    assert ran.stored == b"012\n[interlock: 10 bytes are not stored]\ndef"
    assert ran.payload["produced"] == 16
    whole = shell("printf 012345", Limits(output_bytes=6))
    assert whole.stored == b"012345"
    assert "produced" not in whole.payload


def test_secrets_are_masked_in_stored_output_and_not_in_live_output() -> None:
    ran = shell(f"echo {TOKEN}; echo again {TOKEN} >&2")
    assert (ran.out, ran.err) == (f"{TOKEN}\n".encode(), f"again {TOKEN}\n".encode())
    assert sorted(ran.stored.splitlines()) == [b"[masked]", b"again [masked]"]
    assert ran.payload["command"] == ["sh", "-c", "echo [masked]; echo again [masked] >&2"]
    assert ran.payload["masked"] == 4


def test_the_counts_of_a_test_runner_are_recorded() -> None:
    ran = shell("echo '==== 1 failed, 2 passed in 0.03s ===='; exit 1")
    assert ran.payload["tests"] == {"failed": 1, "passed": 2}


def test_the_command_gets_standard_input() -> None:
    program = (
        "import io, sys; from interlock.evidence import record\n"
        "record(['cat'], out=sys.stdout.buffer, err=sys.stderr.buffer).close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"typed\n", capture_output=True, check=True
    )
    assert done.stdout == b"typed\n"


def test_a_command_with_too_many_words_is_recorded_as_one_line() -> None:
    ran = seen(["true", *["a b"] * MAX_WORDS])
    assert ran.payload["command"] == "true" + " 'a b'" * MAX_WORDS


def test_words_and_directories_in_invalid_unicode_are_recorded_as_text() -> None:
    os.mkdir(b"odd\xff")
    os.chdir(b"odd\xff")
    ran = seen(["true", os.fsdecode(b"\xff")])
    assert ran.payload["command"] == ["true", "\ufffd"]
    assert ran.payload["cwd"] == "odd\ufffd"


def test_a_closed_reader_does_not_stop_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with (
        open(writing, "wb") as out,
        record(["sh", "-c", "echo one; echo two"], out=out, err=io.BytesIO()) as recorded,
        open(recorded.output, "rb") as file,
    ):
        assert file.read() == b"one\ntwo\n"
        assert recorded.exit_status == 0


def test_a_nonblocking_stream_gets_all_output() -> None:
    """Some programs leave a terminal or pipe in non-blocking mode, in which a write may fail."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    size = 500_000
    reader = subprocess.Popen(["wc", "-c"], stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    with open(writing, "wb") as out:
        record(["head", "-c", str(size), "/dev/zero"], out=out, err=io.BytesIO()).close()
    assert reader.communicate()[0].strip() == str(size).encode()


def test_an_unusable_temporary_directory_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.path.join(os.getcwd(), "nowhere"))
    with pytest.raises(Usage, match="TMPDIR"):
        shell("true")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_ends_the_command_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def onto_full_disk(prefix: str) -> str:
        folder = os.path.join(os.getcwd(), prefix)
        os.mkdir(folder)
        os.symlink("/dev/full", os.path.join(folder, "output"))
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", onto_full_disk)
    with pytest.raises(Usage, match="No space left"):
        shell("while :; do echo and on and on; done")
    assert os.listdir(".") == []


def test_the_memory_limit_applies_to_the_command() -> None:
    program = "x = bytearray(400 << 20); print(len(x))"
    limited = seen([sys.executable, "-c", program], Limits(memory_bytes=300 << 20))
    assert b"MemoryError" in limited.stored
    assert limited.status == 1
    free = seen([sys.executable, "-c", program], Limits(memory_bytes=4 << 30))
    assert free.out == b"%d\n" % (400 << 20)
    assert free.payload["command"] == [sys.executable, "-c", program]


def git(*words: str) -> str:
    named = ["-c", "user.name=Otto", "-c", "user.email=otto@example.org"]
    done = subprocess.run(["git", *named, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed() -> tuple[str, str]:
    git("init", "--quiet")
    os.mkdir("sub")
    with open("sub/a.txt", "w", encoding="utf-8") as file:
        file.write("one\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}")


def test_in_a_repository_commit_tree_and_directory_are_recorded() -> None:
    commit, tree = committed()
    ran = seen(["true"])
    assert (ran.payload["commit"], ran.payload["tree"]) == (commit, tree)
    assert (ran.payload["dirty"], ran.payload["cwd"]) == (False, ".")
    os.chdir("sub")
    assert seen(["true"]).payload["cwd"] == "sub"


def test_the_recorded_tree_is_the_one_at_the_start_of_the_run() -> None:
    commit, tree = committed()
    changed = shell("echo two > sub/a.txt")
    assert (changed.payload["commit"], changed.payload["tree"]) == (commit, tree)
    assert changed.payload["dirty"] is True
    dirty = shell("git checkout --quiet -- .")
    assert dirty.payload["tree"] != tree
    assert dirty.payload["dirty"] is True
    beside = shell("echo report > report.txt")
    assert (beside.payload["tree"], beside.payload["dirty"]) == (tree, False)


def test_outside_a_repository_only_the_directorys_name_is_recorded() -> None:
    ran = seen(["true"])
    assert ran.payload["cwd"] == "place"
    assert not {"commit", "tree", "dirty"} & set(ran.payload)


def test_a_deleted_working_directory_is_refused() -> None:
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    with pytest.raises(Usage, match="no longer exists"):
        seen(["true"])


def test_import_does_not_load_pydantic() -> None:
    program = "import sys, interlock.evidence; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
