"""Spool files: complete and private when written, and fully checked when read."""

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
def test_reading_returns_the_written_run_marked_as_spooled(
    tmp_path: os.PathLike[str], output: bytes
) -> None:
    path = spooled(tmp_path, output, task_id="T-1")
    key, found, bytes_found = spool.read(path)
    assert key == KEY
    assert found == payload(output, task_id="T-1", spooled=True)
    assert bytes_found == output
    assert payloads.check("evidence", found) is found


def test_keys_are_unique() -> None:
    assert len({spool.new_key() for _ in range(100)}) == 100


# --- submitting


@pytest.fixture
def usual(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> os.PathLike[str]:
    """The default directory, in a shell of the session s-1."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_SESSION", "s-1")
    return tmp_path


def test_the_files_of_a_session_are_listed_oldest_first(usual: os.PathLike[str]) -> None:
    paths = [spooled(usual, b"x") for _ in range(3)]
    for at, path in enumerate(reversed(paths)):
        os.utime(path, (at, at))
    assert spool.waiting("s-1") == paths[::-1]
    assert spool.waiting("s-2") == []


def test_a_file_that_is_deleted_during_the_listing_is_omitted(
    usual: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, path = spooled(usual, b"x"), spooled(usual, b"y")
    seen = os.listdir(usual)
    os.unlink(gone)
    monkeypatch.setattr("os.listdir", lambda _: seen)
    assert spool.waiting("s-1") == [path]


def test_one_caller_at_a_time_gets_the_lock_and_none_gets_it_for_a_deleted_file(
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


def test_a_file_that_is_deleted_before_the_lock_gives_no_lock(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spooled(tmp_path, b"x")
    flock = fcntl.flock

    def delete_then_lock(file: int, how: int) -> None:
        os.unlink(path)
        flock(file, how)

    monkeypatch.setattr("fcntl.flock", delete_then_lock)
    with spool.in_hand(path) as is_mine:
        assert not is_mine


def test_a_symbolic_link_gives_no_lock(tmp_path: os.PathLike[str]) -> None:
    link = os.path.join(tmp_path, "link.json")
    os.symlink(spooled(tmp_path, b"x"), link)
    with spool.in_hand(link) as is_mine:
        assert not is_mine


# --- reading


def test_the_file_is_private_and_no_temporary_file_remains(tmp_path: os.PathLike[str]) -> None:
    path = spooled(tmp_path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    assert path != spooled(tmp_path)


def test_the_default_directory_is_the_systems_temporary_directory(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = os.path.join(tmp_path, "output")
    with open(source, "wb") as file:
        file.write(OUTPUT)
    assert os.path.dirname(spool.write(payload(), source, KEY)) == str(tmp_path)


def test_an_unwritable_directory_is_refused_and_no_file_remains(
    tmp_path: os.PathLike[str],
) -> None:
    source = os.path.join(tmp_path, "output")
    with open(source, "wb") as file:
        file.write(OUTPUT)
    with pytest.raises(Usage, match="Name a writable directory"):
        spool.write(payload(), source, KEY, os.path.join(tmp_path, "nowhere"))
    with pytest.raises(TypeError):
        spool.write(payload(strange=object()), source, KEY, str(tmp_path))
    assert os.listdir(tmp_path) == ["output"]


def test_output_above_the_limit_is_refused(tmp_path: os.PathLike[str]) -> None:
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


def test_output_that_does_not_match_the_digest_is_refused(tmp_path: os.PathLike[str]) -> None:
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
def test_a_file_with_a_wrong_member_is_refused(
    tmp_path: os.PathLike[str], changes: dict[str, Any]
) -> None:
    path = altered(spooled(tmp_path), **changes)
    with pytest.raises((Usage, InvalidMessage)):
        spool.read(path)


def test_a_truncated_file_is_refused(tmp_path: os.PathLike[str]) -> None:
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
def test_a_file_with_other_content_is_refused(tmp_path: os.PathLike[str], contents: bytes) -> None:
    path = os.path.join(tmp_path, "run.json")
    with open(path, "wb") as file:
        file.write(contents)
    with pytest.raises(Usage, match="not a complete spool file"):
        spool.read(path)


def test_a_path_without_a_regular_file_is_refused_at_once(tmp_path: os.PathLike[str]) -> None:
    pipe = os.path.join(tmp_path, "pipe")
    os.mkfifo(pipe)
    for path in (pipe, str(tmp_path), os.path.join(tmp_path, "nowhere"), os.devnull, "a\0b"):
        with pytest.raises(Usage):
            spool.read(path)
