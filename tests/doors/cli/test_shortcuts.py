"""Every shortcut to "done" is refused with its code. The log stores nothing except, for refusals
that matter, the refusal."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from world.commandline import LIMIT_S, lines, stop_outside_the_turn, until
from world.working import GATE, HOLDER, TASK, WORKER, Workshop

pytestmark = pytest.mark.every_engine

COMPLETE = ("task", "complete", TASK, *WORKER)
PASS = ("gate", "pass", TASK, GATE)


def lacking(shop: Workshop) -> list[Any]:
    """Return the open requirements that the refused completion names. Each has a command."""
    with shop.nothing_written():
        answer = shop.place.no("GATES_NOT_PASSED", *COMPLETE)
    assert answer["completed"] is False
    assert all(need["do"].startswith("interlock ") for need in answer["missing"])
    assert all(need["message"] in answer["message"] for need in answer["missing"])
    return [need["what"] for need in answer["missing"]]


# --- complete


def test_task_without_a_submission_cannot_complete(shop: Workshop) -> None:
    shop.taken()
    assert lacking(shop) == ["submission", "criterion", "gate"]


def test_task_without_evidence_cannot_complete(shop: Workshop) -> None:
    shop.taken()
    shop.place.ok("task", "submit", TASK, *WORKER)
    shop.place.ok(*PASS, *HOLDER)
    assert lacking(shop) == ["criterion"]


def test_task_without_a_passing_verdict_cannot_complete(shop: Workshop) -> None:
    shop.submitted()
    assert lacking(shop) == ["gate"]


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (("sh", "-c", "exit 3"), "exited 3"),
        (("sh", "-c", "echo more >> greet.sh"), "uncommitted changes"),
    ],
)
def test_last_run_decides_about_a_criterion(shop: Workshop, run: tuple[str, ...], why: str) -> None:
    shop.submitted()
    shop.place.ok(*PASS, *HOLDER)
    shop.run(*WORKER, "--task", TASK, "--criterion", "1", "--", *run)
    assert lacking(shop) == ["criterion"]
    assert why in shop.show()["task"]["criteria"][0]["why"]


def test_run_with_uncommitted_changes_does_not_count(shop: Workshop) -> None:
    shop.taken()
    shop.write("greet.sh", "echo hello\n")
    shop.proven("--task", TASK, "--criterion", "1", "--", "true")
    submitted = shop.place.ok("task", "submit", TASK, *WORKER)
    assert [notice["code"] for notice in submitted["notices"]] == ["DIRTY_TREE"]
    shop.place.ok(*PASS, *HOLDER)
    assert lacking(shop) == ["criterion"]


def test_note_counts_only_if_a_passing_verdict_names_it(shop: Workshop) -> None:
    shop.taken()
    words = ("--task", TASK, "--criterion", "1", "--note", "I looked.")
    note = shop.place.ok("evidence", "add", *words, *WORKER)
    assert note["counts"] is False
    shop.place.ok("task", "submit", TASK, *WORKER)
    shop.place.ok(*PASS, *HOLDER)
    assert lacking(shop) == ["criterion"]
    shop.place.ok(*PASS, "--evidence", note["evidence"]["id"], *HOLDER)
    assert shop.place.ok(*COMPLETE)["completed"]


def test_history_shows_messages_only_to_their_readers(
    shop: Workshop,
) -> None:
    shop.submitted()
    shop.place.join("nova")
    thread = shop.place.query("SELECT thread FROM work_tasks")[0][0]
    for text in ("I am nearly there", "\n".join(map(str, range(100)))):
        shop.place.ok("send", "@vera", text, "--thread", thread, *WORKER)
    told = shop.place.run("task", "show", TASK, *HOLDER).text
    assert "by a recorded run of @otto-cli" in told
    assert "wrote to @vera\n      │ I am nearly there\n" in told
    assert "│ 4\n      Not all of it is shown. To read it: interlock read " in told
    assert "│ 5\n" not in told
    hidden = shop.place.run("task", "show", TASK, "--from", "nova").text
    assert "wrote to @vera" in hidden
    assert "nearly there" not in hidden


def test_verdict_on_an_older_commit_does_not_count(shop: Workshop) -> None:
    shop.submitted()
    shop.place.ok(*PASS, *HOLDER)
    older = shop.head
    shop.commit(**{"greet.sh": "echo hello\n"})
    shop.place.ok("task", "submit", TASK, *WORKER)
    assert lacking(shop) == ["criterion", "gate"]
    shop.proven("--task", TASK, "--criterion", "1", "--", "true")
    assert lacking(shop) == ["gate"]
    with shop.nothing_written():
        answer = shop.place.no("NOT_SUBMITTED", *PASS, "--commit", older, *HOLDER)
    assert answer["submitted"] == {"commit": shop.head, "tree": shop.tree}


def test_same_commit_submitted_again_needs_a_new_verdict(shop: Workshop) -> None:
    shop.submitted()
    shop.place.ok(*PASS, *HOLDER)
    shop.place.ok("task", "submit", TASK, *WORKER)
    assert lacking(shop) == ["gate"]


def test_failed_submission_gets_no_verdict_until_it_is_submitted_again(
    shop: Workshop,
) -> None:
    shop.submitted()
    shop.place.ok("gate", "fail", TASK, GATE, "--fix", "make greeting", *HOLDER)
    assert lacking(shop) == ["submission", "criterion", "gate", "blocker"]
    with shop.nothing_written():
        shop.place.no("NOT_SUBMITTED", *PASS, *HOLDER)


def test_blocker_prevents_completion_and_its_worker_cannot_resolve_it(shop: Workshop) -> None:
    shop.submitted()
    shop.place.ok(*PASS, *HOLDER)
    raised = shop.place.ok("blocker", "raise", TASK, "The build is red.", *HOLDER)["blocker"]
    assert lacking(shop) == ["blocker"]
    with shop.nothing_written("OWN_WORK"):
        shop.place.no("OWN_WORK", "blocker", "resolve", raised["id"], *WORKER)
    shop.place.ok("blocker", "resolve", raised["id"], *HOLDER)
    assert shop.place.ok(*COMPLETE)["completed"]


def test_task_waits_for_its_dependency(shop: Workshop) -> None:
    shop.create(id="A-1")
    shop.create("--depends-on", "A-1")
    for command in (("task", "take", TASK, *WORKER), COMPLETE):
        with shop.nothing_written():
            answer = shop.place.no("GATES_NOT_PASSED", *command)
        assert answer["missing"][0] == {
            "what": "dependency",
            "task": "A-1",
            "state": "open",
            "message": f"{TASK} depends on A-1, which is open.",
            "do": "interlock task show A-1",
        }
    with shop.nothing_written():
        shop.place.no("NOT_HOLDER", "task", "submit", TASK, *WORKER)


def test_failed_dependency_blocks_its_task(shop: Workshop) -> None:
    shop.create(id="A-1")
    shop.create("--depends-on", "A-1")
    shop.place.ok("task", "take", "A-1", *WORKER)
    shop.place.ok("task", "fail", "A-1", *WORKER)
    with shop.nothing_written():
        answer = shop.place.no("GATES_NOT_PASSED", "task", "take", TASK, *WORKER)
    assert answer["missing"][0]["state"] == "failed"


def test_cycle_of_dependencies_cannot_be_created(shop: Workshop) -> None:
    create = ("task", "create", "--title", "Turn", "--id", "A-1", *HOLDER)
    with shop.nothing_written():
        shop.place.no("USAGE", *create, "--depends-on", "A-1")
        shop.place.no("NOT_FOUND", *create, "--depends-on", "A-2")


# --- verdicts


def test_worker_cannot_give_a_verdict_from_any_surface(shop: Workshop) -> None:
    shop.place.join("otto", "desktop")
    shop.place.join("otto")
    shop.place.ok("gate", "create", GATE, "--replace", "--holder", "otto", "--holder", "vera")
    shop.submitted()
    for surface in ("otto-cli", "otto-desktop", "otto"):
        for word in ("pass", "fail"):
            note = ("--note", "so be it")
            with shop.nothing_written("OWN_WORK"):
                shop.place.no("OWN_WORK", "gate", word, TASK, GATE, *note, "--from", surface)


def test_former_worker_cannot_give_a_verdict(shop: Workshop) -> None:
    shop.place.join("nova")
    shop.place.ok("gate", "create", GATE, "--replace", "--holder", "nova", "--holder", "vera")
    shop.create("--gate", GATE)
    shop.place.ok("task", "take", TASK, "--from", "nova")
    shop.place.ok("claim", "release", "--item", TASK, "--from", "nova")
    shop.place.ok("task", "take", TASK, *WORKER)
    shop.place.ok("task", "submit", TASK, *WORKER)
    with shop.nothing_written("OWN_WORK"):
        shop.place.no("OWN_WORK", *PASS, "--from", "nova")


def test_verdict_needs_the_scope_of_the_gate(shop: Workshop) -> None:
    shop.place.join("nova")
    shop.submitted()
    with shop.nothing_written("MISSING_SCOPE"):
        refused = shop.place.no("MISSING_SCOPE", *PASS, "--from", "nova")
    assert refused["scope"] == f"gate:{GATE}"


def test_gate_without_a_holder_is_refused_at_creation_of_the_task(shop: Workshop) -> None:
    create = ("task", "create", "--title", "Greet", *HOLDER)
    with shop.nothing_written():
        refused = shop.place.no("GATE_HAS_NO_HOLDER", *create, "--gate", "athens")
    assert refused["did_you_mean"] == [GATE]


# --- after the end

AFTERWARDS = [
    COMPLETE,
    ("task", "take", TASK, *WORKER),
    ("task", "submit", TASK, *WORKER),
    ("task", "fail", TASK, *WORKER),
    ("task", "cancel", TASK, *HOLDER),
    ("evidence", "add", "--task", TASK, "--note", "late", *WORKER),
    (*PASS, *HOLDER),
    ("gate", "fail", TASK, GATE, "--note", "late", *HOLDER),
]


def _completed(shop: Workshop) -> None:
    shop.completed()


def _failed(shop: Workshop) -> None:
    shop.taken()
    shop.place.ok("task", "fail", TASK, "--note", "It cannot be done.", *WORKER)


def _cancelled(shop: Workshop) -> None:
    shop.taken()
    shop.place.ok("task", "cancel", TASK, *HOLDER)


@pytest.mark.parametrize(
    ("end", "state"), [(_completed, "done"), (_failed, "failed"), (_cancelled, "cancelled")]
)
def test_ended_task_refuses_all_commands(
    shop: Workshop, end: Callable[[Workshop], None], state: str
) -> None:
    end(shop)
    for command in AFTERWARDS:
        with shop.nothing_written():
            assert shop.place.no("ALREADY_DONE", *command)["state"] == state
    with shop.nothing_written():
        done = shop.run(*WORKER, "--task", TASK, "--json", "--", "touch", "ran")
    assert (done.status, done.json["code"]) == (125, "ALREADY_DONE")
    assert not (shop.place.cwd / "ran").exists()


# --- workers


def test_only_the_holder_can_work_on_a_task(shop: Workshop) -> None:
    shop.place.join("nova")
    shop.submitted()
    shop.place.ok(*PASS, *HOLDER)
    nova = ("--from", "nova")
    another = (*WORKER, "--session", "another")
    for who in (nova, another):
        for word in ("complete", "submit", "fail"):
            with shop.nothing_written():
                refused = shop.place.no("NOT_HOLDER", "task", word, TASK, *who)
            assert refused["held_by"][0]["holder"] == "@otto-cli"
        with shop.nothing_written():
            assert shop.place.no("CLAIM_HELD", "task", "take", TASK, *who)["taken"] is False


def test_stale_fence_is_refused(shop: Workshop) -> None:
    stale = shop.taken()
    shop.place.ok("claim", "release", "--item", TASK, *WORKER)
    shop.place.ok("task", "take", TASK, *WORKER)
    fence = ("--fence", str(stale))
    for command in (
        ("task", "submit", TASK, *fence),
        ("task", "complete", TASK, *fence),
        ("task", "fail", TASK, *fence),
        ("evidence", "add", "--task", TASK, "--note", "late", *fence),
    ):
        with shop.nothing_written("STALE_FENCE"):
            shop.place.no("STALE_FENCE", *command, *WORKER)


# A holder that takes the task, and continues after a line on its input.
WORK = """
interlock() { "$PY" -m interlock "$@"; }
interlock task take B-12 --ttl 2s >/dev/null && echo taken
read -r go
interlock evidence run --task B-12 --criterion 1 --json -- touch ran; echo "$?"
interlock task submit B-12 --json; echo "$?"
interlock task complete B-12 --json; echo "$?"
read -r end
"""


@contextmanager
def stopped_holder(shop: Workshop) -> Iterator["subprocess.Popen[bytes]"]:
    """Stop a holder and all its processes after it has taken the task, until its lease has
    expired."""
    holder = subprocess.Popen(
        [sys.executable, "-m", "interlock", "run", "otto-cli", "--", "sh", "-c", WORK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=shop.place.environ,
        cwd=shop.place.cwd,
        start_new_session=True,
    )
    with holder:
        try:
            assert next(lines(holder)) == "taken"
            stop_outside_the_turn(shop.place.workspace, partial(os.killpg, holder.pid))
            check = ("claim", "check", "--item", TASK)
            until(lambda: shop.place.run(*check).status == 0)
            yield holder
        finally:
            os.killpg(holder.pid, signal.SIGCONT)
            holder.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize("another", [False, True], ids=["the task is free", "another took it"])
def test_holder_stopped_past_its_lease_writes_nothing(shop: Workshop, another: bool) -> None:
    shop.place.join("nova")
    shop.create("--criterion", "it says hello", "--gate", GATE)
    with stopped_holder(shop) as holder:
        if another:
            shop.place.ok("task", "take", TASK, "--from", "nova")
        else:
            shop.place.ok("status")
        with shop.nothing_written("STALE_FENCE", "STALE_FENCE", "STALE_FENCE"):
            os.killpg(holder.pid, signal.SIGCONT)
            assert holder.stdin is not None
            holder.stdin.write(b"go\n")
            holder.stdin.flush()
            said = lines(holder)
            told = [next(said) for _ in range(6)]
    assert told[1::2] == ["125", "3", "3"]
    assert all('"STALE_FENCE"' in document for document in told[::2])
    assert not (shop.place.cwd / "ran").exists()
    shown = shop.show()["task"]
    assert shown.get("claim", {}).get("holder") == ("@nova" if another else None)
