"""The benchmark runs from end to end and prints a line for each measurement. No test of speed."""

import os
import subprocess
import sys

import pytest

from world.paths import ROOT

ROWS = (
    "durable sends, 32 callers",
    "durable sends, 32 callers, fsync + 3 ms",
    "durable sends, one caller",
    "durable sends, one caller, fsync + 3 ms",
    "send during saturation, worst",
    "interlock send during saturation, worst",
    "interlock claim check",
    "interlock send",
    "HTTP sends, 32 connections",
    "HTTP sends / bare group commit",
    "MCP send, one caller",
    "MCP sends, 32 callers",
    "time from send to event",
    "server memory (MB) after 2,000 messages",
    "interlock claim check, served",
    "interlock send, served",
    *(
        f"hook {event}{way}"
        for way in ("", ", served")
        for event in ("UserPromptSubmit", "PostToolUse", "PreToolUse")
    ),
    "HTTP hook without new mail",
    "inbox among 2,000 messages",
    "rebuild",
    "audit verify",
    *(
        f"{engine}: {row}"
        for engine in ("Valkey", "PostgreSQL")
        for row in (
            "sends, 64 callers",
            "sends, two nodes / one",
            "send time (ms), two nodes",
            "append to fold on another node",
            "catch-up of a new node",
            "reads while following",
        )
    ),
)


@pytest.mark.long
def test_every_measurement_of_the_benchmark_prints_its_row() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--messages", "2000"],
        cwd=ROOT,
        env=os.environ | {"PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].count("SQLite") == lines[0].count("Python") == lines[0].count("cores") == 1
    for row in ROWS:
        found = [line for line in lines if line.partition("  ")[0] == row]
        assert len(found) == 1, row
        assert any(character.isdigit() for character in found[0].removeprefix(row)), found
    assert "A smaller run: 2,000 messages" in lines[-1]


def test_benchmark_refuses_a_too_small_number_of_messages() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--messages", "10"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "--messages must be at least 1000" in done.stderr
