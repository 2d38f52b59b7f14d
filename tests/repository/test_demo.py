"""`make demo`: the demo runs to its end, and the log has the events that it prints."""

import subprocess
import sys

import pytest

from world.paths import ROOT

pytestmark = pytest.mark.every_engine


def test_demo_runs_to_its_end_and_its_log_verifies() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--pace", "0", "--end"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Interlock records the run: exit 1." in done.stdout
    assert "otto completes B-12" in done.stdout
    assert "Its log verifies" in done.stdout
    assert done.stderr == ""
