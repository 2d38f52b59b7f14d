"""Loads the fixtures of tests/world for the tests of every directory."""

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["world.chosen", "world.remotes", "world.fixtures", "world.browsing", "world.site"]

# On a busy machine, the duration of an example means nothing.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# A tmpfs on Linux. A suite without failures uses at most 2 GiB of it.
MEMORY, ENOUGH_BYTES = "/dev/shm", 6 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put the files of tests into memory if there is room. There fsync costs nothing, and the tests
    simulate crashes of processes, not of the machine. The path is short, because the paths of
    sockets have a maximum length."""
    roomy = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES
    if roomy and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="il-", dir=MEMORY)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the files in memory, unless a test failed and its files may show why."""
    directory = session.config.option.basetemp
    is_worker = hasattr(session.config, "workerinput")
    if directory and directory.startswith(f"{MEMORY}/il-") and not is_worker and exitstatus == 0:
        shutil.rmtree(directory, ignore_errors=True)
