"""The modules that commands and hooks import. They start hundreds of times a day, so each module
costs time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 60
# The modules of Interlock that a command through a server needs.
EVERY_COMMAND = """
    doors doors.cli doors.cli.context doors.cli.derived doors.cli.grammar doors.cli.index
    doors.cli.lookup errors local local.link local.workspace rooms verbs verbs.addresses
    verbs.answers verbs.credentials verbs.http verbs.types verbs.verb
"""
CLAIMS = "rooms.claims rooms.claims.verbs"
TEXT = "doors.cli.output doors.cli.views"
HOOK = """
    agents agents.claude_code agents.claude_code.hooks agents.hooks doors.cli.hooking
    local.windows machine machine.processes rooms.workspace rooms.workspace.verbs verbs.flows
"""
# Modules of Python and of other packages that are too slow to import.
SLOW = """
    apsw argparse ast asyncio dataclasses datetime difflib hashlib importlib.metadata inspect
    orjson pydantic shutil socket ssl subprocess tempfile textwrap urllib.parse uuid
"""
# Runs a command with a fake answer of a server, and prints the imported modules. It also prints
# calls of `compile`: the first one costs a millisecond, and `typing` makes it for a forward
# reference.
SCRIPT = """
import builtins, json, sys

compiled, compile = [], builtins.compile

def noting(source, *rest, **named):
    if isinstance(source, str):
        compiled.append(source)
    return compile(source, *rest, **named)

builtins.compile = noting
answer, words = json.loads(sys.argv[1]), sys.argv[2:]
before = set(sys.modules)
from interlock.local import link
link.matching_server = lambda directory: link.About(1, "", "", "", "")
link._exchange = lambda *request, **how: (200, json.dumps(answer).encode())
from interlock.doors.cli import main
status = main(words)
imported = sorted(set(sys.modules) - before)
print(json.dumps({"status": status, "imported": imported, "compiled": compiled}))
"""


def started(place: Path, answer: dict[str, Any], *words: str, given: str = "") -> Any:
    """Run a command in its own process, and return the imported modules and compiled sources."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ |= {"HOME": str(place), "INTERLOCK_WORKSPACE": str(place), "INTERLOCK_TOKEN": "ilk_a"}
    (place / "log.db").touch()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(answer), *words],
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        cwd=place,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["status"] == 0, done.stderr
    return told


def own_modules(told: Any) -> set[str]:
    """Return the imported modules of Interlock."""
    names = (name.partition(".") for name in told["imported"])
    return {rest for package, _, rest in names if package == "interlock" and rest}


@pytest.mark.parametrize(
    ("words", "answer", "modules"),
    [
        (
            "claim check --item B-1",
            {"claimed": False, "claims": []},
            f"{CLAIMS} {TEXT} doors.cli.views.work",
        ),
        (
            "claim release B-1",
            {"released": [], "claims": []},
            f"{CLAIMS} {TEXT} doors.cli.views.work",
        ),
        (
            "inbox",
            {"messages": [], "unread": 0, "open": 0},
            f"{TEXT} doors.cli.mail doors.cli.views.mail log log.encoding rooms.mail "
            "rooms.mail.message_types rooms.mail.verbs",
        ),
    ],
)
def test_a_command_through_a_server_imports_only_its_own_room(
    tmp_path: Path, words: str, answer: dict[str, Any], modules: str
) -> None:
    told = started(tmp_path, answer, *words.split())
    assert own_modules(told) == set(f"{EVERY_COMMAND} {modules}".split())
    assert not set(SLOW.split()) & set(told["imported"])
    assert told["compiled"] == []


def test_hook_through_a_server_imports_only_needed_modules(tmp_path: Path) -> None:
    answer = {"unread": 0, "address": "@otto", "agent": "otto", "session": "s"}
    given = json.dumps({"session_id": "s", "cwd": str(tmp_path)})
    told = started(tmp_path, answer, "hook", "claude-code", "PostToolUse", given=given)
    assert own_modules(told) == set(f"{EVERY_COMMAND} {HOOK}".split())
    assert not set(SLOW.split()) & set(told["imported"])
    assert told["compiled"] == []


def test_the_overview_of_help_imports_no_declarations(tmp_path: Path) -> None:
    told = started(tmp_path, {}, "help")
    # The script itself imports the link, with the modules that the link needs.
    link = "local local.link verbs.answers verbs.credentials verbs.http"
    grammar = "doors doors.cli doors.cli.grammar doors.cli.index doors.cli.lookup"
    expected = f"{link} {grammar} doors.cli.help doors.cli.output errors verbs"
    assert own_modules(told) == set(expected.split())
    assert told["compiled"] == []
