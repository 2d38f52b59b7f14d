"""Who a client is to act as, and a credential for it.

Whoever is named; else who acts already, inside an agent's session; else who the client's files name
already; else the one agent that has joined here and is no other client's; else a sender called
after the client, which joins. To look leaves no trace: on this machine the owner looks.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from interlock.agents.setup import records
from interlock.agents.setup.clients import CLIENTS, client_named
from interlock.errors import NameTaken, Refusal, UnknownSender, Usage
from interlock.local import workspace
from interlock.local.link import Link
from interlock.local.windows import surrounding
from interlock.rooms.identity.verbs import Join, ListAgents, MintToken
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.addresses import address
from interlock.verbs.credentials import Credentials

AGENT = "agent"


class Sender(NamedTuple):
    """A sender, and whether it is still to be made, or given a credential."""

    name: str
    is_new: bool


def choose(
    link: Link,
    environ: Mapping[str, str],
    client: str,
    *,
    named: str | None,
    session: str | None,
    configured: str | None,
) -> Sender:
    """Who it is to be. Nothing is made, so that a change can be shown first. A person is refused,
    unless nothing can be asked."""
    inside = environ.get("INTERLOCK_TOKEN") or environ.get("INTERLOCK_SESSION")
    store = workspace.CredentialStore(link.home)
    if inside or session is not None or (named is not None and surrounding(link.home)):
        credentials = workspace.who_acts(
            link, environ, named=named, session=session, owner_may=False
        )
        name = _acting(link, credentials, store)
    elif named is not None:
        name = workspace.kept(link, named).sender
    else:
        return _unnamed(link, environ, client, store, configured)
    if name in _agents(link, store, [name]):
        return Sender(name, is_new=False)
    raise Usage(
        f"{address(name)} is a person, and {client_named(client).TITLE} is to act as an agent. "
        f"Make one and name it: interlock join NAME && interlock setup {client} --from NAME",
        sender=address(name),
    )


def _unnamed(
    link: Link,
    environ: Mapping[str, str],
    client: str,
    store: workspace.CredentialStore,
    configured: str | None,
) -> Sender:
    own = client_named(client).NAME
    kept = store.senders()
    if configured is not None and configured in _agents(link, store, [configured]):
        return Sender(configured, is_new=configured not in kept)
    if own in kept:
        return Sender(own, is_new=False)
    others = _of_other_clients(records.shelf(link.home, environ), client)
    agents = _agents(link, store, [sender for sender in kept if sender not in others])
    return Sender(agents[0], is_new=False) if len(agents) == 1 else Sender(own, is_new=True)


def make(link: Link, environ: Mapping[str, str], sender: Sender) -> None:
    """Lets the sender join, and keeps its token where hooks and servers find it. One that has
    joined from elsewhere gets a token for here."""
    credentials = workspace.who_acts(link, environ, named=None, session=None, owner_may=True)
    link.open()
    with workspace.CredentialStore(link.home).slot() as slot:
        try:
            answer = link.call(credentials, Join(sender.name))
        except NameTaken:
            if _kinds(link, credentials).get(sender.name) != AGENT:
                raise
            answer = link.call(credentials, MintToken(sender.name))
        slot.keep(answer["sender"], answer["token"])


def _acting(link: Link, credentials: Credentials, store: workspace.CredentialStore) -> str:
    name = str(link.call(credentials, Whoami())["sender"])
    if store.get(name) is None:
        raise UnknownSender(
            f"{address(name)} acts here by a token that is not kept in the workspace, where a "
            f"client's hooks would look for it. Outside of the session: interlock token mint "
            f"--sender {name} --keep",
            senders=[address(kept) for kept in store.senders()],
        )
    return name


def _of_other_clients(shelf: records.Shelf, client: str) -> set[str]:
    taken = {record.sender for record in records.every(shelf) if record.client != client}
    return taken | {client_named(other).NAME for other in CLIENTS if other != client}


def _agents(link: Link, store: workspace.CredentialStore, senders: Sequence[str]) -> list[str]:
    """Those of the senders that are no persons: a client never acts as one, even where only a
    person has joined. Nobody has joined a workspace that is not there, and none is made. A server
    elsewhere is asked with one of the senders' own tokens, and may not know it."""
    kept = store.senders()
    if not senders or not kept:
        return list(senders)
    token = next((each.token for each in map(store.get, senders) if each), None)
    try:
        kinds = _kinds(
            link, Credentials(token=None if link.is_local else token, owner=link.is_local)
        )
    except Refusal:
        if link.is_local:
            raise
        return list(senders)
    return [sender for sender in senders if kinds.get(sender, AGENT) == AGENT]


def _kinds(link: Link, credentials: Credentials) -> dict[str, str]:
    found = link.call(credentials, ListAgents())["agents"]
    return {agent["address"].removeprefix("@"): agent["kind"] for agent in found}
