"""The waker: the part of a server that tells idle agents about mail, through wake adapters. It also
renews the claims of living clients, and releases those of dead ones.

A process that waits for mail next to its client gets mail at once. So the node reports mail as due
only after a few seconds, which also collects several messages. One adapter at a time wakes a
sender. The log records the outcome, and a wake with an unknown outcome is not repeated.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any

from interlock.agents.hooks import pointer
from interlock.errors import Refusal
from interlock.node import wake_ups
from interlock.node.live import LiveNode
from interlock.node.wake_ups import Sleeper
from interlock.plugins import Adapter, NotWoken, Pointer, Window

_LOG = logging.getLogger("interlock.wake")
POLL_INTERVAL_S = 1.0
TRY_AGAIN_S = 60.0
MAX_WAKE_S = 45.0


class Waker:
    def __init__(self, live: LiveNode) -> None:
        self._live = live
        self._adapters: Any = None
        self._failed: dict[str, float] = {}
        self._waking: dict[str, asyncio.Task[None]] = {}
        self._shown: dict[str, AbstractContextManager[None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            for each in (task, *self._waking.values()):
                each.cancel()
            await asyncio.gather(task, *self._waking.values(), return_exceptions=True)
            self._show(set())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                await asyncio.to_thread(wake_ups.release_dead_sessions, self._live.node)
                await asyncio.to_thread(wake_ups.keep, self._live.node)
                self._begin(await asyncio.to_thread(self._ways))
            except Refusal as refusal:
                _LOG.warning("agents cannot be woken now", extra={"why": refusal.message})
            except Exception:  # noqa: BLE001 - the next attempt may succeed
                _LOG.exception("the waker failed")

    def _ways(self) -> list[tuple[Sleeper, Window, Adapter]]:
        """Return, for every idle sender, the first window and adapter that can wake it."""
        if self._adapters is None:
            from interlock.agents.wake.plugins import Adapters

            self._adapters = Adapters(self._live.node.directory)
        adapters = self._adapters.now()
        found = []
        for sleeper in wake_ups.sleepers(self._live.node) if adapters else ():
            windows = [
                Window(
                    sleeper.sender,
                    window.session,
                    window.about.get("client"),
                    window.about.get("pid"),
                    window.about.get("ways", {}),
                )
                for window in sleeper.windows
            ]
            # The sender itself comes last, for adapters that need no window.
            windows.append(Window(sleeper.sender, None, None, None, {}))
            ways = ((w, a) for w in windows for a in adapters if _can_wake(a, w))
            if (way := next(ways, None)) is not None:
                found.append((sleeper, *way))
        return found

    def _begin(self, found: list[tuple[Sleeper, Window, Adapter]]) -> None:
        now = asyncio.get_running_loop().time()
        ready = [way for way in found if self._failed.get(way[0].sender, 0.0) <= now]
        self._show({s.sender for s, _, adapter in ready if getattr(adapter, "is_sure", True)})
        for sleeper, window, adapter in ready:
            if sleeper.is_due and sleeper.sender not in self._waking:
                task = asyncio.create_task(self._wake(sleeper.sender, window, adapter))
                self._waking[sleeper.sender] = task
                task.add_done_callback(partial(self._woke, sleeper.sender))

    def _show(self, senders: set[str]) -> None:
        """Show these senders, and no others, as reachable at once."""
        for sender in self._shown.keys() - senders:
            self._shown.pop(sender).__exit__(None, None, None)
        for sender in senders - self._shown.keys():
            shown = self._shown[sender] = self._live.listening(sender, asleep=True)
            shown.__enter__()

    def _woke(self, sender: str, task: "asyncio.Task[None]") -> None:
        del self._waking[sender]
        if not task.cancelled() and (trouble := task.exception()) is not None:
            _LOG.warning("the waker failed", extra={"sender": sender, "why": repr(trouble)})

    async def _wake(self, sender: str, window: Window, adapter: Adapter) -> None:
        node = self._live.node
        begun = await asyncio.to_thread(wake_ups.begin, node, sender, adapter.name)
        if begun is None:
            return
        ids = tuple(message["id"] for message in begun.news)
        line = Pointer(pointer(begun.news, begun.unread), len(ids), ids)
        outcome, why = "woken", None
        try:
            async with asyncio.timeout(MAX_WAKE_S):
                await asyncio.to_thread(adapter.wake, window, line)
        except NotWoken as trouble:
            outcome, why = "failed", str(trouble)[:200]
        except Exception as trouble:  # noqa: BLE001 - a plugin may raise anything
            outcome, why = "unknown", (str(trouble) or type(trouble).__name__)[:200]
        if outcome != "woken":
            _LOG.warning("not woken", extra={"sender": sender, "adapter": adapter.name, "why": why})
            self._failed[sender] = asyncio.get_running_loop().time() + TRY_AGAIN_S
        await asyncio.to_thread(wake_ups.end, node, begun, sender, outcome, why)


def _can_wake(adapter: Adapter, window: Window) -> bool:
    try:
        return adapter.can_wake(window)
    except Exception:  # noqa: BLE001 - a plugin may raise anything
        _LOG.exception("an adapter failed", extra={"adapter": adapter.name})
        return False
