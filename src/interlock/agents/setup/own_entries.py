"""Which entries of a client's configuration are Interlock's, whoever wrote them.

A hook is ours if it calls `interlock hook CLIENT EVENT`, a server if it is the one called interlock
and is started with the word `mcp`: by whatever path, for whatever sender and workspace, so that
entries are found again after a repository was moved or a workspace removed. Clients keep hooks in
lists by event; most of them in groups with a matcher, and a group may hold hooks of others beside
ours.
"""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from interlock.agents.setup import jsonc

HOOKS = "hooks"
SERVER = "interlock"
FROM = "--from"
WORKSPACE = "--workspace"
Members = dict[tuple[str, ...], Any]
Hooks = dict[str, list[Any]]


def hooks_in(data: Any, client: str) -> Hooks:
    """Our hooks by event, in their groups, as they could be put back."""
    found: Hooks = {}
    for event, groups in _events(data):
        ours = [kept for group in groups if (kept := _our_part(group, client)) is not None]
        if ours:
            found[event] = ours
    return found


def is_our_server(path: Sequence[str], value: Any) -> bool:
    """Whether it is our MCP server, which is told from another's by its name and its words."""
    args = value.get("args") if isinstance(value, dict) else None
    return path[-1] == SERVER and isinstance(args, list) and "mcp" in args


def commands_in(data: Any, client: str) -> Iterator[list[str]]:
    """The words of each of our hooks."""
    for groups in hooks_in(data, client).values():
        for group in groups:
            for hook in group[HOOKS] if isinstance(group.get(HOOKS), list) else [group]:
                yield _words(hook)


def value_of(flag: str, words: Sequence[str]) -> str | None:
    """What follows the flag among the words of one of our commands."""
    return next((value for name, value in pairwise(words) if name == flag), None)


def changed(
    text: str, client: str, members: Members, hooks: Hooks, keep: Callable[[Sequence[str]], bool]
) -> str:
    """The text with these members and hooks as the ones of ours, and everything else as it is.

    A member that is None is taken out. What is left empty by that is taken out too, unless `keep`
    says that it was there before us."""
    data = jsonc.load(text)
    for path, value in members.items():
        if value is None:
            text = _dropped(text, path, keep)
        elif jsonc.look(data, path) != value:
            text = jsonc.put(text, path, value)
    if hooks_in(data, client) == hooks:
        return text
    while (path_to_one := _one(jsonc.load(text), client)) is not None:
        text = jsonc.drop(text, path_to_one)
        text = _pruned(text, [str(key) for key in path_to_one[:2]], keep)
    for event, groups in hooks.items():
        for group in groups:
            text = jsonc.append(text, (HOOKS, event), group)
    return text


def _dropped(text: str, path: tuple[str, ...], keep: Callable[[Sequence[str]], bool]) -> str:
    above = jsonc.look(jsonc.load(text), path[:-1])
    if not isinstance(above, dict) or path[-1] not in above:
        return text
    return _pruned(jsonc.drop(text, path), path[:-1], keep)


def _pruned(text: str, path: Sequence[str], keep: Callable[[Sequence[str]], bool]) -> str:
    while path and jsonc.look(jsonc.load(text), path) in ({}, []) and not keep(path):
        text, path = jsonc.drop(text, path), path[:-1]
    return text


def _events(data: Any) -> Iterator[tuple[str, list[Any]]]:
    events = jsonc.look(data, (HOOKS,))
    for event, groups in events.items() if isinstance(events, dict) else ():
        if isinstance(groups, list):
            yield event, groups


def _one(data: Any, client: str) -> tuple[str | int, ...] | None:
    """The path of a hook of ours, or of the group that holds nothing else."""
    for event, groups in _events(data):
        for number, group in enumerate(groups):
            ours = _our_part(group, client)
            if ours == group:
                return HOOKS, event, number
            if ours is not None:
                calls = [_calls_us(hook, client) for hook in group[HOOKS]]
                return HOOKS, event, number, HOOKS, calls.index(True)
    return None


def _our_part(group: Any, client: str) -> Any:
    """The group with our hooks alone, or None where it has none."""
    if not isinstance(group, dict):
        return None
    if not isinstance(group.get(HOOKS), list):
        return group if _calls_us(group, client) else None
    ours = [hook for hook in group[HOOKS] if _calls_us(hook, client)]
    return group | {HOOKS: ours} if ours else None


def _calls_us(hook: Any, client: str) -> bool:
    words = _words(hook)
    return any(
        pair == ("hook", client)
        and number + 2 < len(words)
        and any(os.path.basename(word) == SERVER for word in words[:number])
        for number, pair in enumerate(pairwise(words))
    )


def _words(hook: Any) -> list[str]:
    """The words of a hook's command; none where it has no such thing."""
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return []
    given = hook.get("args")
    try:
        return [command, *map(str, given)] if isinstance(given, list) else shlex.split(command)
    except ValueError:
        return []
