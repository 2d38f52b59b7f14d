"""`interlock setup`: a client's configuration, shown, written, or taken back."""

import os
from typing import TYPE_CHECKING

from interlock.contracts.addresses import address
from interlock.doors.cli.context import Answer, Context, absolute, here_and_now
from interlock.errors import Usage

if TYPE_CHECKING:
    from interlock.setup import Place


def setup(context: Context) -> Answer:
    from interlock import setup

    client = context.get("client")
    flags = [name for name in ("print", "undo", "user", "plugin") if context.get(name)]
    if client is None:
        if flags:
            raise Usage(f"Say which client is meant: interlock setup CLIENT --{flags[0]}")
        place = setup.place_at(here_and_now(), os.environ)
        return {"clients": setup.detected(place, context.link.home)}
    if client == setup.GIT:
        return {"client": client} | _git(context)
    if context.get("plugin") and client != "claude-code":
        raise Usage("Only Claude Code has plugins of this kind: leave --plugin out.")
    place = setup.place_at(here_and_now(), os.environ, user=context.get("user", False))
    done = _taken_back(context, client, place) if context.get("undo") else _set_up(context, place)
    return {"client": client} | done


def _set_up(context: Context, place: "Place") -> Answer:
    from interlock import setup
    from interlock.setup import senders

    client, is_shown = context.values["client"], context.get("print", False)
    link = context.link
    named, session = context.get("from"), context.get("session")
    sender = senders.choose(link, os.environ, client, named, session)
    setting = setup.prepared(client, place, link.home, sender.name, link.place, _plugin(context))
    if not is_shown:
        if sender.is_new:
            senders.make(link, os.environ, sender)
        link.open()
        setting.apply()
    joins = {"joins" if is_shown else "joined": True} if sender.is_new else {}
    return {"sender": address(sender.name)} | joins | setting.answer(with_diff=is_shown)


def _taken_back(context: Context, client: str, place: "Place") -> Answer:
    from interlock import setup

    setting = setup.reversed_setting(client, place, context.link.home, _plugin(context))
    if setting is None:
        return {"changes": []}
    is_shown = context.get("print", False)
    if not is_shown:
        setting.apply()
    return setting.answer(with_diff=is_shown)


def _git(context: Context) -> Answer:
    from interlock import guards, setup

    if context.get("user") or context.get("plugin"):
        raise Usage("The hooks of git are the repository's: leave --user and --plugin out.")
    if context.get("print"):
        if context.get("undo"):
            raise Usage("What git's hooks go back to lies beside them: leave --print out.")
        return setup.git_shown(here_and_now())
    return dict(guards.undo() if context.get("undo") else guards.install())


def _plugin(context: Context) -> str | None:
    given = context.get("plugin")
    return absolute(given) if given else None
