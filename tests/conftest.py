"""What tests of every directory may ask for, and which engine they run on: see tests/engines."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["chosen", "remotes"]

# How long an example took says nothing on a noisy machine.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
