"""The web door: a dashboard for the person whose workspace it is, and the pages where other people
join, sign in, and say what may act for them.

Pages are made on the server and hold everything by themselves; one small script keeps the
dashboard current. It is no second API: programs use HTTP or MCP. Nothing here decides anything.
The dashboard is shown to nobody but the owner, and to people only what is their own.
"""

from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from interlock.doors.web.assets import Assets
from interlock.doors.web.consent import Consent
from interlock.doors.web.pages import Pages
from interlock.doors.web.passes import Passes
from interlock.doors.web.people import People
from interlock.doors.web.rendering import Templates
from interlock.doors.web.visitors import Visitors
from interlock.node.live import LiveNode


def notices(live: LiveNode) -> Callable[[str, str, int], Response]:
    """Makes pages that only say something, for doors that people come to by mistake."""
    return Visitors(live, Templates(Assets())).notice


def routes(live: LiveNode, *, owner: Callable[[str], bool], key: bytes) -> list[BaseRoute]:
    """Every page. `owner` says whether a token is the owner's, and takes the same time
    whatever it is shown; whoever changes `key`, 32 secret bytes, signs every browser out."""
    assets = Assets()
    pages = Pages(live, owner, Passes(key), assets)
    visitors = Visitors(live, Templates(assets))
    return [
        *_people(visitors),
        Route("/", pages.guarded(pages.dashboard)),
        Route("/work", pages.guarded(pages.work)),
        Route("/review", pages.guarded(pages.review)),
        Route("/mail/{id}", pages.guarded(pages.single("message", "Now"))),
        Route("/work/{id}", pages.guarded(pages.single("task", "Work"))),
        Route("/evidence/{id}", pages.guarded(pages.single("evidence", "Work"))),
        Route("/parts/{kind}/{id}", pages.guarded(pages.single_part)),
        Route("/parts/{name}", pages.guarded(pages.part)),
        Route("/live", pages.guarded(pages.stream)),
        Route("/sign-in", pages.guarded(pages.to_front), methods=["GET"]),
        Route("/sign-in", pages.guarded(pages.sign_in), methods=["POST"]),
        Route("/sign-out", pages.guarded(pages.sign_out), methods=["POST"]),
        Route("/static/{name}", assets.serve),
    ]


def _people(visitors: Visitors) -> list[BaseRoute]:
    people, consent, guarded = People(visitors), Consent(visitors), visitors.guarded
    connection = "/person/connections/{id}"
    return [
        Route("/invite/{code}", guarded(people.invitation), methods=["GET"]),
        Route("/invite/{code}", guarded(people.join), methods=["POST"]),
        Route("/person", guarded(people.overview), methods=["GET"]),
        Route("/person/sign-in", guarded(people.to_overview), methods=["GET"]),
        Route("/person/sign-in", guarded(people.sign_in), methods=["POST"]),
        Route("/person/sign-out", guarded(people.sign_out), methods=["POST"]),
        Route("/person/password", guarded(people.change_password), methods=["POST"]),
        Route(f"{connection}/revoke", guarded(people.revoke), methods=["POST"]),
        Route(f"{connection}/name", guarded(people.rename), methods=["POST"]),
        Route("/consent", guarded(consent.ask), methods=["GET"]),
        Route("/consent", guarded(consent.answer), methods=["POST"]),
    ]
