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
    """Accept an invitation by its link, with a token that this machine creates."""
    given = [name for name in ("surface", "kind", "label", "scope") if name in context.values]
    if given:
        raise Usage(f"The invitation sets --{given[0]} itself. Remove --{given[0]}.")
    place, found, code = invitation.strip().partition(INVITE)
    if not place or invitation.startswith(token_format.INVITATION):
        raise Usage(
            "The invitation has no server address. Copy the whole link, such as "
            "https://interlock.example/invite/ili_…"
        )
    url = urlsplit(place)
    if not found or url.scheme not in ("http", "https") or not url.hostname or not code:
        raise Usage(
            "This is not the link of an invitation. Copy the whole link, such as "
            "https://interlock.example/invite/ili_…"
        )
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
        "interlock invite vera --own otto # a person who will own the agent otto",
        "interlock invite otto --surface laptop # the agent otto on another machine",
    ),
)
def invite(context: Context) -> Answer:
    """Create a link with which a person or another machine can join.

    The link works once. A person opens it in a browser and chooses a password. On another machine,
    run interlock join LINK. You never send a token.
    """
    answer = context.call_as_owner(context.request())
    if "://" in context.place:
        return answer | {"link": context.place.rstrip("/") + answer["path"]}
    about = server_of(context.place)
    return answer | ({"link": about.url + answer["path"]} if about is not None else {})
