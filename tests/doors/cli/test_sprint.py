"""A sprint in a real repository, from the brief to the end. The worker takes the task, the gate
fails it, the blocker wakes the worker, who fixes it, the gate passes it, and it is completed. One
test uses commands, the other MCP tools."""

import asyncio
import html
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from world.commandline import LIMIT_S, Place, lines, until
from world.event_streams import Stream
from world.fork_server import Servers
from world.mcp_clients import Caller, awaited
from world.server import ForkedServer
from world.tooling import Clients
from world.working import BRIEF, GATE, HOLDER, TASK, Workshop

pytestmark = pytest.mark.every_engine

SESSION = "otto-cli-1"
FIX = "echo 'echo hello' > greet.sh"
SAYS_HELLO = ("sh", "-c", "sh greet.sh | grep hello")
STORY = [
    ("task_created", "@vera"),
    ("message_sent", "@vera"),  # to otto, the assignee
    ("task_taken", "@otto-cli"),
    ("message_sent", "@otto-cli"),  # to vera, who created the task
    ("evidence_added", "@otto-cli"),
    ("task_submitted", "@otto-cli"),
    ("message_sent", "@otto-cli"),  # to vera, whose verdict is due
    ("verdict_given", "@vera"),
    ("message_sent", "@vera"),  # the blocker
    ("evidence_added", "@otto-cli"),
    ("task_submitted", "@otto-cli"),
    ("message_sent", "@otto-cli"),
    ("verdict_given", "@vera"),
    ("blocker_resolved", "@interlock"),
    ("message_sent", "@vera"),  # the verdict
    ("task_ended", "@otto-cli"),
    ("claim_released", "@otto-cli"),
    ("message_sent", "@otto-cli"),  # to vera, who created the task
]


# --- with commands


@contextmanager
def session_of(shop: Workshop) -> Iterator[Workshop]:
    """Yield a workshop inside one session of `interlock run`, like a client's shell."""
    telling = 'echo "$INTERLOCK_SESSION $INTERLOCK_TOKEN"; cat'
    with shop.place.start("run", "otto-cli", "--", "sh", "-c", telling) as client:
        try:
            session, token = next(lines(client)).split()
            yield shop.but(INTERLOCK_SESSION=session, INTERLOCK_TOKEN=token)
            client.communicate(timeout=LIMIT_S)
            assert client.returncode == 0
        finally:
            client.kill()


def handled(otto: Workshop) -> None:
    """Acknowledge all mail, so that the worker waits for more."""
    for message in otto.place.ok("inbox")["messages"]:
        otto.place.ok("ack", message["id"])


@contextmanager
def waiting(otto: Workshop) -> Iterator[list[Any]]:
    """Let the worker wait in its inbox during the block. Then the list has the mail that woke
    it."""
    handled(otto)
    woken: list[Any] = []
    with otto.place.start("inbox", "--wait", f"{LIMIT_S:.0f}s", "--json") as child:
        try:
            until(lambda: otto.is_waiting("@otto-cli"))
            yield woken
            out, err = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert (child.returncode, err) == (0, b"")
    woken += json.loads(out)["messages"]


def proven(otto: Workshop, *command: str) -> Any:
    done = otto.run("--task", TASK, "--criterion", "1", "--json", "--", *command)
    assert done.status == 0, done
    return done.json


def test_sprint_with_commands_passes_its_gate(shop: Workshop) -> None:
    vera = shop.place
    made = vera.ok("task", "import", "-", *HOLDER, stdin=BRIEF.encode())["task"]
    assert (made["id"], made["state"], made["gates"]) == (TASK, "open", [GATE])
    with session_of(shop) as otto:
        first = _submit_first(otto)
        with waiting(otto) as woken:
            _fail(vera, first)
        fixed = _fix(otto, woken)
        with waiting(otto) as woken:
            vera.ok("gate", "pass", TASK, GATE, "--commit", fixed, *HOLDER)
        assert [message["type"] for message in woken] == ["gate_verdict"]
        ended = otto.place.ok("task", "complete", TASK)
        assert (ended["completed"], ended["task"]["state"]) == (True, "done")
    _check_outcome(shop, first, fixed)


def _submit_first(otto: Workshop) -> str:
    taken = otto.place.ok("task", "take", TASK)
    assert taken["claim"]["session"] == otto.place.environ["INTERLOCK_SESSION"]
    assert proven(otto, "sh", "greet.sh")["counts"]
    submitted = otto.place.ok("task", "submit", TASK)
    assert submitted["task"]["artifact"] == {"commit": otto.head, "tree": otto.tree}
    assert [need["what"] for need in submitted["missing"]] == ["gate"]
    return otto.head


def _fail(vera: Place, commit: str) -> None:
    due = vera.ok("whoami", *HOLDER)["verdicts_due"]
    assert [(one["task"], one["gate"], one["commit"]) for one in due] == [(TASK, GATE, commit)]
    words = ("--note", "It says goodbye.", "--fix", FIX)
    failed = vera.ok("gate", "fail", TASK, GATE, *words, *HOLDER)
    assert failed["task"]["state"] == "taken"
    assert failed["blocker"]["to"] == "@otto-cli"


def _fix(otto: Workshop, woken: list[Any]) -> str:
    """Run the fix that the blocker suggests, and submit the task again."""
    (blocker,) = woken
    assert (blocker["type"], blocker["from"]) == ("blocker", "@vera")
    told = {"what": "It says goodbye.", "severity": "stop", "fix": [FIX], "task_id": TASK}
    assert blocker["payload"] == told
    assert otto.tried("sh", "-c", blocker["payload"]["fix"][0]).returncode == 0
    otto.commit()
    assert proven(otto, *SAYS_HELLO)["counts"]
    missing = otto.place.ok("task", "submit", TASK)["missing"]
    assert [need["what"] for need in missing] == ["gate", "blocker"]
    return otto.head


def _check_outcome(shop: Workshop, first: str, fixed: str) -> None:
    """Check the history, the evidence, the claims, the report and the log."""
    shown = shop.show()
    assert [(fact["kind"], fact["by"]) for fact in shown["story"]] == STORY
    positions = [fact["seq"] for fact in shown["story"]]
    assert positions == sorted(set(positions))
    (criterion,) = shown["task"]["criteria"]
    runs = [fact["evidence"] for fact in shown["story"] if fact["kind"] == "evidence_added"]
    assert [run["commit"] for run in runs] == [first, fixed]
    assert (criterion["met"], criterion["by"]) == (True, "run")
    assert criterion["evidence"] == runs[1]["id"]
    assert shown["task"]["artifact"]["commit"] == fixed
    assert shop.place.ok("claim", "list")["claims"] == []
    _check_report(shop.place, first, fixed)
    assert shop.place.ok("audit", "verify")["ok"]


def _check_report(place: Place, first: str, fixed: str) -> None:
    told = ("Add a greeting", "it says hello", "It says goodbye.", first, fixed, GATE, "@vera")
    for form in ("md", "html"):
        path = str(place.root / f"report.{form}")
        assert place.run("report", TASK, "--format", form, "--output", path).status == 0
        report = html.unescape(Path(path).read_text())
        for word in (*told, FIX):
            assert word in report, f"the report does not contain {word!r}"
    checked = place.run("audit", "check-proof", str(place.root / "report.md"), "--json")
    assert checked.status == 0, checked


def test_end_of_a_session_releases_its_task(shop: Workshop) -> None:
    shop.create("--gate", GATE)
    with session_of(shop) as otto:
        otto.place.ok("task", "take", TASK)
        held = shop.place.ok("claim", "list")["claims"]
        assert [(claim["item"], claim["holder"]) for claim in held] == [(TASK, "@otto-cli")]
    assert shop.place.ok("claim", "list")["claims"] == []
    with shop.nothing_written("STALE_FENCE"):
        otto.place.no("STALE_FENCE", "task", "submit", TASK)


def test_blocker_is_an_event_on_the_workers_stream(
    first_shop: Workshop, tmp_path: Path, servers: Servers
) -> None:
    shop = first_shop.copied(tmp_path)
    shop.submitted()
    token = shop.place.token_of("otto-cli")
    with (
        ForkedServer(shop.place, servers) as server,
        Stream(server, token, "/v1/events", {}) as stream,
    ):
        server.until_streams(1)
        failed = shop.place.ok("gate", "fail", TASK, GATE, "--fix", FIX, *HOLDER)
        heard = stream.until("message_sent")[-1]
    assert heard.id == failed["blocker"]["seq"]
    assert (heard.data["message"]["type"], heard.data["message"]["to"]) == ("blocker", "@otto-cli")


# --- with MCP tools


class Tooled(NamedTuple):
    """A workshop, and MCP clients that work in it."""

    shop: Workshop
    clients: Clients

    def proven(self, *command: str) -> None:
        """Run a command like the client's own shell: in its session."""
        token = self.shop.place.token_of("otto-cli")
        shell = self.shop.but(INTERLOCK_TOKEN=token, INTERLOCK_SESSION=SESSION)
        assert proven(shell, *command)["counts"]


@pytest.fixture(params=["own node", "bridge", "http"])
def tooled(
    request: pytest.FixtureRequest, first_shop: Workshop, tmp_path: Path, servers: Servers
) -> Iterator[Tooled]:
    """Clients over stdio with their own node, over stdio through a server, and over HTTP."""
    shop = first_shop.copied(tmp_path)
    place, running = shop.place, None
    if request.param != "own node":
        running = servers.start(str(place.workspace), place.environ, str(place.cwd))
    yield Tooled(shop, Clients(place, over_http=request.param == "http", running=running))
    if running is not None:
        running.end()


@awaited
async def test_sprint_with_mcp_tools_passes_its_gate(tooled: Tooled) -> None:
    shop, clients = tooled
    async with AsyncExitStack() as stack:
        otto = await stack.enter_async_context(clients.client("otto-cli", SESSION))
        vera = await stack.enter_async_context(clients.client("vera"))
        await _created(vera)
        await otto.ok("task", action="take", id=TASK)
        await asyncio.to_thread(tooled.proven, "sh", "greet.sh")
        first = shop.head
        await _submitted(otto, first)
        (blocker,) = await _woken(otto, vera, verdict("fail", first))
        assert (blocker["type"], blocker["payload"]["fix"]) == ("blocker", [FIX])
        shop.tried("sh", "-c", blocker["payload"]["fix"][0])
        fixed = shop.commit()
        await asyncio.to_thread(tooled.proven, *SAYS_HELLO)
        await _submitted(otto, fixed)
        await otto.ok("inbox", done=[blocker["id"]])
        (passed,) = await _woken(otto, vera, verdict("pass", fixed))
        assert (passed["type"], passed["payload"]["verdict"]) == ("gate_verdict", "pass")
        ended = await otto.ok("task", action="complete", id=TASK)
        assert ended["task"]["state"] == "done"
    kinds = [fact["kind"] for fact in shop.show()["story"]]
    # The task has no assignee, so no message announced it.
    assert kinds == [kind for kind, _ in STORY[:1] + STORY[2:]]
    assert shop.place.ok("audit", "verify")["ok"]


def verdict(word: str, commit: str) -> dict[str, Any]:
    given = {"task_id": TASK, "gate": GATE, "verdict": word, "commit": commit}
    return given | ({"note": "It says goodbye.", "fix": [FIX]} if word == "fail" else {})


async def _created(vera: Caller) -> None:
    made = await vera.ok(
        "task",
        action="create",
        id=TASK,
        title="Add a greeting",
        criteria=["it says hello"],
        gates=[GATE],
    )
    assert made["task"]["state"] == "open"


async def _submitted(otto: Caller, commit: str) -> None:
    early = await otto.ok("task", action="complete", id=TASK)
    assert early["code"] == "GATES_NOT_PASSED"
    submitted = await otto.ok("task", action="submit", id=TASK, commit=commit)
    assert submitted["task"]["artifact"]["commit"] == commit


async def _woken(otto: Caller, vera: Caller, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages that a verdict brings to a worker who waits in the inbox."""
    hearing = asyncio.create_task(otto.ok("inbox", wait_s=45))
    try:
        async with asyncio.timeout(LIMIT_S):
            while await _reach(vera, "@otto-cli") != "wakes":
                await asyncio.sleep(0.02)
        assert not hearing.done()
        await vera.ok("verdict", **given)
        return list((await hearing)["messages"])
    finally:
        hearing.cancel()


async def _reach(caller: Caller, address: str) -> str:
    agents = (await caller.ok("agents"))["agents"]
    return next(str(agent["reach"]) for agent in agents if agent["address"] == address)


@awaited
async def test_submit_tool_reads_the_clients_repository_on_stdio_only(tooled: Tooled) -> None:
    """On stdio the tool reads the client's repository. Over HTTP the caller must give the whole id
    of a commit that a recorded run names."""
    shop, clients = tooled
    shop.create("--criterion", "it says hello", "--gate", GATE)
    async with clients.client("otto-cli", SESSION) as otto:
        await otto.ok("task", action="take", id=TASK)
        said = await otto("task", action="submit", id=TASK)
        if not clients.over_http:
            assert said.answer["task"]["artifact"] == {"commit": shop.head, "tree": shop.tree}
            return
        assert said.code == "USAGE"
        for commit in (shop.head[:12], shop.head):
            assert (await otto("task", action="submit", id=TASK, commit=commit)).error
        assert shop.show()["task"]["state"] == "taken"
        await asyncio.to_thread(tooled.proven, "true")
        taken = await otto.ok("task", action="submit", id=TASK, commit=shop.head)
        assert taken["task"]["artifact"] == {"commit": shop.head, "tree": shop.tree}
