"""The waker: the part of a server that tells idle agents of mail, through adapters; and keeps the
claims of clients that live, and gives up those of clients that have died.

Whoever waits for mail by itself, beside its client, is told in an instant and needs nobody; so mail
is left alone for a few seconds first, which also gathers what comes together. Each sender is woken
by one adapter at a time. What a wake came to is written down, and what is in doubt is not tried
again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any

from interlock.agents.hooks.telling import pointer
from interlock.errors import Refusal
from interlock.node import wake_ups as dispatching
from interlock.node.live import LiveNode
from interlock.node.wake_ups import Begun, Sleeper
from interlock.plugins import Adapter, NotWoken, Pointer, Window

_LOG = logging.getLogger("interlock.plugins")
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
                await self._look()
            except Refusal as refusal:
                _LOG.warning("nobody can be woken now", extra={"why": refusal.message})
            except Exception:  # noqa: BLE001 - the next look may find things better
                _LOG.exception("the waker stumbled")

    async def _look(self) -> None:
        await asyncio.to_thread(dispatching.release_dead_sessions, self._live.node)
        await asyncio.to_thread(dispatching.keep, self._live.node)
        found = await asyncio.to_thread(self._ways)
        now = asyncio.get_running_loop().time()
        ready = [way for way in found if self._failed.get(way[0].sender, 0.0) <= now]
        self._show({s.sender for s, _, adapter in ready if getattr(adapter, "is_sure", True)})
        for sleeper, window, adapter in ready:
            if sleeper.is_due and sleeper.sender not in self._waking:
                task = asyncio.create_task(self._wake(sleeper.sender, window, adapter))
                self._waking[sleeper.sender] = task
                task.add_done_callback(partial(self._woke, sleeper.sender))

    def _ways(self) -> list[tuple[Sleeper, Window, Adapter]]:
        """For every idle sender the first way to wake it, if there is one."""
        if self._adapters is None:
            from interlock.agents.wake.plugins import Adapters

            self._adapters = Adapters(self._live.node.directory)
        adapters = self._adapters.now()
        found = []
        for sleeper in dispatching.sleepers(self._live.node) if adapters else ():
            ways = ((w, a) for w in _windows(sleeper) for a in adapters if _can(a, w))
            if (way := next(ways, None)) is not None:
                found.append((sleeper, *way))
        return found

    def _show(self, senders: set[str]) -> None:
        """Shows those whom we would wake as reachable at once, and no others."""
        for sender in self._shown.keys() - senders:
            self._shown.pop(sender).__exit__(None, None, None)
        for sender in senders - self._shown.keys():
            shown = self._shown[sender] = self._live.listening(sender, asleep=True)
            shown.__enter__()

    def _woke(self, sender: str, task: "asyncio.Task[None]") -> None:
        del self._waking[sender]
        if not task.cancelled() and (trouble := task.exception()) is not None:
            _LOG.warning("the waker stumbled", extra={"sender": sender, "why": repr(trouble)})

    async def _wake(self, sender: str, window: Window, adapter: Adapter) -> None:
        node = self._live.node
        begun = await asyncio.to_thread(dispatching.begin, node, sender, adapter.name)
        if begun is None:
            return
        outcome, why = await _told(adapter, window, begun)
        if outcome != "woken":
            _LOG.warning("not woken", extra={"sender": sender, "adapter": adapter.name, "why": why})
            self._failed[sender] = asyncio.get_running_loop().time() + TRY_AGAIN_S
        await asyncio.to_thread(dispatching.end, node, begun, sender, outcome, why)


async def _told(adapter: Adapter, window: Window, begun: Begun) -> tuple[str, str | None]:
    """What became of a wake: `woken`, `failed` or `unknown`, and why."""
    line = Pointer(
        pointer(begun.news, begun.unread),
        len(begun.news),
        tuple(message["id"] for message in begun.news),
    )
    try:
        async with asyncio.timeout(MAX_WAKE_S):
            await asyncio.to_thread(adapter.wake, window, line)
    except NotWoken as trouble:
        return "failed", str(trouble)[:200]
    except Exception as trouble:  # noqa: BLE001 - a plugin may raise anything
        return "unknown", (str(trouble) or type(trouble).__name__)[:200]
    return "woken", None


def _windows(sleeper: Sleeper) -> list[Window]:
    """The sender's idle windows, and the sender itself, for what needs no window."""
    found = [
        Window(
            sleeper.sender,
            window.session,
            window.about.get("client"),
            window.about.get("pid"),
            window.about.get("ways", {}),
        )
        for window in sleeper.windows
    ]
    return [*found, Window(sleeper.sender, None, None, None, {})]


def _can(adapter: Adapter, window: Window) -> bool:
    try:
        return adapter.can_wake(window)
    except Exception:  # noqa: BLE001 - a plugin may raise anything
        _LOG.exception("an adapter stumbled", extra={"adapter": adapter.name})
        return False
