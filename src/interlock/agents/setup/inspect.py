"""What of Interlock stands in a client's files: found by reading them, with or without a record."""

import os
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from interlock.agents.setup import files
from interlock.agents.setup.clients import Caller, client_named
from interlock.agents.setup.documents import Document, parsed, recognised
from interlock.agents.setup.own_entries import FROM, WORKSPACE, commands_in, value_of
from interlock.agents.setup.places import Place
from interlock.errors import Usage

NOBODY = Caller((), "", None)


class Found(NamedTuple):
    """Whether hooks and a server of ours are there, whom they act as, in which workspace where they
    name one, and whether what they call is gone: the program, or the workspace."""

    hooks: bool = False
    server: bool = False
    sender: str | None = None
    is_dead: bool = False
    workspace: str | None = None


def found(client: str, place: Place, plugin_at: str | None = None) -> Found:
    """What the client would read here. Files that cannot be read say nothing."""
    documents = _plugins(plugin_at) if plugin_at is not None else _read_by(client, place)
    calls = [call for document in documents for call in _calls(document)]
    senders = [sender for _, words in calls if (sender := value_of(FROM, words))]
    named = [found for _, words in calls if (found := value_of(WORKSPACE, words))]
    return Found(
        any(kind == "hook" for kind, _ in calls),
        any(kind == "server" for kind, _ in calls),
        senders[0] if senders else None,
        any(_is_dead(words) for _, words in calls),
        named[0] if named else None,
    )


def in_place(client: str, place: Place) -> list[Document]:
    """The documents of this place, without those that are the user's for every project."""
    wanted = client_named(client).wanted(place, NOBODY).documents
    if place.user:
        return wanted
    users = _users(client, place)
    return [
        document
        for document in wanted
        if not any(each.file == document.file and each.uses & document.uses for each in users)
    ]


def is_users(client: str, place: Place, *, but: Collection[str]) -> bool:
    """Whether there is anything of ours in the user's own configuration, but for these files."""
    documents = [each for each in _users(client, place) if each.file not in but]
    return any(call for document in documents for call in _calls(document))


def _users(client: str, place: Place) -> list[Document]:
    return client_named(client).wanted(place._replace(user=True), NOBODY).documents


def _read_by(client: str, place: Place) -> list[Document]:
    """Clients read the project's files, tracked or not, and the user's beside them."""
    if place.user:
        return _users(client, place)
    facts = client_named(client)
    tracked_or_not = facts.wanted(place._replace(in_git=False), NOBODY).documents
    return [*tracked_or_not, *facts.wanted(place, NOBODY).documents, *_users(client, place)]


def _plugins(directory: str) -> list[Document]:
    """A plugin's files that hold hooks and the server, as files that can be looked into."""
    facts = client_named("claude-code")
    hooks = os.path.join(directory, "hooks", "hooks.json")
    return [Document(hooks, "claude-code", hooks=facts.hooks(NOBODY))]


def _calls(document: Document) -> Iterator[tuple[str, Sequence[str]]]:
    """The words of our entries in the file."""
    try:
        data = files.read(document.file)
        ours = recognised(document, data)
        if ours.hooks:
            for words in commands_in(parsed(document, data), document.client):
                yield "hook", words
        for server in ours.members.values():
            yield "server", [str(server.get("command")), *map(str, server["args"])]
    except Usage:
        return


def _is_dead(words: Sequence[str]) -> bool:
    workspace = value_of(WORKSPACE, words)
    is_gone = workspace is not None and "://" not in workspace and not os.path.isdir(workspace)
    return is_gone or (os.path.isabs(words[0]) and not os.access(words[0], os.X_OK))
