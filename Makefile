# Everything a developer types. GNU make 3.81 (macOS) is enough. Another Python than python3:
#   make PYTHON=python3.13 test

PYTHON ?= python3
PY := .venv/bin/python
PYTEST := $(PY) -m pytest --dist worksteal
ON_ENGINE := $(PYTEST) -n 3 -m 'every_engine and not long' --engine

# Let each process use what another has compiled, even where the environment says otherwise: pytest
# spends ten seconds in each worker to compile the tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help up test longtest enginetest check bench demo clean installed ready

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' Makefile

up: installed ## start Interlock for your agents, and say what to type; Ctrl-C ends it
	@exec .venv/bin/interlock up

test: ready ## run the tests
	@.ci/programs
	$(PYTEST) -n 4 --durations=10 -m 'not long'

longtest: ready ## run those that take minutes
	@.ci/programs
	$(PYTEST) -n 2 -m long

enginetest: ready ## run the tests of every engine on Redis and on PostgreSQL
	@.ci/programs
	$(ON_ENGINE) redis
	$(ON_ENGINE) postgres

check: ready ## format, lint, types, import rules, generated files current
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	$(PY) -m interlock.generate --check

bench: ready ## measure, and print what was measured
	$(PY) -m bench

demo: installed ## a scripted day of three agents and a person, for the dashboard
	@exec $(PY) -m demo

clean: ## remove what make has made: .venv, caches, compiled files
	rm -rf .venv .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests bench demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Compiled at every call because commands start often and PYTHONDONTWRITEBYTECODE may be set;
# what is already compiled costs a few hundredths of a second.
installed: .venv/installed
	@$(PY) -m compileall -q src

ready: .venv/ready
	@$(PY) -m compileall -q src

# Who only uses Interlock waits for what it needs, and not for the tools of its developers. A file
# of its own marks the end of each installation, so that an interrupted one is done again.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Interlock needs Python 3.11 or newer. Name one, for example: make PYTHON=python3.13 test")'
	@test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/ready: .venv/installed
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
