"""Each import rule in pyproject.toml detects a violation in a copy of the source.

A rule with a wrong or missing module name would pass unnoticed. So every rule has at least one row
in VIOLATIONS that only this rule catches.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from world.paths import ROOT

REPO = str(ROOT)
PYPROJECT = os.path.join(REPO, "pyproject.toml")
PACKAGE = os.path.join(REPO, "src", "interlock")

ONE_WAY = "Imports point one way"
NODE_ONLY = "Only the node imports the rules and the stores"
DOORS = "Doors do not import each other"
FRONT = "The package itself imports none of its modules"
SCHEMAS = "Only the command line imports the schemas"
PURE = "Rules use no clock, randomness, environment or network"


class Violation(NamedTuple):
    rule: str
    module: str  # below `interlock`; empty for the package itself
    line: str


VIOLATIONS = [
    Violation(ONE_WAY, "errors", "from interlock import verbs"),
    Violation(ONE_WAY, "machine.processes", "import interlock.node"),
    Violation(ONE_WAY, "rooms", "import interlock.stores"),
    Violation(ONE_WAY, "rooms", "import interlock.node"),
    Violation(ONE_WAY, "stores", "import interlock.rooms"),
    Violation(ONE_WAY, "stores", "def late() -> None:\n    import interlock.doors"),
    Violation(ONE_WAY, "node", "import interlock.local.workspace"),
    Violation(ONE_WAY, "local.workspace", "import interlock.doors"),
    Violation(ONE_WAY, "plugins", "import interlock.agents.wake"),
    Violation(ONE_WAY, "doors.cli", "import interlock.__main__"),
    Violation(ONE_WAY, "cellar", "CELLAR = 'a module that no layer names'"),
    Violation(NODE_ONLY, "doors.cli", "import interlock.rooms.transaction"),
    Violation(NODE_ONLY, "doors.http", "from interlock.rooms.mail import sending"),
    Violation(NODE_ONLY, "doors.cli", "import interlock.stores"),
    Violation(NODE_ONLY, "local.workspace", "from interlock.rooms.claims.rules import grant"),
    Violation(NODE_ONLY, "agents.guards", "import interlock.stores"),
    Violation(NODE_ONLY, "__main__", "import interlock.rooms.folding"),
    Violation(ONE_WAY, "verbs", "import interlock.rooms.catalogue"),
    Violation(ONE_WAY, "log", "import interlock.verbs.verb"),
    Violation(DOORS, "doors.side_door", "import interlock.doors.cli"),
    Violation(DOORS, "doors.cli", "import interlock.doors.side_door"),
    Violation(FRONT, "", "from interlock import errors"),
    Violation(PURE, "rooms", "import time"),
    Violation(PURE, "rooms", "def late() -> None:\n    from random import choice"),
    Violation(SCHEMAS, "rooms.mail.verbs", "import interlock.rooms.mail.schemas"),
    Violation(PURE, "rooms.mail.payloads", "from os import environ"),
    Violation(PURE, "verbs.addresses", "import http.client"),
    Violation(PURE, "errors", "import datetime as dt"),
    Violation(PURE, "verbs", "import time"),
    Violation(PURE, "log", "import socket"),
]


def configured() -> list[dict[str, Any]]:
    with open(PYPROJECT, "rb") as file:
        contracts: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return contracts


def lint(tree: str) -> str:
    """Run import-linter on the package in `tree` with the project's rules. Return its output."""
    command = "from importlinter.cli import lint_imports_command as lint; lint()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--config", PYPROJECT, "--no-cache", "--no-logo"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": tree, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def broken(output: str) -> list[str]:
    """Return the broken rules. The output must have a verdict on every rule."""
    verdicts = dict(re.findall(r"^(.+) (KEPT|BROKEN)\b", output, re.MULTILINE))
    assert verdicts.keys() == {contract["name"] for contract in configured()}, output
    return [rule for rule, verdict in verdicts.items() if verdict == "BROKEN"]


@pytest.fixture
def tree(tmp_path: Any) -> str:
    """Return a directory with a copy of the package that has an additional door."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "interlock", ignore=ignore)
    (tmp_path / "interlock" / "doors" / "side_door.py").touch()
    return str(tmp_path)


def append(tree: str, module: str, line: str) -> None:
    """Append the line to a module. Create the module if it does not exist."""
    path = os.path.join(tree, "interlock", *module.split("."))
    file = os.path.join(path, "__init__.py") if os.path.isdir(path) else path + ".py"
    with open(file, "a", encoding="utf-8") as source:
        source.write(f"\n{line}\n")


def test_unchanged_source_breaks_no_rule(tree: str) -> None:
    output = lint(tree)
    assert broken(output) == [], output


@pytest.mark.parametrize(
    "violation", VIOLATIONS, ids=lambda each: f"{each.module or 'interlock'}: {each.line}"
)
def test_forbidden_import_breaks_only_its_rule(tree: str, violation: Violation) -> None:
    append(tree, violation.module, violation.line)
    output = lint(tree)
    assert broken(output) == [violation.rule], output


def test_every_rule_has_an_import_that_breaks_it() -> None:
    assert {contract["name"] for contract in configured()} == {each.rule for each in VIOLATIONS}


@pytest.mark.parametrize("package", ["rooms", "verbs", "log", "errors"])
def test_every_listed_foreign_module_is_caught(tree: str, package: str) -> None:
    (listed,) = (each["forbidden_modules"] for each in configured() if each["name"] == PURE)
    foreign = [module for module in listed if not module.startswith("interlock.")]
    append(tree, package, "\n".join(f"import {module}" for module in foreign))
    output = lint(tree)
    caught = re.findall(rf"^interlock\.{package} is not allowed to import (\S+):$", output, re.M)
    assert sorted(caught) == sorted(foreign), output


# Doors and clients import these modules of a room: its declarations, its flows, the formats of
# messages, findings and tokens, and the shapes of secrets.
PUBLIC = {
    *("__init__", "verbs", "answers", "uploads", "findings", "secrets"),
    *("message_types", "payloads", "schemas", "scopes", "token_files", "token_format"),
}


def test_every_module_of_rules_is_protected() -> None:
    (protected,) = (each["protected_modules"] for each in configured() if each["name"] == NODE_ONLY)
    rooms = Path(PACKAGE, "rooms")
    rules = {
        f"interlock.rooms.{file.parent.name}.{file.stem}"
        for file in rooms.glob("*/*.py")
        if file.stem not in PUBLIC
    }
    listed = {name for name in protected if name.count(".") == 3}
    assert listed == rules


WRITES = re.compile(r"(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) ([a-z]+)_\w+")
# The identity room folds the facts about people, because it owns their senders and tokens.
OWNERS = {"people": {"identity"}}


def test_a_room_writes_only_its_own_tables() -> None:
    for file in Path(PACKAGE, "rooms").glob("*/*.py"):
        room = file.parent.name
        written = set(WRITES.findall(file.read_text()))
        assert written <= OWNERS.get(room, {room}), file
