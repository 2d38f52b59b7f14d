"""Commands about people, and about the clients that they let act for them."""

import os
from urllib.parse import urlsplit

from interlock.doors.cli.context import Context
from interlock.errors import Usage
from interlock.local import workspace
from interlock.local.link import server_of
from interlock.rooms.identity import token_format
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    Invite,
)
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

INVITE = "/invite/"


def invite(context: Context) -> Answer:
    act = Invite(
        context.values["name"],
        context.get("surface"),
        tuple(context.get("own", ())),
        context.get("kind"),
        context.get("ttl"),
    )
    answer = context.call_as_owner(act)
    url = _address(context)
    return answer | ({"link": url + answer["path"]} if url is not None else {})


def _address(context: Context) -> str | None:
    """Where the workspace is served, if it is."""
    if "://" in context.place:
        return context.place.rstrip("/")
    about = server_of(context.place)
    return about.url if about is not None else None


def join_by(context: Context, link: str) -> Answer:
    """Joins by an invitation's link, as whom it says, with a token that this machine makes."""
    given = [name for name in ("surface", "kind", "label", "scope") if name in context.values]
    if given:
        raise Usage(f"The invitation says who joins; leave --{given[0]} out.")
    place, code = _parsed(link)
    context.values["workspace"] = place
    token = token_format.compose(os.urandom(token_format.SECRET_BYTES))
    context.link.open()
    with workspace.CredentialStore(context.link.home).slot() as slot:
        act = AcceptInvitation(code, token_format.hashed(token))
        answer = context.link.call(Credentials(), act)
        kept = slot.keep(answer["sender"], token)
    return answer | {"workspace": place, "kept": kept, "token": token}


def _parsed(link: str) -> tuple[str, str]:
    before, found, code = link.strip().partition(INVITE)
    if not before or link.startswith(token_format.INVITATION):
        raise Usage("The server's address is missing: https://interlock.example/invite/ili_…")
    url = urlsplit(before)
    if not found or url.scheme not in ("http", "https") or not url.hostname or not code:
        raise Usage("An invitation is a link such as https://interlock.example/invite/ili_…")
    return before, code.strip("/")
