"""`interlock gate run`: the checks of interlock.toml on exactly the submitted commit. Each check
adds evidence, and each gate gets a verdict. A sender that does not hold the gate runs no check."""

import json
import signal
import sys
from typing import Any

import pytest

from world.commandline import LIMIT_S, Done
from world.working import GATE, HOLDER, TASK, WORKER, Workshop, processes_with

pytestmark = pytest.mark.every_engine

RULES = "interlock.toml"


def rules(*tables: str) -> dict[str, str]:
    return {RULES: "\n".join(tables)}


def check(name: str, command: str | list[str], **members: str) -> str:
    """Return a check of the gate, as text for interlock.toml."""
    written = {"gate": f'"{GATE}"', "command": json.dumps(command)} | members
    return f"[checks.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in written.items())


def judged(shop: Workshop, *words: str) -> Done:
    """Run the checks. Their output goes to standard error."""
    words = ("gate", "run", TASK, "--json", *words)
    with shop.place.start(*words) as child:
        out, err = child.communicate(timeout=2 * LIMIT_S)
    return Done(words, child.returncode, out, err)


def verdicts(shop: Workshop) -> list[Any]:
    return [fact["verdict"] for fact in shop.show()["story"] if fact["kind"] == "verdict_given"]


def runs(shop: Workshop) -> list[Any]:
    """Return the evidence of the checks."""
    told = [fact["evidence"] for fact in shop.show()["story"] if fact["kind"] == "evidence_added"]
    return [run for run in told if run["by"] == "@vera"]


# --- the result of a check


def test_successful_checks_pass_their_gate(shop: Workshop) -> None:
    shop.commit(
        **rules(
            check("tests", "sh greet.sh", pattern='"^good"'),
            check("status", "exit 3", exit_code="3"),
        )
    )
    shop.submitted()
    done = judged(shop, *HOLDER)
    assert done.status == 0, done
    assert b"goodbye\n" in done.err
    (gate,) = done.json["gates"]
    assert (gate["gate"], gate["verdict"]) == (GATE, "pass")
    assert [(one["check"], one["met"]) for one in gate["checks"]] == [
        ("tests", True),
        ("status", True),
    ]
    (verdict,) = verdicts(shop)
    assert (verdict["verdict"], verdict["by"]) == ("pass", "@vera")
    assert verdict["artifact"] == {"commit": shop.head, "tree": shop.tree}
    assert verdict["evidence"] == [run["id"] for run in runs(shop)]
    assert [(run["title"], run["exit_code"], run["tree"]) for run in runs(shop)] == [
        ("tests", 0, shop.tree),
        ("status", 3, shop.tree),
    ]
    assert shop.kept(runs(shop)[0]["id"]) == b"goodbye\n"
    assert shop.place.ok("task", "complete", TASK, *WORKER)["completed"]


@pytest.mark.parametrize(
    ("command", "members", "why"),
    [
        ("exit 4", {}, "exited 4"),
        ("true", {"exit_code": "1"}, "exited 0"),
        (
            "echo hullo",
            {"pattern": '"^hello$"'},
            "exited 0, but its output does not match '^hello$'",
        ),
        (
            f"exec {sys.executable} -c 'import time; time.sleep(600)'",
            {"time_limit": '"1s"'},
            "time limit",
        ),
    ],
    ids=["another status", "the wrong status", "no pattern", "too slow"],
)
def test_unsuccessful_check_fails_its_gate(
    shop: Workshop, command: str, members: dict[str, str], why: str
) -> None:
    command += f" # {shop.place.root}"
    shop.commit(**rules(check("good", "true"), check("bad", command, **members)))
    shop.submitted()
    done = judged(shop, *HOLDER)
    assert (done.status, done.json["code"]) == (1, "GATES_NOT_PASSED")
    good, bad = done.json["gates"][0]["checks"]
    assert (good["met"], bad["met"]) == (True, False)
    assert why in bad["why"]
    (verdict,) = verdicts(shop)
    assert (verdict["verdict"], verdict["fix"]) == ("fail", [command])
    assert why in verdict["note"]
    (blocker,) = shop.place.ok("blocker", "list")["blockers"]
    assert (blocker["to"], blocker["gate"], blocker["fix"]) == ("@otto-cli", GATE, [command])
    assert shop.show()["task"]["state"] == "taken"
    assert not processes_with(f"# {shop.place.root}")


@pytest.mark.parametrize(
    ("command", "status", "why"),
    [("no-such-command", 127, "command not found"), ("./greet.sh", 126, "denied")],
)
def test_check_that_cannot_start_fails_and_adds_evidence(
    shop: Workshop, command: str, status: int, why: str
) -> None:
    bad = check("bad", [command], exit_code=str(status))
    shop.commit(**rules(check("good", "true"), bad))
    shop.submitted()
    done = judged(shop, *HOLDER)
    assert (done.status, done.json["code"]) == (1, "GATES_NOT_PASSED")
    bad_one = done.json["gates"][0]["checks"][1]
    assert (bad_one["met"], bad_one["exit_code"]) == (False, status)
    assert bad_one["why"].startswith(f"could not start: {command}: ")
    (verdict,) = verdicts(shop)
    assert (verdict["verdict"], verdict["fix"]) == ("fail", [command])
    assert runs(shop)[1]["exit_code"] == status
    assert why in shop.kept(runs(shop)[1]["id"]).decode()


def test_blocker_of_a_failed_check_names_the_evidence_and_the_rules(
    shop: Workshop,
) -> None:
    shop.submitted()
    theirs = shop.place.root / "theirs.toml"
    theirs.write_text(check("bad", "false"))
    judged(shop, "--rules", str(theirs), *HOLDER)
    (blocker,) = shop.place.ok("blocker", "list")["blockers"]
    (run,) = runs(shop)
    assert blocker["what"] == (
        f"Checked by interlock gate run --rules {theirs}. bad: exited 1 "
        f"(interlock evidence show {run['id']})"
    )


def test_each_gate_gets_its_own_verdict(shop: Workshop) -> None:
    shop.place.ok("gate", "create", "zeus", "--holder", "vera")
    shop.commit(**rules(check("good", "true"), check("bad", "false", gate='"zeus"')))
    shop.create("--gate", GATE, "--gate", "zeus")
    shop.place.ok("task", "take", TASK, *WORKER)
    shop.place.ok("task", "submit", TASK, *WORKER)
    only = judged(shop, "--gate", GATE, *HOLDER)
    assert (only.status, [gate["gate"] for gate in only.json["gates"]]) == (0, [GATE])
    assert judged(shop, *HOLDER).status == 1
    assert [(one["gate"], one["verdict"]) for one in verdicts(shop)] == [
        (GATE, "pass"),
        (GATE, "pass"),
        ("zeus", "fail"),
    ]


# --- the files that a check runs on


def test_check_runs_at_the_repository_root_from_any_directory(shop: Workshop) -> None:
    shop.commit(**rules(check("tests", "sh greet.sh")))
    shop.submitted()
    (shop.place.cwd / "below").mkdir()
    shop.place.cwd = shop.place.cwd / "below"
    assert judged(shop, *HOLDER).status == 0
    assert runs(shop)[0]["cwd"] == "."


def _dirty(shop: Workshop) -> None:
    shop.write("greet.sh", "echo hello\n")


def _elsewhere(shop: Workshop) -> None:
    shop.git("checkout", "--quiet", "-b", "other")
    shop.commit(**{"greet.sh": "echo hello\n"})


@pytest.mark.parametrize("leave", [_dirty, _elsewhere])
def test_gate_run_does_not_change_the_callers_checkout(shop: Workshop, leave: Any) -> None:
    """The check runs on the submitted tree, in its own worktree, which is removed afterwards."""
    shop.commit(**rules(check("tests", "sh greet.sh; pwd", pattern='"goodbye"')))
    shop.submitted()
    submitted = shop.head
    leave(shop)
    before = shop.git("status", "--porcelain", "--branch")
    done = judged(shop, *HOLDER)
    assert done.status == 0, done
    (run,) = runs(shop)
    assert (run["commit"], run["dirty"], run["cwd"]) == (submitted, False, ".")
    _, place = shop.kept(run["id"]).decode().splitlines()
    assert place != str(shop.place.cwd)
    assert processes_with(place) == []
    assert shop.git("status", "--porcelain", "--branch") == before
    assert len(shop.git("worktree", "list").splitlines()) == 1
    assert (shop.place.cwd / "greet.sh").read_text() == "echo hello\n"


def test_failing_check_leaves_no_worktree(shop: Workshop) -> None:
    made = f"touch made {shop.place.root}/ran"
    shop.commit(**rules(check("tests", f"{made}; exit 1")))
    shop.submitted()
    _dirty(shop)
    assert judged(shop, *HOLDER).status == 1
    assert (shop.place.root / "ran").exists()
    assert len(shop.git("worktree", "list").splitlines()) == 1
    assert not (shop.place.cwd / "made").exists()


def test_submission_during_a_check_prevents_the_verdict(
    shop: Workshop,
) -> None:
    waits = f"echo here; while ! test -e {shop.place.root}/go; do sleep 0.05; done"
    shop.commit(**rules(check("tests", waits)))
    shop.submitted()
    words = ("gate", "run", TASK, "--json", *HOLDER)
    with shop.place.start(*words) as child:
        try:
            assert child.stderr is not None
            while child.stderr.readline() != b"here\n":
                assert child.poll() is None
            shop.commit(**{"greet.sh": "echo hello\n"})
            shop.place.ok("task", "submit", TASK, *WORKER)
            (shop.place.root / "go").touch()
            out, _ = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert (child.returncode, json.loads(out)["code"]) == (2, "NOT_SUBMITTED")
    assert verdicts(shop) == []


def test_interrupted_check_gives_no_verdict(shop: Workshop) -> None:
    waits = f"echo here; exec sleep 600 # {shop.place.root}"
    shop.commit(**rules(check("tests", waits)))
    shop.submitted()
    _dirty(shop)
    with shop.place.start("gate", "run", TASK, *HOLDER) as child:
        try:
            assert child.stderr is not None
            while child.stderr.readline() != b"here\n":
                assert child.poll() is None
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert child.returncode == 130
    assert [run["interrupted"] for run in runs(shop)] == [True]
    assert verdicts(shop) == []
    assert shop.show()["task"]["state"] == "submitted"
    assert len(shop.git("worktree", "list").splitlines()) == 1


# --- refusals


def test_sender_that_cannot_give_the_verdict_runs_no_check(shop: Workshop) -> None:
    shop.place.join("nova")
    shop.place.join("otto", "desktop")
    shop.place.ok("gate", "create", GATE, "--replace", "--holder", "vera", "--holder", "otto")
    shop.commit(**rules(check("tests", f"touch {shop.place.root}/ran")))
    shop.submitted()
    for sender, code in (
        ("nova", "MISSING_SCOPE"),
        ("otto-cli", "OWN_WORK"),
        ("otto-desktop", "OWN_WORK"),
    ):
        with shop.nothing_written(code):
            done = judged(shop, "--from", sender)
        assert (done.status, done.json["code"]) == (3, code)
    assert not (shop.place.root / "ran").exists()


def test_no_check_runs_before_the_submission(shop: Workshop) -> None:
    shop.commit(**rules(check("tests", f"touch {shop.place.root}/ran")))
    shop.taken()
    with shop.nothing_written():
        done = judged(shop, *HOLDER)
    assert (done.status, done.json["code"]) == (2, "NOT_SUBMITTED")
    assert not (shop.place.root / "ran").exists()


def test_gate_without_checks_gets_no_verdict(shop: Workshop) -> None:
    shop.submitted()
    with shop.nothing_written():
        done = judged(shop, *HOLDER)
        assert (done.status, done.json["code"]) == (2, "USAGE")
        assert "no check for a gate of B-12: athena" in done.json["message"]
        assert f"[checks.{GATE}]" in done.json["message"]
        shop.write(RULES, "[checks.athena]\ncomand = 'make test'\n")
        done = judged(shop, *HOLDER)
        assert (done.status, done.json["code"]) == (2, "USAGE")


def test_gate_run_of_a_task_without_gates_is_refused(shop: Workshop) -> None:
    shop.place.ok("task", "create", "--id", "B-13", "--title", "No gate", "--from", "vera")
    refused = shop.place.no("USAGE", "gate", "run", "B-13", *HOLDER)
    assert refused["message"] == "B-13 has no gates, so there is nothing to check."


def test_gate_run_outside_of_a_repository_is_refused(shop: Workshop) -> None:
    shop.submitted()
    shop.place.cwd = shop.place.root / "elsewhere"
    shop.place.cwd.mkdir()
    done = judged(shop, *HOLDER)
    assert (done.status, done.json["code"]) == (2, "USAGE")


# --- the shipped check


def test_shipped_scrub_check_decides_the_gate_scrub(shop: Workshop) -> None:
    shop.place.ok("gate", "create", "scrub", "--holder", "vera")
    shop.create("--gate", "scrub")
    shop.place.ok("task", "take", TASK, *WORKER)
    shop.place.ok("task", "submit", TASK, *WORKER)
    shop.git("branch", "stray")
    done = judged(shop, *HOLDER)
    assert (done.status, done.json["code"]) == (1, "GATES_NOT_PASSED")
    (run,) = runs(shop)
    assert b"stray" in shop.kept(run["id"])
    assert verdicts(shop)[-1]["fix"] == [
        "git update-ref --no-deref -d refs/heads/stray",
        "interlock scrub",
    ]
    shop.git("branch", "-D", "stray")
    shop.place.ok("task", "submit", TASK, *WORKER)
    done = judged(shop, *HOLDER)
    assert done.status == 0, done
    assert shop.place.ok("task", "complete", TASK, *WORKER)["completed"]
