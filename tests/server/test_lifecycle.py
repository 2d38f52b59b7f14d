"""The server's life cycle: how it starts, its announcement, how it ends, and the state that a
killed server leaves. Every answered request is in the log exactly once, however the server
ended."""

import fcntl
import json
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import __version__
from interlock.local.link import About, is_served, server_of
from interlock.server import records
from world.commandline import LIMIT_S, Done, Place, until
from world.fork_server import Servers
from world.server import ForkedServer, Reply, RunningServer, free_port
from world.traffic import Sender, received, senders, until_each_has


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def up(place: Place) -> Iterator[RunningServer]:
    """A server for the tests of the process itself."""
    with RunningServer(place) as served:
        yield served


@pytest.fixture
def served(place: Place, servers: Servers) -> Iterator[RunningServer]:
    with ForkedServer(place, servers) as served:
        yield served


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for the tests that do not change it."""
    with RunningServer(Place(tmp_path_factory.mktemp("settled"))) as served:
        served.place.join("otto")
        yield served


# --- starting


def test_the_announcement_contains_the_servers_addresses(settled: RunningServer) -> None:
    served = settled
    assert served.told["url"] == served.url
    assert served.told["directory"] == str(served.place.workspace)
    assert served.told["dashboard"] == f"{served.url}/#token={served.owner}"
    assert served.told["mcp"] == f"{served.url}/mcp"
    assert served.told["pid"] == served.pid
    assert served.ask("GET", "/healthz").json == {"ok": True}
    assert served.ask("GET", "/readyz").json["ready"] is True


def test_the_first_start_creates_the_workspace_and_an_owner(settled: RunningServer) -> None:
    status = settled.ask("GET", "/v1/status", token=settled.owner)
    assert status.status == 200
    joined = settled.ask("POST", "/v1/agents", {"name": "vera"}, token=settled.owner)
    assert joined.json["sender"] == "vera"


def test_only_the_user_can_read_the_servers_files(settled: RunningServer) -> None:
    workspace = settled.place.workspace
    for name in ("owner.json", "server.sock", "server.lock"):
        assert stat.S_IMODE((workspace / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(workspace.stat().st_mode) == 0o700


def test_the_announcement_suggests_the_next_commands(place: Place) -> None:
    done = place.process("up", "--detach", "--port", str(free_port()))
    try:
        assert done.status == 0, done
        assert "Interlock is up at http://127.0.0.1:" in done.text
        assert "join otto" in done.text
        assert "#token=ilk_" in done.text
    finally:
        assert place.ok("down")["stopped"] is True


def test_a_second_up_reports_the_running_server(settled: RunningServer) -> None:
    again = settled.place.process("up", "--port", str(settled.port), "--json")
    assert again.status == 0
    assert again.json == {
        "up": True,
        "started": False,
        "url": settled.url,
        "pid": settled.pid,
        "directory": str(settled.place.workspace),
        "dashboard": f"{settled.url}/#token={settled.owner}",
    }
    assert settled.url in settled.place.process("up").text
    assert settled.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "1"),
        ("--host", "0.0.0.0"),
        ("--public-url", "https://interlock.example"),
        ("--proxy", "192.0.2.7", "--public-url", "http://127.0.0.1:1"),
        ("--engine", "redis://:secret@127.0.0.1:1/0"),
    ],
)
def test_up_refuses_options_that_the_running_server_does_not_have(
    settled: RunningServer, words: tuple[str, ...]
) -> None:
    refused = settled.place.no("USAGE", "up", "--detach", *words)
    assert words[0] in refused["message"]
    assert "interlock down" in refused["message"]
    assert "secret" not in refused["message"]
    assert refused["pid"] == settled.pid
    same = ("--port", str(settled.port), "--host", settled.host, "--public-url", f"{settled.url}/")
    assert settled.place.ok("up", *same, "--engine", "sqlite")["started"] is False


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://Interlock.Example/", "https://interlock.example"),
        ("HTTPS://interlock.example:443", "https://interlock.example"),
        ("https://interlock.example:8443/", "https://interlock.example:8443"),
        ("http://[::1]:80/", "http://[::1]"),
    ],
)
def test_the_public_url_is_shown_in_canonical_form(place: Place, given: str, shown: str) -> None:
    with RunningServer(place, words=("--public-url", given)) as served:
        assert served.told["url"] == shown
        assert served.told["mcp"] == f"{shown}/mcp"
        assert place.ok("invite", "vera")["link"].startswith(f"{shown}/invite/")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--public-url", "https://interlock.example:65536"), "65535"),
        (("--public-url", "https://interlock.example:0"), "65535"),
        (("--public-url", "https://interlock.example//"), "without path"),
        (("--public-url", "https://interlock.example/bus"), "without path"),
        (("--public-url", "https://interlock.example?x=1"), "or query"),
        (("--public-url", "https://me@interlock.example"), "a host and optionally a port"),
        (("--public-url", "interlock.example"), "https://interlock.example"),
        (("--proxy", "192.0.2.7"), "--public-url"),
        (("--public-url", "https://x.example", "--proxy", "proxy.example"), "192.0.2.0/28"),
        (("--public-url", "https://x.example", "--proxy", "0.0.0.0/0"), "all addresses"),
    ],
)
def test_an_invalid_public_url_or_proxy_is_refused(
    place: Place, words: tuple[str, ...], reason: str
) -> None:
    assert reason in place.no("USAGE", "up", *words)["message"]


def test_only_one_of_several_servers_that_start_at_once_serves(place: Place) -> None:
    place.ok("init")
    starting = [place.start("up", "--detach", "--port", "0", "--json") for _ in range(3)]
    answers = [json.loads(child.communicate()[0]) for child in starting]
    try:
        assert [answer.get("started") for answer in answers].count(True) == 1
        for answer in answers:
            assert answer.get("up") or "runs for this workspace" in answer["message"], answer
    finally:
        place.ok("down")


def test_a_check_for_a_running_server_does_not_prevent_a_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check holds the lock for a moment, and a server that starts then waits for it."""
    monkeypatch.setattr(records, "CHECKS_END_WITHIN_S", LIMIT_S)
    place.ok("init")
    check = os.open(place.workspace / "server.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(check, fcntl.LOCK_SH)
    threading.Timer(0.1, os.close, (check,)).start()
    starting = records.lock(str(place.workspace))
    assert starting is not None
    os.close(starting)


def refused_start(place: Place, *words: str) -> Done:
    """Start a server in the foreground and detached. Both must fail and leave no server."""
    done = place.process("up", *words, "--json")
    detached = place.process("up", *words, "--detach", "--json")
    assert (detached.status, detached.json) == (done.status, done.json)
    assert not (place.workspace / "server.json").exists()
    assert not (place.workspace / "server.sock").exists()
    assert not is_served(str(place.workspace))
    return done


def test_the_refusal_of_a_used_port_names_the_address(place: Place) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as other:
        port = other.getsockname()[1]
        done = refused_start(place, "--port", str(port))
    assert done.status == 4
    assert done.json["code"] == "ADDRESS_UNAVAILABLE"
    assert f"127.0.0.1:{port}" in done.json["message"]
    assert "--port" in done.json["message"]
    place.ok("join", "otto")


@pytest.mark.parametrize("host", ["203.0.113.7", "a" * 300, "-1"])
def test_the_refusal_of_an_invalid_host_names_the_flag(place: Place, host: str) -> None:
    done = place.process("up", f"--host={host}", "--port", "0", "--json")
    assert done.status == 4
    assert done.json["code"] == "ADDRESS_UNAVAILABLE"
    assert "--host" in done.json["message"]


def test_a_foreign_directory_is_left_unchanged(place: Place) -> None:
    place.workspace.mkdir()
    (place.workspace / "thesis.txt").write_text("mine")
    done = refused_start(place, "--port", "0")
    assert done.status == 2
    assert done.json["code"] == "NOT_A_WORKSPACE"
    assert os.listdir(place.workspace) == ["thesis.txt"]


def test_a_server_on_all_interfaces_warns_and_requires_a_token(
    place: Place,
) -> None:
    served = RunningServer(place, host="0.0.0.0")
    up = place.process("up", "--detach", "--host", "0.0.0.0", "--port", str(served.port))
    try:
        assert "Other machines can reach this server" in up.text
        assert "not encrypted" in up.text
        token = place.join("otto")
        assert served.ask("GET", "/metrics").status == 401
        assert served.ask("GET", "/metrics", token="ilk_unknown").status == 401
        assert served.ask("GET", "/metrics", token=token).status == 200
        assert served.ask("GET", "/v1/agents").status == 401
        assert served.ask("GET", "/healthz").status == 200
    finally:
        place.ok("down")


def test_metrics_on_loopback_need_no_token(settled: RunningServer) -> None:
    assert settled.ask("GET", "/metrics").status == 200


def test_two_workspaces_have_two_servers(settled: RunningServer, served: RunningServer) -> None:
    nina = settled.place.join("nina")
    served.place.join("vera")
    assert settled.ask("GET", "/v1/whoami", token=nina).status == 200
    assert served.ask("GET", "/v1/whoami", token=nina).code == "BAD_TOKEN"
    assert served.ask("GET", "/v1/tokens", token=settled.owner).code == "BAD_TOKEN"
    agents = served.ask("GET", "/v1/agents", token=served.owner).json["agents"]
    assert [agent["address"] for agent in agents] == ["@vera"]


def test_a_workspace_whose_path_is_too_long_for_a_socket_is_served(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Place(tmp_path).but(TMPDIR=str(tmp_path_factory.mktemp("t")))
    place.workspace = tmp_path / ("long" * 30) / "workspace"
    place.environ["INTERLOCK_WORKSPACE"] = str(place.workspace)
    with RunningServer(place) as served:
        about = json.loads((place.workspace / "server.json").read_text())
        before = responses(served)
        assert place.process("join", "otto", "--json").status == 0
        # The request for the metrics itself counts as one.
        assert responses(served) > before + 1, "the command did not go through the server"
        apart = Path(about["socket"]).parent
        assert stat.S_IMODE(apart.stat().st_mode) == 0o700
    assert os.listdir(apart) == []


def test_a_start_without_a_short_enough_socket_path_names_tmpdir(
    place: Place, tmp_path: Path
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    place = place.but(TMPDIR=str(long))
    place.workspace = long / "workspace"
    place.environ["INTERLOCK_WORKSPACE"] = str(place.workspace)
    done = place.process("up", "--port", "0", "--json")
    assert done.status == 4
    assert "TMPDIR" in done.json["message"]


def responses(served: RunningServer) -> int:
    """Return the number of answers that the server has sent."""
    text = served.ask("GET", "/metrics").body.decode()
    counts = [line for line in text.splitlines() if line.startswith("interlock_http_responses")]
    return sum(int(line.split()[1]) for line in counts)


# --- ending


def test_down_ends_the_server_and_removes_its_address_and_sockets(up: RunningServer) -> None:
    pid = up.pid
    assert up.place.ok("down") == {"stopped": True, "pid": pid}
    assert up.wait() == 0
    names = set(os.listdir(up.place.workspace))
    assert names.isdisjoint({"server.json", "server.sock", "mcp.sock"})


def test_down_without_a_server_reports_that_nothing_was_stopped(place: Place) -> None:
    assert place.ok("down") == {"stopped": False}
    assert not place.workspace.exists()


def test_an_interrupt_ends_the_server_cleanly(up: RunningServer) -> None:
    up.signal(signal.SIGINT)
    assert up.wait() == 0
    assert up.log()[-1]["event"] == "ended"


def test_sigterm_answers_waiting_clients_and_ends_streams(up: RunningServer) -> None:
    token = up.place.join("otto")
    polled: list[Reply] = []

    def poll() -> None:
        polled.append(up.ask("GET", "/v1/inbox?wait=600", token=token))

    poller = threading.Thread(target=poll)
    poller.start()
    with up.connect() as stream, up.connect() as silent:
        stream.sendall(request("GET", "/v1/events", token))
        silent.sendall(b"GET /healthz HT")
        up.until_streams(1)
        until(lambda: reach(up, "otto") == "wakes")
        assert up.end() == 0
        heard = read_all(stream)
    poller.join()
    assert polled[0].status == 200
    assert polled[0].json["messages"] == []
    assert heard.endswith(b"0\r\n\r\n"), "the server cut the stream and did not end it"


def reach(served: RunningServer, agent: str) -> str:
    agents = served.ask("GET", f"/v1/agents?name={agent}", token=served.owner).json["agents"]
    return str(agents[0]["reach"])


def request(method: str, target: str, token: str) -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    return head.encode()


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while more := connection.recv(65_536):
        found += more
    return found


def test_sigterm_while_clients_send_loses_nothing(served: RunningServer) -> None:
    vera = served.place.join("vera")
    with senders(served, "@vera") as sending:
        until_each_has(sending, 5)
        assert served.end() == 0
        served.restart()
        until_each_has(sending, 15)
    check_that_nothing_is_lost(served, vera, sending)


def test_kill_9_while_clients_send_loses_nothing(served: RunningServer) -> None:
    vera = served.place.join("vera")
    with senders(served, "@vera") as sending:
        for count in (5, 15):
            until_each_has(sending, count)
            served.kill()
            served.restart()
        until_each_has(sending, 25)
    check_that_nothing_is_lost(served, vera, sending)


def check_that_nothing_is_lost(served: RunningServer, vera: str, sending: list[Sender]) -> None:
    """Check that each answered message is there once, and each unanswered one at most once. After a
    retry with its key, it is there once. The log must verify."""
    found = received(served, vera)
    for sender in sending:
        assert sender.refused == []
        assert all(found[text] == 1 for text in sender.accepted)
        assert all(found[text] <= 1 for text in sender.unanswered)
        for text in sender.unanswered:
            again = served.send(sender.token, "@vera", text, Idempotency_Key=text)
            assert again.status == 200
    found = received(served, vera)
    sent = [text for sender in sending for text in (*sender.accepted, *sender.unanswered)]
    assert set(found) == set(sent)
    assert set(found.values()) == {1}
    assert served.ask("GET", "/v1/audit/verify", token=vera).json["ok"] is True


# --- after a crash


def test_the_files_of_a_killed_server_block_no_command(served: RunningServer) -> None:
    served.place.join("otto")
    owner = served.owner
    served.kill()
    left = set(os.listdir(served.place.workspace))
    assert {"server.json", "server.sock"} <= left
    assert served.place.ok("send", "@otto", "still here")["accepted"] is True
    assert len(served.place.ok("inbox")["messages"]) == 1
    assert served.place.ok("down") == {"stopped": False}
    served.restart()
    assert served.place.ok("whoami")["open"] == 1
    assert served.ask("GET", "/v1/tokens", token=owner).status == 200


def test_a_starting_server_removes_the_address_of_a_killed_one(
    served: RunningServer,
) -> None:
    """Otherwise `down` could end another process that got the pid of the dead server."""
    directory = str(served.place.workspace)
    served.kill()
    assert server_of(directory) is not None
    starting = records.lock(directory)
    assert starting is not None
    try:
        assert is_served(directory)
        assert server_of(directory) is None
    finally:
        os.close(starting)


def test_down_waits_for_a_server_that_is_starting(place: Place) -> None:
    place.ok("init")
    starting = place.start("up", "--port", str(free_port()), "--json")
    until(lambda: is_served(str(place.workspace)))
    assert place.ok("down") == {"stopped": True, "pid": starting.pid}
    starting.communicate(timeout=LIMIT_S)
    assert starting.returncode == 0


@pytest.fixture
def dying(place: Place) -> Iterator[None]:
    """A fake server that reads one request and then closes."""
    place.join("otto")
    path = str(place.workspace / "server.sock")
    records.publish(str(place.workspace), About(os.getpid(), "", path, "", __version__))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=die_of_one_request, args=(listener,))
        thread.start()
        yield
        thread.join()


def die_of_one_request(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        asked = connection.recv(65_536)
        if asked.startswith(b"POST"):
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    listener.close()


@pytest.mark.usefixtures("dying")
def test_a_read_whose_answer_was_lost_is_repeated_on_the_file(place: Place) -> None:
    assert place.ok("whoami")["sender"] == "otto"


@pytest.mark.usefixtures("dying")
def test_a_write_whose_answer_was_lost_has_an_unknown_outcome(place: Place) -> None:
    done = place.run("send", "@otto", "did it go?", "--json")
    assert done.status == 4
    assert done.json["code"] == "ENGINE_UNAVAILABLE"
    assert done.json["outcome"] == "unknown"
    assert "--key" in done.json["message"]


def test_commands_work_while_the_server_is_killed_and_restarted(served: RunningServer) -> None:
    token = served.place.join("otto")
    for number in range(2):
        assert served.place.ok("send", "@otto", f"served {number}")["accepted"]
        served.kill()
        assert served.place.ok("send", "@otto", f"alone {number}")["accepted"]
        served.restart()
    texts = {f"{how} {number}" for how in ("served", "alone") for number in range(2)}
    assert received(served, token) == dict.fromkeys(texts, 1)


# --- commands for a server's URL


def at(place: Place, port: int) -> Place:
    """Return the same place with commands that use a URL, and otto's token in the environment."""
    token = json.loads((place.workspace / "credentials" / "otto.json").read_text())["token"]
    return place.but(INTERLOCK_WORKSPACE=f"http://127.0.0.1:{port}", INTERLOCK_TOKEN=token)


def test_a_command_can_use_the_url_of_a_server(settled: RunningServer) -> None:
    far = at(settled.place, settled.port)
    assert far.ok("whoami")["sender"] == "otto"
    assert far.ok("send", "@otto", "over HTTP")["accepted"] is True
    far.no("MISSING_SCOPE", "join", "mallory")


def test_a_url_without_a_server_is_reported_as_unreachable(place: Place) -> None:
    place.join("otto")
    far = at(place, free_port())
    for words in (("whoami",), ("send", "@otto", "hello")):
        error = far.no("ENGINE_UNAVAILABLE", *words)
        assert "outcome" not in error
        assert "Cannot reach" in error["message"]


def test_only_a_write_to_a_dying_server_has_an_unknown_outcome(place: Place) -> None:
    place.join("otto")
    for words, outcome in ((("whoami",), None), (("send", "@otto", "hello"), "unknown")):
        with socket.create_server(("127.0.0.1", free_port())) as listener:
            dying = threading.Thread(target=die_of_one_request, args=(listener,))
            dying.start()
            far = at(place, listener.getsockname()[1])
            assert far.no("ENGINE_UNAVAILABLE", *words).get("outcome") == outcome
            dying.join()


# --- logs


def test_logs_are_json_lines_without_tokens_or_message_texts(
    served: RunningServer,
) -> None:
    token = served.place.join("otto")
    secret = "the launch code is marmalade"
    served.send(token, "@otto", secret)
    served.send(token, secret, "text")
    served.send(token + "x", "@otto", secret)
    served.ask("POST", "/v1/messages", secret.encode(), token=token)
    served.ask("GET", "/v1/search?query=marmalade", token=token)
    served.ask("GET", f"/v1/messages/{token}", token=token)
    with served.connect() as junk:
        junk.sendall(b"marmalade\r\n\r\n")
        read_all(junk)
    assert served.end() == 0
    lines = served.log()
    assert [line["event"] for line in lines if line["log"] == "interlock.server"] == [
        "ready",
        "ended",
    ]
    for line in lines:
        assert {"at", "level", "log", "event"} <= set(line)
    written = (served.place.workspace / "server.log").read_text()
    for word in ("marmalade", token, served.owner):
        assert word not in written
