"""Refusals in a shell that may use neither the workspace's files nor the server's socket. They name
the alternatives. The tests use another user instead of a sandbox."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.doors.cli import main
from interlock.local import workspace
from world.commandline import Place
from world.fork_server import ServersByWorkspace

pytestmark = pytest.mark.every_engine

NOBODY = 65534


@pytest.fixture
def open_place(served: ServersByWorkspace | None) -> Iterator[Place]:
    """A place whose directories every user can traverse, like those of a sandbox."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    place = Place(root, served)
    place.join("otto", None)
    place.join("vera", None)
    yield place
    shutil.rmtree(root)


def told(place: Place, *words: str, cwd: str | Path = os.sep) -> str:
    """Return the refusal for a user who is not the workspace's owner. The command runs in a fork,
    because that user may not be able to read Python's own files."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.chdir(cwd)
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


as_another = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")


@as_another
@pytest.mark.parametrize("served", ["direct", "served"], indirect=True)
@pytest.mark.parametrize("words", [("send", "@nova", "hi"), ("inbox",)])
def test_refusal_in_a_sandboxed_shell_names_the_alternatives(
    open_place: Place, words: tuple[str, ...]
) -> None:
    open_place.ok(*words, "--from", "vera")
    message = told(open_place, *words, "--from", "otto")
    assert "Cannot read " in message
    assert "MCP" in message
    for path in (open_place.workspace, open_place.workspace / "credentials"):
        path.chmod(0o755)
    (open_place.workspace / "credentials" / "otto.json").chmod(0o644)
    message = told(open_place, *words, "--from", "otto")
    assert "If this shell is sandboxed" in message
    assert "interlock evidence run stores a run in a file" in message
    assert open_place.ok("inbox", "--all", "--from", "otto")["messages"] == []


@as_another
@pytest.mark.embedded
@pytest.mark.parametrize("closed", [".git", ".git/interlock", ".git/worktrees"])
@pytest.mark.parametrize("words", [("claim", "acquire", "--item", "B-1"), ("inbox",), ("agents",)])
def test_unreadable_workspace_of_a_repository_is_not_treated_as_absent(
    words: tuple[str, ...], closed: str
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        place = Place(root).but(INTERLOCK_WORKSPACE="")
        os.chown(place.home, NOBODY, NOBODY)
        for git in (
            ("init", "-q", "."),
            ("-c", "user.name=o", "-c", "user.email=o@e", "commit", "-q", "--allow-empty", "-mx"),
            ("worktree", "add", "-q", str(root / "linked")),
        ):
            subprocess.run(["git", *git], cwd=place.cwd, env=place.environ, check=True, timeout=60)
        place.ok("init", "--here")
        (place.cwd / closed).chmod(0o700)
        cwd = root / "linked" if closed == ".git/worktrees" else place.cwd
        message = told(place, *words, "--from", "otto", cwd=cwd)
        assert "Cannot read " in message
        assert "If this shell is sandboxed" in message
        assert list(place.home.iterdir()) == []
    finally:
        shutil.rmtree(root)


@as_another
@pytest.mark.embedded
@pytest.mark.parametrize("mode", [0o700, 0o755], ids=["closed", "read-only"])
@pytest.mark.parametrize("words", [("inbox", "--from", "otto"), ("inbox",), ("agents",)])
def test_refusal_without_a_usable_home_does_not_suggest_join(
    words: tuple[str, ...], mode: int
) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o755)
        place = Place(root).but(INTERLOCK_WORKSPACE="")
        place.home.chmod(mode)
        message = told(place, *words, cwd=place.cwd)
        assert "If this shell is sandboxed" in message
        assert "interlock join" not in message
    finally:
        shutil.rmtree(root)


@as_another
@pytest.mark.parametrize("closed", [".interlock", "outer/.git"])
def test_unreadable_parent_directories_are_ignored(closed: str) -> None:
    """Otherwise any user could block all users below a directory that every user can write."""
    with tempfile.TemporaryDirectory() as own:
        root = Path(own)
        root.chmod(0o755)
        (root / "outer" / "inner" / ".git").mkdir(parents=True)
        (root / closed).mkdir(0o700)
        child = os.fork()
        if child == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os._exit(0 if workspace.nearest(str(root / "outer" / "inner")) is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
