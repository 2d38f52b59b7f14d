"""The database servers of the tests restart with their port, and none outlives its test."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from world.commandline import until
from world.databases import PostgresServer, Server, ValkeyServer
from world.paths import TESTS

KINDS = (PostgresServer, ValkeyServer)
STARTER = """
import sys
from world import databases
server = getattr(databases, sys.argv[1])(sys.argv[2])
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""


def is_in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_server_outlives_its_test(kind: type[Server], tmp_path: Path) -> None:
    """The server ends even if the test process is killed."""
    tests = subprocess.Popen(
        [sys.executable, "-c", STARTER, kind.__name__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert tests.stdout is not None
    assert tests.stdin is not None
    port = int(tests.stdout.readline())
    assert is_in_use(port)
    tests.send_signal(signal.SIGKILL)
    tests.wait()
    until(lambda: not is_in_use(port))
    tests.stdin.close()
    tests.stdout.close()


@pytest.mark.parametrize("kind", KINDS)
def test_server_restarts_on_its_own_port(kind: type[Server], tmp_path: Path) -> None:
    with kind(tmp_path) as server:
        for end in (server.stop, server.kill):
            assert is_in_use(server.port)
            end()
            assert not is_in_use(server.port)
            server.start()
    assert not is_in_use(server.port)


@pytest.mark.parametrize("kind", KINDS)
def test_failed_start_shows_the_reason(kind: type[Server], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no_such_setting"):
        kind(tmp_path, {"no_such_setting": "1"}).start()
