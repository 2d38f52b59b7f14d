"""The directories that tests read."""

from pathlib import Path

WORLD = Path(__file__).resolve().parent
TESTS = WORLD.parent
ROOT = TESTS.parent
