"""Recognise Interlock's entries in a client's JSON, and replace them.

A hook is Interlock's if it calls `interlock hook CLIENT EVENT`. An MCP server is Interlock's if its
name is `interlock` and its arguments contain `mcp`. The path of the program, the sender and the
workspace do not matter. So setup finds its entries after a repository was moved or a workspace was
deleted. Clients store hooks in lists by event. Most of them use groups with a matcher, and a group
can also contain hooks of other programs.
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
    """Return Interlock's hooks by event, in their groups, without the hooks of other programs."""
    found: Hooks = {}
    for event, groups in _events(data):
        ours = [part for group in groups if (part := _our_part(group, client)) is not None]
        if ours:
            found[event] = ours
    return found


def is_our_server(path: Sequence[str], value: Any) -> bool:
    args = value.get("args") if isinstance(value, dict) else None
    return path[-1] == SERVER and isinstance(args, list) and "mcp" in args


def commands_in(hooks: Hooks) -> Iterator[list[str]]:
    """Yield the words of the command of each hook."""
    for groups in hooks.values():
        for group in groups:
            for hook in group[HOOKS] if isinstance(group.get(HOOKS), list) else [group]:
                yield _words(hook)


def value_of(flag: str, words: Sequence[str]) -> str | None:
    return next((value for name, value in pairwise(words) if name == flag), None)


def changed(
    text: str, client: str, members: Members, hooks: Hooks, keep: Callable[[Sequence[str]], bool]
) -> str:
    """Return the text with these members and hooks as Interlock's only entries. Raise NotJson.

    Remove a member whose value is None. Remove objects and lists that become empty too, unless
    `keep` returns True for their path."""
    data = jsonc.load(text)
    for path, value in members.items():
        if value is not None:
            if jsonc.value_at(data, path) != value:
                text = jsonc.put(text, path, value)
            continue
        above = jsonc.value_at(jsonc.load(text), path[:-1])
        if isinstance(above, dict) and path[-1] in above:
            text = _dropped(text, path, path[:-1], keep)
    if hooks_in(data, client) == hooks:
        return text
    while (hook := _first_hook(jsonc.load(text), client)) is not None:
        text = _dropped(text, hook, (HOOKS, str(hook[1])), keep)
    for event, groups in hooks.items():
        for group in groups:
            text = jsonc.append(text, (HOOKS, event), group)
    return text


def _dropped(
    text: str, path: jsonc.Path, above: Sequence[str], keep: Callable[[Sequence[str]], bool]
) -> str:
    """Return the text without the entry at the path, and without entries above it that become
    empty."""
    text = jsonc.drop(text, path)
    while above and jsonc.value_at(jsonc.load(text), above) in ({}, []) and not keep(above):
        text, above = jsonc.drop(text, above), above[:-1]
    return text


def _events(data: Any) -> Iterator[tuple[str, list[Any]]]:
    events = jsonc.value_at(data, (HOOKS,))
    for event, groups in events.items() if isinstance(events, dict) else ():
        if isinstance(groups, list):
            yield event, groups


def _first_hook(data: Any, client: str) -> tuple[str | int, ...] | None:
    """Return the path of the first group with only Interlock's hooks, or of the first of these
    hooks in a mixed group."""
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
    """Return the group with only Interlock's hooks, or None if it has none."""
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
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str):
        return []
    args = hook.get("args")
    try:
        return [command, *map(str, args)] if isinstance(args, list) else shlex.split(command)
    except ValueError:
        return []
