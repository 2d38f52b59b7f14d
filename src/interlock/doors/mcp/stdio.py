"""Standard input and output as streams that block nobody.

Reading and writing are done in threads, because asyncio cannot wait for files and some devices.
The threads hold no process back: a client that sends nothing is not waited for at the end.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from interlock.doors.mcp.streams import CHUNK, Read, Write


def standard_streams() -> tuple[Read, Write]:
    """What the client writes and reads. From here on standard input is empty for everybody else,
    and whatever they print goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    reading, writing = _Aside(), _Aside()

    async def read() -> bytes:
        data: bytes = await reading.do(lambda: os.read(source, CHUNK))
        return data

    async def write(data: bytes) -> None:
        await writing.do(lambda: _write_all(sink, data))

    return read, write


def _write_all(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: "asyncio.Future[Any]"


class _Aside:
    """A thread for work that may block, one piece after another."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def do(self, work: Callable[[], Any]) -> Any:
        job = _Job(work, asyncio.get_running_loop().create_future())
        self._jobs.put(job)
        return await job.future

    def _run(self) -> None:
        while True:
            work, future = self._jobs.get()
            try:
                outcome = work()
            except OSError as trouble:
                outcome = trouble
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                future.get_loop().call_soon_threadsafe(_settle, future, outcome)


def _settle(future: "asyncio.Future[Any]", outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, OSError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
