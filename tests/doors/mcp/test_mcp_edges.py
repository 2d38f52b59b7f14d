"""MCP with misbehaving clients: junk on a stream, malformed HTTP requests, and the process on stdio
from its start to its end."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from interlock.doors.mcp.service import MAX_MESSAGE_BYTES
from interlock.node import Node
from interlock.node.live import LiveNode
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim, ReleaseClaim
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import EndSession, RevokeToken, StartSession
from interlock.rooms.workspace.verbs import Review, ShowStatus
from world.mcp_clients import (
    LIMIT_S,
    MODES,
    PROCESS,
    Line,
    McpWorkspace,
    awaited,
    http_client,
    line,
    until,
)
from world.prepared import Prepared
from world.workspace import OWNER

pytestmark = pytest.mark.every_engine

METADATA_PATH = "/.well-known/oauth-protected-resource/mcp"
UNKNOWN_TOKEN = token_format.compose(bytes(token_format.SECRET_BYTES))
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, REQUEST_CANCELLED = -32602, -32800
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "rude", "version": "1"},
}


@pytest.fixture
def workspace(tmp_path: Path, prepared: Prepared) -> McpWorkspace:
    """A workspace for MCP clients."""
    return McpWorkspace(tmp_path, prepared)


def request(id: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def call(id: Any, tool: str, **arguments: Any) -> bytes:
    return request(id, "tools/call", name=tool, arguments=arguments)


# --- over a stream


@asynccontextmanager
async def connected(workspace: McpWorkspace, live: LiveNode) -> AsyncIterator[Line]:
    async with workspace.entrance("stream", live) as door:
        opened = await line(door.place, "otto-cli ")
        yield opened
        await opened.close()


async def answers(opened: Line, id: Any) -> dict[str, Any]:
    """Return the answer to a request. Skip other answers."""
    while True:
        answer: dict[str, Any] = json.loads(await opened.hear())
        if answer.get("id") == id:
            return answer


JUNK: list[tuple[bytes, int, Any]] = [
    (b"hello?", PARSE_ERROR, None),
    (b"{", PARSE_ERROR, None),
    (b'{"jsonrpc": "2.0", "id": 1', PARSE_ERROR, None),
    (b"\xff\xfe\x00", PARSE_ERROR, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', PARSE_ERROR, None),
    (b'"\\ud800"', PARSE_ERROR, None),
    (b"[" * 100_000, PARSE_ERROR, None),
    (b"[]", INVALID_REQUEST, None),
    (b"[" + call(1, "whoami") + b"]", INVALID_REQUEST, None),
    (b"17", INVALID_REQUEST, None),
    (b"null", INVALID_REQUEST, None),
    (b"{}", INVALID_REQUEST, None),
    (b'{"id": 3}', INVALID_REQUEST, 3),
    (b'{"id": 4, "method": "ping"}', INVALID_REQUEST, 4),
    (b'{"jsonrpc": "1.0", "id": 5, "method": "ping"}', INVALID_REQUEST, 5),
    (b'{"jsonrpc": "2.0", "id": 6, "method": 6}', INVALID_REQUEST, 6),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', INVALID_REQUEST, 7),
    (request(8, "nothing/of/the/kind"), METHOD_NOT_FOUND, 8),
    (request(9, "resources/list"), METHOD_NOT_FOUND, 9),
    (request(10, "tools/call"), INVALID_PARAMS, 10),
    (request(11, "tools/call", name=3), INVALID_PARAMS, 11),
    (request(12, "tools/call", name="whoami", arguments=[]), INVALID_PARAMS, 12),
    (request(13, "tools/call", name="whoami", arguments="no"), INVALID_PARAMS, 13),
    (request(14, "tools/call", name="x" * 10_000), INVALID_PARAMS, 14),
    (b'"' + b"x" * MAX_MESSAGE_BYTES + b'"', INVALID_REQUEST, None),
]


@awaited
async def test_junk_on_a_stream_gets_an_error_and_the_conversation_continues(
    workspace: McpWorkspace,
) -> None:
    async with workspace.live() as live, connected(workspace, live) as opened:
        await opened.say(request(0, "initialize", **HELLO))
        assert (await answers(opened, 0))["result"]["protocolVersion"] == "2025-06-18"
        for number, (junk, code, id) in enumerate(JUNK):
            await opened.say(junk)
            answer = json.loads(await opened.hear())
            assert (answer["error"]["code"], answer["id"]) == (code, id), junk[:80]
            assert len(answer["error"]["message"]) < 500
            await opened.say(call(f"after {number}", "whoami"))
            alive = await answers(opened, f"after {number}")
            assert alive["result"]["structuredContent"]["sender"] == "otto-cli"


@awaited
async def test_messages_that_need_no_answer_get_none(workspace: McpWorkspace) -> None:
    async with workspace.live() as live, connected(workspace, live) as opened:
        await opened.say(request(0, "initialize", **HELLO))
        unanswered = [
            b"",
            b"  \r",
            b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
            b'{"jsonrpc": "2.0", "method": "notifications/nothing"}',
            b'{"jsonrpc": "2.0", "method": "notifications/cancelled"}',
            b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
            b'{"jsonrpc": "2.0", "id": 5, "result": {}}',
            b'{"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "no"}}',
        ]
        for words in unanswered:
            await opened.say(words)
        await opened.say(call(1, "whoami"))
        await answers(opened, 1)
        assert len(opened.heard) == 2


@given(st.lists(st.binary(max_size=60).filter(lambda junk: b"\n" not in junk), max_size=30))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_end_the_conversation(workspace: McpWorkspace, junk: list[bytes]) -> None:
    @awaited
    async def story() -> None:
        async with workspace.live() as live, connected(workspace, live) as opened:
            for words in junk:
                await opened.say(words)
            await opened.say(call("last", "whoami"))
            assert "result" in await answers(opened, "last")

    story()


@awaited
async def test_lines_may_arrive_in_pieces_or_many_at_once(workspace: McpWorkspace) -> None:
    async with workspace.live() as live, connected(workspace, live) as opened:
        for byte in call("slow", "whoami") + b"\n":
            opened.writer.write(bytes([byte]))
            await opened.writer.drain()
        assert "result" in await answers(opened, "slow")
        opened.writer.write(b"".join(call(n, "whoami") + b"\r\n" for n in range(600)))
        assert {json.loads(await opened.hear())["id"] for _ in range(600)} == set(range(600))


@awaited
async def test_pending_requests_are_answered_after_the_client_closes_its_side(
    workspace: McpWorkspace,
) -> None:
    async with workspace.live() as live, connected(workspace, live) as opened:
        for number in range(20):
            await opened.say(call(number, "send", to="@vera", text=f"{number}"))
        opened.writer.write(call(20, "whoami"))  # without a newline
        opened.writer.write_eof()
        heard = [json.loads(await opened.hear()) for _ in range(21)]
        assert await opened.hear() == b""
    assert {answer["id"] for answer in heard if "result" in answer} == set(range(21))


@awaited
async def test_client_that_does_not_read_does_not_block_others(workspace: McpWorkspace) -> None:
    async with workspace.live() as live, connected(workspace, live) as stalled:
        flood = b"".join(call(n, "whoami") + b"\n" for n in range(3_000))
        stalled.writer.write(flood)
        other = await line(os.path.join(workspace.directory, "mcp.sock"), "vera ")
        await other.say(call(1, "whoami"))
        assert (await answers(other, 1))["result"]["structuredContent"]["sender"] == "vera"
        await other.close()
        stalled.writer.transport.abort()


@awaited
async def test_only_the_cancelled_call_gets_no_answer(workspace: McpWorkspace) -> None:
    async with workspace.live() as live, connected(workspace, live) as opened:
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        await opened.say(request(0, "initialize", **HELLO))
        await opened.say(call("wait", "claim", item="B-1", wait_s=45))
        await until(lambda: queued(live, 1))
        await opened.say(cancelling("wait"))
        await until(lambda: queued(live, 0))
        await opened.say(call(1, "whoami"))
        await answers(opened, 1)
        assert [json.loads(heard)["id"] for heard in opened.heard] == [0, 1]


async def queued(live: LiveNode, count: int) -> bool:
    return bool((await live.call(OWNER, ShowStatus()))["waiting"] == count)


# --- over HTTP


@asynccontextmanager
async def posting(
    workspace: McpWorkspace, live: LiveNode, token: str | None
) -> AsyncIterator["Poster"]:
    async with workspace.entrance("http", live) as door, http_client(token) as client:
        yield Poster(client, door.place)


class Poster:
    """A plain HTTP client without MCP."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self.client, self.url = client, url

    async def __call__(self, body: bytes, **headers: str) -> httpx2.Response:
        kinds = {"Content-Type": "application/json", "Accept": "application/json"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(self.url, content=body, headers=kinds | named)


@pytest.mark.parametrize("version", [None, "2025-06-18", "2026-07-28", "3000-01-01"])
@pytest.mark.parametrize("body", [call(1, "whoami"), request(1, "tools/list"), b"junk", b""])
@awaited
async def test_request_without_a_valid_token_is_refused_before_parsing(
    body: bytes, version: str | None, workspace: McpWorkspace
) -> None:
    revision = {"MCP_Protocol_Version": version} if version else {}
    async with workspace.live() as live, workspace.entrance("http", live) as door:
        for token, code in [(None, "NO_IDENTITY"), (UNKNOWN_TOKEN, "BAD_TOKEN")]:
            async with http_client(token) as client:
                response = await Poster(client, door.place)(body, **revision)
                assert response.status_code == 401
                assert METADATA_PATH in response.headers["WWW-Authenticate"]
                assert response.json()["code"] == code
                assert set(response.json()) >= {"error", "code", "message"}


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_revoked_token_is_refused_at_once(mode: str, workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        headers, body = modern(call(1, "whoami")) if mode != "legacy" else ({}, call(1, "whoami"))
        assert (await post(body, **headers)).status_code == 200
        await live.call(OWNER, RevokeToken(sender="otto-cli"))
        for _ in range(2):
            response = await post(body, **headers)
            assert (response.status_code, response.json()["code"]) == (401, "BAD_TOKEN")
            assert METADATA_PATH in response.headers["WWW-Authenticate"]
        assert (await post(request(2, "tools/list"))).status_code == 401


def modern(body: bytes) -> tuple[dict[str, str], bytes]:
    """Convert a request to the form of the stateless revision."""
    said = json.loads(body)
    prefix = "io.modelcontextprotocol/"
    meta = {prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}
    said["params"]["_meta"] = meta
    headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": said["method"]}
    if "name" in said["params"]:
        headers["Mcp_Name"] = said["params"]["name"]
    return headers, json.dumps(said).encode()


@awaited
async def test_session_of_another_sender_is_refused(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        await live.call(workspace.credentials("vera"), StartSession("veras"))
        response = await post(call(1, "whoami"), Interlock_Session="veras")
        assert (response.status_code, response.json()["code"]) == (403, "IDENTITY_MISMATCH")
        assert len((await live.call(OWNER, Review()))["refusals"]) == 1


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
@awaited
async def test_every_handshake_revision_is_served(version: str, workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        hello = await post(request(0, "initialize", **HELLO | {"protocolVersion": version}))
        assert hello.json()["result"]["protocolVersion"] == version
        assert re.fullmatch(r"[0-9a-f]{32}", hello.headers["Mcp-Session-Id"])
        ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        assert (await post(ready)).status_code == 202
        named = {"MCP_Protocol_Version": version, "Mcp_Session_Id": hello.headers["Mcp-Session-Id"]}
        result = (await post(call(1, "whoami"), **named)).json()["result"]
        assert result["structuredContent"]["sender"] == "otto-cli"
        assert (await post(request(2, "ping"), **named)).json()["result"] == {}


@awaited
async def test_unknown_session_is_served(workspace: McpWorkspace) -> None:
    """Clients therefore do not notice a restart of the server."""
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        named = {"Mcp_Session_Id": "of-an-earlier-server", "MCP_Protocol_Version": "2025-11-25"}
        answer = (await post(call(1, "whoami"), **named)).json()
        assert answer["result"]["structuredContent"]["sender"] == "otto-cli"


@awaited
async def test_tools_list_over_http_is_under_12000_bytes(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        headers, body = modern(request(1, "tools/list"))
        for response in (await post(request(1, "tools/list")), await post(body, **headers)):
            assert len(response.json()["result"]["tools"]) == 12
            assert len(response.content) < 12_000


@awaited
async def test_malformed_http_requests_get_a_specific_error(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        for junk, code, id in JUNK[:-1]:
            response = await post(junk)
            error = response.json()
            assert (error["error"]["code"], error["id"]) == (code, id), junk[:80]
            understood = code in (METHOD_NOT_FOUND, INVALID_PARAMS)
            assert response.status_code == (200 if understood else 400), junk[:80]
        typed = await post(call(1, "whoami"), Content_Type="text/plain")
        assert (typed.status_code, typed.json()["code"]) == (415, "USAGE")
        large = await post(b'"' + b"x" * MAX_MESSAGE_BYTES + b'"')
        assert (large.status_code, large.json()["code"]) == (413, "TOO_LARGE")
        stream = await post.client.get(post.url, headers={"Accept": "text/event-stream"})
        assert (stream.status_code, stream.json()["code"]) == (405, "USAGE")
        assert stream.headers["Allow"] == "POST, DELETE"
        assert (await post.client.delete(post.url)).status_code == 204
        assert (await post(call(1, "whoami"))).status_code == 200


@awaited
async def test_too_large_body_is_refused_before_its_end(
    workspace: McpWorkspace,
) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b" " * (1 << 16)

    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        headers = {"Content-Type": "application/json"}
        response = await post.client.post(post.url, content=endless(), headers=headers)
        assert (response.status_code, response.json()["code"]) == (413, "TOO_LARGE")


def cancelling(id: Any) -> bytes:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
    return json.dumps(note).encode()


@awaited
async def test_only_its_own_session_cancels_a_call(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        mine, other = {"Mcp_Session_Id": "mine"}, {"Mcp_Session_Id": "other"}
        waiting = asyncio.create_task(post(call(7, "claim", item="B-1", wait_s=45), **mine))
        await until(lambda: queued(live, 1))
        assert (await post(cancelling(7), **other)).status_code == 202
        assert (await post(cancelling(7))).status_code == 202
        async with http_client(workspace.tokens["vera"]) as client:
            assert (await Poster(client, post.url)(cancelling(7), **mine)).status_code == 202
        await live.call(workspace.credentials("vera"), ReleaseClaim("B-1"))
        assert (await waiting).json()["result"]["structuredContent"]["acquired"]


@awaited
async def test_a_notification_without_an_id_cancels_no_call(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        mine = {"Mcp_Session_Id": "mine"}
        waiting = asyncio.create_task(post(call("None", "claim", item="B-1", wait_s=45), **mine))
        await until(lambda: queued(live, 1))
        note = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
        assert (await post(note, **mine)).status_code == 202
        await live.call(workspace.credentials("vera"), ReleaseClaim("B-1"))
        assert (await waiting).json()["result"]["structuredContent"]["acquired"]


@awaited
async def test_a_cancelled_call_over_http_ends_with_an_error(workspace: McpWorkspace) -> None:
    async with (
        workspace.live() as live,
        posting(workspace, live, workspace.tokens["otto-cli"]) as post,
    ):
        await live.call(workspace.credentials("vera"), AcquireClaim("B-1"))
        mine = {"Mcp_Session_Id": "mine"}
        waiting = asyncio.create_task(post(call(7, "claim", item="B-1", wait_s=45), **mine))
        await until(lambda: queued(live, 1))
        assert (await post(cancelling("7"), **mine)).status_code == 202
        answer = (await waiting).json()
        assert (answer["error"]["code"], answer["id"]) == (REQUEST_CANCELLED, 7)
        await until(lambda: queued(live, 0))


# --- the process on stdio


def started(workspace: McpWorkspace, *words: str, **more: str | None) -> subprocess.Popen[bytes]:
    return run(workspace, *workspace.prepared.command(*words), **more)


def run(workspace: McpWorkspace, *command: str, **more: str | None) -> subprocess.Popen[bytes]:
    environment = workspace.environment("otto-cli") | more
    return subprocess.Popen(
        command,
        env={name: value for name, value in environment.items() if value is not None},
        cwd=workspace.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finished(process: subprocess.Popen[bytes], *said: bytes) -> tuple[list[Any], str]:
    """Send the lines to a process. Return its answers and its standard error."""
    try:
        out, err = process.communicate(b"\n".join(said), timeout=2 * LIMIT_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return [json.loads(answer) for answer in out.splitlines()], err.decode()


def test_stdio_ends_with_its_input_and_prints_only_json_rpc(workspace: McpWorkspace) -> None:
    process = run(workspace, *PROCESS)
    said = [b"junk", request(1, "initialize", **HELLO), call(2, "send", to="@vera", text="hello")]
    heard, stderr = finished(process, *said)
    assert process.returncode == 0
    assert stderr == ""
    assert {answer["id"] for answer in heard} == {None, 1, 2}
    silent = started(workspace)
    assert finished(silent) == ([], "")
    assert silent.returncode == 0


PRINTS = """
import asyncio, os
from interlock.doors.mcp.streams import standard_streams
read, write = standard_streams()
print("noise", flush=True)
os.system("echo more noise; cat")
async def main(): await write(await read())
asyncio.run(main())
"""


def test_prints_and_reads_of_other_code_do_not_reach_the_client() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS], input=b"wire", capture_output=True, timeout=LIMIT_S
    )
    assert (done.stdout, done.stderr) == (b"wire", b"noise\nmore noise\n")


def test_stdio_serves_a_file_as_well_as_a_pipe(workspace: McpWorkspace) -> None:
    asked, answered = workspace.home / "asked", workspace.home / "answered"
    asked.write_bytes(call(1, "whoami") + b"\n")
    with asked.open("rb") as source, answered.open("wb") as sink:
        done = subprocess.run(
            PROCESS,
            env=workspace.environment("otto-cli"),
            stdin=source,
            stdout=sink,
            timeout=2 * LIMIT_S,
            check=True,
        )
    assert done.returncode == 0
    answer = json.loads(answered.read_bytes())
    assert answer["result"]["structuredContent"]["sender"] == "otto-cli"


@pytest.mark.parametrize(
    ("words", "more", "status", "stderr"),
    [
        ((), {"INTERLOCK_TOKEN": None}, 3, "No sender has joined this workspace"),
        ((), {"INTERLOCK_TOKEN": UNKNOWN_TOKEN}, 3, "This token is not valid for this workspace"),
        (("--from", "vera"), {}, 3, "Your credentials belong to @otto-cli"),
        (("--session", "no such/session"), {}, 2, "Give a session"),
        (("--workspace", "http://127.0.0.1:9"), {}, 2, "http://127.0.0.1:9/mcp"),
        (("--surprise",), {}, 2, "unrecognized arguments"),
    ],
)
def test_stdio_that_cannot_serve_prints_the_reason_and_ends(
    words: tuple[str, ...],
    more: dict[str, str | None],
    status: int,
    stderr: str,
    workspace: McpWorkspace,
) -> None:
    process = started(workspace, *words, **more)
    heard, said = finished(process, call(1, "whoami"))
    assert (process.returncode, heard) == (status, [])
    assert stderr in said
    assert "Traceback" not in said


def claims(workspace: McpWorkspace, item: str) -> list[dict[str, Any]]:
    with Node(workspace.directory) as node:
        found: list[dict[str, Any]] = node.call(OWNER, CheckClaim(item))["claims"]
    return found


def test_process_releases_the_claims_of_its_own_session_at_the_end(workspace: McpWorkspace) -> None:
    for _ in range(2):  # a client's configuration names the same session at every start
        process = started(workspace, "--session", "window")
        heard, _ = finished(process, call(1, "claim", item="B-1"))
        claim = heard[0]["result"]["structuredContent"]["claim"]
        assert claim["session"] == "window"
        assert process.returncode == 0
        assert claims(workspace, "B-1") == []


def test_process_renews_the_claims_of_its_own_session(workspace: McpWorkspace) -> None:
    process = run(workspace, *PROCESS, "--session", "window")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(call(1, "claim", item="B-1", ttl_s=6) + b"\n")
        process.stdin.flush()
        first = json.loads(process.stdout.readline())["result"]["structuredContent"]["claim"]

        @awaited
        async def renewed() -> None:
            async def later() -> bool:
                return bool(claims(workspace, "B-1")[0]["expires_at"] > first["expires_at"])

            await until(later)

        renewed()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 143
        assert claims(workspace, "B-1") == []
    finally:
        process.kill()
        process.communicate()


def test_process_does_not_release_the_claims_of_an_inherited_session(
    workspace: McpWorkspace,
) -> None:
    credentials = workspace.credentials("otto-cli", "run-1")
    with Node(workspace.directory) as node:
        node.call(credentials, StartSession("run-1"))
    process = started(workspace, INTERLOCK_SESSION="run-1")
    heard, _ = finished(process, call(1, "claim", item="B-1"))
    assert heard[0]["result"]["structuredContent"]["claim"]["session"] == "run-1"
    assert [claim["session"] for claim in claims(workspace, "B-1")] == ["run-1"]
    with Node(workspace.directory) as node:
        node.call(credentials, EndSession("run-1"))


def test_paths_on_stdio_belong_to_the_current_repository(workspace: McpWorkspace) -> None:
    outside = finished(started(workspace), call(1, "claim", paths=["src"]))[0]
    assert outside[0]["result"]["structuredContent"]["member"] == "repo"
    subprocess.run(["git", "init", "-q", str(workspace.home)], check=True)
    origin = "git@example.org:otto/engine.git"
    subprocess.run(
        ["git", "-C", str(workspace.home), "remote", "add", "origin", origin], check=True
    )
    inside = finished(started(workspace), call(1, "claim", paths=["src"]))[0]
    named = finished(started(workspace, "--repo", "another"), call(1, "claim", paths=["src"]))[0]
    repos = [
        answer[0]["result"]["structuredContent"]["claim"]["repo"] for answer in (inside, named)
    ]
    assert repos == ["example.org/otto/engine", "another"]
