"""A server that runs but does not answer. Reads use the file instead. Commands do not repeat writes
that the server may have executed. The doctor names the server."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock import __version__
from interlock.local import link
from interlock.local.link import About, LocalLink
from interlock.rooms.workspace.verbs import ShowStatus
from interlock.server import records
from interlock.verbs.credentials import Credentials
from world.commandline import Place
from world.fork_server import Servers
from world.server import ForkedServer, RunningServer

pytestmark = pytest.mark.long


@pytest.fixture
def hanging(
    tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningServer]:
    with ForkedServer(Place(tmp_path), servers) as served:
        served.place.join("otto")
        served.signal(signal.SIGSTOP)
        monkeypatch.setattr(link, "QUIET_S", 0.2)
        monkeypatch.setattr(link, "PATIENCE_S", 0.5)
        yield served


def test_a_read_uses_the_file_and_reports_the_server(
    hanging: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 1e6)
    done = hanging.place.run("whoami")
    assert done.status == 0
    assert "You are @otto" in done.text
    assert done.complaint == (
        f"The server (process {hanging.pid}) does not answer. To find out why: interlock doctor\n"
    )
    assert hanging.place.ok("whoami")["sender"] == "otto"


def test_the_doctor_names_a_server_that_does_not_answer(hanging: RunningServer) -> None:
    done = hanging.place.run("doctor", "--json")
    assert done.status == 1
    (found,) = done.json["findings"]
    assert found["check"] == "one-server"
    assert f"(process {hanging.pid}) is running and does not answer" in found["message"]
    assert found["do"] == f"kill -9 {hanging.pid} && interlock up --detach"
    hanging.signal(signal.SIGCONT)


def test_up_refuses_while_a_server_does_not_answer(hanging: RunningServer) -> None:
    refused = hanging.place.no("ENGINE_UNAVAILABLE", "up", "--detach")
    assert f"kill -9 {hanging.pid}" in refused["message"]


def test_a_write_that_the_server_may_still_execute_is_not_repeated(hanging: RunningServer) -> None:
    refused = hanging.place.no("ENGINE_UNAVAILABLE", "send", "@otto", "once")
    assert refused["outcome"] == "unknown"
    assert "does not answer" in refused["message"]
    assert hanging.place.query("SELECT count(*) FROM mail_messages")[0][0] == 0


def test_a_slow_read_is_not_given_up_while_the_server_answers_other_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake server answers the first request only after the second one has arrived."""
    directory, path = str(tmp_path), str(tmp_path / "server.sock")
    records.publish(directory, About(os.getpid(), "", path, "", __version__))
    monkeypatch.setattr(link, "QUIET_S", 2.0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=answer_the_second_first, args=(listener,))
        thread.start()
        slow = LocalLink(directory)
        assert slow.call(Credentials(), ShowStatus()) == {"slow": True}
        assert slow.silent is None
        thread.join()


def answer_the_second_first(listener: socket.socket) -> None:
    waiting = []
    for body in (b'{"slow": true}', b'{"ok": true}'):
        connection, _ = listener.accept()
        connection.recv(65_536)
        waiting.append((connection, body))
    for connection, body in reversed(waiting):
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        connection.close()
