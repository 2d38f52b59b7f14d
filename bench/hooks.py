"""Hooks without new mail, as clients call them: as commands, compared with a Python that does
nothing, and over HTTP."""

import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from statistics import median
from typing import Any, NamedTuple

from bench.commands import command, environment, started
from bench.scene import opened
from bench.server import Served

CLIENT = "claude-code"
WARM_UP = 5


class Hooks(NamedTuple):
    """Milliseconds of a Python that does nothing and of each event, as medians, and the medians of
    the events' ratios."""

    nothing: float
    took: dict[str, float]
    ratios: dict[str, float]


def measure(directory: str, runs: int, *, served: bool = False) -> Hooks:
    """Measure each event on the file, or through a running server of the workspace."""
    place, repository = (os.path.join(directory, name) for name in ("workspace", "repository"))
    node, senders = opened(place, 2)
    node.close()
    subprocess.run(["git", "init", "--quiet", repository], check=True)
    environ = environment(directory, place, senders[0])
    given = _given(repository)
    if not served:
        return _measured(environ, given, runs)
    with started(environ):
        return _measured(environ, given, runs)


def over_http(server: Served, times: int) -> float:
    """Return the median milliseconds of a posted hook on an open connection."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port))
    headers = {
        "Authorization": f"Bearer {server.tokens[-1]}",
        "Content-Type": "application/json",
    }
    body = json.dumps({"session_id": "bench", "cwd": os.getcwd()})
    took = []
    for turn in range(-WARM_UP, times):
        began = time.perf_counter()
        connection.request("POST", f"/hooks/{CLIENT}/PostToolUse", body, headers)
        connection.getresponse().read()
        if turn >= 0:
            took.append((time.perf_counter() - began) * 1000)
    connection.close()
    return median(took)


def _given(repository: str) -> dict[str, bytes]:
    """Return the client's input for each event."""
    about = {"session_id": "bench", "cwd": repository}
    edit = {"tool_name": "Edit", "tool_input": {"file_path": os.path.join(repository, "a.py")}}
    members: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {},
        "PostToolUse": {},
        "PreToolUse": edit,
    }
    return {event: json.dumps(about | more).encode() for event, more in members.items()}


def _measured(environ: dict[str, str], given: dict[str, bytes], runs: int) -> Hooks:
    took: dict[str, list[float]] = {event: [] for event in ("", *given)}
    for turn in range(-1, runs):
        for event, times in took.items():
            words = command("hook", CLIENT, event) if event else [sys.executable, "-c", "pass"]
            began = time.perf_counter()
            done = subprocess.run(
                words, env=environ, input=given.get(event, b""), stdout=subprocess.PIPE, check=True
            )
            if turn >= 0:  # the first of each only warms the disk's cache
                times.append((time.perf_counter() - began) * 1000)
            if done.stdout.strip() not in (b"", b"{}"):
                raise SystemExit(f"bench: a hook reported new mail: {done.stdout.decode()}")
    nothing = took.pop("")
    return Hooks(
        median(nothing),
        {event: median(times) for event, times in took.items()},
        {event: _ratio(times, nothing) for event, times in took.items()},
    )


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(our / their for our, their in zip(ours, theirs, strict=True))
