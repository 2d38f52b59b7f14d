"""What tests of every directory may ask for: see tests/engines/remotes.py."""

pytest_plugins = ["remotes"]
