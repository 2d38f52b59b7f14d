"""Which clients there are on this machine, and which of them are set up."""

import os
import shutil
from typing import Any

from interlock.agents.setup import git_hooks
from interlock.agents.setup import inspect as looking
from interlock.agents.setup.clients import CLIENTS, GIT, client_named
from interlock.agents.setup.places import Place
from interlock.machine import git
from interlock.verbs.addresses import address


def detected(place: Place) -> list[dict[str, Any]]:
    """Every client: where it was found, whether it is set up here or for the user, as whom, and
    what to type. Looks only, and makes no workspace."""
    found = [_client(name, place) for name in CLIENTS]
    program = shutil.which(GIT, path=place.environ.get("PATH"))
    in_one = program and git.said(place.root, "rev-parse", "--git-dir") is not None
    row = _row(GIT, program, is_set_up=bool(in_one) and git_hooks.is_installed(place.root))
    found.append(row if in_one or not program else row | {"no_repository": True})
    return found


def _client(name: str, place: Place) -> dict[str, Any]:
    """Set up is what has hooks and a server; where there is one of them, that is said."""
    client, ours = client_named(name), looking.found(name, place)
    own = os.path.join(place.home, client.DIRECTORY)
    program = shutil.which(client.PROGRAM, path=place.environ.get("PATH"))
    row = _row(
        name,
        program or (own if os.path.isdir(own) else None),
        is_set_up=ours.hooks and ours.server,
    )
    row |= {"hooks": ours.hooks, "server": ours.server}
    return (
        row
        | ({"sender": address(ours.sender)} if ours.sender else {})
        | ({"dead": True} if ours.is_dead else {})
    )


def _row(name: str, found: str | None, *, is_set_up: bool) -> dict[str, Any]:
    row = {"client": name, "set_up": is_set_up, "command": f"interlock setup {name}"}
    return row | ({"found": found} if found else {})
