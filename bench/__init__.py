"""Benchmarks: speed as ratios within one run."""

import os
import sys

# The tests' package `world` starts the database servers.
sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "tests"))
