"""A run in a file: whole and private on the way out, checked to the last byte on the way in."""

import base64
import fcntl
import hashlib
import json
import os
import stat
from typing import Any

import pytest

from interlock.errors import DigestMismatch, InvalidMessage, Refusal, TooLarge, Usage
from interlock.evidence import spool
from interlock.rooms.mail import payloads

OUTPUT = bytes(range(256)) * 9000 + b"end"
KEY = spool.new_key()


def payload(output: bytes = OUTPUT, **more: Any) -> dict[str, Any]:
    return {
        "kind": "run",
        "command": ["make", "t\u00e9st"],
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 12,
        "output": {"sha256": hashlib.sha256(output).hexdigest(), "size": len(output)},
    } | more


def spooled(directory: os.PathLike[str], output: bytes = OUTPUT, **more: Any) -> str:
    source = os.path.join(directory, "output")
    with open(source, "wb") as file:
        file.write(output)
    path = spool.write(payload(output, **more), source, KEY, str(directory))
    os.unlink(source)
    return path


def altered(path: str, **changes: Any) -> str:
    with open(path, encoding="utf-8") as file:
        contents = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(contents | changes, file)
    return path


@pytest.mark.parametrize("output", [b"", b"x", b"ab", b"abc", OUTPUT])
def test_a_run_comes_out_as_it_went_in_and_is_marked(
    tmp_path: os.PathLike[str], output: bytes
) -> None:
    path = spooled(tmp_path, output, task_id="T-1")
    key, found, bytes_found = spool.read(path)
    assert key == KEY
    assert found == payload(output, task_id="T-1", spooled=True)
    assert bytes_found == output
    assert payloads.check("evidence", found) is found


def test_no_two_runs_have_one_key() -> None:
    assert len({spool.new_key() for _ in range(100)}) == 100


# --- handing over


@pytest.fixture
def usual(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> os.PathLike[str]:
    """Where runs of the session s-1 wait."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_SESSION", "s-1")
    return tmp_path


def test_runs_wait_in_the_order_in_which_they_were_made(usual: os.PathLike[str]) -> None:
    paths = [spooled(usual, b"x") for _ in range(3)]
    for at, path in enumerate(reversed(paths)):
        os.utime(path, (at, at))
    assert spool.waiting("s-1") == paths[::-1]
    assert spool.waiting("s-2") == []


def test_a_run_that_goes_while_one_looks_is_left_out(
    usual: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, path = spooled(usual, b"x"), spooled(usual, b"y")
    seen = os.listdir(usual)
    os.unlink(gone)
    monkeypatch.setattr("os.listdir", lambda _: seen)
    assert spool.waiting("s-1") == [path]


def test_one_at_a_time_has_a_run_in_hand_and_nobody_has_one_that_is_gone(
    tmp_path: os.PathLike[str],
) -> None:
    path = spooled(tmp_path, b"x")
    with spool.in_hand(path) as is_mine, spool.in_hand(path) as is_others:
        assert (is_mine, is_others) == (True, False)
    with spool.in_hand(path) as is_mine:
        assert is_mine
    os.unlink(path)
    with spool.in_hand(path) as is_mine:
        assert not is_mine


def test_who_opened_a_run_that_was_handed_over_then_has_nothing_in_hand(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spooled(tmp_path, b"x")
    flock = fcntl.flock

    def handed_over(file: int, how: int) -> None:
        os.unlink(path)
        flock(file, how)

    monkeypatch.setattr("fcntl.flock", handed_over)
    with spool.in_hand(path) as is_mine:
        assert not is_mine


def test_a_link_is_nobodys_run(tmp_path: os.PathLike[str]) -> None:
    link = os.path.join(tmp_path, "link.json")
    os.symlink(spooled(tmp_path, b"x"), link)
    with spool.in_hand(link) as is_mine:
        assert not is_mine


# --- reading


def test_the_file_is_private_and_alone(tmp_path: os.PathLike[str]) -> None:
    path = spooled(tmp_path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    assert path != spooled(tmp_path)


def test_without_a_directory_the_system_says_where(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = os.path.join(tmp_path, "output")
    with open(source, "wb") as file:
        file.write(OUTPUT)
    assert os.path.dirname(spool.write(payload(), source, KEY)) == str(tmp_path)


def test_a_directory_that_cannot_be_written_to_is_refused_and_nothing_is_left(
    tmp_path: os.PathLike[str],
) -> None:
    source = os.path.join(tmp_path, "output")
    with open(source, "wb") as file:
        file.write(OUTPUT)
    with pytest.raises(Usage, match="Name a directory"):
        spool.write(payload(), source, KEY, os.path.join(tmp_path, "nowhere"))
    with pytest.raises(TypeError):
        spool.write(payload(strange=object()), source, KEY, str(tmp_path))
    assert os.listdir(tmp_path) == ["output"]


def test_output_larger_than_a_spool_file_holds_is_refused(tmp_path: os.PathLike[str]) -> None:
    source = os.path.join(tmp_path, "output")
    with open(source, "wb") as file:
        file.truncate(spool.MAX_OUTPUT_BYTES + 1)
    with pytest.raises(TooLarge):
        spool.write(payload(), source, KEY, str(tmp_path))
    with pytest.raises(Usage):
        spool.read(source)
    with open(source, "wb") as file:
        file.truncate(spool.MAX_OUTPUT_BYTES * 2)
    with pytest.raises(TooLarge):
        spool.read(source)


def test_another_output_than_the_recorded_is_refused(tmp_path: os.PathLike[str]) -> None:
    path = spooled(tmp_path, b"0 passed")
    with pytest.raises(DigestMismatch):
        spool.read(altered(path, output=base64.b64encode(b"9 passed").decode()))
    with pytest.raises(DigestMismatch):
        spool.read(altered(path, output=""))
    lied = payload(b"0 passed") | {"output": payload(b"0 passed")["output"] | {"size": 9}}
    with pytest.raises(DigestMismatch):
        spool.read(altered(spooled(tmp_path, b"0 passed"), payload=lied))


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": {"kind": "note", "text": "it works"}},
        {"payload": []},
        {"payload": payload() | {"colour": "red"}},
        {"payload": payload() | {"exit_code": "0"}},
        {"payload": {"kind": "run"}},
        {"output": "***"},
        {"output": None},
        {"output": "\u00e9"},
        {"form": "interlock-run-2"},
        {"form": None},
        {"key": None},
        {"key": "run-7"},
        {"key": "k" * 36},
        {"more": 1},
    ],
)
def test_a_file_of_another_shape_is_refused_with_what_to_do(
    tmp_path: os.PathLike[str], changes: dict[str, Any]
) -> None:
    path = altered(spooled(tmp_path), **changes)
    with pytest.raises((Usage, InvalidMessage)):
        spool.read(path)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: os.PathLike[str]) -> None:
    path = spooled(tmp_path, b"short")
    with open(path, "rb") as file:
        contents = file.read()
    for size in range(len(contents) - 1):  # the last byte is the end of the line
        with open(path, "wb") as file:
            file.write(contents[:size])
        with pytest.raises(Refusal):
            spool.read(path)


@pytest.mark.parametrize(
    "contents",
    [
        b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"form": NaN}', b"9" * 10_000,
        b'{"form": "interlock-run-1", "form": "interlock-run-1", "payload": {}, "output": ""}',
    ],
)  # fmt: skip
def test_whatever_a_file_holds_it_is_refused_and_nothing_breaks(
    tmp_path: os.PathLike[str], contents: bytes
) -> None:
    path = os.path.join(tmp_path, "run.json")
    with open(path, "wb") as file:
        file.write(contents)
    with pytest.raises(Usage, match="no spool file"):
        spool.read(path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: os.PathLike[str]) -> None:
    pipe = os.path.join(tmp_path, "pipe")
    os.mkfifo(pipe)
    for path in (pipe, str(tmp_path), os.path.join(tmp_path, "nowhere"), os.devnull, "a\0b"):
        with pytest.raises(Usage):
            spool.read(path)
