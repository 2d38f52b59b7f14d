"""The live stream of the dashboard. It sends the names of changed parts, and the page fetches them.

Hundreds of facts a second thus become a few lines. Presence is not a fact and causes no event, so
the stream also names the part `agents` every few seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from interlock.errors import Refusal
from interlock.node.feed import EventFeed

PARTS = ("header", "agents", "claims", "mail", "work", "ended")
MIN_INTERVAL_S = 0.25
MAX_WAIT_S = 1.0
PRESENCE_S = 10.0
# After this time the browser reconnects, and must send its cookie again.
MAX_STREAM_S = 3600.0
# A page that missed more facts than this fetches all parts.
MAX_MISSED = 1000

# The parts that a fact can change, by the prefix of its kind. Other kinds change all parts.
_CHANGES = {
    # Any message can be a blocker, or belong to the history of a task.
    "message_": ("mail", "agents", "header", "work"),
    "mail_": ("mail", "agents", "header"),
    "body_": ("mail", "work", "ended"),
    "claim_": ("claims", "agents", "header", "work"),
    "task_": ("work", "ended", "header"),
    "evidence_": ("work",),
    "verdict_": ("work", "header"),
    "gate_": ("work", "header"),
    "blocker_": ("work", "header"),
    "agent_": ("agents", "header", "work"),
    "session_": ("agents",),
    "group_": (),
    "token_": (),
    "setting_": (),
    "request_": ("header",),
}


async def changes(feed: EventFeed, after: int | None) -> AsyncIterator[bytes]:
    """Yield the Server-Sent Events after a log position: `changed`, with the names of parts."""
    loop = asyncio.get_running_loop()
    began = looked = loop.time()
    yield b"retry: 1000\n\n"
    if after is None or not feed.reached - MAX_MISSED <= after <= feed.reached:
        after = feed.reached
        yield _changed(PARTS, after)
    try:
        async for events in feed.follow(after, MAX_WAIT_S):
            changed: set[str] = set()
            for kind in {event.kind for event in events}:
                changed.update(_CHANGES.get(kind.partition("_")[0] + "_", PARTS))
            after = events[-1].seq if events else after
            if loop.time() - looked >= PRESENCE_S:
                changed.add("agents")
            if "agents" in changed:
                looked = loop.time()
            if changed:
                yield _changed(changed, after)
                await asyncio.sleep(MIN_INTERVAL_S)
            if loop.time() - began >= MAX_STREAM_S:
                return
    except Refusal:
        return


def _changed(parts: Iterable[str], seq: int) -> bytes:
    return f"id: {seq}\nevent: changed\ndata: {' '.join(sorted(parts))}\n\n".encode()
