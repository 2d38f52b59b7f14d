"""`interlock setup`: show, write or take back the configuration of a client."""

import os

from interlock.doors.cli.context import Context, absolute, here_and_now
from interlock.doors.cli.grammar import command
from interlock.errors import Usage
from interlock.local import workspace
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer
from interlock.verbs.types import Choice


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
    from interlock.agents import guards, setup
    from interlock.agents.setup import inspect, senders

    client = context.get("client")
    flags = [name for name in ("print", "undo", "user", "plugin") if context.get(name)]
    if client is None:
        if flags:
            raise Usage(f"Say which client is meant: interlock setup CLIENT --{flags[0]}")
        return {"clients": setup.detected(setup.place_at(here_and_now(), os.environ))}
    is_shown, undo = context.get("print", False), context.get("undo", False)
    applied = {"client": client, "applied": not is_shown}
    if client == setup.GIT:
        if context.get("user") or context.get("plugin"):
            raise Usage("The hooks of git are the repository's: leave --user and --plugin out.")
        if is_shown:
            return applied | setup.git_shown(here_and_now(), undo=undo)
        return applied | (guards.undo() if undo else guards.install())
    plugin = context.get("plugin")
    if plugin and client != "claude-code":
        raise Usage("Only Claude Code has plugins of this kind: leave --plugin out.")
    place = setup.place_at(here_and_now(), os.environ, user=context.get("user", False))
    plugin = absolute(plugin) if plugin else None
    if undo:
        setting = setup.reversed_setting(client, place, context.link.home, plugin)
        if not is_shown:
            setting.apply()
        return applied | setting.answer(with_diff=is_shown)
    link = context.link
    sender = senders.choose(
        link,
        os.environ,
        client,
        named=context.get("from"),
        session=context.get("session"),
        configured=inspect.found(client, place, plugin).sender,
    )
    # The client finds the repository's own workspace by itself. Any other one is named to it.
    is_repositorys = workspace.nearest(here_and_now()) == link.place and not context.get(
        "workspace"
    )
    caller = setup.Caller(guards.this_interlock(), sender.name, link.place, is_repositorys)
    setting = setup.prepared(client, place, link.home, caller, plugin)
    if not is_shown:
        setting.refuse_unwritable()
        if sender.is_new:
            senders.make(link, os.environ, sender)
        link.open()
        setting.apply()
    where = "plugin" if plugin else "user" if context.get("user") else "worktree"
    who = {"sender": address(sender.name), "place": where}
    joins = {"joins" if is_shown else "joined": True} if sender.is_new else {}
    return applied | who | joins | setting.answer(with_diff=is_shown)
