"""Clients that send half requests, junk, too much, too slowly or nothing at all, and clients that
never read. The server refuses or drops each of them, and continues to answer other clients.

Tests that exceed a time limit use a server whose limits are shorter than by default.
"""

import contextlib
import json
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.server import connections
from world.commandline import LIMIT_S, Place, until
from world.served_workspace import ServedWorkspace
from world.server import RunningServer, read_reply

MIB = 1 << 20
# Without these settings, glibc keeps freed memory for each thread, and more on a busy machine. With
# them, the memory of the process is close to the memory in use: about 150 MiB in these tests.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 10),
}
MAX_MEMORY_BYTES = 250 * MIB
HOST = b"Host: 127.0.0.1\r\n"
# Long enough for a client that has to wait for the processor of a busy machine.
READ_LIMIT_S = 2.0
SHORT = {
    "interlock.server.connections.HEAD_WITHIN_S": 2.0,
    "interlock.server.connections.TAKEN_WITHIN_S": READ_LIMIT_S,
    "interlock.doors.http.guard.SLOWEST_BODY_S": 3.0,
}


def place_for_server(root: Path) -> Place:
    """A place whose server returns freed memory to the system."""
    place = Place(root)
    place.environ.update(ALLOCATOR)
    return place


def with_otto_and_vera(server: RunningServer) -> ServedWorkspace:
    """Add two agents that write to each other."""
    workspace = ServedWorkspace(server)
    for name in ("otto", "vera"):
        workspace.add_sender(name)
    return workspace


def request_head(workspace: ServedWorkspace, method: str, target: str, *lines: str) -> bytes:
    """Return the head of a request by otto, without the empty line that ends it."""
    start = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", *lines]
    token = workspace.token("otto")
    return "\r\n".join([*start, f"Authorization: Bearer {token}", ""]).encode()


def post_head(workspace: ServedWorkspace, *lines: str) -> bytes:
    """Return the head of a request by otto that sends a message."""
    json_body = "Content-Type: application/json"
    return request_head(workspace, "POST", "/v1/messages", json_body, *lines)


def open_messages(workspace: ServedWorkspace) -> int:
    """Return the number of vera's open messages."""
    reply = workspace.ask("vera", "GET", "/v1/whoami")
    return int(reply.json["open"])


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorkspace]:
    """A server for this module, with the usual time limits."""
    with RunningServer(place_for_server(tmp_path_factory.mktemp("patient"))) as server:
        yield with_otto_and_vera(server)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorkspace]:
    """A server for this module with short time limits, for the tests that exceed them."""
    place = place_for_server(tmp_path_factory.mktemp("impatient"))
    with RunningServer(place, constants=SHORT) as server:
        yield with_otto_and_vera(server)


@pytest.fixture(autouse=True)
def _others_are_served(request: pytest.FixtureRequest) -> Iterator[None]:
    """During each test, vera sends and reads, and is answered. The server's memory stays within
    bounds, and its log has no errors."""
    servers = ("crowded", "impatient", "workspace")
    name = next((name for name in servers if name in request.fixturenames), "workspace")
    with others_are_served(request.getfixturevalue(name)):
        yield


@contextlib.contextmanager
def others_are_served(workspace: ServedWorkspace) -> Iterator[None]:
    enough = threading.Event()
    statuses: list[int] = []
    memory: list[int] = []

    def live() -> None:
        while not enough.is_set():
            sent = workspace.server.send(workspace.token("vera"), "@otto", "Good morning.")
            read = workspace.ask("vera", "GET", "/v1/agents")
            statuses.extend((sent.status, read.status))
            memory.append(workspace.server.memory())
            enough.wait(0.01)

    living = threading.Thread(target=live)
    living.start()
    try:
        yield
        before = len(statuses)
        until(lambda: len(statuses) >= before + 4 or not living.is_alive())
    finally:
        enough.set()
        living.join(2 * LIMIT_S)
    assert not living.is_alive()
    assert len(statuses) >= before + 4, "vera was not answered"
    assert set(statuses) == {200}
    assert max(memory) < MAX_MEMORY_BYTES
    assert [line for line in workspace.server.log() if line["level"] == "error"] == []


def exchange(workspace: ServedWorkspace, *pieces: bytes) -> bytes:
    """Send the pieces, and read until the server closes the connection."""
    with workspace.server.connect() as connection:
        for piece in pieces:
            connection.sendall(piece)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65_536):
            found += more
    return found


def statuses(answers: bytes) -> list[int]:
    """Return the statuses of the answers on one connection."""
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


def check_refused(answers: bytes, status: int, code: str = "USAGE") -> None:
    """Check that there is one answer, an error object."""
    head, _, body = answers.partition(b"\r\n\r\n")
    assert statuses(answers) == [status], answers[:300]
    assert b"content-type: application/json" in head.lower()
    error = json.loads(body)
    assert error["code"] == code
    assert error["message"]


# --- half requests, and slow ones


@pytest.mark.parametrize("sent", [b"G", b"GET /healthz", b"GET /healthz HTTP/1.1\r\nHost: 12"])
def test_waiting_for_the_rest_of_a_head_has_a_timeout(
    impatient: ServedWorkspace, sent: bytes
) -> None:
    check_refused(exchange(impatient, sent), 408)


def test_a_connection_that_sends_nothing_is_closed(impatient: ServedWorkspace) -> None:
    assert exchange(impatient) == b""
    assert exchange(impatient, b"\r\n\r\n") == b""


def test_a_head_that_arrives_byte_by_byte_has_the_same_timeout(
    impatient: ServedWorkspace,
) -> None:
    with impatient.server.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        drip(connection)
        check_refused(read_all(connection), 408)


def test_a_body_that_arrives_byte_by_byte_has_a_timeout(impatient: ServedWorkspace) -> None:
    with impatient.server.connect() as connection:
        connection.sendall(post_head(impatient, "Content-Length: 1000") + b"\r\n{")
        drip(connection)
        check_refused(read_all(connection), 408)


def drip(connection: socket.socket) -> None:
    """Send a byte now and then, until there is an answer."""
    deadline = time.monotonic() + LIMIT_S
    while not select.select([connection], [], [], 0.05)[0]:
        assert time.monotonic() < deadline
        connection.sendall(b"a")


def test_waiting_for_the_rest_of_a_body_has_a_timeout(impatient: ServedWorkspace) -> None:
    answers = exchange(impatient, post_head(impatient, "Content-Length: 1000") + b"\r\n{")
    check_refused(answers, 408)


def test_a_stray_byte_does_not_keep_an_answered_connection_open(impatient: ServedWorkspace) -> None:
    with impatient.server.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        assert read_reply(answers).status == 200
        connection.sendall(b"\r\n")
        assert read_all(connection) == b""


# --- junk


@pytest.mark.parametrize(
    "junk",
    [
        b"\0" * 100,
        bytes(range(256)),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b'{"jsonrpc": "2.0"}\n',
    ],
    ids=lambda junk: repr(junk[:24]),
)
def test_data_that_is_not_http_is_refused(workspace: ServedWorkspace, junk: bytes) -> None:
    check_refused(exchange(workspace, junk), 400)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\n\r\n",
        b"GET  /nothing HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n",
        b"\r\n\r\nGET /nothing HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n",
        b"PROPFIND /v1/inbox HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n",
    ],
    ids=repr,
)
def test_unusual_http_gets_an_error_object(workspace: ServedWorkspace, sent: bytes) -> None:
    answers = exchange(workspace, sent)
    (status,) = statuses(answers)
    assert status in (400, 403, 404, 405)
    assert {"error", "code", "message"} <= set(json.loads(answers.partition(b"\r\n\r\n")[2]))


def test_a_path_that_is_not_text_is_not_found(workspace: ServedWorkspace) -> None:
    head = b"GET /v1/messages/%FF%00%80 HTTP/1.1\r\nConnection: close\r\n" + HOST
    check_refused(exchange(workspace, head + b"\r\n"), 401, "NO_IDENTITY")
    asked = request_head(workspace, "GET", "/v1/messages/%FF%00%80", "Connection: close") + b"\r\n"
    assert statuses(exchange(workspace, asked))[0] in (400, 404)


def test_a_request_target_may_be_a_whole_url(workspace: ServedWorkspace) -> None:
    target = f"http://127.0.0.1:{workspace.server.port}/v1/whoami"
    answers = exchange(
        workspace, request_head(workspace, "GET", target, "Connection: close") + b"\r\n"
    )
    assert statuses(answers) == [200]


def test_a_request_for_an_upgrade_is_answered_without_it(workspace: ServedWorkspace) -> None:
    for protocol in ("websocket", "h2c"):
        head = request_head(
            workspace, "GET", "/healthz", "Connection: upgrade", f"Upgrade: {protocol}"
        )
        with workspace.server.connect() as connection, connection.makefile("rb") as answers:
            connection.sendall(head + b"\r\n")
            assert read_reply(answers).status == 200


# --- too much


def test_a_huge_header_is_refused(workspace: ServedWorkspace) -> None:
    head = b"GET /healthz HTTP/1.1\r\nX-Huge: " + b"a" * MIB + b"\r\n" + HOST + b"\r\n"
    check_refused(pushed(workspace, [head]), 431, "TOO_LARGE")


def test_a_hundred_thousand_headers_are_refused(workspace: ServedWorkspace) -> None:
    head = b"GET /healthz HTTP/1.1\r\n" + HOST + b"a:\r\n" * 100_000 + b"\r\n"
    check_refused(pushed(workspace, [head]), 431, "TOO_LARGE")


def test_a_huge_target_is_refused(workspace: ServedWorkspace) -> None:
    head = b"GET /" + b"a" * MIB + b" HTTP/1.1\r\n" + HOST + b"\r\n"
    check_refused(pushed(workspace, [head]), 431, "TOO_LARGE")


ENDLESS = {
    "header": (b"GET / HTTP/1.1\r\nX-Endless: ", b"a"),
    "name of a header": (b"GET / HTTP/1.1\r\nX", b"a"),
    "blank before a request": (b"", b"\r\n"),
    "trailer": (b"TRAILER X-Endless: ", b"a"),
    "extension of a chunk": (b"CHUNKED 5;x=", b"a"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_endless_data_is_cut_off(workspace: ServedWorkspace, what: str) -> None:
    start, more = ENDLESS[what]
    chunked = post_head(workspace, "Transfer-Encoding: chunked") + b"\r\n"
    start = start.replace(b"TRAILER ", chunked + b"0\r\n").replace(b"CHUNKED ", chunked)
    pieces = (more * (65_536 // len(more)) for _ in range(1600))
    answers = pushed(workspace, (start, *pieces))
    assert statuses(answers) in ([431], [400], []), answers[:300]


def pushed(workspace: ServedWorkspace, pieces: "list[bytes] | tuple[bytes, ...]") -> bytes:
    """Send as much as the server accepts, and read its answer."""
    with workspace.server.connect() as connection:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return read_all(connection)


def test_a_hundred_mib_are_refused_whether_they_are_announced_or_not(
    workspace: ServedWorkspace,
) -> None:
    announced = post_head(workspace, f"Content-Length: {100 * MIB}", "Connection: close") + b"\r\n"
    check_refused(pushed(workspace, [announced, *[bytes(MIB)] * 100]), 413, "TOO_LARGE")
    chunked = post_head(workspace, "Transfer-Encoding: chunked", "Connection: close") + b"\r\n"
    chunk = b"100000\r\n" + bytes(MIB) + b"\r\n"
    check_refused(pushed(workspace, [chunked, *[chunk] * 100, b"0\r\n\r\n"]), 413, "TOO_LARGE")


def test_a_client_that_sent_too_much_gets_the_refusal_and_can_continue(
    workspace: ServedWorkspace,
) -> None:
    """A client that sends its whole body before it reads must still get the answer."""
    with workspace.server.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(post_head(workspace, f"Content-Length: {20 * MIB}") + b"\r\n")
        for _ in range(20):
            connection.sendall(bytes(MIB))
        assert read_reply(answers).code == "TOO_LARGE"
        connection.sendall(request_head(workspace, "GET", "/v1/whoami") + b"\r\n")
        assert read_reply(answers).status == 200


def test_many_large_bodies_at_once_do_not_fill_the_memory(impatient: ServedWorkspace) -> None:
    head = post_head(impatient, f"Content-Length: {7 * MIB}") + b"\r\n"
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(8):
            # The server's timeout for a head is short: send it as soon as there is a connection.
            opened.append(stack.enter_context(impatient.server.connect()))
            opened[-1].sendall(head + bytes(6 * MIB))
        for connection in opened:
            check_refused(read_all(connection), 408)


def test_expect_continue_is_answered_before_the_body(workspace: ServedWorkspace) -> None:
    with workspace.server.connect() as connection, connection.makefile("rb") as answers:
        large = f"Content-Length: {100 * MIB}"
        connection.sendall(post_head(workspace, large, "Expect: 100-continue") + b"\r\n")
        assert read_reply(answers).status == 413
    body = b'{"to": "@vera", "payload": {"text": "x"}}'
    with workspace.server.connect() as connection, connection.makefile("rb") as answers:
        length = f"Content-Length: {len(body)}"
        connection.sendall(post_head(workspace, length, "Expect: 100-continue") + b"\r\n")
        assert answers.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert answers.readline() == b"\r\n"
        connection.sendall(body)
        assert read_reply(answers).status == 200


# --- one request hidden in another


MAIL = b'{"to": "@vera", "payload": {"text": "smuggled"}}'
DISGUISES = {
    "a length and chunks": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 500\r\n\r\n",
    "two equal lengths": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a length with a sign": b"Content-Length: +2\r\n\r\n{}",
    "a length of words": b"Content-Length: two\r\n\r\n",
    "a length too large to count": b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a list of lengths": b"Content-Length: 0, 500\r\n\r\n",
    "chunks that are no chunks": b"Transfer-Encoding: xchunked\r\n\r\n",
    "chunks that are not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk of huge size": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "a chunk that is longer than it says": b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    "a space before the colon": b"Content-Length : 500\r\n\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 3\r\n\r\n",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_request_can_be_hidden_in_another(workspace: ServedWorkspace, disguise: str) -> None:
    """The server never treats data after a request of ambiguous length as a request."""
    before = open_messages(workspace)
    hidden = (
        post_head(workspace, f"Content-Length: {len(MAIL)}", "Connection: close") + b"\r\n" + MAIL
    )
    answers = exchange(
        workspace, post_head(workspace)[:-2] + b"\r\n" + DISGUISES[disguise] + hidden
    )
    assert statuses(answers) == [400], answers[:500]
    assert open_messages(workspace) == before


def test_a_trailer_after_a_body_is_not_a_header(workspace: ServedWorkspace) -> None:
    """Otherwise a request could bypass a proxy that checks only headers."""
    body = b'{"to": "@vera", "payload": {"text": "late"}}'
    head = b"POST /v1/messages HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    late = f"Authorization: Bearer {workspace.token('otto')}\r\n".encode()
    asked = head + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + late + b"\r\n"
    check_refused(exchange(workspace, asked), 401, "NO_IDENTITY")


def test_pipelined_requests_are_answered_in_order(workspace: ServedWorkspace) -> None:
    paths = ["/healthz", "/v1/whoami", "/nothing", "/v1/agents"] * 50
    with workspace.server.connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(
            b"".join(request_head(workspace, "GET", path) + b"\r\n" for path in paths)
        )
        found = [read_reply(answers).status for _ in paths]
    assert found == [200, 200, 404, 200] * 50


def test_junk_after_a_request_does_not_replace_its_answer(workspace: ServedWorkspace) -> None:
    asked = request_head(workspace, "GET", "/v1/whoami") + b"\r\n"
    assert statuses(exchange(workspace, asked + b"\0junk\r\n\r\n")) == [200]
    waiting = request_head(workspace, "GET", "/v1/inbox?wait=1&after=1000000") + b"\r\n"
    assert statuses(exchange(workspace, waiting, b"\0junk\r\n\r\n")) == [200]


# --- clients that never read


def test_a_client_that_never_reads_its_answers_is_dropped(impatient: ServedWorkspace) -> None:
    asked = (request_head(impatient, "GET", "/openapi.json") + b"\r\n") * 40
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(never_reading(impatient)) for _ in range(50)]
        for connection in opened:
            connection.sendall(asked)
        until(lambda: all(map(was_dropped, opened)))


@pytest.mark.long
def test_an_event_listener_that_never_reads_is_dropped(
    impatient: ServedWorkspace,
) -> None:
    paths = [f"{number}/{'long' * 200}" for number in range(100)]
    for number in range(60):  # more than the buffers of both systems hold
        body = {"paths": paths, "repo": f"repository-{number}"}
        assert impatient.ask("otto", "POST", "/v1/claims", body).status == 200
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(never_reading(impatient)) for _ in range(8)]
        for connection in opened:
            connection.sendall(request_head(impatient, "GET", "/v1/events?after=0") + b"\r\n")
        until(lambda: all(map(was_dropped, opened)))
    impatient.server.until_streams(0)


def never_reading(workspace: ServedWorkspace) -> socket.socket:
    """Open a connection with a small buffer that is not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(LIMIT_S)
    connection.connect(("127.0.0.1", workspace.server.port))
    return connection


def was_dropped(connection: socket.socket) -> bool:
    """Return whether the server has reset the connection, without reading from it."""
    poll = select.poll()
    poll.register(connection, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def test_a_slow_reader_gets_the_whole_answer(impatient: ServedWorkspace) -> None:
    """The server does not drop a client that reads something now and then."""
    text = "x" * (4 * MIB)
    target = f"/v1/messages/%23{impatient.send('otto', '@vera', text)}"
    with never_reading(impatient) as connection:
        connection.sendall(request_head(impatient, "GET", target, "Connection: close") + b"\r\n")
        found = b""
        started = time.monotonic()
        while more := connection.recv(MIB):
            found += more
            if time.monotonic() - started < 2 * READ_LIMIT_S:
                select.select([], [], [], 0.2)
    assert found.count(b"x" * MIB) == 4


def test_a_stream_ends_with_its_connection_despite_later_requests(
    workspace: ServedWorkspace,
) -> None:
    with workspace.server.connect() as connection:
        connection.sendall(request_head(workspace, "GET", "/v1/events") + b"\r\n")
        workspace.server.until_streams(1)
        connection.sendall((request_head(workspace, "GET", "/healthz") + b"\r\n") * 3)
        select.select([connection], [], [], 0.2)
    workspace.send("otto", "@otto", "hello")
    workspace.server.until_streams(0)


# --- many connections


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorkspace]:
    """A server with few connections and the usual time limits."""
    files = connections.RESERVED_FILES + connections.FEWEST
    place = place_for_server(tmp_path_factory.mktemp("crowded"))
    with RunningServer(place, files=files) as served:
        yield with_otto_and_vera(served)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: "])
def test_the_longest_idle_connection_is_closed_for_a_new_one(
    crowded: ServedWorkspace, sent: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(5 * connections.FEWEST):
            connection = stack.enter_context(crowded.server.connect())
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
        assert crowded.server.ask("GET", "/healthz").status == 200


@pytest.fixture
def many_files() -> Iterator[int]:
    """Raise this process's limit of open files as far as allowed. Yields the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("most", [1500, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_idle_connections_do_not_block_other_clients(
    most: int, many_files: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Fewer connections if the machine limits this process's open files: both ends of each
    connection are files."""
    count = min(most, many_files - 500)
    assert count >= 1000, f"ulimit -n is {many_files}: too few for this test"
    patient = {"interlock.server.connections.HEAD_WITHIN_S": LIMIT_S}
    place = place_for_server(tmp_path_factory.mktemp("idle"))
    with RunningServer(place, constants=patient) as served, contextlib.ExitStack() as stack:
        workspace = with_otto_and_vera(served)
        with others_are_served(workspace):
            for _ in range(count):
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), LIMIT_S))
            # The server accepts all of these connections before it answers the next request.
            for _ in range(20):
                assert served.send(workspace.token("otto"), "@vera", "crowded").status == 200
