"""Flows: work that takes several requests, such as waiting for mail or sending a large body.

A flow is a generator. It yields a step and receives the step's result. If the step fails, the error
is raised inside the flow, so that the flow can clean up with further steps. A flow never blocks.
The same flow therefore runs in threads (`run`) and on the event loop (`run_async`). Each caller
passes the function that executes a step: by a node, over HTTP, or in a test.

A step is a request for a verb, or one of the classes here.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from interlock.verbs import Record

T = TypeVar("T")
Flow = Generator[Any, Any, T]


class Sleep(Record):
    """Wait until the time is over, or until a commit changes mail for `names`. Without names, wait
    for a commit that changes claims. The flow may wake early. The result is False if the caller
    cannot wait any longer."""

    seconds: float
    names: frozenset[str] = frozenset()


class ShowReachable(Record):
    """Show the sender as reachable until the flow ends."""

    sender: str
    asleep: bool = False


class LocalRead(Record):
    """Read the caller's files or run its git, which may block."""

    read: Callable[[], Any]


class Ended(Record):
    """The end of a flow, with its result."""

    result: Any


def advance(flow: Flow[Any], result: Any, error: BaseException | None) -> Any:
    """Resume a flow with the result or the error of its last step. Returns the next step, or
    `Ended`."""
    try:
        return flow.send(result) if error is None else flow.throw(error)
    except StopIteration as end:
        return Ended(end.value)


def run(flow: Flow[T], step: Callable[[Any], Any]) -> T:
    """Run a flow in this thread. `step` executes one step and returns its result."""
    result: Any = None
    error: BaseException | None = None
    while not isinstance(wanted := advance(flow, result, error), Ended):
        try:
            result, error = step(wanted), None
        except BaseException as raised:  # noqa: BLE001 - the flow cleans up and raises it again
            error = raised
    ended: T = wanted.result
    return ended


async def run_async(
    flow: Flow[T],
    step: Callable[[Any], Awaitable[Any]],
    in_thread: Callable[..., Awaitable[Any]] | None = None,
) -> T:
    """Run a flow on the event loop. For a flow that reads files between its steps, `in_thread`
    resumes the flow in a thread."""
    result: Any = None
    error: BaseException | None = None
    while True:
        if in_thread is None:
            wanted = advance(flow, result, error)
        else:
            wanted = await in_thread(advance, flow, result, error)
        if isinstance(wanted, Ended):
            ended: T = wanted.result
            return ended
        try:
            result, error = await step(wanted), None
        except BaseException as raised:  # noqa: BLE001 - the flow cleans up and raises it again
            error = raised
