"""A node that was open when its process forked: parent and child use it, and neither loses data.

SQLite forbids a connection to cross fork(), and records its locks per process. Each story runs in
its own process, so that the test runner is never forked. A test runs this file as a program with
the story's name, and then checks the workspace with a new node.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from interlock.local import link
from interlock.node import Node, audit, proofs, upkeep
from interlock.rooms.claims.verbs import AcquireClaim, CheckClaim
from interlock.rooms.mail.verbs import ListInbox, SendMessage
from interlock.rooms.workspace.verbs import ChangeSetting
from interlock.verbs.credentials import Credentials
from world.paths import TESTS
from world.processes import LIMIT_S, Worker, join_all, send
from world.workspace import OWNER, facts

# A child that needs longer hangs, for example on a lock that another thread of its parent held.
CHILD_S = 20.0
# Longer than a write takes on a busy machine, and less than a node waits for the turn.
PROMPT_S = 10.0


# --- for the stories


class Line:
    """A pipe to signal another process, or to wait for its signal."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def ring(self) -> None:
        os.write(self._write, b"!")

    def wait(self) -> None:
        assert select.select([self._read], [], [], LIMIT_S)[0], "no signal arrived"
        os.read(self._read, 1)


class Child:
    """A forked process that does some work and ends."""

    def __init__(self, work: Callable[[], object], end: Callable[[int], object] = os._exit) -> None:
        alive, held_open = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:  # noqa: BLE001 - the child must not run the parent's code
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                end(status)
        os.close(held_open)
        self._alive = alive

    def ended(self) -> None:
        """Wait until the child ends with success. Kill a child that hangs, and fail."""
        hangs = not select.select([self._alive], [], [], CHILD_S)[0]
        if hangs:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._alive)
        assert not hangs, f"the child hung for {CHILD_S} s"
        assert status == 0, f"the child ended with status {status}"


class Story:
    """An open node with a sender. Prints each message that the node accepted."""

    def __init__(self, directory: str, token: str) -> None:
        self.node = Node(directory)
        self.otto = Credentials(token=token)

    def send(self, text: str) -> None:
        sent = self.node.call(self.otto, SendMessage("@otto", {"text": text}, "send"))
        # Print it after the answer: from now on the message must never be missing.
        os.write(1, f"{text} {sent['message']['id']}\n".encode())

    def send_some(self, name: str, count: int = 20) -> None:
        for number in range(count):
            self.send(f"{name}-{number}")


# --- the stories


def both_go_on(story: Story) -> None:
    story.send("before")

    def go_on() -> None:
        story.send_some("child")
        assert story.node.call(story.otto, AcquireClaim(item="B-1"))["acquired"]
        assert len(story.node.call(story.otto, ListInbox())["messages"]) > 20
        assert audit.verify(story.node)["ok"]
        story.node.close()

    child = Child(go_on)
    story.send_some("parent")
    child.ended()
    story.send_some("after")
    assert story.node.call(story.otto, CheckClaim(item="B-1"))["claimed"]
    assert audit.verify(story.node)["ok"]
    story.node.close()


def both_go_on_with_threads(story: Story) -> None:
    """The parent's writer thread works before, during and after the fork."""

    def from_threads(name: str) -> None:
        threads = [
            threading.Thread(target=story.send_some, args=(f"{name}-{number}", 5))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)

    from_threads("before")
    child = Child(lambda: from_threads("child"))
    from_threads("parent")
    child.ended()
    from_threads("after")
    story.node.close()


def parent_closes_first(story: Story) -> None:
    """SQLite deletes the WAL with the last connection of the file: the parent must know that the
    child has a connection too."""
    story.send("before")
    begun, closed = Line(), Line()

    def outlive() -> None:
        story.send("child-early")
        begun.ring()
        closed.wait()
        story.send_some("child-late", 5)
        assert len(story.node.call(story.otto, ListInbox())["messages"]) == 7

    child = Child(outlive)
    begun.wait()
    story.node.close()
    closed.ring()
    child.ended()


def child_closes_first(story: Story) -> None:
    story.send("before")

    def use_and_close() -> None:
        story.send("child")
        story.node.close()

    Child(use_and_close).ended()
    story.send_some("parent", 5)
    story.node.close()


def child_closes_unused(story: Story) -> None:
    story.send("before")
    Child(story.node.close).ended()
    story.send_some("parent", 5)
    story.node.close()


def child_ends_like_any_program(story: Story) -> None:
    """Python's cleanup at exit also closes the inherited connections."""
    story.send("before")

    def leave(status: int) -> None:
        if status:
            os._exit(status)
        raise SystemExit(0)

    child = Child(lambda: story.send("child"), leave)
    child.ended()
    story.send_some("parent", 5)
    story.node.close()


def grandchild(story: Story) -> None:
    def go_on() -> None:
        story.send("child-early")
        child = Child(lambda: story.send("grandchild"))
        child.ended()
        story.send("child-late")

    story.send("before")
    child = Child(go_on)
    child.ended()
    story.send("after")
    story.node.close()


def forks_in_the_middle_of_writing(story: Story) -> None:
    """At the time of fork(), the other threads may be inside SQLite and may hold the turn."""
    done = threading.Event()

    def flood(name: str) -> None:
        number = 0
        while not done.is_set():
            story.send(f"{name}-{number}")
            number += 1

    threads = [threading.Thread(target=flood, args=(f"thread-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(15):
            story.send(f"parent-{number}")
            text = f"child-{number}"
            child = Child(lambda text=text: story.send(text))  # type: ignore[misc]
            child.ended()
    finally:
        done.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert audit.verify(story.node)["ok"]
    story.node.close()


def child_reads_first(story: Story) -> None:
    story.send("before")
    assert audit.verify(story.node)["ok"]

    def look() -> None:
        assert audit.verify(story.node)["ok"]
        assert upkeep.state_digest(story.node)
        found = story.node.call(story.otto, ListInbox(wait_s=1))
        assert len(found["messages"]) == 1

    for first in (look, lambda: proofs.checkpoint(story.node), lambda: _listened(story)):
        Child(first).ended()
    story.send("after")
    story.node.close()


def _listened(story: Story) -> None:
    with contextlib.closing(story.node.file.listen()) as listener:
        listener.wait(0)
    (found,) = story.node.call(story.otto, ListInbox(adapter="watch", wait_s=25))["messages"]
    assert found["payload"]["text"] == "before"


def idle_child_of_a_killed_parent(story: Story) -> None:
    """The process forks while a thread holds the turn, then dies of kill -9. The child waits."""
    in_turn, forked = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        in_turn.set()
        forked.wait(2)  # it is also correct if fork() waits for the end of the turn

    threading.Thread(target=lambda: story.node.do(hold), daemon=True).start()
    assert in_turn.wait(LIMIT_S)
    if os.fork() == 0:
        os.write(1, b"idle\n")
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


STORIES = {
    story.__name__: story
    for story in (
        both_go_on,
        both_go_on_with_threads,
        parent_closes_first,
        child_closes_first,
        child_closes_unused,
        child_ends_like_any_program,
        grandchild,
        forks_in_the_middle_of_writing,
        child_reads_first,
        idle_child_of_a_killed_parent,
    )
}


# --- the tests


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """The path of a workspace that does not exist yet."""
    return str(tmp_path / "workspace")


def otto(directory: str) -> str:
    with link.open_node(directory) as node:
        node.call(OWNER, ChangeSetting("limits.sends_per_minute", "0"))
        return join_all(node, "otto")["otto"]


def run_story(name: str, directory: str, token: str) -> None:
    """Run a story. It must succeed, and each accepted message must be in the log exactly once."""
    ran = subprocess.run(
        [sys.executable, __file__, name, directory, token],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    answered = dict(line.split() for line in ran.stdout.splitlines())
    with Node(directory) as node:
        logged = Counter(fact["outcome"]["id"] for fact in facts(node, "message_sent"))
        lost = [text for text, id in answered.items() if logged[id] != 1]
        assert lost == [], ran.stderr
        assert ran.returncode == 0, ran.stderr
        assert audit.verify(node)["ok"]
        before = time.monotonic()
        act = SendMessage("@otto", {"text": "next"}, "send")
        assert node.call(Credentials(token=token), act)["accepted"]
        assert time.monotonic() - before < PROMPT_S


def test_parent_and_child_both_work_after_a_fork(directory: str) -> None:
    run_story("both_go_on", directory, otto(directory))


def test_many_threads_of_parent_and_child_work_after_a_fork(directory: str) -> None:
    run_story("both_go_on_with_threads", directory, otto(directory))


def test_the_childs_messages_stay_after_the_parent_closed_the_workspace(
    directory: str,
) -> None:
    run_story("parent_closes_first", directory, otto(directory))


def test_the_parents_messages_stay_after_the_child_closed_the_workspace(
    directory: str,
) -> None:
    run_story("child_closes_first", directory, otto(directory))


def test_a_child_may_close_a_node_that_it_never_used(directory: str) -> None:
    run_story("child_closes_unused", directory, otto(directory))


def test_a_child_that_exits_normally_does_no_harm(directory: str) -> None:
    run_story("child_ends_like_any_program", directory, otto(directory))


def test_a_grandchild_works_too(directory: str) -> None:
    run_story("grandchild", directory, otto(directory))


@pytest.mark.long
def test_parent_and_child_can_write_after_a_fork_during_writes(directory: str) -> None:
    run_story("forks_in_the_middle_of_writing", directory, otto(directory))


def test_a_child_never_uses_a_connection_of_its_parent(directory: str) -> None:
    run_story("child_reads_first", directory, otto(directory))


def test_an_idle_child_does_not_hold_the_turn_of_its_killed_parent(directory: str) -> None:
    token = otto(directory)
    story = subprocess.Popen(
        [sys.executable, __file__, "idle_child_of_a_killed_parent", directory, token],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert story.stdin is not None
    assert story.stdout is not None
    try:
        assert story.wait(LIMIT_S) == -signal.SIGKILL
        assert select.select([story.stdout], [], [], LIMIT_S)[0]
        assert story.stdout.readline() == b"idle\n"
        with Worker() as other:
            other.ask(do="open", directory=directory, patience_s=2)
            answer = other.ask(**send(token, "next"))
    finally:
        story.stdin.close()  # ends the child
        story.stdout.close()
    assert answer.get("accepted"), answer


def guard(connection: apsw.Connection) -> None:
    """Fail if another process than the one that opened a connection uses it."""
    opened_by = os.getpid()

    def check(*_: object) -> bool:
        assert os.getpid() == opened_by, "the process used a connection from before the fork"
        return True

    connection.exec_trace = check


def main(name: str, directory: str, token: str) -> None:
    apsw.connection_hooks.append(guard)
    STORIES[name](Story(directory, token))


def test_threads_may_fork_at_the_same_time(tmp_path: Path) -> None:
    script = """
import os, sys, threading
from interlock.verbs.credentials import Credentials
from interlock.rooms.identity.verbs import ListAgents
from interlock.node import Node
node = Node(sys.argv[1])
def fork():
    for _ in range(20):
        child = os.fork()
        if child == 0:
            node.call(Credentials(owner=True), ListAgents())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
threads = [threading.Thread(target=fork) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
node.call(Credentials(owner=True), ListAgents())
"""
    words = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(words, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    main(*sys.argv[1:])
