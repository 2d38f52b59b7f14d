"""Who a client is to act as, and a credential for it.

Whoever is named; else who acts already, inside an agent's session; else the one agent that has
joined here and is no other client's; else a sender called after the client, which joins.
"""

from collections.abc import Mapping
from typing import NamedTuple

from interlock import workspace
from interlock.contracts import acts
from interlock.contracts.addresses import address
from interlock.errors import NameTaken, UnknownSender
from interlock.link import Link
from interlock.setup import records
from interlock.setup.clients import CLIENTS, client_named


class Sender(NamedTuple):
    """A sender, and whether it is still to be made, or given a credential."""

    name: str
    is_new: bool


def choose(
    link: Link, environ: Mapping[str, str], client: str, named: str | None, session: str | None
) -> Sender:
    """Who it is to be. Nothing is made, so that a change can be shown first."""
    store = workspace.CredentialStore(link.home)
    inside = environ.get("INTERLOCK_TOKEN") or environ.get("INTERLOCK_SESSION")
    if inside or named is not None or session is not None:
        credentials = workspace.who_acts(
            link, environ, named=named, session=session, owner_may=False
        )
        return Sender(_acting(link, credentials, store), is_new=False)
    own = client_named(client).NAME
    if store.get(own):
        return Sender(own, is_new=False)
    others = _of_other_clients(link.home, client)
    free = [sender for sender in store.senders() if sender not in others]
    agents = [
        kept.sender
        for kept in filter(None, map(store.get, free))
        if _is_agent(link, acts.Credentials(token=kept.token), kept.sender)
    ]
    return Sender(agents[0], is_new=False) if len(agents) == 1 else Sender(own, is_new=True)


def make(link: Link, environ: Mapping[str, str], sender: Sender) -> None:
    """Lets the sender join, and keeps its token where hooks and servers find it. One that has
    joined from elsewhere gets a token for here."""
    credentials = workspace.who_acts(link, environ, named=None, session=None, owner_may=True)
    link.open()
    with workspace.CredentialStore(link.home).slot() as slot:
        try:
            answer = link.call(credentials, acts.Join(sender.name))
        except NameTaken:
            if not _is_agent(link, credentials, sender.name):
                raise
            answer = link.call(credentials, acts.MintToken(sender.name))
        slot.keep(answer["sender"], answer["token"])


def _acting(link: Link, credentials: acts.Credentials, store: workspace.CredentialStore) -> str:
    name = str(link.call(credentials, acts.Whoami())["sender"])
    if store.get(name) is None:
        raise UnknownSender(
            f"{address(name)} acts here by a token that is not kept in the workspace, where a "
            f"client's hooks would look for it. Outside of the session: interlock token mint "
            f"--sender {name} --keep",
            senders=[address(kept) for kept in store.senders()],
        )
    return name


def _of_other_clients(home: str, client: str) -> set[str]:
    taken = {record.sender for record in records.every(home) if record.client != client}
    return taken | {client_named(other).NAME for other in CLIENTS if other != client}


def _is_agent(link: Link, credentials: acts.Credentials, sender: str) -> bool:
    """A client never acts as a person, even where only a person has joined."""
    found = link.call(credentials, acts.ListAgents(sender))["agents"]
    return any(agent["kind"] == "agent" for agent in found)
