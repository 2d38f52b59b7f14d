"""Which clients there are on this machine, and which of them are set up."""

import os
import shutil
from typing import Any

from interlock import git
from interlock.setup import git_hooks, records
from interlock.setup.clients import CLIENTS, GIT, client_named
from interlock.setup.places import USER, Place


def detected(place: Place, home: str) -> list[dict[str, Any]]:
    """Every client: where it was found, whether it is set up here or for the user, and what to
    type. Looks only, and makes no workspace."""
    done = {
        record.client
        for record in records.every(home)
        if record.place in (USER, place.root) and record.saved
    }
    found = [_client(name, place, is_set_up=name in done) for name in CLIENTS]
    if git.said(place.root, "rev-parse", "--git-dir") is not None:
        found.append(_row(GIT, place.root, is_set_up=git_hooks.is_installed(place.root)))
    else:
        found.append(_row(GIT, None, is_set_up=False))
    return found


def _client(name: str, place: Place, *, is_set_up: bool) -> dict[str, Any]:
    client = client_named(name)
    own = os.path.join(place.home, client.DIRECTORY)
    program = shutil.which(client.PROGRAM, path=place.environ.get("PATH"))
    return _row(name, program or (own if os.path.isdir(own) else None), is_set_up=is_set_up)


def _row(name: str, found: str | None, *, is_set_up: bool) -> dict[str, Any]:
    row = {"client": name, "set_up": is_set_up, "command": f"interlock setup {name}"}
    return row | ({"found": found} if found else {})
