"""The web door: a dashboard for the person whose workspace it is.

Pages are made on the server and hold everything by themselves; one small script keeps them
current. It is no second API: programs use HTTP or MCP. Nothing here decides anything, and
nothing is shown to anybody but the owner.
"""

from collections.abc import Callable

from starlette.routing import BaseRoute, Route

from interlock.doors.web.assets import Assets
from interlock.doors.web.pages import Pages
from interlock.doors.web.passes import Passes
from interlock.node.live import LiveNode


def routes(live: LiveNode, *, owner: Callable[[str], bool], key: bytes) -> list[BaseRoute]:
    """The dashboard's pages. `owner` says whether a token is the owner's, and takes the same time
    whatever it is shown; whoever changes `key`, 32 secret bytes, signs every browser out."""
    assets = Assets()
    pages = Pages(live, owner, Passes(key), assets)
    return [
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
