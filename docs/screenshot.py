"""Take the screenshots of the documentation.

    .venv/bin/python docs/screenshot.py [NAME]...

NAME is `dashboard`, `dashboard-dark` or `dashboard-task` for docs/dashboard.md, or `consent` for
docs/connectors.md. Without a name, the script takes all of them. It records a day of three agents
and a person in a temporary workspace with a manual clock. It serves the web pages as `interlock up`
does.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, sync_playwright
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from interlock.doors.web import routes
from interlock.log.encoding import digest
from interlock.node import Node
from interlock.node.keys import Seals
from interlock.node.live import LiveNode
from interlock.rooms.claims.verbs import AcquireClaim
from interlock.rooms.identity.token_format import INVITATION, SECRET_BYTES, compose, hashed
from interlock.rooms.identity.verbs import Join
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    ListInbox,
    PutChunk,
    ReadMessage,
    SendMessage,
)
from interlock.rooms.people.verbs import Invite
from interlock.rooms.work.verbs import (
    AddEvidence,
    CompleteTask,
    CreateGate,
    CreateTask,
    GiveVerdict,
    SubmitTask,
    TakeTask,
)
from interlock.verbs.credentials import Credentials

DOCS = Path(__file__).parent
MINUTE = 60_000
SESSION = "run-5be2c1"
OWNER = Credentials(owner=True)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]

PICTURES = (
    ("/", "light", "dashboard"),
    ("/", "dark", "dashboard-dark"),
    ("/work/B-0444", "light", "dashboard-task"),
)
CONSENT = "consent"
PUBLIC = "http://interlock.example"
ASKED = {
    "client": "https://claude.ai/oauth/client.json",
    "client_name": "Claude",
    "redirect_uri": "https://claude.ai/api/mcp/auth_callback",
    "challenge": "c" * 43,
    "resource": f"{PUBLIC}/mcp",
    "scopes": ["mail", "claim", "work"],
    "issuer": PUBLIC,
}
BRIEF = """\
People click twice when the answer is slow, and are charged twice.

The button makes one key for each order. The server answers a repeated key with the first answer.
The rest of the checkout does not change.
"""


class Day:
    """Makes requests in a workspace, at times in the past."""

    def __init__(self, directory: str) -> None:
        self.now = int(time.time() * 1000)
        self.at: int | None = self.now - 300 * MINUTE
        self.directory = directory
        self.node = Node(directory, clock=self.clock)
        self.tokens: dict[str, str] = {}
        self.sent: dict[str, str] = {}

    def clock(self) -> int:
        return self.at if self.at is not None else int(time.time() * 1000)

    def join(self, name: str, surface: str | None = None, kind: str | None = None) -> None:
        token = compose(os.urandom(SECRET_BYTES))
        joined = self.node.call(
            OWNER, Join(name, surface=surface, kind=kind, token_hash=hashed(token))
        )
        self.tokens[joined["sender"]] = token

    def does(self, ago: float, sender: str, request: Any, session: str | None = None) -> Any:
        """Make a request as a sender, `ago` minutes before now."""
        self.at = self.now - int(ago * MINUTE)
        return self.node.call(Credentials(self.tokens[sender], session), request)

    def mail(
        self, ago: float, sender: str, to: str, text: str, type: str = "send", **more: Any
    ) -> str:
        member = {"ask": "question", "command": "command", "blocker": "what"}.get(type, "text")
        payload = {member: text} | more.pop("payload", {})
        answer = self.does(ago, sender, SendMessage(to, payload, type, **more))
        return str(answer["message"]["id"])

    def ran(
        self, ago: float, sender: str, tree: str, exit_code: int, tests: dict[str, int]
    ) -> None:
        """Record a run for the first criterion of B-0444. `tree` has four digits, which repeat
        to form a full hash."""
        counts = ", ".join(f"{number} {what}" for what, number in tests.items())
        output = f"{'.' * 41}\n{counts} in 3.12s\n".encode()
        payload = {
            "kind": "run",
            "task_id": "B-0444",
            "criterion": 1,
            "command": ["pytest", "-q", "tests/checkout"],
            "cwd": ".",
            "exit_code": exit_code,
            "duration_ms": 3480,
            "commit": tree * 10,
            "tree": tree * 10,
            "dirty": False,
            "tests": tests,
            "output": {"sha256": digest(output), "size": len(output)},
        }
        upload = self.does(ago, sender, PutChunk(output, len(output)), SESSION)["upload"]
        self.does(ago, sender, AddEvidence(payload, upload), SESSION)

    def seen(self, **minutes: float) -> None:
        for sender, ago in minutes.items():
            file = os.path.join(self.directory, "presence", sender.replace("_", "-"))
            at = self.now / 1000 - ago * 60
            os.utime(file, (at, at))


def play(day: Day) -> None:
    for name, surface, kind in (
        ("otto", "cli", None),
        ("otto", "desktop", None),
        ("neo-gpt", None, None),
        ("iris", None, None),
        ("vera", None, "human"),
    ):
        day.join(name, surface, kind)
    day.node.call(OWNER, CreateGate("review", ("vera",)))
    day.node.call(OWNER, CreateGate("wording", ("iris", "vera")))
    morning(day)
    work(day)
    afternoon(day)
    day.seen(otto_cli=0.5, otto_desktop=26, neo_gpt=3, vera=7)
    day.at = None


def morning(day: Day) -> None:
    plan = day.mail(
        212,
        "vera",
        "AGENT:*",
        "Today: the checkout must survive a double click (B-0444), and the invoices move to the "
        "new tax rates. Claim before you change anything, and ask me rather than guess.",
        subject="Plan for today",
    )
    for ago, sender in ((210, "otto-cli"), (208, "neo-gpt"), (205, "iris")):
        day.does(ago, sender, ListInbox())
        day.does(ago, sender, ReadMessage(plan))
        day.does(ago, sender, AckMessages((plan,)))
    took = day.mail(204, "otto-cli", "@vera", "I take B-0444.", reply_to=plan)
    day.does(198, "vera", ReadMessage(took))
    day.does(198, "vera", AckMessages((took,)))
    ask = day.mail(
        96,
        "neo-gpt",
        "@vera",
        "Are invoices before July kept at the old rate, or converted?",
        "ask",
        payload={"options": ["keep the old rate", "convert"]},
        subject="Tax rates of old invoices",
    )
    day.does(90, "vera", ReadMessage(ask))
    day.does(89, "vera", AnswerAsk(ask, "Keep them. They are documents."))
    day.does(88, "neo-gpt", ListInbox())
    more = day.mail(74, "vera", "@iris", "Can you take B-0451 as well?")
    day.does(71, "iris", ReadMessage(more))
    day.does(71, "iris", AckMessages((more,), decline=True, note="Not before Thursday."))


def work(day: Day) -> None:
    """Create tasks in every state. The gate review failed B-0444 once. The fixed commit waits for
    its verdict."""
    for id, title, gates in (
        ("B-0444", "The checkout survives a double click", ("review", "wording")),
        ("B-0449", "Invoices use the new tax rates", ("review",)),
        ("B-0451", "Say on the receipt who sold it", ()),
        ("B-0430", "Remember the basket for a week", ()),
    ):
        criteria = ("The tests of the checkout pass", "The error page says what happened")
        brief = BRIEF if id == "B-0444" else None
        day.does(70, "vera", CreateTask(title, id, brief, criteria[: len(gates)], gates))
    day.does(69, "neo-gpt", TakeTask("B-0430"))
    day.does(68.5, "neo-gpt", SubmitTask("B-0430", "51ce" * 10, "27d0" * 10))
    day.does(68, "neo-gpt", CompleteTask("B-0430"))
    day.does(67, "neo-gpt", TakeTask("B-0449", branch="tax-rates", ttl_s=7200))
    take = TakeTask("B-0444", "fix/double-checkout", "../shop-checkout", ttl_s=7200)
    day.does(66, "otto-cli", take, SESSION)
    day.ran(63, "otto-cli", "3f1a", exit_code=1, tests={"passed": 40, "failed": 1})
    day.ran(61, "otto-cli", "4f1c", exit_code=0, tests={"passed": 41})
    day.does(60, "otto-cli", SubmitTask("B-0444", "4f1c" * 10, "4f1c" * 10), SESSION)
    day.does(
        58,
        "vera",
        GiveVerdict(
            "B-0444",
            "review",
            "fail",
            note="A second order is made when the first answer is slow.",
            fix=("pytest -q tests/checkout -k slow_answer",),
        ),
    )
    day.ran(55, "otto-cli", "9be7", exit_code=0, tests={"passed": 44})
    note = {"kind": "note", "task_id": "B-0444", "criterion": 2, "text": "Iris has read the page."}
    attached = day.does(54.6, "otto-cli", AddEvidence(note), SESSION)["evidence"]["id"]
    day.does(54, "otto-cli", SubmitTask("B-0444", "9be7" * 10, "9be7" * 10), SESSION)
    day.does(53, "iris", GiveVerdict("B-0444", "wording", "pass", evidence=(attached,)))


def afternoon(day: Day) -> None:
    day.does(
        41,
        "neo-gpt",
        AcquireClaim(
            paths=("src/invoices/**", "tests/test_invoices.py"),
            repo="acme/shop",
            branch="tax-rates",
            ttl_s=7200,
        ),
    )
    day.does(30, "vera", AcquireClaim(item="release-4.2", ttl_s=86_400, note="Only I merge"))
    day.does(23, "iris", AcquireClaim(item="docs/checkout.md", ttl_s=1600, note="Wording"))
    day.mail(40, "neo-gpt", "@vara", "Which rate has the shop in Basel?", ttl_s=900)
    blocker = day.mail(
        34,
        "otto-cli",
        "@neo-gpt",
        "tests/test_invoices.py fails on main since 4f1c2aa: the rounding of 19 % of 0.50.",
        "blocker",
        payload={"severity": "stop", "fix": ["pytest -q tests/test_invoices.py"]},
        priority="high",
    )
    day.does(31, "neo-gpt", ListInbox())
    day.does(31, "neo-gpt", ReadMessage(blocker))
    day.does(22, "neo-gpt", AckMessages((blocker,), note="Fixed in 9be77d0."))
    command = day.mail(
        19,
        "vera",
        "@otto-cli",
        "git rebase origin/main && pytest -q tests/checkout",
        "command",
        payload={"why": "main is green again"},
    )
    day.does(17, "otto-cli", ListInbox())
    day.does(17, "otto-cli", ReadMessage(command))
    review = day.mail(
        12,
        "otto-cli",
        "@iris",
        "Please read the text of the new error page. The second sentence promises a refund, and I "
        "do not know whether we can. Customers see the page src/checkout/errors.html, and the "
        "support team answers from docs/checkout.md. The whole page follows, so you need not check "
        "it out.\n\n" + "<p>Your order was received once, however often you clicked.</p>\n" * 40,
        subject="Wording of the error page",
    )
    day.does(9, "iris", ListInbox())
    day.does(9, "iris", ReadMessage(review))
    day.mail(6, "neo-gpt", "@otto", "Rates are in; main is green at 9be77d0.")
    day.does(5, "otto-desktop", ListInbox())
    day.mail(2, "iris", "@vera", "May the error page promise a refund?", "ask")
    day.mail(0.4, "otto-cli", "@vera", "B-0444 is ready for your eyes: fix/double-checkout.")


@contextmanager
def served(day: Day, token: str) -> Iterator[str]:
    """Serve the web door of the day's workspace on a free port."""
    listening = threading.Event()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with LiveNode(day.node) as live:
            app.router.routes += routes(live, owner=token.__eq__, key=os.urandom(32))
            with live.node.presence.listening("iris"):
                yield

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            listening.set()

    app = Starlette(lifespan=lifespan)

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        """Set the server's address in the scope, as the guard of the HTTP door does."""
        scope["interlock.base"] = PUBLIC
        await app(scope, receive, send)

    config = uvicorn.Config(known, port=0, log_level="warning", timeout_graceful_shutdown=1)
    server = Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    listening.wait(30)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def show_board(browser: Browser, url: str, token: str, names: list[str]) -> None:
    for path, scheme, name in PICTURES:
        if name not in names:
            continue
        page = browser.new_page(
            viewport={"width": 1280, "height": 800},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        page.goto(f"{url}/#token={token}")
        page.wait_for_selector("#line[data-state=live]")
        page.goto(f"{url}{path}")
        page.wait_for_selector("#line[data-state=live]")
        page.screenshot(path=DOCS / f"{name}.png")
        page.close()


def show_consent(browser: Browser, day: Day, invitation: str) -> None:
    """Sign in as Vera with her invitation, and take the consent page."""
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.goto(f"{PUBLIC}/invite/{invitation}")
    for field in ("password", "again"):
        page.fill(f"#{field}", "every good boy deserves favour")
    page.get_by_role("button", name="Join").click()
    page.wait_for_url(f"{PUBLIC}/person*")
    page.goto(f"{PUBLIC}/consent?request={Seals(day.node.keys).seal('authorization', ASKED)}")
    page.wait_for_selector("text=Allow")
    page.screenshot(path=DOCS / f"{CONSENT}.png", full_page=True)
    page.close()


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is not on the PATH. Install it, for example with .ci/programs.")
    names = sys.argv[1:] or [name for _, _, name in PICTURES] + [CONSENT]
    token = compose(os.urandom(SECRET_BYTES))
    invitation = compose(os.urandom(SECRET_BYTES), INVITATION)
    with tempfile.TemporaryDirectory() as above, sync_playwright() as playwright:
        os.chdir(above)
        os.makedirs("shop/.interlock")
        day = Day("shop/.interlock")
        play(day)
        day.node.call(OWNER, Invite("vera", own=("otto",), code_hash=hashed(invitation)))
        with served(day, token) as url:
            named = f"--host-resolver-rules=MAP interlock.example:80 {url.partition('//')[2]}"
            browser = playwright.chromium.launch(executable_path=chromium, args=[*ARGUMENTS, named])
            show_board(browser, url, token, names)
            if CONSENT in names:
                show_consent(browser, day, invitation)
            browser.close()
        day.node.close()


if __name__ == "__main__":
    main()
