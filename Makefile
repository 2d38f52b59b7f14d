# The commands of developers. GNU make 3.81 (macOS) is enough. To use another Python than python3:
#   make PYTHON=python3.13 test

PYTHON ?= python3
PY := .venv/bin/python
PYTEST := $(PY) -m pytest --dist worksteal
ON_ENGINE := $(PYTEST) -n 3 -m 'every_engine and not long' --engine

# Let processes share compiled files, even if the environment forbids it: otherwise each pytest
# worker takes ten seconds to compile the tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help up test longtest enginetest check docs bench demo clean installed ready

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

up: installed ## start the server, and print the next commands; Ctrl-C stops it
	@exec .venv/bin/interlock up

test: ready ## run the tests, except the long ones
	@.ci/programs
	$(PYTEST) -n 4 --durations=10 -m 'not long'

longtest: ready ## run the tests that take minutes
	@.ci/programs
	$(PYTEST) -n 3 --durations=15 -m long

enginetest: ready ## run the tests for all engines on Redis and on PostgreSQL
	@.ci/programs
	$(ON_ENGINE) redis
	$(ON_ENGINE) postgres

check: ready ## check format, lint, types, import rules and generated files
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PY) -m interlock.generate --check

docs: ready ## build the documentation that the server shows at /docs
	@$(PY) docs/build.py

bench: ready ## measure the speed, and print the figures
	$(PY) -m bench

demo: installed ## run a scripted day of three agents and a person, for the dashboard
	@exec $(PY) -m demo

clean: ## remove the files that make created: .venv, caches, compiled files
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	rm -rf src/interlock/doors/web/site
	find src tests bench demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Compile at every call: commands start often, and PYTHONDONTWRITEBYTECODE may be set when they run.
# If nothing has changed, this takes a few hundredths of a second.
installed: .venv/installed
	@$(PY) -m compileall -q src

ready: .venv/ready
	@$(PY) -m compileall -q src

# `make up` installs what users need, without the tools of developers. A file marks the end of each
# installation, so that an interrupted one is repeated.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Interlock needs Python 3.11 or newer. Name one, for example: make PYTHON=python3.13 test")'
	@test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/ready: .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
