"""A server that cannot start reports the cause in one line. A closed standard output does not stop
a server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.local.link import is_served, server_of
from world.commandline import LIMIT_S, Place, until
from world.server import free_port

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", ["server.log", "server.lock", "owner.json"])
@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_a_file_that_cannot_be_written_is_named(
    place: Place, name: str, words: tuple[str, ...]
) -> None:
    """The test puts a directory in place of the file: even root cannot write to it."""
    place.ok("init")
    path = place.workspace / name
    path.mkdir()
    done = place.process("up", "--port", "0", *words)
    assert done.status == 4, done
    assert done.complaint.startswith(f"Engine unavailable (ENGINE_UNAVAILABLE): {path}")
    assert len(done.complaint.splitlines()) == 1
    assert not is_served(str(place.workspace))


DEFECTIVE = """
import sys
from interlock.server import __main__ as server
def fails(*given):
    raise ZeroDivisionError
server.listening = fails
sys.exit(server.main())
"""


def test_a_defect_is_reported_as_one_json_object(place: Place) -> None:
    place.ok("init")
    words = ["--workspace", str(place.workspace), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", DEFECTIVE, *words],
        env=place.environ,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (70, b"")
    answer = json.loads(done.stdout)
    assert answer["code"] == "INTERNAL"
    assert "ZeroDivisionError" in Path(answer["report"]).read_text()
    Path(answer["report"]).unlink()


@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_a_server_runs_even_if_its_announcement_cannot_be_printed(
    place: Place, words: tuple[str, ...]
) -> None:
    place.ok("init")
    where = [sys.executable, "-m", "interlock", "up", "--port", str(free_port()), *words]
    starting = subprocess.Popen(
        where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.environ,
        cwd=place.cwd,
    )
    assert starting.stdout is not None
    starting.stdout.close()
    starting.stdout = None
    about = until(lambda: server_of(str(place.workspace)))
    if words:
        assert starting.wait(LIMIT_S) == 0
    assert place.ok("status")["agents"] == 0
    assert place.ok("down") == {"stopped": True, "pid": about.pid}
    assert starting.communicate(timeout=LIMIT_S)[1] == b""
    assert starting.returncode == 0
    ended = json.loads((place.workspace / "server.log").read_text().splitlines()[-1])
    assert ended["event"] == "ended"
