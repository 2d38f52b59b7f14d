"""What tests of every directory may ask for, and which engine they run on: see tests/engines."""

pytest_plugins = ["chosen", "remotes"]
