"""The write queue, with a stub of the log and with a node."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from interlock.errors import EngineUnavailable
from interlock.node.write_queue import PendingWrite, WriteQueue
from interlock.rooms.workspace.verbs import Whoami
from world.workspace import Workspace, text_to

LIMIT_S = 30.0


def test_queue_calls_the_returned_function_between_answers_and_next_batch() -> None:
    done: list[str] = []

    def serve(collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        for write in collect():
            write.result = write.work(None)
        done.append("turn")
        return lambda: done.append("afterwards")

    queue = WriteQueue(serve)
    assert queue.submit(lambda _: "answer") == "answer"
    queue.post(lambda _: None, lambda _: done.append("answer"))
    queue.close()
    assert done == ["turn", "afterwards", "turn", "answer", "afterwards"]


def test_write_posted_during_a_batch_without_writes_is_served_next() -> None:
    may_begin, begun, may_end = threading.Event(), threading.Event(), threading.Event()

    def serve(collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        assert may_begin.wait(LIMIT_S)
        writes = collect()
        begun.set()
        assert may_end.wait(LIMIT_S)
        for write in writes:
            write.result = write.work(None)
        return lambda: None

    queue, answers = WriteQueue(serve), SimpleQueue[PendingWrite]()
    first = queue.post(lambda _: "first", answers.put)
    with pytest.raises(EngineUnavailable):
        queue.withdraw(first)
    may_begin.set()
    assert begun.wait(LIMIT_S)
    queue.post(lambda _: "second", answers.put)
    may_end.set()
    assert answers.get(timeout=LIMIT_S).result == "second"
    queue.close()


def test_interrupt_of_the_committing_caller_does_not_reach_other_callers() -> None:
    answers = SimpleQueue[PendingWrite]()

    def serve(collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        queue.post(lambda _: None, answers.put)
        assert len(collect()) == 2
        raise KeyboardInterrupt

    queue = WriteQueue(serve)
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda _: None)
    error = answers.get(timeout=LIMIT_S).error
    assert isinstance(error, EngineUnavailable)
    assert error.members == {"outcome": "unknown"}


def test_error_of_a_batch_is_the_error_of_each_write() -> None:
    answers = SimpleQueue[PendingWrite]()

    def serve(collect: Callable[[], list[PendingWrite]], wait: bool) -> Callable[[], None]:
        queue.post(lambda _: None, answers.put)
        collect()
        raise OverflowError

    queue = WriteQueue(serve)
    with pytest.raises(OverflowError):
        queue.submit(lambda _: None)
    assert isinstance(answers.get(timeout=LIMIT_S).error, OverflowError)


def test_the_writes_of_many_threads_are_all_answered(workspace: Workspace) -> None:
    otto = workspace.join("otto")
    answers: list[bool] = []

    def send() -> None:
        for _ in range(20):
            sent = workspace.call(otto, text_to("@otto"))
            answers.append(sent["accepted"])

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 320
    assert workspace.call(otto, Whoami())["open"] == 320
