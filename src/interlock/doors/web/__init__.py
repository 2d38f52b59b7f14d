"""The web door: a dashboard for the owner of the workspace, and the pages where other people join,
sign in, and choose which clients act for them.

The server makes complete pages; one small script keeps the dashboard current. This is not a second
API: programs use HTTP or MCP. Nothing here decides anything. Only the owner sees the dashboard, and
a person sees only what is their own.
"""

from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from interlock.doors.web.browsers import OwnerCookies
from interlock.doors.web.consent import Consent
from interlock.doors.web.pages import Pages
from interlock.doors.web.people import People
from interlock.doors.web.rendering import Assets, Templates
from interlock.node.live import LiveNode


def notices(live: LiveNode) -> Callable[[str, str, int], Response]:
    """Return a function that makes a page with only a message, for people at another door."""
    return People(live, Templates(Assets())).notice


def routes(live: LiveNode, *, owner: Callable[[str], bool], key: bytes) -> list[BaseRoute]:
    """Return the route of every page. `owner` says whether a token is the owner's, in constant
    time. `key` has 32 secret bytes; a new key signs every browser of the owner out."""
    assets = Assets()
    templates = Templates(assets)
    pages = Pages(live, owner, OwnerCookies(key), templates)
    people = People(live, templates)
    consent = Consent(people)
    owners, guarded = pages.guarded, people.guarded
    connection = "/person/connections/{id}"
    return [
        Route("/invite/{code}", guarded(people.invitation), methods=["GET", "POST"]),
        Route("/person", guarded(people.overview), methods=["GET"]),
        Route("/person/sign-in", guarded(people.to_overview), methods=["GET"]),
        Route("/person/sign-in", guarded(people.sign_in), methods=["POST"]),
        Route("/person/sign-out", guarded(people.sign_out), methods=["POST"]),
        Route("/person/password", guarded(people.change_password), methods=["POST"]),
        Route(f"{connection}/revoke", guarded(people.revoke), methods=["POST"]),
        Route(f"{connection}/name", guarded(people.rename), methods=["POST"]),
        Route("/consent", guarded(consent.ask), methods=["GET"]),
        Route("/consent", guarded(consent.answer), methods=["POST"]),
        Route("/", owners(pages.page("Now", "header", "agents", "claims", "mail"))),
        Route("/work", owners(pages.page("Work", "header", "work", "ended"))),
        Route("/review", owners(pages.page("Review", "header", "review"))),
        Route("/mail/{id}", owners(pages.single("message", "Now"))),
        Route("/work/{id}", owners(pages.single("task", "Work"))),
        Route("/evidence/{id}", owners(pages.single("evidence", "Work"))),
        Route("/parts/{kind}/{id}", owners(pages.single_part)),
        Route("/parts/{name}", owners(pages.part)),
        Route("/live", owners(pages.stream)),
        Route("/sign-in", owners(pages.to_front), methods=["GET"]),
        Route("/sign-in", owners(pages.sign_in), methods=["POST"]),
        Route("/sign-out", owners(pages.sign_out), methods=["POST"]),
        Route("/static/{name}", assets.serve),
    ]
