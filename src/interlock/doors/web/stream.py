"""The page's live stream: which parts of it have changed. What is in them, the page fetches.

A viewer that is told little is told quickly, and hundreds of facts a second become a few
lines. Presence is no fact and makes no event, so agents are looked at every few seconds anyway.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from interlock.errors import Refusal
from interlock.node.feed import EventFeed

PARTS = ("header", "agents", "claims", "mail", "work", "ended")
BREATH_S = 0.25
LOOK_S = 1.0
PRESENCE_S = 10.0
# A browser comes back by itself, and must then show its pass again.
LASTS_S = 3600.0
# Whoever was away for longer than this many facts is told that everything has changed.
FAR = 1000

# What the facts whose kinds begin so can change. Anything else may change everything.
_CHANGES = {
    # Any message can be a blocker, or belong to the story of a task.
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
    """Server-Sent Events after a position: `changed`, with the names of parts."""
    loop = asyncio.get_running_loop()
    began = looked = loop.time()
    yield b"retry: 1000\n\n"
    if after is None or not feed.reached - FAR <= after <= feed.reached:
        after = feed.reached
        yield _changed(PARTS, after)
    try:
        async for events in feed.follow(after, LOOK_S):
            changed = _changed_by(event.kind for event in events)
            after = events[-1].seq if events else after
            if loop.time() - looked >= PRESENCE_S:
                changed.add("agents")
            if "agents" in changed:
                looked = loop.time()
            if changed:
                yield _changed(changed, after)
                await asyncio.sleep(BREATH_S)
            if loop.time() - began >= LASTS_S:
                return
    except Refusal:
        return


def _changed_by(kinds: Iterable[str]) -> set[str]:
    changed: set[str] = set()
    for kind in set(kinds):
        changed.update(_CHANGES.get(kind.partition("_")[0] + "_", PARTS))
    return changed


def _changed(parts: Iterable[str], seq: int) -> bytes:
    return f"id: {seq}\nevent: changed\ndata: {' '.join(sorted(parts))}\n\n".encode()
