"""Loads the fixtures of tests/world for the tests of every directory."""

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["world.chosen", "world.remotes", "world.fixtures", "world.browsing", "world.site"]

# How long an example took says nothing on a noisy machine.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# A tmpfs on Linux. Suites that ended without a failure have used at most 2 GiB there.
MEMORY, ENOUGH_BYTES = "/dev/shm", 6 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where there is room: fsync is free there, and tests end
    processes and never the machine. The short path leaves room for the names of sockets."""
    roomy = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES
    if roomy and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="il-", dir=MEMORY)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the files in memory, unless a test failed and its files may tell why."""
    directory = session.config.option.basetemp
    is_worker = hasattr(session.config, "workerinput")
    if directory and directory.startswith(f"{MEMORY}/il-") and not is_worker and exitstatus == 0:
        shutil.rmtree(directory, ignore_errors=True)
