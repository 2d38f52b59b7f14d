"""Turn a step of a client into requests to the node, and the answers into words for the client."""

import os
from collections.abc import Iterator
from typing import Any

from interlock.agents.hooks import NOTHING, HookReply, Step, client_of
from interlock.agents.hooks.memory import Memo, Memory
from interlock.rooms.workspace.verbs import Attend
from interlock.verbs.flows import Flow

MAX_OWED = 5
SESSION_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-")


def session_of(given: str | None) -> str | None:
    """The client's own session id, or its digest if it is not a valid name of a session."""
    if not given:
        return None
    plain = given[0].isascii() and given[0].isalnum() and SESSION_LETTERS.issuperset(given)
    if plain and len(given) <= 128:
        return given
    from hashlib import sha256

    return sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def attending(
    client: str,
    event: str,
    step: Step,
    *,
    memory: Memory,
    window: dict[str, Any],
    until_ms: int | None = None,
    outlives: bool = False,
    unbound: bool = False,
) -> Flow[HookReply]:
    """The flow of one step, which a command or a server runs.

    `window` describes the client for presence. The client reads the answer until `until_ms`. A
    session that `outlives` the client's own does not end with it. The client's shell and tools do
    not know a session that is `unbound`."""
    if step.kind == "other" and not step.forgets:
        return NOTHING
    from interlock.agents.hooks.telling import reply_to

    memo = memory.recall()
    held = max(step.held, memo.held) if step.held else 0
    takes_words = event in client_of(client).CONTEXT
    # At an event at which the client passes no words to the agent, nothing may count as told.
    kind: Any = step.kind
    if kind == "end":
        kind = "busy" if outlives else "end"
    elif kind not in ("edit", "stop", "rest", "other"):
        kind = "busy" if not takes_words else "start" if memo.forgot else kind
    request = Attend(kind, client, held=held, window=window, until_ms=until_ms, unbound=unbound)
    requests = [request] if step.kind != "other" else []
    if kind == "edit":
        requests = [
            request._replace(paths=paths, repo=repo, worktree=worktree)
            for repo, worktree, paths in _edited(step)
        ]
    replies: list[HookReply] = []
    for request in requests:
        answer = yield request
        replies.append(reply_to(kind, answer))
        for session in answer.get("lost", ()):
            from interlock.rooms.identity.verbs import EndSession

            yield EndSession(session)  # its client was killed, and cannot release its claims
    context = "\n".join(each.context for each in replies if each.context is not None) or None
    denial = "\n".join(each.denial for each in replies if each.denial is not None) or None
    hold = next((each.hold for each in replies if each.hold is not None), None)
    # Lines that the client could not take earlier are said now, or owed until it can; each once.
    lines = dict.fromkeys((*memo.owed.splitlines(), *(context or "").splitlines()))
    owed = "" if takes_words or kind == "end" else "\n".join([*lines][:MAX_OWED])
    if takes_words and memo.owed:
        context = "\n".join(lines)
    forgot = step.forgets or (memo.forgot and kind != "start")
    if (now := Memo(held + 1 if hold is not None else 0, forgot, owed)) != memo:
        memory.keep(now)
    return HookReply(context, denial, hold)


def _edited(step: Step) -> list[tuple[str, str, tuple[str, ...]]]:
    """The files that an edit would change, by repository and worktree: by their names, and by the
    targets of symbolic links. A file in a repository inside another is in both. Files outside of
    repositories are left out."""
    from interlock.local.repository import name_here, names_of

    found: dict[str, dict[str, None]] = {}
    roots: dict[str, list[str]] = {}
    for path in step.paths:
        for whole in names_of(os.path.join(step.cwd or os.getcwd(), os.path.expanduser(path))):
            directory = os.path.dirname(whole)
            if directory not in roots:
                roots[directory] = list(_roots(directory))
            for root in roots[directory]:
                relative = os.path.relpath(whole, root)
                if not relative.startswith(".."):
                    found.setdefault(root, {})[relative] = None
    repos = ((name_here(root), root, paths) for root, paths in found.items())
    return [(name, root, tuple(paths)) for name, root, paths in repos if name is not None]


def _roots(place: str) -> Iterator[str]:
    """The roots of the working trees around a directory, which may not exist yet."""
    from interlock.machine import git

    while True:
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        root = git.git_output(place, "rev-parse", "--show-toplevel")
        if not root:
            return
        yield os.path.realpath(root)
        place = os.path.dirname(os.path.realpath(root))
