"""`interlock setup`: show, write or undo a client's configuration."""

import os

from interlock.agents import CLIENTS
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
        "client": ("the client", Choice(*CLIENTS, "git")),
        "print": "show the changes, and change nothing",
        "undo": "restore the configuration as it was before",
        "user": "change your own configuration, for every project",
        "plugin": "write a Claude Code plugin into this directory",
    },
    examples=(
        "interlock setup # list the clients on this machine",
        "interlock setup claude-code --print # show the changes",
        "interlock setup claude-code # add hooks and MCP to this worktree",
    ),
)
def setup(context: Context) -> Answer:
    """Configure an agent's client for Interlock, or list the clients.

    Writes files that git does not track, and never a token. The client acts as the sender of
    --from. Without --from, the client acts as the sender that its settings already name. Otherwise
    it acts as the stored sender with the client's name, or as the only agent that no other client
    uses. If there is neither, Interlock adds a sender with the client's name.
    """
    from interlock.agents.guards.hooks import this_interlock
    from interlock.agents.setup import apply, files, inspect, senders
    from interlock.agents.setup.clients import GIT, Invocation, place_at

    client = context.get("client")
    is_shown, undo = context.get("print", False), context.get("undo", False)
    if client is None:
        flags = [name for name in ("print", "undo", "user", "plugin") if context.get(name)]
        if flags:
            raise Usage(f"--{flags[0]} needs a client: interlock setup CLIENT --{flags[0]}")
        return {"clients": inspect.detected(place_at(here_and_now(), os.environ))}
    applied = {"client": client, "applied": not is_shown}
    if client == GIT:
        return applied | _git(context, is_shown=is_shown, undo=undo)
    plugin = absolute(context.values["plugin"]) if context.get("plugin") else None
    if plugin is not None and client != "claude-code":
        raise Usage("Only the client claude-code supports --plugin. Remove it.")
    place = place_at(here_and_now(), os.environ, user=context.get("user", False))
    link = context.link
    if undo:
        setting = apply.undo_plan(client, place, link.home, plugin)
        if not is_shown:
            setting.apply()
        return applied | setting.answer(with_diff=is_shown)
    sender = senders.choose(
        link,
        os.environ,
        client,
        named=context.get("from"),
        session=context.get("session"),
        configured=inspect.found(client, place, plugin).sender,
    )
    # A workspace that the user named is not the repository's own, even if it is the nearest.
    is_repositorys = workspace.nearest(here_and_now()) == link.place
    is_repositorys = is_repositorys and not context.get("workspace")
    caller = Invocation(this_interlock(), sender.name, link.place, is_repositorys)
    setting = apply.prepared(client, place, link.home, caller, plugin)
    if not is_shown:
        files.refuse_unwritable(setting.changes)  # before the sender joins
        if sender.is_new:
            senders.make(link, os.environ, sender)
        link.open()
        setting.apply()
    where = "plugin" if plugin else "user" if place.user else "worktree"
    joins = {"joins" if is_shown else "joined": True} if sender.is_new else {}
    who = {"sender": address(sender.name), "place": where}
    return applied | who | joins | setting.answer(with_diff=is_shown)


def _git(context: Context, *, is_shown: bool, undo: bool) -> Answer:
    from interlock.agents.guards import hooks
    from interlock.agents.setup.apply import shown

    if context.get("user") or context.get("plugin"):
        raise Usage("Git hooks belong to one repository. Remove --user and --plugin.")
    if is_shown:
        return {"changes": shown(hooks.planned(here_and_now(), undo=undo), with_diff=True)}
    return hooks.undo() if undo else hooks.install()
