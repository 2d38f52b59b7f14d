"""A shell that may use neither the files of the workspace nor the socket of the server is told so,
and what to do instead. Another user stands for the sandbox."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import Place
from forking import Served

from interlock.doors.cli import main

NOBODY = 65534


@pytest.fixture
def open_place(served: Served | None) -> Iterator[Place]:
    """A place whose directories everybody may pass through, as a sandbox's are."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    place = Place(root, served)
    place.join("otto", None)
    place.join("vera", None)
    yield place
    shutil.rmtree(root)


def told(place: Place, *words: str) -> str:
    """The refusal that somebody gets who is not the workspace's owner. What is imported is there
    already, since Python itself may lie where only its owner can look."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.chdir(os.sep)
        os.environ.clear()
        os.environ.update(place.environ)
        sys.stdout = os.fdopen(writer, "w")
        status = main([*words, "--json"])
        sys.stdout.flush()
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as answer:
        refusal = json.load(answer)
    _, status = os.waitpid(child, 0)
    assert refusal["code"] == "ENGINE_UNAVAILABLE", refusal
    assert os.waitstatus_to_exitcode(status) == 4
    return str(refusal["message"])


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else can be stood in for")
@pytest.mark.parametrize("served", ["direct", "served"], indirect=True)
@pytest.mark.parametrize("words", [("send", "@nova", "hi"), ("inbox",)])
def test_a_sandboxed_shell_is_told_what_to_do(open_place: Place, words: tuple[str, ...]) -> None:
    open_place.ok(*words, "--from", "vera")
    message = told(open_place, *words, "--from", "otto")
    assert "cannot be looked at from here" in message
    assert "MCP" in message
    for path in (open_place.workspace, open_place.workspace / "credentials"):
        path.chmod(0o755)
    (open_place.workspace / "credentials" / "otto.json").chmod(0o644)
    message = told(open_place, *words, "--from", "otto")
    assert "If this shell is sandboxed" in message
    assert "interlock evidence run keeps a run in a file" in message
    assert open_place.ok("inbox", "--all", "--from", "otto")["messages"] == []
