"""The command line as programs use it. The tests check the answer of every command, the conventions
of all commands, the exit statuses, and the JSON members that the interface promises."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interlock import __version__
from interlock.doors.cli.lookup import all_commands
from interlock.rooms.work.verbs import GiveVerdict
from world.both_ways import BOTH_WAYS, DIRECT_ONLY
from world.chosen import restores
from world.commandline import BAR, LIMIT_S, TIME, Done, Place, check_answer, lines, until
from world.doors import COMMANDS as COMMANDS_OF
from world.doors import ON_THE_FILE, run_command
from world.fork_server import Servers, ServersByWorkspace
from world.furnished import Furnished
from world.paths import ROOT, TESTS
from world.playing import Stage
from world.row import Row
from world.rows import ROWS
from world.server import free_port
from world.working import BRIEF

pytestmark = pytest.mark.every_engine

COMMANDS = all_commands()

CASES = ROOT.parent / "shared" / "cases"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


# --- the shared cases


def _cases() -> list[Any]:
    files = sorted(CASES.glob("*.json"))
    if not files:
        return [pytest.param(None, id="the shared cases are missing")]
    return [
        pytest.param(case, id=f"{file.stem}: {case['name']}")
        for file in files
        for case in json.loads(file.read_text())["cases"]
    ]


def _runner() -> ModuleType:
    """Import the shared runner of the cases."""
    spec = importlib.util.spec_from_file_location("shared_cases", CASES / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", _cases())
def test_shared_case_gives_the_expected_answers(case: Any, place: Place) -> None:
    if case is None:
        pytest.skip(f"{CASES} does not exist")
    runner = _runner()

    def call(words: list[str], environ: dict[str, str], stdin: str | None = None) -> Any:
        done = place.run(
            *words,
            stdin=(stdin or "").encode(),
            HOME=environ["HOME"],
            INTERLOCK_WORKSPACE=environ["INTERLOCK_WORKSPACE"],
        )
        completed = subprocess.CompletedProcess(words, done.status, done.text, done.complaint)
        return completed, done.json

    runner.__dict__["call"] = call
    assert runner.play(case) is None


needs_cases = pytest.mark.skipif(not CASES.exists(), reason=f"{CASES} does not exist")


def _pass_with(place: Place, command: str) -> None:
    done = subprocess.run(
        [sys.executable, str(CASES / "run.py"), str(CASES / "mail.json")],
        env=place.environ | {"INTERLOCK": command},
        capture_output=True,
        text=True,
        timeout=3 * LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" passed, 0 failed\n")


@needs_cases
def test_the_shared_runner_passes_with_the_real_command(place: Place) -> None:
    _pass_with(place, f"{sys.executable} -m interlock")


# Starts the workspace's server before its first command.
WITH_A_SERVER = """#!/bin/sh
[ -e "$INTERLOCK_WORKSPACE/server.json" ] ||
    "$PY" -m interlock up --detach --port 0 --json >>"$TMPDIR/servers" || exit
exec "$PY" -m interlock "$@"
"""


@needs_cases
@pytest.mark.long
def test_the_shared_runner_passes_with_the_real_command_and_real_servers(place: Place) -> None:
    command = place.root / "interlock"
    command.write_text(WITH_A_SERVER)
    command.chmod(0o700)
    try:
        _pass_with(place, str(command))
    finally:
        started = (place.root / "servers").read_text().splitlines()
        for line in started:
            os.kill(json.loads(line)["pid"], signal.SIGKILL)
    assert len(started) == len(json.loads((CASES / "mail.json").read_text())["cases"])


# --- one working call of every command


def _examples() -> list[tuple[str, Row]]:
    """Return for each command of each verb a row that succeeds, and a row with a plain "no"."""
    found = []
    for verb, commands in COMMANDS_OF.items():
        for command in commands:
            verdict = command.removeprefix("gate ") if verb is GiveVerdict else None
            offered = [row for row in ROWS if row.verb is verb and "cli" not in row.not_at]
            meant = [row for row in offered if verdict in (None, row.fields.get("verdict"))]
            for kind in ("done", "no"):
                found += [(command, row) for row in meant if row.kind == kind][:1]
    return found


# `guard note` prints nothing after a commit that touches no claimed file.
SILENT = {"guard note"}


@pytest.mark.parametrize(
    ("command", "row"),
    [
        pytest.param(
            command, row, id=f"{command}: {row.name}", marks=restores if row.restores else ()
        )
        for command, row in _examples()
    ],
)
def test_a_command_of_a_verb_answers_people_in_text(
    command: str,
    row: Row,
    furnished: Furnished,
    tmp_path: Path,
    served: ServersByWorkspace | None,
    servers: Servers,
) -> None:
    if served is None and ON_THE_FILE in row.not_at:
        return
    stage = Stage(row, furnished, tmp_path, servers, is_served=served is not None)
    with closing(stage):
        done = stage.call(row, run_command)
    assert done.words[: len(command.split())] == tuple(command.split())
    check_text(command, done, 0 if row.kind == "done" else 1)


def check_text(command: str, done: Done, status: int = 0) -> None:
    assert (done.status, done.err) == (status, b""), done
    assert bool(done.text.strip()) is (command not in SILENT), done
    assert not done.text.startswith("{") or command == "schema"


# Arguments that succeed in the furnished workspace, for commands that call no verb, name a relative
# file, or read a token from standard input. brief.md is a brief, and made.proof a proof. The
# commands in ELSEWHERE have tests of their own, because they end in other ways.
ELSEWHERE = {"run", "watch", "up", "mcp", "evidence run", "gate run", "guard push"}
ELSEWHERE |= {"migrate", "repair", "hook"}
SAMPLES = {
    "down": "down",
    "init": "init",
    "setup": "setup claude-code",
    "task import": "task import brief.md --from vera",
    "report": "report T-4",
    "scrub": "scrub",
    "guard install": "guard install",
    "audit check-proof": "audit check-proof ../made.proof",
    "schema": "schema",
    "completion": "completion bash",
    "audit export": "audit export new.jsonl",
    "backup": "backup new.db",
    "restore": "restore ../made.db",
    "token identify": "token identify -",
}
each_sample = pytest.mark.parametrize(
    "command", [pytest.param(name, marks=restores if name == "restore" else ()) for name in SAMPLES]
)


@pytest.fixture
def sample_place(furnished: Furnished, tmp_path: Path, served: ServersByWorkspace | None) -> Place:
    place = furnished.copied(tmp_path, served)
    (place.cwd / "brief.md").write_text(BRIEF)
    (place.root / "made.proof").write_text(json.dumps(place.ok("audit", "prove", "2")))
    return place


@pytest.mark.parametrize("name", DIRECT_ONLY)
def test_each_test_that_runs_without_a_server_exists(name: str) -> None:
    # Read the files: a module can be imported only if pytest has collected it.
    modules = (path for path in TESTS.rglob("test_*.py") if path.stem in BOTH_WAYS)
    assert any(f"def {name}(" in module.read_text() for module in modules)


def test_every_command_has_a_sample() -> None:
    of_verbs = {name for commands in COMMANDS_OF.values() for name in commands}
    assert {command.name for command in COMMANDS} == {*SAMPLES, *ELSEWHERE, *of_verbs}


@each_sample
def test_a_command_answers_with_one_json_document(
    command: str, sample_place: Place, furnished: Furnished
) -> None:
    token = furnished.tokens["vera"].encode()
    done = sample_place.run(*SAMPLES[command].split(), "--json", stdin=token)
    assert done.status == 0, done


@each_sample
def test_a_command_answers_people_in_text(
    command: str, sample_place: Place, furnished: Furnished
) -> None:
    token = furnished.tokens["vera"].encode()
    check_text(command, sample_place.run(*SAMPLES[command].split(), stdin=token))


# --- conventions


def test_without_json_an_error_goes_to_stderr_and_says_what_to_do(joined: Place) -> None:
    done = joined.run("send", "AGENT:vera", "hi", "--from", "otto-cli")
    assert (done.status, done.out) == (2, b"")
    assert done.complaint.startswith("Invalid recipient shape")
    assert "Use AGENT:* to reach everyone, or @<identifier> for one agent." in done.complaint
    assert "Did you mean @vera?" in done.complaint


def test_the_error_object_is_the_one_of_the_interface(joined: Place) -> None:
    joined.join("gpt")
    assert joined.no("INVALID_RECIPIENT_SHAPE", "send", "AGENT:gpt", "x", "--from", "vera") == {
        "error": "Invalid recipient shape",
        "code": "INVALID_RECIPIENT_SHAPE",
        "message": "Recipient 'AGENT:gpt' matches neither shape. Use AGENT:* to reach everyone, or "
        "@<identifier> for one agent. AGENT:<name> is not a form.",
        "to": "AGENT:gpt",
        "valid_shapes": [
            "AGENT:* (everyone; the asterisk is required)",
            "@<identifier> (one agent, for example @neo-gpt; the @ is required)",
        ],
        "did_you_mean": ["@gpt"],
    }


def test_did_you_mean_only_names_agents_that_exist(joined: Place) -> None:
    wrong = joined.no("INVALID_RECIPIENT_SHAPE", "send", "AGENT:gpt", "x", "--from", "vera")
    assert "did_you_mean" not in wrong


@pytest.mark.parametrize("words", [["help"], ["--help"], ["inbox", "--help"], ["help", "send"]])
def test_help_with_json_prints_one_document(words: list[str], place: Place) -> None:
    assert place.run(*words, "--json").status == 0


def test_flags_are_accepted_before_and_after_arguments(joined: Place) -> None:
    for words in (
        ["--json", "--from", "otto-cli", "send", "@vera", "hi"],
        ["send", "--from", "otto-cli", "--json", "@vera", "hi"],
        ["send", "@vera", "--from=otto-cli", "hi", "--json"],
        ["send", "@vera", "hi", "--json", "--from", "otto-cli"],
        ["--from", "otto-cli", "--json", "send", "@vera", "--", "hi"],
    ):
        assert joined.run(*words).json["message"]["from"] == "@otto-cli"


@pytest.mark.parametrize(
    "words", ["--item B-1 --worktree", "--worktree --item B-1", "--item B-1 --worktree="]
)
def test_a_flag_without_its_value_is_a_usage_error(words: str, joined: Place) -> None:
    done = joined.run("--json", "--from", "vera", "claim", "acquire", *words.split())
    assert done.json["code"] == "USAGE"
    assert done.json["usage"].startswith(
        "interlock claim acquire (ITEM | --item I | --path GLOB...)"
    )
    assert joined.ok("claim", "list") == {"claims": []}


def test_an_empty_value_is_a_usage_error(joined: Place) -> None:
    joined.no("USAGE", "claim", "acquire", "--item", "B-1", "--worktree", "", "--from", "vera")
    assert joined.ok("claim", "list") == {"claims": []}


def test_worktree_true_is_the_path_true(joined: Place) -> None:
    words = ("claim", "acquire", "--item", "B-1", "--worktree", "true", "--from", "vera")
    assert joined.ok(*words)["claim"]["worktree"] == "true"


def test_answers_omit_values_that_were_not_given(joined: Place) -> None:
    claim = joined.ok("claim", "acquire", "--item", "B-1", "--from", "vera")["claim"]
    absent = {"surface", "session", "branch", "worktree", "note", "paths", "repo"}
    assert not absent & set(claim)
    message = joined.ok("send", "@vera", "hi", "--from", "otto-cli")["message"]
    assert not {"subject", "reply_to", "taken_by", "payload", "expires_at"} & set(message)


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800), ("45", 45), ("365d", 31_536_000)],
)
def test_valid_durations_are_read_as_seconds(typed: str, seconds: int, joined: Place) -> None:
    before = _ms(joined.ok("status")["now"])
    words = ("claim", "acquire", "--item", "B-1", "--ttl", typed, "--from", "vera")
    claim = joined.ok(*words)["claim"]
    assert _ms(claim["expires_at"]) - _ms(claim["acquired_at"]) == seconds * 1000
    assert _ms(claim["acquired_at"]) >= before


@pytest.mark.parametrize(
    "typed", ["0", "0s", "-1", "-5m", "1.5h", "1w", "h", "1 h", "1h30m", "366d", "1e3", "٣s"]
)
def test_other_durations_are_usage_errors(typed: str, joined: Place) -> None:
    joined.no("USAGE", "claim", "acquire", "--item", "B-1", "--ttl", typed, "--from", "vera")


def _ms(at: str) -> int:
    from datetime import datetime

    assert TIME.fullmatch(at)
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def test_a_message_is_named_by_id_prefix_or_position(joined: Place) -> None:
    sent = joined.ok("send", "@vera", "hi", "--from", "otto-cli")["message"]
    names = [sent["id"], sent["id"][:6], sent["id"][:20], f"#{sent['seq']}"]
    found = {joined.ok("read", name, "--from", "vera")["id"] for name in names}
    assert found == {sent["id"]}
    joined.no("USAGE", "read", sent["id"][:5], "--from", "vera")
    joined.no("NOT_FOUND", "read", f"#{sent['seq'] + 1}", "--from", "vera")


def test_empty_task_list_names_the_command_for_ended_tasks(joined: Place) -> None:
    joined.ok("task", "create", "--title", "Greet", "--id", "B-1", "--from", "vera")
    joined.ok("task", "cancel", "B-1", "--from", "vera")
    told = "No live tasks. To list ended tasks too: interlock task list --state all"
    assert told in joined.run("task", "list").text
    assert joined.ok("task", "list") == {"tasks": []}
    assert "B-1" in joined.run("task", "list", "--state", "all").text
    assert joined.run("task", "list", "--state", "done").text.strip() == "No tasks."


def test_wait_is_the_only_flag_for_waiting(joined: Place) -> None:
    flags = {command.name for command in COMMANDS if any(f.name == "--wait" for f in command.flags)}
    assert flags == {"ask", "inbox", "claim acquire"}
    every = {flag.name for command in COMMANDS for flag in command.flags}
    assert not every & {"--timeout", "--block", "--deadline", "--max-wait"}


def test_python_m_and_the_installed_command_are_the_same(joined: Place) -> None:
    installed = Path(sys.executable).with_name("interlock")
    ran = subprocess.run(
        [installed, "agents", "--json"], env=joined.environ, capture_output=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0
    assert json.loads(ran.stdout) == joined.process("agents", "--json").json


def test_version_is_printed(place: Place) -> None:
    assert place.run("--version").text == f"interlock {__version__}\n"
    assert place.run("--version", "--json").json == {"version": __version__}
    assert place.process("version").text == f"interlock {__version__}\n"


def test_command_that_needs_no_workspace_creates_none(place: Place) -> None:
    for words in (["schema", "send"], ["completion", "bash"], ["help"], ["--version"], ["nope"]):
        place.run(*words)
    assert not place.workspace.exists()


def test_status_shows_the_directory_only_to_the_owner(joined: Place) -> None:
    assert str(joined.workspace) in joined.run("status").text
    done = joined.run("status", INTERLOCK_TOKEN=joined.token_of("otto-cli"))
    assert done.status == 0, done
    assert "Workspace: " in done.text
    assert str(joined.workspace) not in done.text


# --- exit statuses


def test_a_plain_no_exits_with_1(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    held = joined.no("CLAIM_HELD", "claim", "acquire", "--item", "B-1", "--from", "vera")
    assert held["held_by"][0]["holder"] == "@otto-cli"
    late = joined.no("NO_ANSWER", "ask", "@vera", "ready?", "--wait", "1s", "--from", "otto-cli")
    assert late["answered"] is False
    claimed = joined.run("claim", "check", "--item", "B-1", "--json")
    assert (claimed.status, claimed.json["claimed"]) == (1, True)


def test_damaged_log_exits_with_1_and_names_the_entry(joined: Place) -> None:
    joined.ok("send", "@vera", "hi", "--from", "otto-cli")
    joined.query("UPDATE bodies SET body = CAST(replace(body, 'hi', 'ho') AS BLOB) WHERE seq = 6")
    wrong = joined.no("LOG_DAMAGED", "audit", "verify")
    assert (wrong["ok"], wrong["seq"]) == (False, 6)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("USAGE", "send"),
        ("USAGE", "nope"),
        ("USAGE", "claim acquire --from vera"),
        ("USAGE", "claim acquire --item B-1 --path src --repo r --from vera"),
        ("INVALID_RECIPIENT_SHAPE", "send vera hi --from vera"),
        ("INVALID_MESSAGE", "send @vera --payload {} --type command --from vera"),
        ("INVALID_MESSAGE", "send @vera x --type command --from vera"),
        ("UNKNOWN_TYPE", "send @vera hi --type gossip --from vera"),
        ("UNKNOWN_TYPE", "schema gossip"),
        ("USE_VERB", "send @vera hi --type evidence --from vera"),
        ("NOT_FOUND", "read 00000000 --from vera"),
        ("NOT_FOUND", "token show tok_000000000000"),
        ("NOT_FOUND", "audit prove 999"),
        ("NOT_FOUND", "claim take-over --item B-7 --reason r --from vera"),
        ("NAME_TAKEN", "join vera"),
        ("NAME_TAKEN", "join otto-cli"),
        ("NAME_TAKEN", "group create vera --member @otto-cli"),
        ("NO_IDENTITY", "whoami"),
        ("UNKNOWN_SENDER", "whoami --from ghost"),
        ("UNKNOWN_SENDER", "token mint --sender ghost"),
        ("NOT_HOLDER", "claim renew --item B-7 --from vera"),
        ("STALE_FENCE", "claim renew --item B-7 --fence 99 --from vera"),
        ("MISSING_SCOPE", "pause --from vera"),
        pytest.param("NOT_A_WORKSPACE", "restore nowhere.db", marks=restores),
    ],
)
def test_a_refusal_has_its_code_and_status(code: str, words: str, joined: Place) -> None:
    joined.no(code, *words.split())


@restores
def test_restore_of_another_file_names_that_file(joined: Place) -> None:
    other = joined.cwd / "shop.py"
    other.write_text("print(1 + 1)\n" * 100)
    refused = joined.no("NOT_A_WORKSPACE", "restore", str(other))
    assert refused["message"].startswith(f"{other} is not a backup of a workspace.")
    assert joined.ok("audit", "verify")["ok"]


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        ("send @vera x --type command", "--why is missing"),
        ("send @vera -", "TEXT must not be empty"),
        ('send @vera x --payload {"cwd":1}', "cwd in --payload is not a member of send"),
        ("ask @vera -", "QUESTION must not be empty"),
        ("blocker raise T-1 -", "TEXT must not be empty"),
        ("gate pass a/b review", "TASK must be a task id"),
        ("evidence add --task a/b --note x", "--task must be a task id"),
        ("task create --title x --gate A/b", "--gate must be a name"),
        ("token rotate", "Give ID or --sender."),
        ("whoami --session ../x", "--session or INTERLOCK_SESSION is '../x'"),
    ],
)
def test_refusal_begins_with_the_name_of_the_argument_or_flag(
    words: str, beginning: str, joined: Place
) -> None:
    done = joined.run(*words.split(), "--from", "otto-cli", "--json", stdin=b"")
    assert done.json["message"].startswith(beginning), done


def test_refusals_of_bad_tokens_exit_with_3(joined: Place) -> None:
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN="ilk_mistyped")
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN="of-somebody-else")
    short = joined.ok("token", "mint", "--sender", "vera", "--ttl", "1s")["token"]
    until(
        lambda: (
            joined.run("whoami", "--json", INTERLOCK_TOKEN=short).json.get("code")
            == "TOKEN_EXPIRED"
        )
    )
    joined.no("TOKEN_EXPIRED", "send", "@otto", "x", INTERLOCK_TOKEN=short)


def test_not_available_exits_with_4(joined: Place) -> None:
    joined.ok("settings", "limits.sends_per_minute", "1")

    def limited() -> Any:
        answer = joined.run("send", "@vera", "x", "--from", "otto-cli", "--json").json
        return answer if answer.get("code") == "RATE_LIMITED" else None

    assert 1 <= until(limited)["retry_after_s"] <= 60
    joined.ok("pause", "--reason", "lunch")
    paused = joined.no("PAUSED", "send", "@vera", "x", "--from", "vera")
    assert paused["reason"] == "lunch"
    assert "interlock resume" in paused["message"]
    nowhere = f"http://127.0.0.1:{free_port()}"
    joined.no("ENGINE_UNAVAILABLE", "status", "--workspace", nowhere, INTERLOCK_TOKEN="t")


def test_strict_recipients_large_bodies_and_keys_exit_with_2(joined: Place) -> None:
    joined.ok("settings", "recipients", "strict")
    unknown = joined.no("UNKNOWN_RECIPIENT", "send", "@ver", "x", "--from", "otto-cli")
    assert unknown["did_you_mean"] == ["@vera"]
    joined.ok("settings", "limits.message_bytes", "10")
    large = joined.no("TOO_LARGE", "send", "@vera", "x" * 11, "--from", "otto-cli")
    assert (large["size"], large["limit"]) == (11, 10)
    joined.ok("send", "@vera", "one", "--key", "k", "--from", "otto-cli")
    joined.no("IDEMPOTENCY_CONFLICT", "send", "@vera", "two", "--key", "k", "--from", "otto-cli")


def test_hidden_messages_are_refused_like_missing_ones(joined: Place) -> None:
    joined.join("mallory")
    secret = joined.ok("send", "@vera", "secret", "--from", "otto-cli")["message"]["id"]
    absent = "00000000-0000-4000-8000-000000000000"
    for command in (["read"], ["ack"], ["receipts"], ["thread"], ["explain"], ["answer"]):
        rest = ["x"] if command == ["answer"] else []
        hidden = joined.no("NOT_FOUND", *command, secret, *rest, "--from", "mallory")
        missing = joined.no("NOT_FOUND", *command, absent, *rest, "--from", "mallory")
        assert json.dumps(hidden).replace(secret, absent) == json.dumps(missing)
    for flag in ("--thread", "--reply-to"):
        words = ["send", "@vera", "x", flag]
        hidden = joined.no("NOT_FOUND", *words, secret, "--from", "mallory")
        missing = joined.no("NOT_FOUND", *words, absent, "--from", "mallory")
        assert json.dumps(hidden).replace(secret, absent) == json.dumps(missing)


# --- the JSON that programs rely on


def _has(answer: Any, required: str, optional: str = "") -> None:
    members = set(answer)
    assert set(required.split()) <= members, answer
    assert members <= set(required.split()) | set(optional.split()), answer


CLAIM = "id holder agent fence acquired_at expires_at"
CLAIM_MAYBE = "item paths repo surface session branch worktree note"
MESSAGE = "id seq type version source from to thread at priority sha256 size"
MESSAGE_MAYBE = "subject reply_to payload taken_by expires_at part shown offset next_offset"


def test_a_claim_has_the_promised_members(joined: Place) -> None:
    words = "claim acquire --item B-1 --branch b --worktree w --note n --from otto-cli --session s"
    answer = joined.ok(*words.split())
    _has(answer, "acquired claim")
    claim = answer["claim"]
    _has(claim, CLAIM + " item surface session branch worktree note")
    assert answer["acquired"] is True
    assert UUID.fullmatch(claim["id"])
    assert isinstance(claim["fence"], int)
    known = {"item": "B-1", "holder": "@otto-cli", "agent": "otto", "surface": "cli"}
    given = {"session": "s", "branch": "b", "worktree": "w", "note": "n"}
    assert claim.items() >= (known | given).items()
    assert _ms(claim["expires_at"]) - _ms(claim["acquired_at"]) == 3_600_000


def test_a_claim_on_paths_names_them_and_their_repository(joined: Place) -> None:
    words = "claim acquire --path src/** --path doc --repo example.com/r --from vera"
    claim = joined.ok(*words.split())["claim"]
    _has(claim, CLAIM + " paths repo")
    assert (sorted(claim["paths"]), claim["repo"]) == (["doc", "src/**"], "example.com/r")


def test_claim_commands_print_the_documented_json_from_acquire_to_release(joined: Place) -> None:
    on = ("--item", "B-1")
    otto, vera = ("--from", "otto-cli"), ("--from", "vera")
    assert joined.run("claim", "check", *on, "--json").status == 0
    assert joined.ok("claim", "check", *on) == {"claimed": False, "claims": []}
    mine = joined.ok("claim", "acquire", *on, *otto)["claim"]
    held = joined.no("CLAIM_HELD", "claim", "acquire", *on, *vera)
    assert (held["acquired"], held["held_by"]) == (False, [mine])
    for asker in (otto, vera, ()):
        check = joined.run("claim", "check", *on, *asker, "--json")
        assert (check.status, check.json) == (1, {"claimed": True, "claims": [mine]})
    renewed = joined.ok("claim", "renew", *on, "--ttl", "2h", *otto)
    _has(renewed, "renewed claim")
    assert renewed["renewed"] is True
    assert renewed["claim"]["fence"] == mine["fence"]
    assert _ms(renewed["claim"]["expires_at"]) > _ms(mine["expires_at"])
    joined.no("NOT_HOLDER", "claim", "renew", *on, *vera)
    joined.no("NOT_HOLDER", "claim", "release", *on, *vera)
    assert joined.ok("claim", "list") == {"claims": [renewed["claim"]]}
    assert joined.ok("claim", "release", *on, *otto) == {"released": True}
    assert joined.ok("claim", "release", *on, *otto) == {"released": False}
    assert joined.ok("claim", "list") == {"claims": []}
    assert joined.ok("claim", "acquire", *on, *vera)["claim"]["fence"] > mine["fence"]


def test_fence_of_a_taken_over_claim_is_stale(joined: Place) -> None:
    on = ("--item", "B-1")
    old = joined.ok("claim", "acquire", *on, "--from", "otto-cli")["claim"]["fence"]
    taken = joined.ok("claim", "take-over", *on, "--reason", "otto is offline", "--from", "vera")
    assert taken["taken_from"] == ["@otto-cli"]
    for verb in ("renew", "release"):
        joined.no("STALE_FENCE", "claim", verb, *on, "--fence", str(old), "--from", "otto-cli")
    told = joined.ok("inbox", "--from", "otto-cli")["messages"][0]
    assert told["from"] == "@interlock"
    assert "otto is offline" in told["payload"]["text"]


def test_a_take_over_needs_a_reason(joined: Place) -> None:
    joined.no("USAGE", "claim", "take-over", "--item", "B-1", "--from", "vera")


def test_waiting_for_a_claim_ends_when_it_becomes_free(joined: Place) -> None:
    on = ("--item", "B-1")
    first = joined.ok("claim", "acquire", *on, "--from", "otto-cli")["claim"]
    words = ("claim", "acquire", *on, "--wait", "50s", "--from", "vera", "--json")
    with joined.start(*words) as waiter:
        until(lambda: joined.ok("status")["waiting"] == 1)
        joined.ok("claim", "release", *on, "--from", "otto-cli")
        out, err = waiter.communicate(timeout=LIMIT_S)
    assert (waiter.returncode, err) == (0, b"")
    claim = json.loads(out)["claim"]
    assert claim["holder"] == "@vera"
    assert claim["fence"] > first["fence"]


def test_waiting_for_a_claim_that_stays_held_is_a_plain_no(joined: Place) -> None:
    on = ("--item", "B-1")
    joined.ok("claim", "acquire", *on, "--from", "otto-cli")
    held = joined.no("CLAIM_HELD", "claim", "acquire", *on, "--wait", "1s", "--from", "vera")
    assert held["held_by"][0]["holder"] == "@otto-cli"
    assert joined.ok("status")["waiting"] == 0


def test_send_answers_with_the_message_and_its_deliveries(joined: Place) -> None:
    sent = joined.ok("send", "@vera", "grüße", "--subject", "s", "--from", "otto-cli")
    _has(sent, "accepted message deliveries notices")
    assert sent["accepted"] is True
    message = sent["message"]
    _has(message, MESSAGE + " subject")
    assert UUID.fullmatch(message["id"])
    assert (message["version"], message["type"]) == ("1.0", "send")
    assert (message["source"], message["from"]) == ("agent:otto-cli", "@otto-cli")
    assert (message["to"], message["thread"]) == ("@vera", message["id"])
    assert (message["priority"], message["size"]) == ("normal", len("grüße".encode()))
    assert re.fullmatch(r"[0-9a-f]{64}", message["sha256"])
    assert sent["notices"] == []
    (delivery,) = sent["deliveries"]
    _has(delivery, "recipient known reach state")
    assert (delivery["recipient"], delivery["known"]) == ("@vera", True)
    assert delivery["state"] == "accepted"
    assert delivery["reach"] in ("wakes", "working", "waits", "offline", "unknown")


def test_mail_to_an_unregistered_name_is_accepted_with_a_notice(joined: Place) -> None:
    sent = joined.ok("send", "@ver", "hi", "--from", "otto-cli")
    assert sent["deliveries"] == [
        {"recipient": "@ver", "known": False, "reach": "unknown", "state": "accepted"}
    ]
    (notice,) = sent["notices"]
    _has(notice, "code message did_you_mean")
    assert (notice["code"], notice["did_you_mean"]) == ("UNKNOWN_RECIPIENT", ["@vera"])
    joined.join("ver")
    assert joined.ok("inbox", "--from", "ver")["messages"][0]["id"] == sent["message"]["id"]


def test_an_inbox_shows_whole_messages_until_they_are_acknowledged(joined: Place) -> None:
    sent = [joined.ok("send", "@vera", text, "--from", "otto-cli")["message"] for text in "abc"]
    inbox = joined.ok("inbox", "--from", "vera")
    _has(inbox, "messages open unread")
    assert (inbox["open"], inbox["unread"]) == (3, 3)
    for message, text, listed in zip(sent, "abc", inbox["messages"], strict=True):
        _has(listed, MESSAGE + " payload")
        assert listed == message | {"payload": {"text": text}}
    page = joined.ok("inbox", "--limit", "2", "--from", "vera")
    assert page["next"] == sent[1]["seq"]
    rest = joined.ok("inbox", "--after", str(page["next"]), "--from", "vera")
    assert [m["id"] for m in rest["messages"]] == [sent[2]["id"]]
    assert "next" not in rest
    joined.ok("read", sent[0]["id"], "--from", "vera")
    assert joined.ok("inbox", "--from", "vera").items() >= {"open": 3, "unread": 2}.items()
    assert joined.ok("ack", sent[0]["id"], "--from", "vera") == {"acked": [sent[0]["id"]]}
    assert joined.ok("inbox", "--from", "vera").items() >= {"open": 2, "unread": 2}.items()
    every = joined.ok("inbox", "--all", "--from", "vera")["messages"]
    assert [m["id"] for m in every] == [m["id"] for m in sent]
    mine = joined.ok("inbox", "--sent", "--from", "otto-cli")["messages"]
    assert [m["deliveries"][0]["state"] for m in mine] == ["acked", "shown", "shown"]


def test_an_inbox_waits_for_mail(joined: Place) -> None:
    with joined.start("inbox", "--wait", "50s", "--from", "vera", "--json") as waiter:
        until(lambda: _reach(joined, "@vera") == "wakes")
        sent = joined.ok("send", "@vera", "now", "--from", "otto-cli")
        assert sent["deliveries"][0]["reach"] == "wakes"
        out, _ = waiter.communicate(timeout=LIMIT_S)
    assert [m["id"] for m in json.loads(out)["messages"]] == [sent["message"]["id"]]
    empty = joined.ok("inbox", "--wait", "1s", "--from", "otto-cli")
    assert empty == {"messages": [], "open": 0, "unread": 0}


def _reach(place: Place, address: str) -> str:
    agents = place.ok("agents")["agents"]
    return next(str(agent["reach"]) for agent in agents if agent["address"] == address)


def test_the_first_surface_that_reads_takes_the_mail_of_an_agent(joined: Place) -> None:
    joined.join("otto", "desktop")
    id = joined.ok("send", "@otto", "for any of you", "--from", "vera")["message"]["id"]
    for surface in ("otto-cli", "otto-desktop"):
        (seen,) = joined.ok("inbox", "--from", surface)["messages"]
        assert "taken_by" not in seen
    assert "taken_by" not in joined.ok("read", id, "--from", "otto-cli")
    (seen,) = joined.ok("inbox", "--from", "otto-desktop")["messages"]
    assert seen["taken_by"] == "@otto-cli"
    assert joined.ok("read", id, "--from", "otto-desktop")["taken_by"] == "@otto-cli"


def test_receipts_list_every_state_of_a_delivery(joined: Place) -> None:
    id = joined.ok("send", "@vera", "hi", "--from", "otto-cli")["message"]["id"]
    joined.ok("inbox", "--from", "vera")
    joined.ok("read", id, "--from", "vera")
    joined.ok("ack", id, "--decline", "--note", "no time", "--from", "vera")
    receipts = joined.ok("receipts", id, "--from", "otto-cli")
    _has(receipts, "id deliveries")
    (delivery,) = receipts["deliveries"]
    _has(delivery, "recipient state history")
    assert (receipts["id"], delivery["recipient"]) == (id, "@vera")
    assert delivery["state"] == "declined"
    states = ["accepted", "shown", "read", "declined"]
    assert [step["state"] for step in delivery["history"]] == states
    for step in delivery["history"]:
        _has(step, "state at", "by adapter note")
    assert delivery["history"][-1]["by"] == "@vera"
    assert delivery["history"][-1]["note"] == "no time"


def test_partial_message_is_marked_as_a_part(joined: Place) -> None:
    id = joined.ok("send", "@vera", "a" * 100_000, "--from", "otto-cli")["message"]["id"]
    (listed,) = joined.ok("inbox", "--from", "vera")["messages"]
    _has(listed, MESSAGE + " payload part shown next_offset")
    assert listed["part"] is True
    assert listed["shown"] == listed["next_offset"] == len(listed["payload"]["text"])
    assert listed["size"] == 100_000
    first = joined.ok("read", id, "--range", "0-9", "--from", "vera")
    assert (first["payload"]["text"], first["shown"], first["next_offset"]) == ("a" * 10, 10, 10)
    last = joined.ok("read", id, "--range", "99990-200000", "--from", "vera")
    assert (last["shown"], "next_offset" in last) == (10, False)
    whole = joined.ok("read", id, "--from", "vera")
    assert (len(whole["payload"]["text"]), "part" in whole) == (100_000, False)


def test_a_command_is_listed_whole_or_not_at_all(joined: Place) -> None:
    payload = json.dumps({"command": "x" * 4096, "why": "w"})
    words = ("send", "@vera", "--type", "command", "--payload", payload, "--from", "otto-cli")
    joined.ok(*words)
    (listed,) = joined.ok("inbox", "--from", "vera")["messages"]
    assert len(listed["payload"]["command"]) == 4096


def test_text_fills_the_main_member_of_each_type(joined: Place) -> None:
    for type, more, payload in (
        ("send", [], {"text": "t"}),
        ("ask", [], {"question": "t"}),
        ("announce", [], {"text": "t"}),
        ("wake", [], {"text": "t"}),
        ("command", ["--why", "w"], {"command": "t", "why": "w"}),
        ("blocker", [], {"what": "t", "severity": "stop"}),
    ):
        words = ["send", "@vera", "t", "--type", type, *more, "--from", "otto-cli"]
        id = joined.ok(*words)["message"]["id"]
        assert joined.ok("read", id, "--from", "vera")["payload"] == payload


@pytest.mark.parametrize(
    "type",
    ["evidence", "gate_verdict", "task_created", "task_claimed", "task_completed", "agent_joined"],
)
def test_types_with_a_command_of_their_own_cannot_be_sent(type: str, joined: Place) -> None:
    before = joined.entries()
    wrong = joined.no("USE_VERB", "send", "@vera", "hi", "--type", type, "--from", "otto-cli")
    assert wrong["use"].startswith("interlock ")
    assert joined.entries() == before


def test_ask_gets_its_answer(joined: Place) -> None:
    words = ("ask", "@vera", "ready?", "--option", "yes", "--wait", "50s", "--from", "otto-cli")
    with joined.start(*words, "--json") as asker:
        open_mail = until(lambda: joined.ok("inbox", "--from", "vera")["messages"])
        assert open_mail[0]["payload"] == {
            "question": "ready?",
            "options": ["yes"],
            "timeout_s": 50,
        }
        sent = joined.ok("answer", open_mail[0]["id"], "yes", "--from", "vera")
        out, _ = asker.communicate(timeout=LIMIT_S)
    answer = json.loads(out)
    check_answer(answer)
    assert asker.returncode == 0
    assert answer["answered"] is True
    assert answer["answer"]["payload"] == {"text": "yes", "ask": open_mail[0]["id"]}
    assert answer["answer"]["id"] == sent["message"]["id"]


def test_a_late_answer_arrives_in_the_inbox(joined: Place) -> None:
    late = joined.no("NO_ANSWER", "ask", "@vera", "ready?", "--wait", "1s", "--from", "otto-cli")
    joined.ok("answer", late["id"], "yes", "--from", "vera")
    (message,) = joined.ok("inbox", "--from", "otto-cli")["messages"]
    assert message["payload"] == {"text": "yes", "ask": late["id"]}


def test_join_prints_the_token_and_whoami_prints_sender_and_scopes(place: Place) -> None:
    joined = place.ok("join", "otto", "--surface", "cli", "--label", "his terminal")
    _has(joined, "sender address agent surface token", "kind scopes token_id kept")
    assert (joined["sender"], joined["address"]) == ("otto-cli", "@otto-cli")
    assert (joined["agent"], joined["surface"]) == ("otto", "cli")
    assert "surface" not in place.ok("join", "vera")
    me = place.ok("whoami", "--from", "otto-cli", "--session", "s")
    promised = "sender address agent surface session scopes workspace open claims tasks"
    _has(me, promised + " verdicts_due", "kind unread")
    assert me["scopes"] == ["claim", "mail", "work"]
    assert me["session"] == "s"
    assert (me["open"], me["claims"], me["tasks"], me["verdicts_due"]) == (0, [], [], [])
    claim = place.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")["claim"]
    assert place.ok("whoami", "--from", "otto-cli")["claims"] == [claim]
    assert "session" not in place.ok("whoami", "--from", "otto-cli")


def test_agents_prints_address_kind_and_reach_of_each_sender(joined: Place) -> None:
    joined.ok("whoami", "--from", "vera")
    otto, vera = joined.ok("agents")["agents"]
    _has(otto, "address agent surface kind reach")
    assert (otto["address"], otto["kind"], otto["reach"]) == ("@otto-cli", "agent", "unknown")
    _has(vera, "address agent kind reach last_seen")
    assert (vera["address"], vera["kind"], vera["reach"]) == ("@vera", "human", "waits")


def test_verify_prints_entries_and_root(joined: Place) -> None:
    answer = joined.ok("audit", "verify")
    _has(answer, "ok entries root", "checkpoints")
    assert (answer["ok"], answer["entries"]) == (True, joined.entries())
    assert re.fullmatch(r"[0-9a-f]{64}", answer["root"])


def test_a_proof_and_an_export_are_checked_without_the_workspace(joined: Place) -> None:
    export = str(joined.cwd / "log.jsonl")
    joined.ok("audit", "export", export)
    verifier = joined.ok("audit", "checkpoint")["verifier"]
    proof = joined.cwd / "proof.json"
    proof.write_text(json.dumps(joined.ok("audit", "prove", "2")))
    elsewhere = joined.root / "elsewhere"
    words = ("--workspace", str(elsewhere), "audit")
    assert joined.ok(*words, "check-proof", str(proof), "--verifier", verifier)["ok"] is True
    assert joined.ok(*words, "verify", export)["entries"] == joined.entries()
    assert not elsewhere.exists()


def test_schema_prints_the_published_files(place: Place) -> None:
    published = {
        file.name.removesuffix(".json"): json.loads(file.read_text())
        for file in (ROOT / "schemas" / "v1").glob("*.json")
    }
    assert place.ok("schema") == published
    for type, schema in published.items():
        assert place.ok("schema", type) == schema
    assert json.loads(place.run("schema", "send").text) == published["send"]


# --- watching


def test_watch_prints_each_new_message_as_a_json_line(joined: Place) -> None:
    joined.ok("send", "@vera", "before", "--from", "otto-cli")
    with joined.start("watch", "--from", "vera", "--json") as watcher:
        try:
            until(lambda: _reach(joined, "@vera") == "wakes")
            printed = lines(watcher)
            for text in ("one", "two\nlines"):
                id = joined.ok("send", "@vera", text, "--from", "otto-cli")["message"]["id"]
                message = json.loads(next(printed))
                check_answer(message)
                _has(message, MESSAGE + " payload")
                assert (message["id"], message["payload"]["text"]) == (id, text)
        finally:
            watcher.kill()
    until(lambda: _reach(joined, "@vera") != "wakes")
    steps = joined.ok("receipts", id, "--from", "otto-cli")["deliveries"][0]["history"]
    assert steps[-1].items() >= {"state": "shown", "by": "@vera", "adapter": "watch"}.items()


def test_watch_starts_after_a_position(joined: Place) -> None:
    sent = [joined.ok("send", "@vera", text, "--from", "otto-cli")["message"] for text in "abc"]
    after = str(sent[0]["seq"])
    with joined.start("watch", "--after", after, "--from", "vera", "--json") as watcher:
        try:
            printed = lines(watcher)
            found = [json.loads(next(printed))["id"] for _ in range(2)]
        finally:
            watcher.kill()
    assert found == [message["id"] for message in sent[1:]]


def test_watch_prints_text_for_people(joined: Place) -> None:
    with joined.start("watch", "--after", "0", "--from", "vera") as watcher:
        try:
            joined.ok("send", "@vera", "line one\nline two", "--from", "otto-cli")
            printed = lines(watcher)
            head, *body = [next(printed) for _ in range(3)]
        finally:
            watcher.kill()
    assert head.startswith("@otto-cli to @vera  send  ")
    assert body == [f"{BAR}line one", f"{BAR}line two"]


def test_watch_refuses_before_it_watches(place: Place) -> None:
    done: Done = place.run("watch", "--json")
    assert (done.status, done.json["code"]) == (3, "NO_IDENTITY")
