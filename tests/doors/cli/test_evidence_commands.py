"""`interlock evidence`: a run is recorded exactly, even if its command misbehaves. A refusal starts
no command. An offline shell saves its run in a file."""

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from world.commandline import LIMIT_S, Done, lines, until
from world.fork_server import Running, Servers
from world.server import free_port
from world.tcp_proxy import TcpProxy
from world.tooling import Clients
from world.working import HOLDER, TASK, WORKER, Workshop, memory, processes_with

pytestmark = pytest.mark.every_engine

FIVE_MB = 5 << 20
# A program writes the bytes, so that the command line does not contain the output.
PRINT_RANDOM = (
    "import random, sys; sys.stdout.buffer.write(random.Random(7).randbytes(int(sys.argv[1])))"
)
# Short sleeps: Python handles a signal that arrives just before `sleep` only after it.
SLEEP = "import sys, time; print(flush=True)\nwhile True: time.sleep(0.05)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "signal.signal(signal.SIGINT, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
)
# A child, a child in its own session, and an orphan.
FORKING = (
    "import os, subprocess, sys\n"
    "for way in ({}, {'start_new_session': True}):\n"
    "    subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]], **way)\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.execl(sys.executable, sys.executable, '-c', sys.argv[1], sys.argv[2])\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "print('forked')\n"
)


def python(code: str, *words: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code, *words)


def recorded(shop: Workshop) -> list[Any]:
    """Return all evidence, oldest first."""
    ids = shop.place.query("SELECT id FROM work_evidence ORDER BY seq")
    return [shop.place.ok("evidence", "show", id)["evidence"] for (id,) in ids]


# --- the output of the command


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 1", 1), ("exit 93", 93), ("kill -9 $$", 137)]
)
def test_evidence_run_exits_with_the_commands_status(
    shop: Workshop, script: str, status: int
) -> None:
    assert shop.run(*WORKER, "--", "sh", "-c", script).status == status
    (run,) = recorded(shop)
    assert (run["kind"], run["exit_code"], run["by"]) == ("run", status, "@otto-cli")
    assert run["command"] == ["sh", "-c", script]
    assert run.get("ended_by") == ("signal" if status == 137 else None)


def test_output_of_each_stream_is_shown_while_the_command_runs(shop: Workshop) -> None:
    script = "echo one; echo two >&2; while ! test -e go; do sleep 0.05; done; echo three"
    with shop.place.start("evidence", "run", *WORKER, "--", "sh", "-c", script) as child:
        try:
            assert next(lines(child)) == "one"
            assert child.poll() is None
            (shop.place.cwd / "go").touch()
            out, err = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert (child.returncode, out) == (0, b"three\n")
    assert err.partition(b"Evidence ")[0] == b"two\n"
    (run,) = recorded(shop)
    assert sorted(shop.kept(run["id"]).split()) == [b"one", b"three", b"two"]


def test_with_json_the_commands_output_goes_to_standard_error(shop: Workshop) -> None:
    done = shop.run(*WORKER, "--json", "--", "sh", "-c", 'echo "{}"; echo two >&2; exit 4')
    assert done.status == 4
    assert sorted(done.err.split()) == [b"two", b"{}"]
    assert done.json["evidence"]["exit_code"] == 4
    assert done.json["evidence"]["id"] == recorded(shop)[0]["id"]


def test_standard_input_goes_to_the_command(shop: Workshop) -> None:
    assert shop.run(*WORKER, "--", "cat", stdin=b"typed").out == b"typed"


# --- where it ran


def test_run_records_its_directory_commit_and_tree(shop: Workshop) -> None:
    (shop.place.cwd / "below").mkdir()
    shop.place.cwd = shop.place.cwd / "below"
    run = shop.proven("--", "true")
    assert run["cwd"] == "below"
    assert (run["commit"], run["tree"], run["dirty"]) == (shop.head, shop.tree, False)


def test_tree_of_uncommitted_changes_is_the_tree_of_their_later_commit(shop: Workshop) -> None:
    before = shop.head
    shop.write("new.txt", "not committed\n")
    run = shop.proven("--", "true")
    assert (run["commit"], run["dirty"]) == (before, True)
    assert shop.git("status", "--porcelain") == "?? new.txt"
    shop.commit()
    assert run["tree"] == shop.tree


def test_run_outside_of_a_repository_records_no_commit(shop: Workshop) -> None:
    shop.taken()
    shop.place.cwd = shop.place.root / "elsewhere"
    shop.place.cwd.mkdir()
    answer = shop.run(*WORKER, "--json", "--task", TASK, "--criterion", "1", "--", "true").json
    assert not {"commit", "tree", "dirty"} & set(answer["evidence"])
    assert answer["evidence"]["cwd"] == "elsewhere"
    assert (answer["counts"], answer["why"]) == (False, "The run was not made in a repository.")


def test_commit_of_another_repository_needs_a_known_or_given_tree(shop: Workshop) -> None:
    shop.taken()
    shop.proven("--task", TASK, "--criterion", "1", "--", "true")
    first, tree = shop.head, shop.tree
    later = shop.commit(**{"greet.sh": "echo hello\n"})
    here, given = ("--commit", later), ("--tree", shop.tree)
    submit = ("task", "submit", TASK, *WORKER)
    refused = shop.place.no("DIGEST_MISMATCH", *submit, *here, "--tree", tree)["message"]
    assert refused.endswith("Remove --tree.")
    shop.place.cwd = shop.place.root / "elsewhere"
    shop.place.cwd.mkdir()
    answer = shop.place.ok(*submit, "--commit", first)
    assert answer["task"]["artifact"] == {"commit": first, "tree": tree}
    refused = shop.place.no("USAGE", *submit, *here)["message"]
    assert f"The tree of the commit {later[:12]} is unknown" in refused
    answer = shop.place.ok(*submit, *here, *given)
    assert answer["task"]["artifact"] == {"commit": later, "tree": given[1]}
    for words in ((), ("--commit", later[:12]), ("--commit", "main")):
        refused = shop.place.no("USAGE", *submit, *words)["message"]
        assert refused.startswith("There is no commit ")


# --- stored output and files


def test_token_is_masked_in_the_stored_output_only(shop: Workshop) -> None:
    token = "ghp_" + "a1B2" * 9
    done = shop.run(*WORKER, "--", "sh", "-c", f"echo before {token} after")
    assert done.out.decode() == f"before {token} after\n"
    (run,) = recorded(shop)
    assert shop.kept(run["id"]) == b"before [masked] after\n"
    assert run["masked"] == 2  # in the output and in the command line
    assert token not in json.dumps(run)
    assert all(
        token.encode() not in body for (body,) in shop.place.query("SELECT body FROM bodies")
    )
    told = shop.place.run("evidence", "show", run["id"]).text
    assert "masked" in told
    assert token not in told


def test_results_of_a_test_runner_are_counted(shop: Workshop) -> None:
    tests = ("def test_one(self): pass", "def test_two(self): pass")
    body = "".join(f"    {test}\n" for test in tests)
    shop.write("test_it.py", f"import unittest\nclass It(unittest.TestCase):\n{body}")
    run = shop.proven("--", sys.executable, "-m", "unittest", "test_it")
    assert (run["exit_code"], run["tests"]) == (0, {"passed": 2})


@pytest.mark.parametrize(
    "data",
    [b"", bytes(range(256)), random.Random(7).randbytes(FIVE_MB), "x€".encode() * (FIVE_MB // 4)],
    ids=["nothing", "every byte", "5 MB of noise", "5 MB of text"],
)
def test_stored_output_is_returned_byte_for_byte(shop: Workshop, data: bytes) -> None:
    (shop.place.root / "data").write_bytes(data)
    run = shop.proven("--", "cat", str(shop.place.root / "data"))
    assert run["output"] == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    assert shop.kept(run["id"]) == data
    assert shop.place.run("evidence", "show", run["id"]).status == 0


def test_attached_file_is_stored_whole(shop: Workshop) -> None:
    data = random.Random(8).randbytes(FIVE_MB)
    (shop.place.cwd / "picture.png").write_bytes(data)
    shop.create()
    words = ("--task", TASK, "--file", "picture.png", *WORKER)
    kept = shop.place.ok("evidence", "add", *words)["evidence"]
    assert (kept["kind"], kept["name"], kept["size"]) == ("file", "picture.png", FIVE_MB)
    assert kept["sha256"] == hashlib.sha256(data).hexdigest()
    assert shop.kept(kept["id"]) == data


def test_raw_output_of_a_note_is_refused(shop: Workshop) -> None:
    shop.create()
    words = ("--task", TASK, "--note", "I looked.", *WORKER)
    note = shop.place.ok("evidence", "add", *words)["evidence"]
    nothing = shop.place.run("evidence", "show", note["id"], "--raw")
    assert (nothing.status, nothing.out) == (2, b"")
    assert "has no stored bytes" in nothing.complaint


@pytest.fixture
def remote(shop: Workshop, servers: Servers) -> Iterator[tuple[Workshop, Running]]:
    """The worker's shell on another machine, with the URL of a server."""
    place = shop.place
    running = servers.start(str(place.workspace), place.environ, str(place.cwd))
    token = place.token_of("otto-cli")
    yield shop.but(INTERLOCK_WORKSPACE=running.url, INTERLOCK_TOKEN=token), running
    running.end()


def test_run_is_recorded_on_a_remote_server(remote: tuple[Workshop, Running]) -> None:
    far, _ = remote
    data = random.Random(9).randbytes(FIVE_MB)
    (far.place.root / "data").write_bytes(data)
    done = far.run("--json", "--", "cat", str(far.place.root / "data"))
    assert (done.status, done.json["evidence"]["dirty"]) == (0, False)
    assert far.kept(done.json["evidence"]["id"]) == data


def test_run_is_saved_in_a_file_if_the_server_dies_meanwhile(
    shop: Workshop, remote: tuple[Workshop, Running]
) -> None:
    shop.taken()
    far, running = remote
    words = ("--task", TASK, "--criterion", "1", "--json", "--")
    done = far.run(*words, "sh", "-c", f"kill -9 {running.pid}; echo hello")
    assert done.status == 0
    add = ("evidence", "add", "--task", TASK, "--spool", done.json["spooled"], *WORKER)
    assert shop.place.ok(*add)["counts"]


def test_run_with_a_lost_answer_is_recorded_once(
    shop: Workshop, remote: tuple[Workshop, Running]
) -> None:
    """The command saves the run in a file too, because it does not know that the server recorded
    it."""
    shop.taken()
    far, running = remote
    with TcpProxy(int(running.url.rpartition(":")[2])) as proxy:
        proxy.cut_at(b"POST /v1/evidence ", arrives=True)
        cut = far.but(INTERLOCK_WORKSPACE=f"http://127.0.0.1:{proxy.port}")
        words = ("--task", TASK, "--criterion", "1", "--json", "--", "echo", "hello")
        done = cut.run(*words)
    (run,) = until(lambda: recorded(shop))
    add = ("evidence", "add", "--task", TASK, "--spool", done.json["spooled"], *WORKER)
    assert shop.place.ok(*add)["evidence"] == run
    assert recorded(shop) == [run]


# --- commands that misbehave


each_way = pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "one line"])


@each_way
def test_output_beyond_the_limit_is_shortened(shop: Workshop, end: str) -> None:
    """The stored output is limited, and the evidence shows the original size."""
    _printed_and_measured(shop, end, megabytes=16)


@pytest.mark.long
@each_way
def test_200_mb_of_output_need_little_memory(shop: Workshop, end: str) -> None:
    """The memory that the recording needs is limited too."""
    assert 0 < _printed_and_measured(shop, end, megabytes=200) < 100 << 20


def _printed_and_measured(shop: Workshop, end: str, megabytes: int) -> int:
    """Run a command that prints this much, and return the peak memory of the recording."""
    limit, line = 4 << 20, "0123456789abcdef" * 4 + end
    code = f"import sys\nfor _ in range({megabytes}): sys.stdout.write({line!r} * (1 << 14))"
    size = megabytes * len(line) * (1 << 14)
    command = [sys.executable, "-m", "interlock", "evidence", "run", *WORKER]
    child = subprocess.Popen(
        [*command, "--output-limit", str(limit), *python(code)],
        stdout=subprocess.DEVNULL,
        env=shop.place.environ,
        cwd=shop.place.cwd,
    )
    peak = 0
    while child.returncode is None:
        peak = max(peak, memory(child.pid))
        with suppress(subprocess.TimeoutExpired):
            child.wait(0.1)
    assert child.returncode == 0
    (run,) = recorded(shop)
    assert run["produced"] == size
    assert limit <= run["output"]["size"] <= limit + 200
    kept = shop.kept(run["id"])
    assert f"[interlock: {size - limit} bytes are not stored]".encode() in kept
    assert hashlib.sha256(kept).hexdigest() == run["output"]["sha256"]
    return peak


def test_time_limit_kills_a_command_that_ignores_sigterm(shop: Workshop, tmp_path: Path) -> None:
    done = shop.run(*WORKER, "--json", "--time-limit", "1s", *python(STUBBORN, str(tmp_path)))
    run = done.json["evidence"]
    assert done.status == run["exit_code"] == 128 + signal.SIGKILL
    assert (run["ended_by"], run["interrupted"]) == ("time limit", True)
    assert shop.kept(run["id"]) == b"here\n"
    assert not processes_with(str(tmp_path))


def test_command_that_exits_0_at_its_time_limit_has_failed(
    shop: Workshop,
) -> None:
    script = "trap 'exit 0' TERM; echo here; while :; do sleep 0.05; done"
    done = shop.run(*WORKER, "--json", "--time-limit", "1s", "--", "sh", "-c", script)
    assert done.status == 124
    run = done.json["evidence"]
    assert (run["exit_code"], run["ended_by"], run["interrupted"]) == (0, "time limit", True)


def test_processes_that_a_command_leaves_are_killed(shop: Workshop, tmp_path: Path) -> None:
    done = shop.run(*WORKER, "--json", *python(FORKING, SLEEP, str(tmp_path)))
    assert (done.status, done.json["evidence"]["exit_code"]) == (0, 0)
    assert b"forked\n" in shop.kept(done.json["evidence"]["id"])
    assert not processes_with(str(tmp_path))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits memory")
def test_memory_limit_is_enforced(shop: Workshop) -> None:
    code = "held = bytes(256 << 20)"
    assert shop.run(*WORKER, *python(code)).status == 0
    done = shop.run(*WORKER, "--memory-limit", str(200 << 20), *python(code))
    assert done.status == 1
    free, limited = recorded(shop)
    assert (free["exit_code"], limited["exit_code"]) == (0, 1)
    assert b"MemoryError" in shop.kept(limited["id"])


# --- interrupts


def _to_the_group(child: "subprocess.Popen[bytes]") -> None:
    os.killpg(child.pid, signal.SIGINT)


def _to_it_alone(child: "subprocess.Popen[bytes]") -> None:
    os.kill(child.pid, signal.SIGINT)


def _started(shop: Workshop, *words: str) -> "subprocess.Popen[bytes]":
    """Start a run as a shell with job control does."""
    return subprocess.Popen(
        [sys.executable, "-m", "interlock", "evidence", "run", *WORKER, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shop.place.environ,
        cwd=shop.place.cwd,
        start_new_session=True,
    )


@pytest.mark.parametrize("interrupt", [_to_the_group, _to_it_alone])
def test_an_interrupted_run_is_recorded_as_interrupted(
    shop: Workshop, tmp_path: Path, interrupt: Callable[["subprocess.Popen[bytes]"], None]
) -> None:
    with _started(shop, *python(SLEEP, str(tmp_path))) as child:
        try:
            next(lines(child))
            interrupt(child)
            child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert child.returncode == 128 + signal.SIGINT
    (run,) = recorded(shop)
    assert run["interrupted"] is True
    assert b"KeyboardInterrupt" in shop.kept(run["id"])
    assert not processes_with(str(tmp_path))


def test_second_interrupt_kills_a_command_that_ignores_the_first(
    shop: Workshop, tmp_path: Path
) -> None:
    with _started(shop, *python(STUBBORN, str(tmp_path))) as child:
        try:
            assert next(lines(child)) == "here"
            child.send_signal(signal.SIGINT)
            # Two interrupts at the same time count as one.
            later = time.monotonic() + 0.1
            until(lambda: time.monotonic() > later)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert child.returncode == 128 + signal.SIGINT
    (run,) = recorded(shop)
    assert (run["interrupted"], run["exit_code"]) == (True, 128 + signal.SIGKILL)
    assert not processes_with(str(tmp_path))


def test_views_show_the_cause_of_an_end_and_shortened_output(shop: Workshop) -> None:
    shop.create()

    def told(*words: str) -> str:
        done = shop.run(*WORKER, "--task", TASK, *words)
        id = done.complaint.rpartition("Evidence ")[2].split()[0]
        shown = shop.place.run("evidence", "show", id).text
        rows = shop.place.run("task", "show", TASK).text.split("\n")
        (story,) = [row for row in rows if id[:8] in row]
        for fact in ("interrupted", "time limit", "signal", "of 20000 bytes stored"):
            assert (fact in shown.split("\n")[1]) is (fact in story), (shown, story)
        return story + done.complaint

    assert "  time limit  " in told("--time-limit", "1s", *python(SLEEP))
    assert "  interrupted  " in told("--", "sh", "-c", "kill -INT $PPID; exec sleep 600")
    limited = told("--memory-limit", str(1 << 30), "--", "sh", "-c", "kill -SEGV $$")
    assert "  signal  " in limited
    assert f"A signal ended the command. Its memory limit was {1 << 30} bytes." in limited
    assert " of 20000 bytes stored" in told(
        "--output-limit", "1024", "--", "sh", "-c", "head -c 20000 /dev/zero"
    )


# --- refusals that start no command


def _refused(shop: Workshop, code: str, *words: str, token: str | None = None) -> Done:
    """Check that the refusal exits with 125, runs nothing and writes nothing."""
    with shop.nothing_written():
        done = shop.run(*words, "--json", "--", "touch", "ran", INTERLOCK_TOKEN=token)
    assert (done.status, done.json["code"], done.err) == (125, code, b"")
    assert not (shop.place.cwd / "ran").exists()
    return done


def test_refused_evidence_run_starts_no_command(shop: Workshop) -> None:
    shop.place.join("nova")
    shop.taken()
    of_task = ("--task", TASK, "--criterion")
    _refused(shop, "NOT_FOUND", *WORKER, "--task", "B-13")
    _refused(shop, "USAGE", *WORKER, *of_task, "2")
    _refused(shop, "USAGE", *WORKER, "--criterion", "1")
    _refused(shop, "NO_IDENTITY", *of_task, "1")
    _refused(shop, "UNKNOWN_SENDER", *of_task, "1", "--from", "nobody")
    _refused(shop, "BAD_TOKEN", *of_task, "1", token="il_wrong")
    _refused(shop, "BAD_TOKEN", token="il_wrong")


def test_evidence_run_with_a_stale_fence_starts_no_command(shop: Workshop) -> None:
    fence = shop.taken()
    words = ("--task", TASK, "--fence", str(fence + 1), "--json", "--", "touch", "ran")
    with shop.nothing_written("STALE_FENCE"):
        done = shop.run(*WORKER, *words)
    assert (done.status, done.json["code"]) == (125, "STALE_FENCE")
    assert not (shop.place.cwd / "ran").exists()


def test_long_run_renews_the_claim(shop: Workshop) -> None:
    fence = shop.taken("--ttl", "4s")
    script = "echo here; while ! test -e go; do sleep 0.05; done"
    words = ("--task", TASK, "--criterion", "1", "--json", "--", "sh", "-c", script)
    with shop.place.start("evidence", "run", *WORKER, *words) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == b"here\n"
            until(lambda: len(shop.place.facts("claim_extended")) > 1)
            (shop.place.cwd / "go").touch()
            out, _ = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert child.returncode == 0, out
    assert json.loads(out)["evidence"]["exit_code"] == 0
    assert shop.show()["task"]["claim"]["fence"] == fence


def test_command_that_cannot_start_is_not_recorded(shop: Workshop) -> None:
    shop.write("data", "no program\n")
    for command, status in (("no-such-command", 127), ("./data", 126)):
        with shop.nothing_written():
            done = shop.run(*WORKER, "--", command)
            assert (done.status, done.out) == (status, b"")
            assert command in done.complaint
            done = shop.run(*WORKER, "--json", "--", command)
            assert (done.status, done.json["code"]) == (status, "USAGE")
            assert command in done.json["message"]
    assert recorded(shop) == []


def _taken_over(shop: Workshop) -> None:
    shop.place.ok("claim", "take-over", "--item", TASK, "--reason", "It is mine.", *HOLDER)


def _taken_again(shop: Workshop) -> None:
    shop.place.ok("claim", "release", "--item", TASK, *WORKER)
    shop.place.ok("task", "take", TASK, *WORKER)


@pytest.mark.parametrize("lose", [_taken_over, _taken_again])
def test_claim_lost_during_the_run_prevents_its_record(
    shop: Workshop, lose: Callable[[Workshop], None]
) -> None:
    shop.taken()
    script = "echo here; while ! test -e go; do sleep 0.05; done"
    words = ("--task", TASK, "--criterion", "1", "--json", "--", "sh", "-c", script)
    with shop.place.start("evidence", "run", *WORKER, *words) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == b"here\n"
            lose(shop)
            with shop.nothing_written("STALE_FENCE"):
                (shop.place.cwd / "go").touch()
                out, _ = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    refusal = json.loads(out)
    assert (child.returncode, refusal["code"]) == (125, "STALE_FENCE")
    assert recorded(shop) == []
    assert shop.place.query("SELECT count(*) FROM blob_chunks") == [(0,)]
    assert refusal["do"] == f"interlock evidence add --task {TASK} --spool {refusal['spooled']}"
    assert refusal["do"] in refusal["message"]
    if lose is _taken_again:
        handed = shop.place.ok(*refusal["do"].split()[1:], *WORKER)["evidence"]
        assert (handed["exit_code"], handed["spooled"]) == (0, True)


# --- an offline shell


@pytest.fixture
def alone(shop: Workshop) -> Workshop:
    """A shell with the worker's token, and a workspace URL without a server."""
    return shop.but(
        INTERLOCK_TOKEN=shop.place.token_of("otto-cli"),
        INTERLOCK_WORKSPACE=f"http://127.0.0.1:{free_port()}",
    )


def _spooled(alone: Workshop, *command: str) -> str:
    words = ("--task", TASK, "--criterion", "1", "--title", "It greets")
    done = alone.run(*words, "--json", "--", *command)
    assert done.status == 0, done
    path = str(done.json["spooled"])
    assert done.json["do"] == f"interlock evidence add --task {TASK} --spool {path}"
    assert "The workspace cannot record the run now: " in done.complaint
    return path


def test_offline_run_is_submitted_later(shop: Workshop, alone: Workshop) -> None:
    shop.taken()
    path = _spooled(alone, "sh", "-c", "echo hello; echo oops >&2")
    assert os.stat(path).st_mode & 0o777 == 0o600
    added = shop.place.ok("evidence", "add", "--task", TASK, "--spool", path, *WORKER)
    run = added["evidence"]
    assert (run["kind"], run["spooled"], run["by"]) == ("run", True, "@otto-cli")
    assert (run["criterion"], run["title"]) == (1, "It greets")
    assert (run["commit"], run["exit_code"], added["counts"]) == (shop.head, 0, True)
    assert sorted(shop.kept(run["id"]).split()) == [b"hello", b"oops"]
    assert "recorded offline" in shop.place.run("task", "show", TASK).text


def test_mcp_tool_submits_an_offline_run(shop: Workshop, alone: Workshop) -> None:
    shop.taken()
    path = _spooled(alone, "echo", "hello")

    async def told() -> dict[str, Any]:
        clients = Clients(shop.place, over_http=False, running=None)
        async with asyncio.timeout(LIMIT_S), clients.client("otto-cli") as otto:
            return await otto.ok("evidence", task_id=TASK, kind="spool", value=path)

    answer = asyncio.run(told())
    assert answer["counts"] is True
    (run,) = recorded(shop)
    assert (run["spooled"], run["criterion"], run["id"]) == (True, 1, answer["evidence"]["id"])
    assert shop.kept(run["id"]) == b"hello\n"


def test_offline_run_is_recorded_once_by_command_and_tool(shop: Workshop, alone: Workshop) -> None:
    shop.taken()
    path = _spooled(alone, "echo", "hello")
    add = ("evidence", "add", "--task", TASK, "--spool", path, *WORKER)

    async def told() -> dict[str, Any]:
        clients = Clients(shop.place, over_http=False, running=None)
        async with asyncio.timeout(LIMIT_S), clients.client("otto-cli") as otto:
            return await otto.ok("evidence", task_id=TASK, kind="spool", value=path)

    first = shop.place.ok(*add)["evidence"]
    before = shop.place.entries()
    assert shop.place.ok(*add)["evidence"] == first
    assert asyncio.run(told())["evidence"] == first
    assert shop.place.entries() == before
    said = shop.place.no("IDEMPOTENCY_CONFLICT", *add, "--title", "It waves")
    assert "This run was added before" in said["message"]


def test_raw_and_json_exclude_each_other(shop: Workshop) -> None:
    made = shop.run(*WORKER, "--json", "--", "echo", "hello").json["evidence"]["id"]
    refused = shop.place.no("USAGE", "evidence", "show", made, "--raw")
    assert "--raw" in refused["message"]
    assert shop.place.run("evidence", "show", made, "--raw").out == b"hello\n"


def test_offline_run_exits_with_the_commands_status(alone: Workshop) -> None:
    done = alone.run("--", "sh", "-c", "echo out; exit 7")
    assert (done.status, done.out) == (7, b"out\n")
    assert "--spool" in done.complaint


@pytest.mark.parametrize("has_token", [True, False], ids=["token", "name"])
def test_run_with_an_unusable_workspace_is_saved_in_a_file(
    alone: Workshop, has_token: bool
) -> None:
    (alone.place.root / "file").touch()
    where = {"INTERLOCK_WORKSPACE": str(alone.place.root / "file" / "workspace")}
    shell = alone.but(**where) if has_token else alone.but(INTERLOCK_TOKEN=None, **where)
    done = shell.run(*(() if has_token else WORKER), "--json", "--", "true")
    assert (done.status, set(done.json)) == (0, {"spooled", "do"}), done


def test_run_during_a_pause_is_saved_in_a_file(shop: Workshop) -> None:
    shop.taken()
    words = ("--task", TASK, "--criterion", "1", "--json", "--")
    pausing = f'"{sys.executable}" -m interlock pause'
    with shop.place.start("evidence", "run", *WORKER, *words, "sh", "-c", pausing) as child:
        out, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0
    assert b"paused" in err
    shop.place.ok("resume")
    path = json.loads(out)["spooled"]
    assert shop.place.ok("evidence", "add", "--task", TASK, "--spool", path, *WORKER)["counts"]


def test_run_is_saved_in_the_named_directory(shop: Workshop) -> None:
    shop.taken()
    (shop.place.root / "spool").mkdir()
    directory = str(shop.place.root / "spool")
    with shop.nothing_written():
        words = ("--spool", directory, "--task", TASK, "--json")
        done = shop.run(*WORKER, *words, "--", "echo", "hello")
    assert os.path.dirname(done.json["spooled"]) == directory
    assert os.listdir(directory) == [os.path.basename(done.json["spooled"])]


def test_changed_spool_file_is_refused(shop: Workshop, alone: Workshop) -> None:
    shop.taken()
    path = Path(_spooled(alone, "sh", "-c", "echo a failure"))
    spooled = json.loads(path.read_text())
    path.write_text(json.dumps(spooled | {"output": "aGVsbG8K"}))
    with shop.nothing_written():
        add = ("evidence", "add", "--task", TASK, "--spool", str(path), *WORKER)
        shop.place.no("DIGEST_MISMATCH", *add)
        path.write_text(json.dumps(spooled | {"payload": {"kind": "run"}}))
        shop.place.no("INVALID_MESSAGE", *add)
        path.write_text("{}")
        shop.place.no("USAGE", *add)
