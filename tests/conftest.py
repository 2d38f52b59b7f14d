"""Loads the fixtures of tests/world for the tests of every directory."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["world.chosen", "world.remotes", "world.fixtures", "world.browsing"]

# How long an example took says nothing on a noisy machine.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
