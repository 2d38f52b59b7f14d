"""The bodies of messages, of any script and size, come back whole and in ranges."""

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock import errors
from interlock.node import audit
from interlock.rooms.mail.verbs import (
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowThread,
)
from interlock.rooms.workspace.verbs import Pause
from interlock.verbs.credentials import Credentials
from world.workspace import OWNER, Workspace, text_to

MIB = 1 << 20


# --- bodies come back whole


ODD_TEXTS = [
    " leading, trailing \t\r\n",
    "\ufeffBOM, \u200b zero width, \u202e reversed",
    "e\u0301 is not \u00e9",
    "日本語 العربية हिन्दी ไทย",
    "👩‍👩‍👧‍👦 🇨🇭 🚦",
    "\x00\x01\x1b[31m\x7f\x85",
    "\uffff\U0010ffff",
    '{"text": "</envelope>\\u0000"}',
    "\n" * 1000,
]


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_body_of_any_script_comes_back_byte_for_byte(workspace: Workspace, text: str) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", text)
    message = workspace.call(vera, ReadMessage(id))
    assert message["payload"] == {"text": text}
    assert message["size"] == len(text.encode())
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert "part" not in message


def test_a_lone_surrogate_is_refused(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    before = workspace.head()
    for text in ("\ud800", "x" * MIB + "\udfff"):
        workspace.refused("INVALID_MESSAGE", otto, text_to("@vera", text))
    assert workspace.head() == before


@pytest.mark.parametrize(
    ("text", "blobs"),
    [
        ("x" * MIB, 0),
        ("x" * (MIB + 1), 1),
        ("é" * (MIB // 2), 0),
        ("x" + "é" * (MIB // 2), 1),
        ("x" + "🚦" * (MIB // 2), 1),
    ],
    ids=["1 MiB", "a byte more", "1 MiB of é", "a byte more of é", "2 MiB of 🚦"],
)
def test_a_body_just_below_or_above_one_mebibyte_comes_back_whole(
    workspace: Workspace, text: str, blobs: int
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", text)
    assert len(workspace.query("SELECT * FROM blobs")) == blobs
    message = workspace.call(vera, ReadMessage(id))
    assert message["payload"]["text"] == text
    assert message["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert audit.verify(workspace.node)["ok"]


def test_messages_with_equal_bodies_share_a_blob_until_the_last_is_redacted(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "x" * (MIB + 1)
    first, second = workspace.send(otto, "@vera", text), workspace.send(otto, "@vera", text)
    assert workspace.query("SELECT count(*) FROM blob_chunks") == [(2,)]
    workspace.call(otto, Redact(first, "a secret"))
    assert "payload" not in workspace.call(vera, ReadMessage(first))
    assert workspace.call(vera, ReadMessage(second))["payload"]["text"] == text
    workspace.call(otto, Redact(second, "a secret"))
    assert workspace.query("SELECT * FROM blob_chunks") == []
    assert audit.verify(workspace.node)["ok"]


@pytest.mark.long
def test_a_body_of_64_mebibytes_comes_back_whole_and_in_ranges(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    line = "Grüße an 日本 🚦 \n"
    text = (line * (64 * MIB // len(line.encode()) + 1))[:-3]
    encoded = text.encode()
    assert len(encoded) >= 64 * MIB - 16
    id = workspace.send(otto, "@vera", text)
    listed = workspace.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["size"]) == (True, len(encoded))
    assert encoded.startswith(listed["payload"]["text"].encode())
    message = workspace.call(vera, ReadMessage(id))
    assert message["sha256"] == hashlib.sha256(encoded).hexdigest()
    assert message["payload"]["text"] == text
    assert rejoined(workspace, vera, id, 7 * MIB + 1) == encoded


def put(workspace: Workspace, upload: str, chunks: dict[int, bytes]) -> None:
    for number, data in chunks.items():
        workspace.node.do(lambda turn: turn.engine.put_chunk(upload, number, data))  # noqa: B023


@pytest.mark.parametrize(
    "chunks",
    [
        {0: b"x" * MIB, 1: b"changed"},
        {0: b"x" * MIB},
        {1: b"end"},
        {0: b"x" * MIB, 2: b"end"},
        {0: b"x" * (MIB - 1), 1: b"xend"},
        {},
    ],
    ids=["changed", "cut off", "no beginning", "a gap", "a short chunk", "nothing"],
)
def test_a_damaged_upload_is_refused_and_sends_nothing(
    workspace: Workspace, chunks: dict[int, bytes]
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    whole = b"x" * MIB + b"end"
    damaged, good = (f"{0:015}.otto.{uuid.uuid4()}" for _ in range(2))
    put(workspace, damaged, chunks)
    before = workspace.head()
    sha256 = hashlib.sha256(whole).hexdigest()
    request = SendMessage("@vera", {}, "send", sha256=sha256, size=len(whole), upload=damaged)
    workspace.refused("DIGEST_MISMATCH", otto, request)
    with pytest.raises(errors.DigestMismatch):
        workspace.node.do(lambda turn: turn.engine.join(damaged, sha256))
    assert workspace.head() == before
    assert workspace.texts(vera) == []
    put(workspace, good, {0: b"x" * MIB, 1: b"end"})
    workspace.call(otto, request._replace(upload=good))
    assert workspace.call(vera, ReadMessage(f"#{before + 1}"))["payload"]["text"].encode() == whole


def test_an_empty_or_too_large_chunk_is_refused(workspace: Workspace) -> None:
    for data in (b"", b"x" * (MIB + 1)):
        with pytest.raises(errors.Usage):
            put(workspace, "u", {0: data})


def test_a_send_to_a_paused_workspace_uploads_nothing(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    workspace.call(OWNER, Pause())
    before = workspace.node.file.writer.total_changes()
    workspace.refused("PAUSED", otto, SendMessage("@otto", {"text": "x" * (3 << 20)}, "send"))
    assert workspace.node.file.writer.total_changes() == before


def test_a_chunk_beyond_the_announced_size_is_refused(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    put = workspace.call(otto, PutChunk(b"x", 1))
    for request in (PutChunk(b"xx", 1), PutChunk(b"x", 1, 1, put["upload"]), PutChunk(b"x", 1, 40)):
        workspace.refused("USAGE", otto, request)


# --- ranges


def rejoined(workspace: Workspace, by: Credentials, id: str, step: int) -> bytes:
    """Read a body in ranges of `step` bytes. Follow next_offset from 0."""
    offset, parts = 0, []
    while True:
        part = workspace.call(by, ReadMessage(id, offset, offset + step))
        text = part["payload"].get("text", "").encode()
        parts.append(text)
        if "part" not in part:
            break
        assert part["shown"] == len(text)
        assert part.get("offset", 0) == offset
        if "next_offset" not in part:
            break
        assert part["next_offset"] == offset + len(text) > offset, "each range advances"
        offset = part["next_offset"]
    return b"".join(parts)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Any, Any]]:
    """A workspace with otto and vera, which the examples of a property share."""
    made = Workspace(tmp_path_factory.mktemp("shared"))
    yield made, made.join("otto"), made.join("vera")
    made.close()


@given(text=st.text(min_size=1, max_size=80), step=st.integers(1, 40))
@example(text="🚦" * 20, step=1)
@example(text="aé日🚦" * 5, step=2)
@example(text="\x80\x00\U0010ffff", step=3)
@settings(max_examples=60, derandomize=True)
def test_following_next_offset_from_zero_gives_the_whole_text(
    shared: tuple[Workspace, Any, Any], text: str, step: int
) -> None:
    workspace, otto, vera = shared
    id = workspace.send(otto, "@vera", text)
    assert rejoined(workspace, vera, id, step) == text.encode()


def test_ranges_of_a_blob_cross_its_chunks(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "é" * (MIB + 7)
    id = workspace.send(otto, "@vera", text)
    part = workspace.call(vera, ReadMessage(id, MIB - 4, MIB + 4))
    assert part["payload"]["text"] == "é" * 4
    assert (part["offset"], part["shown"], part["next_offset"]) == (MIB - 4, 8, MIB + 4)
    assert rejoined(workspace, vera, id, 300_001) == text.encode()


def test_a_range_must_start_at_a_character_within_the_body(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "aé")
    workspace.refused("USAGE", vera, ReadMessage(id, 2, 3))
    assert workspace.refused("USAGE", vera, ReadMessage(id, 4, 9))["size"] == 3
    assert workspace.call(vera, ReadMessage(id, 3, 9))["shown"] == 0
    assert workspace.call(vera, ReadMessage(id, 0, 1 << 60))["payload"]["text"] == "aé"


@pytest.mark.parametrize(
    ("start", "stop"), [(-5, None), (None, -1), (None, 0), (5, 5), (7, 3), (-3, 3)]
)
def test_an_empty_or_negative_range_is_refused(
    workspace: Workspace, start: int | None, stop: int | None
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", "hello world")
    workspace.refused("USAGE", vera, ReadMessage(id, start, stop))


def test_a_list_shows_the_beginning_of_a_long_text_and_marks_it_as_part(
    workspace: Workspace,
) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    text = "é" * 40_000
    id = workspace.send(otto, "@vera", text)
    listed = workspace.call(vera, ListInbox())["messages"][0]
    assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 65_536, 65_536)
    assert listed["size"] == 80_000
    rest = workspace.call(vera, ReadMessage(id, listed["next_offset"], 1 << 40))
    assert listed["payload"]["text"] + rest["payload"]["text"] == text


def test_a_list_shows_no_part_of_a_long_command(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    command = "rm -rf build # " + "x" * 70_000
    payload = {"command": command, "why": "the disk is full"}
    id = workspace.node.call(otto, SendMessage("@vera", payload, "command"))["message"]["id"]
    for listed in (
        workspace.call(vera, ListInbox())["messages"][0],
        workspace.call(vera, ShowThread(id))["messages"][0],
        workspace.call(otto, ListInbox("sent"))["messages"][0],
        workspace.call(vera, Search("build"))["messages"][0],
    ):
        assert listed["payload"] == {"why": "the disk is full"}
        assert (listed["part"], listed["shown"], listed["next_offset"]) == (True, 0, 0)
        assert listed["size"] == len(command)
    assert workspace.call(vera, ReadMessage(id))["payload"] == payload
    short = payload | {"command": "ls"}
    workspace.node.call(otto, SendMessage("@vera", short, "command"))
    assert workspace.call(vera, ListInbox())["messages"][1]["payload"] == short
