"""Find Interlock's entries in the clients' files, with or without a record."""

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from interlock.agents import CLIENTS
from interlock.agents.guards.hooks import is_installed
from interlock.agents.setup import files
from interlock.agents.setup.clients import GIT, Invocation, SetupTarget, client_named
from interlock.agents.setup.documents import Document, recognised
from interlock.agents.setup.own_entries import FROM, WORKSPACE, commands_in, value_of
from interlock.errors import Usage
from interlock.machine import git
from interlock.verbs.addresses import address

ANY_CALLER = Invocation((), "", None)


class InstalledEntries(NamedTuple):
    """Interlock's entries that a client reads: whether there are hooks and a server, and which
    sender and workspace they name. `is_dead` is true if their program or workspace no longer
    exists."""

    hooks: bool = False
    server: bool = False
    sender: str | None = None
    is_dead: bool = False
    workspace: str | None = None


def detected(place: SetupTarget) -> list[dict[str, Any]]:
    """Return a row for each client: its program, its sender, and the command that sets it up. The
    row also says whether it is set up, here or for the user. Read-only: creates no workspace."""
    path = place.environ.get("PATH")
    rows: list[dict[str, Any]] = []
    for name in CLIENTS:
        client, ours = client_named(name), found(name, place)
        directory = os.path.join(place.home, f".{client.NAME}")
        program = shutil.which(client.NAME, path=path)
        program = program or (directory if os.path.isdir(directory) else None)
        rows.append(
            {"client": name, "set_up": ours.hooks and ours.server}
            | {"command": f"interlock setup {name}"}
            | ({"found": program} if program else {})
            | {"hooks": ours.hooks, "server": ours.server}
            | ({"sender": address(ours.sender)} if ours.sender else {})
            | ({"dead": True} if ours.is_dead else {})
        )
    program = shutil.which(GIT, path=path)
    in_one = bool(program) and git.git_output(place.root, "rev-parse", "--git-dir") is not None
    rows.append(
        {"client": GIT, "set_up": in_one and is_installed(place.root)}
        | {"command": f"interlock setup {GIT}"}
        | ({"found": program} if program else {})
        | ({"no_repository": True} if program and not in_one else {})
    )
    return rows


def found(client: str, place: SetupTarget, plugin_at: str | None = None) -> InstalledEntries:
    """Return Interlock's entries that the client would read here. Unreadable files count as
    empty."""
    facts = client_named(client)
    if plugin_at is not None:
        hooks = os.path.join(plugin_at, "hooks", "hooks.json")
        documents = [Document(hooks, client, hooks=facts.hooks(ANY_CALLER))]
    else:
        documents = _users(client, place)
    if plugin_at is None and not place.user:
        # Clients read the project's files, tracked or not, and the user's.
        tracked_or_not = facts.wanted(place._replace(in_git=False), ANY_CALLER).documents
        documents = [*tracked_or_not, *facts.wanted(place, ANY_CALLER).documents, *documents]
    calls = [call for document in documents for call in _calls(document)]
    senders = (sender for _, words in calls if (sender := value_of(FROM, words)))
    workspaces = (named for _, words in calls if (named := value_of(WORKSPACE, words)))
    return InstalledEntries(
        any(kind == "hook" for kind, _ in calls),
        any(kind == "server" for kind, _ in calls),
        next(senders, None),
        any(_is_dead(words) for _, words in calls),
        next(workspaces, None),
    )


def in_place(client: str, place: SetupTarget) -> list[Document]:
    """Return the documents of this place, without the user's documents for every project."""
    wanted = client_named(client).wanted(place, ANY_CALLER).documents
    if place.user:
        return wanted
    users = _users(client, place)
    return [
        document
        for document in wanted
        if not any(each.file == document.file and each.uses & document.uses for each in users)
    ]


def is_users(client: str, place: SetupTarget, *, but: Collection[str]) -> bool:
    """Return whether the user's own configuration has Interlock's entries outside of the files
    `but`."""
    documents = [each for each in _users(client, place) if each.file not in but]
    return any(call for document in documents for call in _calls(document))


def _users(client: str, place: SetupTarget) -> list[Document]:
    return client_named(client).wanted(place._replace(user=True), ANY_CALLER).documents


def _calls(document: Document) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the kind and the command of each of Interlock's entries in the file."""
    try:
        ours = recognised(document, files.read(document.file))
        for words in commands_in(ours.hooks):
            yield "hook", words
        for server in ours.members.values():
            yield "server", [str(server.get("command")), *map(str, server["args"])]
    except Usage:
        return


def _is_dead(words: Sequence[str]) -> bool:
    workspace = value_of(WORKSPACE, words)
    is_gone = workspace is not None and "://" not in workspace and not os.path.isdir(workspace)
    return is_gone or (os.path.isabs(words[0]) and not os.access(words[0], os.X_OK))
