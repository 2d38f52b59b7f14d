"""Commands about invitations."""

import os
from urllib.parse import urlsplit

from interlock.doors.cli.context import Context
from interlock.doors.cli.grammar import command
from interlock.errors import Usage
from interlock.local.link import server_of
from interlock.rooms.identity import token_format
from interlock.rooms.people.verbs import AcceptInvitation, Invite
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

INVITE = "/invite/"


def join_by_invitation(context: Context, invitation: str) -> Answer:
    """Join by the link of an invitation, with a token that this machine makes."""
    given = [name for name in ("surface", "kind", "label", "scope") if name in context.values]
    if given:
        raise Usage(f"The invitation says who joins; leave --{given[0]} out.")
    place, found, code = invitation.strip().partition(INVITE)
    if not place or invitation.startswith(token_format.INVITATION):
        raise Usage("The server's address is missing: https://interlock.example/invite/ili_…")
    url = urlsplit(place)
    if not found or url.scheme not in ("http", "https") or not url.hostname or not code:
        raise Usage("An invitation is a link such as https://interlock.example/invite/ili_…")
    context.values["workspace"] = place
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    with context.store().slot() as keep:
        request = AcceptInvitation(code.strip("/"), token_format.hashed(token))
        answer = context.link.call(Credentials(), request)
        kept = keep(answer["sender"], token)
    return answer | {"workspace": place, "kept": kept, "token": token}


@command(
    "invite NAME [--surface S] [--own AGENT...] [--kind agent|human] [--ttl D]",
    Invite,
    examples=(
        "interlock invite vera --own otto # vera, who owns otto",
        "interlock invite otto --surface laptop # otto on another machine",
    ),
)
def invite(context: Context) -> Answer:
    """Give a person, or another machine, a link to join by.

    The link is good once. A person opens it in a browser and chooses a password; another machine
    takes it with interlock join LINK. No secret has to be sent around.
    """
    answer = context.call_as_owner(context.request())
    if "://" in context.place:
        return answer | {"link": context.place.rstrip("/") + answer["path"]}
    about = server_of(context.place)
    return answer | ({"link": about.url + answer["path"]} if about is not None else {})
