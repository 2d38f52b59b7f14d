"""The web door: the owner's dashboard, the pages where other people join, sign in, and choose which
clients act for them, and the documentation.

The server renders complete pages. One small script keeps the dashboard current. Programs use HTTP
or MCP instead of these pages. The door contains no rules: it calls verbs. Only the owner sees the
dashboard. A person sees only their own agents, connections, sessions and tokens.
Every caller may read the documentation.
"""

from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from interlock.doors.web import documentation
from interlock.doors.web.browsers import OwnerCookies
from interlock.doors.web.consent import Consent
from interlock.doors.web.pages import Pages
from interlock.doors.web.people import People
from interlock.doors.web.rendering import Assets, Templates
from interlock.node.live import LiveNode


def notices(live: LiveNode) -> Callable[[str, str, int], Response]:
    """Return a function that renders a page with only a message, for use by other doors."""
    return People(live, Templates(Assets())).notice


def routes(live: LiveNode, *, owner: Callable[[str], bool], key: bytes) -> list[BaseRoute]:
    """Return the routes of all pages. `owner` checks in constant time whether a token is the
    owner's. `key` has 32 secret bytes. A new key signs the owner out in every browser."""
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
        *documentation.routes(),
    ]
