"""Choose the sender that a client acts as, and store a credential for it.

`choose` takes the first of these that exists:

1. the sender that the user names, or the sender of the session that the command runs in
2. the sender in the client's files
3. the sender with the client's name
4. the only agent with a stored credential that belongs to no other client
5. a new sender with the client's name
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from interlock.agents import CLIENTS
from interlock.agents.setup import records
from interlock.agents.setup.clients import client_named
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
    """A sender. If it `is_new`, `make` must create it or its credential."""

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
    """Choose the sender. Create nothing, so that setup can show its plan first. Raise Usage for a
    person, and UnknownSender for a sender without a stored token."""
    inside = environ.get("INTERLOCK_TOKEN") or environ.get("INTERLOCK_SESSION")
    store = workspace.CredentialStore(link.home)
    kept = store.senders()
    if inside or session is not None or (named is not None and surrounding(link.home)):
        credentials = workspace.who_acts(
            link, environ, named=named, session=session, owner_may=False
        )
        name = str(link.call(credentials, Whoami())["sender"])
        if store.get(name) is None:
            raise UnknownSender(
                f"The workspace does not store the token of {address(name)}, and the client's "
                f"hooks need it. Run outside of this session: interlock token mint --sender {name} "
                "--keep",
                senders=[address(sender) for sender in kept],
            )
    elif named is not None:
        name = workspace.kept(link, named).sender
    else:
        own = client_named(client).NAME
        if configured is not None and configured in _agents(link, store, [configured]):
            return Sender(configured, is_new=configured not in kept)
        if own in kept:
            return Sender(own, is_new=False)
        shelf = records.shelf(link.home, environ)
        others = {client_named(other).NAME for other in CLIENTS if other != client}
        others |= {record.sender for record in shelf.every() if record.client != client}
        agents = _agents(link, store, [sender for sender in kept if sender not in others])
        return Sender(agents[0], is_new=False) if len(agents) == 1 else Sender(own, is_new=True)
    if name in _agents(link, store, [name]):
        return Sender(name, is_new=False)
    raise Usage(
        f"{address(name)} is a person, but {client_named(client).TITLE} must act as an agent. "
        f"Create an agent and use it: interlock join NAME && interlock setup {client} --from NAME",
        sender=address(name),
    )


def make(link: Link, environ: Mapping[str, str], sender: Sender) -> None:
    """Let the sender join, and store its token where hooks and servers find it. If the sender has
    joined already, mint a new token. Raise NameTaken if the name is a person's."""
    credentials = workspace.who_acts(link, environ, named=None, session=None, owner_may=True)
    link.open()
    with workspace.CredentialStore(link.home).slot() as keep:
        try:
            answer = link.call(credentials, Join(sender.name))
        except NameTaken:
            if _kinds(link, credentials).get(sender.name) != AGENT:
                raise
            answer = link.call(credentials, MintToken(sender.name))
        keep(answer["sender"], answer["token"])


def _agents(link: Link, store: workspace.CredentialStore, senders: Sequence[str]) -> list[str]:
    """Return the senders that are not people. The owner reads the kinds of a local workspace. A
    remote server needs a sender's token: if it refuses the token, return all senders."""
    if not senders or not store.senders():
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
