"""The interface's rules about workspace, identity and session, sentence by sentence.

They are about the search for the workspace, the choice of the sender, the owner's commands, the
environment of `interlock run`, and the storage of tokens.
"""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.rooms.identity import token_format
from world.chosen import restores
from world.commandline import LIMIT_S, Done, Place, lines, until
from world.server import free_port

pytestmark = pytest.mark.every_engine


def _directory(place: Place, *words: str) -> str:
    """Return the directory of the workspace that a command uses."""
    return str(place.ok("status", *words)["directory"])


def _nowhere(place: Place) -> str:
    """Return the directory that a command uses if neither a flag nor a variable names one."""
    return _directory(place.but(INTERLOCK_WORKSPACE=None))


def _default(place: Place) -> Path:
    """Return the user's default workspace."""
    if sys.platform == "darwin":
        return place.home / "Library" / "Application Support" / "interlock" / "default"
    return place.home / ".local" / "share" / "interlock" / "default"


def _git(*words: str, cwd: Path) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(cwd)}
    subprocess.run(
        ["git", *identity, *words],
        cwd=cwd,
        env=environ,
        check=True,
        capture_output=True,
        timeout=60,
    )


# --- Workspace


def test_workspace_flag_takes_precedence_over_the_variable(place: Place) -> None:
    named, by_variable = place.root / "named", place.root / "variable"
    found = _directory(place.but(INTERLOCK_WORKSPACE=str(by_variable)), "--workspace", str(named))
    assert found == str(named)
    assert not by_variable.exists()


def test_the_variable_names_the_workspace(place: Place) -> None:
    named = str(place.root / "v")
    assert _directory(place.but(INTERLOCK_WORKSPACE=named)) == named


def test_relative_workspace_path_starts_at_the_current_directory(place: Place) -> None:
    assert _directory(place, "--workspace", "here") == str(place.cwd / "here")
    assert _directory(place, "--workspace", "~/there") == str(place.home / "there")


def test_empty_workspace_variable_is_ignored(place: Place) -> None:
    found = _directory(place.but(INTERLOCK_WORKSPACE=""))
    assert found == str(_default(place))
    assert list(place.cwd.iterdir()) == []


def test_default_workspace_is_in_the_users_data_directory(place: Place) -> None:
    assert _nowhere(place) == str(_default(place))


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own directory for data")
def test_the_users_data_directory_can_be_set(place: Place) -> None:
    data = place.root / "data"
    found = _directory(place.but(INTERLOCK_WORKSPACE=None, XDG_DATA_HOME=str(data)))
    assert found == str(data / "interlock" / "default")


@pytest.mark.parametrize("words", ["status", "agents", "join otto", "audit verify", "token list"])
def test_command_that_needs_a_workspace_creates_the_default_one(words: str, place: Place) -> None:
    place.ok(*words.split(), INTERLOCK_WORKSPACE=None)
    default = _default(place)
    assert (default / "log.db").exists()
    assert stat.S_IMODE(default.stat().st_mode) == 0o700


def test_init_reports_whether_it_created_a_workspace(place: Place) -> None:
    made = place.ok("init")
    assert (made["created"], made["directory"]) == (True, str(place.workspace))
    again = place.ok("init")
    assert again == made | {"created": False}


def test_workspace_of_init_here_is_found_from_subdirectories(place: Place) -> None:
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)
    assert made["directory"] == str(place.cwd / ".interlock")
    below = place.cwd / "a" / "b"
    below.mkdir(parents=True)
    place.cwd = below
    assert _nowhere(place) == made["directory"]


def test_nearest_interlock_directory_is_used(place: Place) -> None:
    place.ok("init", "--here", INTERLOCK_WORKSPACE=None)
    inner = place.cwd / "inner"
    inner.mkdir()
    place.cwd = inner
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)
    assert made["directory"] == str(inner / ".interlock")
    assert _nowhere(place) == made["directory"]


def test_init_here_in_a_repository_is_shared_by_every_worktree(place: Place) -> None:
    repository = place.cwd
    _git("init", "-q", "-b", "main", ".", cwd=repository)
    _git("commit", "-q", "--allow-empty", "-m", "first", cwd=repository)
    _git("worktree", "add", "-q", str(place.root / "linked"), cwd=repository)
    (repository / "deep").mkdir()
    (place.root / "linked" / "deep").mkdir()
    place.cwd = place.root / "linked" / "deep"
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)
    common = str(repository / ".git" / "interlock")
    assert made["directory"] == common
    for stand in (repository, repository / "deep", place.root / "linked"):
        place.cwd = stand
        assert _nowhere(place) == common
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repository, capture_output=True, check=True
    )
    assert b"interlock" not in status.stdout


def test_init_here_uses_a_separate_git_directory(place: Place) -> None:
    """As in a submodule, `.git` is a file that points to the common git directory."""
    apart = place.root / "apart.git"
    _git("init", "-q", "--separate-git-dir", str(apart), str(place.cwd), cwd=place.root)
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)
    assert made["directory"] == str(apart / "interlock")
    assert _nowhere(place) == made["directory"]


def test_a_repository_without_init_here_uses_the_default(place: Place) -> None:
    _git("init", "-q", ".", cwd=place.cwd)
    assert _nowhere(place) == str(_default(place))


def test_init_here_and_a_named_workspace_exclude_each_other(place: Place) -> None:
    place.no("USAGE", "init", "--here", "--workspace", str(place.root / "x"))
    assert not (place.root / "x").exists()


def test_url_names_a_server_and_creates_no_directory(place: Place) -> None:
    caller = place.but(INTERLOCK_TOKEN=token_format.compose(os.urandom(token_format.SECRET_BYTES)))
    for named in (f"http://127.0.0.1:{free_port()}", f"https://127.0.0.1:{free_port()}/x"):
        place.no("NO_IDENTITY", "status", "--workspace", named)
        caller.no("ENGINE_UNAVAILABLE", "status", "--workspace", named)
        caller.no("ENGINE_UNAVAILABLE", "whoami", INTERLOCK_WORKSPACE=named)
    assert list(place.cwd.iterdir()) == []


# --- Sender


def test_token_decides_the_sender(joined: Place) -> None:
    mine = joined.join("rita")
    assert joined.ok("whoami", INTERLOCK_TOKEN=mine)["sender"] == "rita"


def test_token_takes_precedence_over_the_only_credential(place: Place) -> None:
    place.join("otto")
    rita = place.join("rita")
    (place.workspace / "credentials" / "rita.json").unlink()
    assert place.ok("whoami")["sender"] == "otto"
    assert place.ok("whoami", INTERLOCK_TOKEN=rita)["sender"] == "rita"


def test_from_selects_a_stored_credential(joined: Place) -> None:
    for named in ("otto-cli", "@otto-cli"):
        assert joined.ok("whoami", "--from", named)["sender"] == "otto-cli"


def test_only_credential_is_used_by_default(place: Place) -> None:
    place.join("otto", "cli")
    assert place.ok("whoami")["sender"] == "otto-cli"


def test_several_credentials_without_from_are_refused_and_listed(joined: Place) -> None:
    before = joined.entries()
    wrong = joined.no("NO_IDENTITY", "send", "@vera", "hi")
    assert wrong["senders"] == ["@otto-cli", "@vera"]
    assert "--from SENDER" in wrong["message"]
    assert "@otto-cli, @vera" in wrong["message"]
    assert joined.entries() == before


def test_no_credential_is_refused_with_the_command_join(place: Place) -> None:
    wrong = place.no("NO_IDENTITY", "inbox")
    assert (wrong["senders"], "interlock join NAME" in wrong["message"]) == ([], True)


def test_from_without_a_stored_credential_lists_the_stored_ones(joined: Place) -> None:
    before = joined.entries()
    wrong = joined.no("UNKNOWN_SENDER", "send", "@vera", "hi", "--from", "otto")
    assert wrong["senders"] == ["@otto-cli", "@vera"]
    assert "@otto-cli, @vera" in wrong["message"]
    assert "interlock join NAME [--surface S]" in wrong["message"]
    assert joined.entries() == before


MISMATCHED = [
    "send @vera hi",
    "inbox",
    "whoami",
    "claim acquire --item B-1",
    "claim check --item B-1",
    "claim list",
    "agents",
    "status",
    "join rita",
    "pause",
    "token list",
    "search x",
]


@pytest.mark.parametrize("words", MISMATCHED)
def test_from_that_contradicts_the_token_is_refused_and_recorded(words: str, joined: Place) -> None:
    token = joined.join("rita")
    before = joined.entries()
    wrong = joined.no("IDENTITY_MISMATCH", *words.split(), "--from", "vera", INTERLOCK_TOKEN=token)
    assert (wrong["sender"], wrong["claimed"]) == ("@rita", "vera")
    assert joined.entries() == before + 1
    recorded = joined.facts()[-1]
    assert (recorded["kind"], recorded["sender"]) == ("request_refused", "@rita")
    assert recorded["outcome"]["code"] == "IDENTITY_MISMATCH"
    assert recorded["token"] == joined.ok("token", "list")["tokens"][-1]["id"]
    assert set(recorded["outcome"]) == {"code", "digest"}
    assert "body" not in recorded
    assert joined.ok("review")["refusals"][0]["code"] == "IDENTITY_MISMATCH"
    assert joined.ok("inbox", "--from", "vera")["messages"] == []


def test_from_that_agrees_with_the_token_is_accepted(joined: Place) -> None:
    token = joined.join("rita")
    for named in ("rita", "@rita"):
        assert joined.ok("whoami", "--from", named, INTERLOCK_TOKEN=token)["sender"] == "rita"


def test_record_of_a_mismatch_does_not_contain_the_request(joined: Place) -> None:
    token = joined.join("rita")
    words = ("send", "@vera", "the-secret-text", "--from", "vera")
    joined.no("IDENTITY_MISMATCH", *words, INTERLOCK_TOKEN=token)
    stored = joined.query("SELECT header FROM log") + joined.query("SELECT body FROM bodies")
    assert not any(b"the-secret-text" in value for (value,) in stored)


def test_agent_and_its_surfaces_are_different_senders(place: Place) -> None:
    cli = place.join("otto", "cli")
    place.join("otto")
    for other in ("otto", "otto-desktop"):
        place.no("IDENTITY_MISMATCH", "whoami", "--from", other, INTERLOCK_TOKEN=cli)


def test_unknown_token_is_refused(joined: Place) -> None:
    stranger = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    before = joined.entries()
    for words in ("whoami", "send @vera hi", "join rita", "status", "claim list"):
        joined.no("BAD_TOKEN", *words.split(), INTERLOCK_TOKEN=stranger)
    assert joined.entries() == before


# --- Owner

OWNERS = [
    "join rita",
    "token list",
    "token show $token",
    "token mint --sender vera",
    "token rotate --sender vera",
    "token revoke --sender vera",
    "token reaffirm --all",
    "pause",
    "resume",
    "backup new.db",
    "restore $backup",
    "rebuild",
]
DONE_BY_OWNERS = [
    pytest.param(words, marks=restores if words.startswith("restore") else ()) for words in OWNERS
]


def _owner_words(place: Place, words: str) -> list[str]:
    """Return the words of an owner's command, with a token's id and a backup if it needs one."""
    if "$backup" in words:
        backup = place.root / "kept.db"
        if not backup.exists():
            place.ok("backup", str(backup))
        words = words.replace("$backup", str(backup))
    return words.replace("$token", place.ok("token", "list")["tokens"][0]["id"]).split()


@pytest.mark.parametrize("words", DONE_BY_OWNERS)
def test_owner_commands_need_no_identity_on_an_embedded_workspace(
    words: str, joined: Place
) -> None:
    joined.ok(*_owner_words(joined, words))


@pytest.mark.parametrize("words", OWNERS)
def test_owner_commands_need_admin_with_a_token(words: str, joined: Place) -> None:
    token = joined.join("rita")
    typed = _owner_words(joined, words)
    before = joined.facts()
    wrong = joined.no("MISSING_SCOPE", *typed, INTERLOCK_TOKEN=token)
    assert wrong["scope"] == "admin"
    assert [fact["kind"] for fact in joined.facts()[len(before) :]] == ["request_refused"]


@pytest.mark.parametrize("words", OWNERS)
def test_owner_commands_need_admin_with_from(words: str, joined: Place) -> None:
    joined.no("MISSING_SCOPE", *_owner_words(joined, words), "--from", "otto-cli")


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_agent_cannot_rotate_or_revoke_its_own_tokens(verb: str, joined: Place) -> None:
    token = joined.join("rita")
    joined.no("MISSING_SCOPE", "token", verb, "--sender", "rita", INTERLOCK_TOKEN=token)
    assert joined.ok("whoami", INTERLOCK_TOKEN=token)["sender"] == "rita"


@pytest.mark.parametrize("words", DONE_BY_OWNERS)
def test_admin_can_run_owner_commands(words: str, joined: Place) -> None:
    admin = joined.join("ada", None, "--scope", "admin")
    joined.ok(*_owner_words(joined, words), INTERLOCK_TOKEN=admin)


@pytest.mark.parametrize("words", ["join rita", "pause", "token mint --sender vera", "rebuild"])
def test_caller_in_a_session_is_not_the_owner(words: str, joined: Place) -> None:
    """A client may remove the token from its shell's environment. The session still identifies the
    sender."""
    with Session(joined, "otto-cli") as session:
        joined.no("MISSING_SCOPE", *words.split(), INTERLOCK_SESSION=session.id)


@pytest.mark.parametrize("words", ["join rita", "pause", "token mint --sender vera", "rebuild"])
def test_caller_in_an_ended_session_is_not_the_owner(words: str, joined: Place) -> None:
    """A process that outlives its client's session must not become the owner."""
    with Session(joined, "otto-cli") as session:
        pass
    before = joined.entries()
    done = joined.run(*words.split(), "--json", INTERLOCK_SESSION=session.id)
    assert done.status == 3, done
    assert joined.entries() - before <= 1


@pytest.mark.parametrize(
    "words",
    [
        "agents",
        "status",
        "claim check --item B-1",
        "claim list",
        "audit verify",
        "audit show",
        "audit checkpoint",
        "audit prove 1",
        "schema",
    ],
)
def test_read_only_commands_need_no_identity(words: str, joined: Place) -> None:
    joined.ok(*words.split())


@pytest.mark.parametrize("words", ["send @vera x", "inbox", "claim acquire --item B-1", "whoami"])
def test_owner_without_a_sender_cannot_act_as_one(words: str, place: Place) -> None:
    place.no("NO_IDENTITY", *words.split())


def test_ending_a_task_or_a_blocker_needs_a_sender(joined: Place) -> None:
    joined.ok("task", "create", "--title", "Sort", "--id", "B-1", "--from", "otto-cli")
    raised = joined.ok("blocker", "raise", "B-1", "no disk", "--from", "vera")["blocker"]
    for words in (("blocker", "resolve", raised["id"]), ("task", "cancel", "B-1")):
        assert joined.no("NO_IDENTITY", *words)["senders"] == ["@otto-cli", "@vera"]
        joined.ok(*words, "--from", "vera")
    assert [fact["sender"] for fact in joined.facts("blocker_resolved")] == ["@vera"]
    assert [fact["sender"] for fact in joined.facts("task_ended")] == ["@vera"]


def test_reserved_names_cannot_join(place: Place) -> None:
    for name in ("owner", "interlock"):
        place.no("NAME_TAKEN", "join", name)
        place.no("NAME_TAKEN", "join", name, "--surface", "cli")


# --- Names


def test_name_cannot_equal_the_sender_of_another_agents_surface(place: Place) -> None:
    place.join("otto", "cli")
    place.no("NAME_TAKEN", "join", "otto-cli")
    place.no("NAME_TAKEN", "join", "otto-cli", "--surface", "web")
    place.join("vera-cli")
    place.no("NAME_TAKEN", "join", "vera", "--surface", "cli")
    place.no("NAME_TAKEN", "join", "otto", "--surface", "cli")
    place.join("a", "b-c")
    place.no("NAME_TAKEN", "join", "a-b", "--surface", "c")


def test_an_agent_keeps_its_kind_on_every_surface(place: Place) -> None:
    place.join("vera", None, "--kind", "human")
    place.no("NAME_TAKEN", "join", "vera", "--surface", "cli", "--kind", "agent")
    assert place.ok("join", "vera", "--surface", "cli")["kind"] == "human"


# --- Scopes


def test_default_scopes_are_mail_claim_and_work(place: Place) -> None:
    place.join("otto")
    assert place.ok("whoami")["scopes"] == ["claim", "mail", "work"]


def test_missing_scope_is_refused_and_recorded(joined: Place) -> None:
    reader = joined.ok("token", "mint", "--sender", "vera", "--scope", "mail")["token"]
    before = joined.entries()
    wrong = joined.no("MISSING_SCOPE", "claim", "acquire", "--item", "B-1", INTERLOCK_TOKEN=reader)
    assert wrong["scope"] == "claim"
    assert joined.facts()[-1]["outcome"]["code"] == "MISSING_SCOPE"
    assert joined.entries() == before + 1
    joined.ok("send", "@otto", "hi", INTERLOCK_TOKEN=reader)


def test_scopes_beyond_the_defaults_need_admin(joined: Place) -> None:
    token = joined.join("rita")
    for scope in ("admin", "gate:athena"):
        words = ("token", "mint", "--sender", "rita", "--scope", scope)
        joined.no("MISSING_SCOPE", *words, INTERLOCK_TOKEN=token)
    admin = joined.join("ada", None, "--scope", "admin")
    words = ("token", "mint", "--sender", "rita", "--scope", "gate:athena")
    minted = joined.ok(*words, INTERLOCK_TOKEN=admin)
    assert minted["scopes"] == ["mail", "claim", "work", "gate:athena"]
    assert minted["minted_by"] == "@ada"


def test_repeated_refusals_do_not_fill_the_log(joined: Place) -> None:
    token = joined.join("rita")
    before = joined.entries()
    for _ in range(40):
        joined.no("IDENTITY_MISMATCH", "whoami", "--from", "vera", INTERLOCK_TOKEN=token)
    assert joined.entries() - before <= 21


# --- interlock run


class Session:
    """A client started by `interlock run`: a shell that runs each line of its input."""

    def __init__(self, place: Place, sender: str) -> None:
        script = (
            "echo $INTERLOCK_SESSION; while read -r line; do eval \"$line\"; echo '<done>'; done"
        )
        self.child = place.start("run", sender, "--", "sh", "-c", script)
        self.lines = lines(self.child)
        self.id = next(self.lines)

    def does(self, *words: str, **environ: str) -> Any:
        """Return the JSON answer of a command in the session."""
        setting = [f"{name}={shlex.quote(value)}" for name, value in environ.items()]
        typed = [shlex.quote(word) for word in (sys.executable, "-m", "interlock", *words)]
        assert self.child.stdin is not None
        self.child.stdin.write(" ".join([*setting, *typed, "--json"]).encode() + b"\n")
        self.child.stdin.flush()
        said = []
        while (line := next(self.lines)) != "<done>":
            said.append(line)
        return json.loads("\n".join(said))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client's input, which ends the client."""
        with self.child:
            try:
                out, err = self.child.communicate(timeout=LIMIT_S)
            finally:
                self.child.kill()
        assert (self.child.returncode, out, err) == (0, b"", b"")


def _run(place: Place, sender: str, *command: str) -> Done:
    return place.process("run", sender, "--", *command)


def test_run_gives_its_client_a_token_a_session_and_the_workspace(joined: Place) -> None:
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    done = _run(joined.but(OTHER="kept"), "otto-cli", sys.executable, "-c", script)
    environ = json.loads(done.out)
    assert (done.status, done.err) == (0, b"")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}", environ["INTERLOCK_SESSION"])
    assert environ["INTERLOCK_WORKSPACE"] == str(joined.workspace)
    assert environ["OTHER"] == "kept"
    found = joined.ok("token", "identify", "-", stdin=environ["INTERLOCK_TOKEN"].encode())
    assert found["sender"] == "otto-cli"


def test_run_accepts_the_address_of_a_sender(joined: Place) -> None:
    assert _run(joined, "@otto-cli", "true").status == 0


def test_run_passes_standard_streams_through(joined: Place) -> None:
    script = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write('aside')"
    words = ("run", "vera", "--", sys.executable, "-c", script)
    done = joined.process(*words, stdin=b"said")
    assert (done.status, done.out, done.err) == (0, b"SAID", b"aside")


@pytest.mark.parametrize("status", [0, 1, 2, 70, 125, 255])
def test_run_exits_with_the_commands_status(status: int, joined: Place) -> None:
    assert _run(joined, "vera", "sh", "-c", f"exit {status}").status == status


def test_run_does_not_parse_the_commands_flags(joined: Place) -> None:
    assert _run(joined, "vera", "sh", "-c", "echo $1 $2", "sh", "--json", "--help").out == (
        b"--json --help\n"
    )
    bare = joined.process("run", "vera", "sh", "-c", "echo $0", "--from")
    assert (bare.status, bare.out) == (0, b"--from\n")


def test_run_exits_with_127_if_the_command_does_not_exist(joined: Place) -> None:
    done = _run(joined, "vera", "no-such-command-anywhere")
    assert done.status == 127
    assert b"no-such-command-anywhere" in done.err
    assert [f["kind"] for f in joined.facts()[-2:]] == ["session_started", "session_ended"]


def test_run_exits_with_126_if_the_command_cannot_be_executed(joined: Place) -> None:
    plain = joined.cwd / "plain.txt"
    plain.write_text("no program")
    assert _run(joined, "vera", str(plain)).status == 126
    assert _run(joined, "vera", str(joined.cwd)).status == 126


def test_run_exits_with_125_if_interlock_refuses(joined: Place) -> None:
    for sender, environ in (
        ("nobody", {}),
        ("vera", {"INTERLOCK_TOKEN": "ilk_mistyped"}),
        ("vera", {"INTERLOCK_SESSION": "../x"}),
    ):
        done = _run(joined.but(**environ), sender, "sh", "-c", "echo ran")
        assert (done.status, done.out) == (125, b""), done
        assert done.err, done


def test_run_exits_with_125_without_a_workspace(joined: Place) -> None:
    done = _run(joined.but(INTERLOCK_WORKSPACE="/dev/null"), "vera", "sh", "-c", "echo ran")
    assert (done.status, done.out) == (125, b""), done
    assert done.err, done


def test_run_with_json_prints_the_refusal(joined: Place) -> None:
    done = joined.process("run", "--json", "nobody", "--", "true")
    assert done.status == 125
    assert json.loads(done.out)["code"] == "UNKNOWN_SENDER"


def test_run_without_a_command_is_a_usage_error(joined: Place) -> None:
    joined.no("USAGE", "run")
    joined.no("USAGE", "run", "vera")
    assert joined.run("run", "vera", "--").status == 2


def test_run_exits_with_128_plus_the_signal_that_ended_the_client(joined: Place) -> None:
    assert _run(joined, "vera", "sh", "-c", "kill -KILL $$").status == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_run_forwards_signals_and_ends_the_session(number: signal.Signals, joined: Place) -> None:
    script = (
        "import signal, sys\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, {{{int(number)}}})\n"
        "print('ready', flush=True)\n"
        f"signal.sigwait({{{int(number)}}})\n"
        "sys.exit(42)\n"
    )
    with joined.start("run", "vera", "--", sys.executable, "-c", script) as child:
        try:
            assert next(lines(child)) == "ready"
            until(lambda: _handles(child.pid, number))
            child.send_signal(number)
            assert child.wait(LIMIT_S) == 42
        finally:
            child.kill()
    assert joined.facts()[-1]["kind"] == "session_ended"


def _handles(pid: int, number: signal.Signals) -> bool:
    if not sys.platform.startswith("linux"):
        return True
    caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return bool(caught and int(caught[1], 16) >> (number - 1) & 1)


def test_run_leaves_an_interrupt_to_the_client(joined: Place) -> None:
    """The terminal sends the interrupt to both processes. Interlock waits for the client's
    reaction."""
    script = (
        "import os, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "print(os.getpid(), flush=True)\n"
        "signal.sigwait({signal.SIGINT})\n"
        "sys.exit(7)\n"
    )
    with joined.start("run", "vera", "--", sys.executable, "-c", script) as child:
        try:
            client = int(next(lines(child)))
            until(lambda: _handles(child.pid, signal.SIGTERM))
            child.send_signal(signal.SIGINT)
            os.kill(client, signal.SIGINT)
            assert child.wait(LIMIT_S) == 7
            assert child.stderr is not None
            assert child.stderr.read() == b""
        finally:
            child.kill()


def test_all_commands_of_a_session_are_one_holder(joined: Place) -> None:
    with Session(joined, "otto-cli") as session:
        claim = session.does("claim", "acquire", "--item", "B-1")["claim"]
        assert (claim["holder"], claim["session"]) == ("@otto-cli", session.id)
        assert session.does("claim", "renew", "--item", "B-1")["renewed"] is True
        me = session.does("whoami")
        assert (me["sender"], me["session"]) == ("otto-cli", session.id)
        assert joined.ok("claim", "list")["claims"][0]["id"] == claim["id"]
        held = joined.no("CLAIM_HELD", "claim", "acquire", "--item", "B-1", "--from", "otto-cli")
        assert held["held_by"][0]["session"] == session.id


def test_end_of_a_session_releases_only_its_own_claims(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-9", "--from", "otto-cli")
    with Session(joined, "otto-cli") as session:
        session.does("claim", "acquire", "--item", "B-1")
        session.does("claim", "acquire", "--path", "src/**", "--repo", "r")
        assert len(joined.ok("claim", "list")["claims"]) == 3
    assert [claim["item"] for claim in joined.ok("claim", "list")["claims"]] == ["B-9"]
    assert {"session_ended", "claim_released"} <= {fact["kind"] for fact in joined.facts()}


def test_two_runs_of_one_sender_are_two_holders(joined: Place) -> None:
    with Session(joined, "otto-cli") as one, Session(joined, "otto-cli") as two:
        assert one.id != two.id
        assert one.does("claim", "acquire", "--item", "B-1")["acquired"] is True
        held = two.does("claim", "acquire", "--item", "B-1")
        assert (held["code"], held["held_by"][0]["session"]) == ("CLAIM_HELD", one.id)
        assert two.does("claim", "release", "--item", "B-1")["code"] == "NOT_HOLDER"


def test_claims_are_renewed_while_the_session_runs(joined: Place) -> None:
    with Session(joined, "otto-cli") as session:
        first = session.does("claim", "acquire", "--item", "B-1", "--ttl", "6s")["claim"]

        def renewed() -> bool:
            (claim,) = joined.ok("claim", "list")["claims"]
            assert claim["fence"] == first["fence"]
            return bool(claim["expires_at"] > first["expires_at"])

        until(renewed)


def test_client_inside_a_client_has_its_own_session(joined: Place) -> None:
    """The end of the inner client does not end the outer session."""
    with Session(joined, "otto-cli") as outer:
        outer.does("claim", "acquire", "--item", "B-1")
        inner = outer.does("run", "otto-cli", "--", sys.executable, "-m", "interlock", "whoami")
        assert inner["session"] != outer.id
        (claim,) = joined.ok("claim", "list")["claims"]
        assert claim["session"] == outer.id
        assert outer.does("claim", "renew", "--item", "B-1")["renewed"] is True


def test_from_with_another_sender_in_a_session_is_a_mismatch(joined: Place) -> None:
    with Session(joined, "otto-cli") as session:
        before = joined.entries()
        wrong = session.does("send", "@vera", "hi", "--from", "vera")
        assert wrong["code"] == "IDENTITY_MISMATCH"
        assert joined.facts()[-1]["outcome"]["code"] == "IDENTITY_MISMATCH"
        assert joined.facts()[-1]["session"] == session.id
        assert joined.entries() == before + 1
        assert session.does("whoami", "--from", "otto-cli")["sender"] == "otto-cli"


def test_run_with_another_sender_in_a_session_is_refused(joined: Place) -> None:
    with Session(joined, "otto-cli") as session:
        before = joined.entries()
        token = json.loads((joined.workspace / "credentials" / "otto-cli.json").read_text())[
            "token"
        ]
        within = joined.but(INTERLOCK_TOKEN=token, INTERLOCK_SESSION=session.id)
        done = _run(within, "vera", "true")
        assert done.status == 125
        assert joined.entries() == before + 1
        assert joined.facts()[-1]["outcome"]["code"] == "IDENTITY_MISMATCH"


def test_session_without_a_token_decides_the_sender(joined: Place) -> None:
    """Some clients remove secrets from the environment of their shells."""
    with Session(joined, "otto-cli") as session:
        stripped = session.does("whoami", INTERLOCK_TOKEN="")
        assert (stripped["sender"], stripped["session"]) == ("otto-cli", session.id)
        for named in ("vera", "@vera"):
            wrong = joined.no(
                "IDENTITY_MISMATCH",
                "send",
                "@vera",
                "x",
                "--from",
                named,
                INTERLOCK_SESSION=session.id,
            )
            assert wrong["sender"] == "@otto-cli"
        sent = joined.ok("send", "@vera", "hi", INTERLOCK_SESSION=session.id)
        assert sent["message"]["from"] == "@otto-cli"


def test_more_scopes_in_a_session_need_admin(joined: Place) -> None:
    with Session(joined, "otto-cli") as session:
        for words in ("join rita --scope admin", "token mint --sender otto-cli --scope admin"):
            assert session.does(*words.split())["code"] == "MISSING_SCOPE"


def test_session_flag_sets_the_session(joined: Place) -> None:
    words = ("claim", "acquire", "--item", "B-1", "--from", "vera")
    claim = joined.ok(*words, "--session", "window-1")["claim"]
    assert claim["session"] == "window-1"
    joined.no("CLAIM_HELD", *words, "--session", "window-2")
    joined.no("CLAIM_HELD", *words)
    joined.ok(*words, INTERLOCK_SESSION="window-1")
    assert (
        joined.ok("whoami", "--from", "vera", "--session", "a", INTERLOCK_SESSION="b")["session"]
        == "a"
    )


def test_without_a_session_the_holder_is_the_sender_alone(joined: Place) -> None:
    words = ("claim", "acquire", "--item", "B-1", "--from", "vera")
    assert "session" not in joined.ok(*words)["claim"]
    assert joined.ok(*words)["acquired"] is True


# --- Tokens


def test_credentials_are_readable_only_by_their_owner(place: Place) -> None:
    before = os.umask(0)
    try:
        place.join("otto", "cli")
        place.ok("token", "rotate", "--sender", "otto-cli")
    finally:
        os.umask(before)
    kept = place.workspace / "credentials"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert [file.name for file in kept.iterdir()] == ["otto-cli.json"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept.iterdir()} == {0o600}
    assert stat.S_IMODE((place.workspace / "keys" / "checkpoint.key").stat().st_mode) == 0o600


def test_token_is_printed_once_and_stored_only_as_its_hash(joined: Place) -> None:
    token = joined.join("rita")
    text = joined.run("join", "hugo")
    assert b"ilk_" not in text.out
    for words in ("token list", "audit show --limit 1000", "agents", "status", "review"):
        assert token not in joined.run(*words.split(), "--json").text
    for table, column in (("log", "header"), ("bodies", "body")):
        stored = joined.query(f"SELECT {column} FROM {table}")
        assert not any(token.encode() in value for (value,) in stored)


def test_token_has_a_prefix_and_a_checksum(joined: Place) -> None:
    token = joined.join("rita")
    assert re.fullmatch(r"ilk_[a-z2-7]{47}", token)
    swapped = token[:10] + ("a" if token[10] != "a" else "b") + token[11:]
    for wrong in (swapped, token[:-1], token + "a", token.upper().replace("ILK_", "ilk_")):
        assert "checksum" in joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=wrong)["message"]


def test_token_list_and_show_omit_the_secret(joined: Place) -> None:
    joined.join("rita", None, "--label", "Rita's laptop")
    listed = joined.ok("token", "list")["tokens"]
    assert [token["sender"] for token in listed] == ["otto-cli", "vera", "rita"]
    rita = listed[-1]
    assert rita.keys() == {
        "id", "sender", "address", "label", "scopes", "minted_by", "minted_at", "seq"
    }  # fmt: skip
    assert (rita["address"], rita["label"]) == ("@rita", "Rita's laptop")
    assert rita["minted_by"] == "@owner"
    assert joined.ok("token", "show", rita["id"]) == rita


def test_an_agent_sees_no_other_senders_tokens(joined: Place) -> None:
    admin = joined.join("ada", None, "--scope", "admin")
    assert len(joined.ok("token", "list", INTERLOCK_TOKEN=admin)["tokens"]) == 3
    rita = joined.join("rita")
    foreign = joined.ok("token", "list")["tokens"][0]["id"]
    done = joined.run("token", "show", foreign, "--json", INTERLOCK_TOKEN=rita)
    assert done.json["code"] in ("NOT_FOUND", "MISSING_SCOPE")


def test_mint_creates_another_token_of_a_sender(joined: Place) -> None:
    minted = joined.ok("token", "mint", "--sender", "@vera", "--label", "phone", "--ttl", "7d")
    assert (minted["sender"], minted["label"]) == ("vera", "phone")
    assert joined.ok("whoami", INTERLOCK_TOKEN=minted["token"])["sender"] == "vera"
    assert joined.ok("whoami", "--from", "vera")["sender"] == "vera"
    assert "expires_at" in minted


def test_mint_needs_a_registered_sender(joined: Place) -> None:
    before = joined.entries()
    wrong = joined.no("UNKNOWN_SENDER", "token", "mint", "--sender", "ver")
    assert wrong["did_you_mean"] == ["@vera"]
    joined.no("USAGE", "token", "mint")
    assert joined.entries() == before


def test_rotate_replaces_the_token_and_stores_the_new_one(joined: Place) -> None:
    old = json.loads((joined.workspace / "credentials" / "vera.json").read_text())["token"]
    rotated = joined.ok("token", "rotate", "--sender", "vera")
    assert joined.ok("whoami", "--from", "vera")["sender"] == "vera"
    kept = json.loads((joined.workspace / "credentials" / "vera.json").read_text())
    assert kept == {"sender": "vera", "token": rotated["token"]}
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=old)
    listed = {token["id"]: token for token in joined.ok("token", "list")["tokens"]}
    assert [id for id in rotated["replaced"] if "revoked_at" in listed[id]] == rotated["replaced"]


def test_revoke_ends_a_token_at_once_by_id_or_by_sender(joined: Place) -> None:
    spare = joined.ok("token", "mint", "--sender", "vera")
    assert joined.ok("token", "revoke", spare["id"]) == {"revoked": [spare["id"]]}
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=spare["token"])
    joined.ok("whoami", "--from", "vera")
    assert len(joined.ok("token", "revoke", "--sender", "vera")["revoked"]) == 1
    joined.no("BAD_TOKEN", "whoami", "--from", "vera")
    joined.no("NOT_FOUND", "token", "revoke", "--sender", "vera")
    for words in ([], [spare["id"], "--sender", "vera"]):
        joined.no("USAGE", "token", "revoke", *words)


def test_identify_shows_the_sender_of_a_token(joined: Place) -> None:
    token = joined.join("rita", None, "--label", "hers")
    for end in (b"", b"\n"):
        found = joined.ok("token", "identify", "-", stdin=token.encode() + end)
        assert (found["known"], found["active"]) == (True, True)
        assert (found["address"], found["label"]) == ("@rita", "hers")
        assert "token" not in found
    joined.ok("token", "revoke", "--sender", "rita")
    revoked = joined.run("token", "identify", "-", "--json", stdin=token.encode())
    assert (revoked.status, revoked.json["active"]) == (1, False)
    unknown = joined.run("token", "identify", "of-somebody-else", "--json")
    assert (unknown.status, unknown.json) == (1, {"known": False})
    for nothing in (b"", b" \n"):
        joined.no("USAGE", "token", "identify", "-", stdin=nothing)


def test_during_a_pause_tokens_can_be_revoked_but_not_minted(joined: Place) -> None:
    minted = joined.ok("token", "mint", "--sender", "vera")
    joined.ok("pause", "--reason", "a leak")
    joined.ok("token", "revoke", minted["id"])
    joined.no("PAUSED", "token", "mint", "--sender", "vera")
    joined.no("PAUSED", "token", "rotate", "--sender", "otto-cli")
    joined.no("BAD_TOKEN", "whoami", INTERLOCK_TOKEN=minted["token"])


# --- explain


def test_explain_shows_the_sender_and_the_token_of_a_message(joined: Place) -> None:
    admin = joined.join("ada", None, "--scope", "admin")
    label = ("--label", "vera")
    minted = joined.ok("token", "mint", "--sender", "otto-cli", *label, INTERLOCK_TOKEN=admin)
    words = ("send", "@vera", "hi", "--session", "s-1")
    sent = joined.ok(*words, INTERLOCK_TOKEN=minted["token"])["message"]
    story = joined.ok("explain", sent["id"])
    assert (story["sender"], story["agent"], story["session"]) == ("@otto-cli", "otto", "s-1")
    assert story["message"]["seq"] == sent["seq"]
    assert story["token"] == {name: minted[name] for name in minted if name != "token"}
    assert (story["token"]["label"], story["token"]["minted_by"]) == ("vera", "@ada")
    text = joined.run("explain", f"#{sent['seq']}").text
    assert "Sender: @otto-cli, agent otto, session s-1" in text
    token = f"Token: {minted['id']}, which belongs to @otto-cli, with the label 'vera'"
    assert token in text
    assert f"@ada created the token at {minted['minted_at'][:19].replace('T', ' ')}Z" in text
    assert f"#{minted['seq']}." in text


def test_explain_shows_both_remedies_of_a_contradiction(joined: Place) -> None:
    minted = joined.ok("token", "mint", "--sender", "otto-cli", "--label", "Vera's laptop")
    sent = joined.ok("send", "@vera", "hi", INTERLOCK_TOKEN=minted["token"])["message"]
    story = joined.ok("explain", sent["id"])
    id = minted["id"]
    assert story["do"] == f"interlock token label {id} otto-cli"
    assert story["contradiction"].endswith(
        "A caller with this token acts as @otto-cli. If it should belong to @vera: "
        f"interlock token mint --sender vera && interlock token revoke {id} "
        f"— or, if it should belong to @otto-cli: {story['do']}"
    )


def test_explain_shows_that_the_token_was_revoked(joined: Place) -> None:
    id = joined.ok("send", "@vera", "hi", "--from", "otto-cli")["message"]["id"]
    joined.ok("token", "revoke", "--sender", "otto-cli")
    assert "revoked_at" in joined.ok("explain", id)["token"]


def test_explain_of_a_message_from_interlock_names_no_token(joined: Place) -> None:
    joined.ok("claim", "acquire", "--item", "B-1", "--from", "otto-cli")
    joined.ok("claim", "take-over", "--item", "B-1", "--reason", "r", "--from", "vera")
    (notice,) = joined.ok("inbox", "--from", "otto-cli")["messages"]
    story = joined.ok("explain", notice["id"], "--from", "otto-cli")
    assert story["sender"] == "@interlock"
    assert "token" not in story
