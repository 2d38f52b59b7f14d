"""`interlock setup`: a client's configuration, shown, written, or taken back."""

import os
from typing import TYPE_CHECKING

from interlock.doors.cli.context import Context, absolute, here_and_now
from interlock.doors.cli.grammar import command
from interlock.errors import Usage
from interlock.local import workspace
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer
from interlock.verbs.types import Choice

if TYPE_CHECKING:
    from interlock.agents.setup import Caller, Place


@command(
    "setup [CLIENT] [--print] [--undo] [--user] [--plugin DIR]",
    help={
        "client": ("which", Choice("claude-code", "codex", "gemini", "cursor", "git")),
        "print": "show what would change, and change nothing",
        "undo": "take it back, as it was before",
        "user": "in your own configuration, for every project",
        "plugin": "write it as a plugin of Claude Code into this directory",
    },
    examples=(
        "interlock setup # what is installed here",
        "interlock setup claude-code --print # what would change",
        "interlock setup claude-code # hooks and MCP for this worktree",
    ),
)
def setup(context: Context) -> Answer:
    """Set an agent's client up, or see which there are.

    Writes files that git does not track, and never a token. Who the client acts as is --from, else
    who its files name already, else the one agent that has joined here, else a sender called after
    the client.
    """
    from interlock.agents import setup

    client = context.get("client")
    flags = [name for name in ("print", "undo", "user", "plugin") if context.get(name)]
    if client is None:
        if flags:
            raise Usage(f"Say which client is meant: interlock setup CLIENT --{flags[0]}")
        return {"clients": setup.detected(setup.place_at(here_and_now(), os.environ))}
    applied = {"client": client, "applied": not context.get("print", False)}
    if client == setup.GIT:
        return applied | _git(context)
    if context.get("plugin") and client != "claude-code":
        raise Usage("Only Claude Code has plugins of this kind: leave --plugin out.")
    place = setup.place_at(here_and_now(), os.environ, user=context.get("user", False))
    done = _taken_back(context, place) if context.get("undo") else _set_up(context, place)
    return applied | done


def _set_up(context: Context, place: "Place") -> Answer:
    from interlock.agents import setup
    from interlock.agents.setup import inspect as looking
    from interlock.agents.setup import senders

    client, link, plugin = context.values["client"], context.link, _plugin(context)
    sender = senders.choose(
        link,
        os.environ,
        client,
        named=context.get("from"),
        session=context.get("session"),
        configured=looking.found(client, place, plugin).sender,
    )
    setting = setup.prepared(client, place, link.home, _caller(context, sender.name), plugin)
    is_shown = context.get("print", False)
    if not is_shown:
        setting.refuse_unwritable()
        if sender.is_new:
            senders.make(link, os.environ, sender)
        link.open()
        setting.apply()
    who = {"sender": address(sender.name), "place": _scope(context)}
    joins = {"joins" if is_shown else "joined": True} if sender.is_new else {}
    return who | joins | setting.answer(with_diff=is_shown)


def _caller(context: Context, sender: str) -> "Caller":
    """How Interlock is to be called. A workspace that somebody names is meant by that name; one
    that is found where they stand is the repository's own."""
    from interlock.agents.guards import this_interlock
    from interlock.agents.setup import Caller

    found = workspace.nearest(here_and_now()) == context.link.place
    is_repositorys = found and not context.get("workspace")
    return Caller(this_interlock(), sender, context.link.place, is_repositorys)


def _scope(context: Context) -> str:
    return "plugin" if context.get("plugin") else "user" if context.get("user") else "worktree"


def _taken_back(context: Context, place: "Place") -> Answer:
    from interlock.agents import setup

    client, home = context.values["client"], context.link.home
    setting = setup.reversed_setting(client, place, home, _plugin(context))
    is_shown = context.get("print", False)
    if not is_shown:
        setting.apply()
    return setting.answer(with_diff=is_shown)


def _git(context: Context) -> Answer:
    from interlock.agents import guards, setup

    if context.get("user") or context.get("plugin"):
        raise Usage("The hooks of git are the repository's: leave --user and --plugin out.")
    undo = context.get("undo", False)
    if context.get("print"):
        return setup.git_shown(here_and_now(), undo=undo)
    return dict(guards.undo() if undo else guards.install())


def _plugin(context: Context) -> str | None:
    given = context.get("plugin")
    return absolute(given) if given else None
