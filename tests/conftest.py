"""Loads the fixtures of tests/world for the tests of every directory."""

import os
import shutil

from hypothesis import HealthCheck, settings

pytest_plugins = ["world.chosen", "world.remotes", "world.fixtures", "world.browsing"]

# How long an example took says nothing on a noisy machine.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# Tests end processes and never the machine, so their files may be in memory. There fsync is free.
MEMORY, ENOUGH_BYTES = "/dev/shm", 6 << 30
if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
