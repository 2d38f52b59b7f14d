"""The Python client: every verb, synchronous and not, over a directory without a server, a server's
URL, and its socket. The same outcome each time, and the same error object."""

import hashlib
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import interlock
from interlock import errors
from interlock.client import AsyncClient, Client
from interlock.client.asking import Method
from interlock.rooms import catalogue
from interlock.rooms.identity.token_format import hashed, token_id
from interlock.rooms.identity.verbs import Mute
from interlock.rooms.work.verbs import CancelTask, ResolveBlocker
from interlock.rooms.workspace.verbs import Whoami
from interlock.verbs.verb import Verb, fields_of
from world import chosen
from world.client_workspace import MANNERS, Manner
from world.client_workspace import ClientWorkspace as Town
from world.client_workspace import opened_workspace as town_of
from world.commandline import LIMIT_S, Place
from world.fork_server import Servers

pytestmark = pytest.mark.every_engine

ROUTED = [verb for verb in catalogue.verbs() if verb.declared.http]

Row = Callable[[Town], None]
ROWS: dict[str, Row] = {}


def verbs() -> dict[str, Method[..., Any]]:
    members = {name: getattr(Client, name) for name in dir(Client) if not name.startswith("_")}
    return {name: member for name, member in members.items() if isinstance(member, Method)}


def row(function: Row) -> Row:
    """A row of the table: what a verb does, named as the verb is."""
    ROWS[function.__name__] = function
    return function


@pytest.fixture(autouse=True, scope="module")
def nobody_around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An environment that names no workspace, no token and no session."""
    with pytest.MonkeyPatch.context() as patch:
        for name in chosen.others(os.environ):
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=MANNERS, ids=str)
def town(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, servers: Servers
) -> Iterator[Town]:
    manner: Manner = request.param
    with town_of(tmp_path_factory.mktemp("town"), manner, servers) as found:
        yield found


# --- the table


@row
def send(town: Town) -> None:
    sent = town.otto.send("@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60)
    assert sent["accepted"]
    assert sent["message"]["from"] == "@otto"
    assert (sent["message"]["subject"], sent["message"]["priority"]) == ("a line", "high")
    again = town.otto.send("@vera", "hello", subject="a line", priority="high", key="k-1", ttl_s=60)
    assert again["message"]["id"] == sent["message"]["id"]
    reply = town.vera.send("@otto", "and you", reply_to=sent["message"]["id"], wake=False)
    assert reply["message"]["thread"] == sent["message"]["thread"]
    wanted = town.vera.send("@otto", "make test", type="command", payload={"why": "to know"})
    read = town.otto.read(wanted["message"]["id"])
    assert read["payload"] == {"command": "make test", "why": "to know"}
    (notice,) = town.otto.send("@vara", "hello")["notices"]
    assert notice["did_you_mean"] == ["@vera"]


@row
def ask(town: Town) -> None:
    asked = town.otto.ask("@nobody", "is anybody there?", wait_s=1)
    assert (asked["answered"], asked["code"]) == (False, "NO_ANSWER")
    helper = threading.Thread(target=_answer_asks_of_vera, args=(town,))
    helper.start()
    asked = town.otto.ask("@vera", "may I?", options=["yes", "no"], wait_s=int(LIMIT_S))
    helper.join(LIMIT_S)
    assert asked["answered"]
    assert asked["answer"]["payload"]["text"] == "yes"


def _answer_asks_of_vera(town: Town) -> None:
    with town.connect(town.tokens["vera"]) as vera:
        for message in vera.listen(after=0):
            if message.get("payload", {}).get("question") == "may I?":
                vera.answer(message["id"], "yes")
                return


@row
def answer(town: Town) -> None:
    asked = town.otto.send("@vera", "may I now?", type="ask")["message"]["id"]
    answered = town.vera.answer(asked, "yes", key="answer-1")
    assert town.otto.read(answered["message"]["id"])["payload"] == {"text": "yes", "ask": asked}


@row
def find_answer(town: Town) -> None:
    asked = town.otto.send("@vera", "may I later?", type="ask")["message"]["id"]
    assert town.otto.find_answer(asked) == {"answered": False, "id": asked}
    town.vera.answer(asked, "yes")
    assert town.otto.find_answer(asked)["answer"]["payload"]["text"] == "yes"


@row
def inbox(town: Town) -> None:
    first = town.otto.send("@vera", "one")["message"]
    second = town.otto.send("@vera", "two")["message"]
    found = town.vera.inbox(after=first["seq"] - 1, limit=1)
    assert ([m["id"] for m in found["messages"]], found["next"]) == ([first["id"]], first["seq"])
    (step,) = town.otto.receipts(first["id"])["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("shown", "python")
    town.vera.ack(first["id"])
    seen = town.vera.inbox(after=first["seq"] - 1)["messages"]
    assert [m["id"] for m in seen] == [second["id"]]
    assert town.vera.inbox("all", after=first["seq"] - 1)["messages"][0]["id"] == first["id"]
    (sent,) = town.otto.inbox("sent", after=second["seq"] - 1)["messages"]
    assert sent["deliveries"][0]["state"] == "shown"
    assert town.vera.inbox(after=second["seq"], wait_s=1)["messages"] == []


@row
def read(town: Town) -> None:
    id = town.otto.send("@vera", "häuser")["message"]["id"]
    assert town.vera.read(id)["payload"] == {"text": "häuser"}
    part = town.vera.read(id, start=1, stop=3)
    assert (part["payload"]["text"], part["next_offset"]) == ("ä", 3)


@row
def ack(town: Town) -> None:
    one, two = (town.otto.send("@vera", text)["message"]["id"] for text in ("one", "two"))
    assert town.vera.ack(one, two, note="both done") == {"acked": [one, two]}
    three = town.otto.send("@vera", "three")["message"]["id"]
    assert town.vera.ack(three, decline=True) == {"declined": [three]}


@row
def receipts(town: Town) -> None:
    id = town.otto.send("@vera", "how far?")["message"]["id"]
    town.vera.read(id)
    (delivery,) = town.otto.receipts(id)["deliveries"]
    assert [step["state"] for step in delivery["history"]] == ["accepted", "read"]


@row
def thread(town: Town) -> None:
    first = town.otto.send("@vera", "begin")["message"]
    town.vera.send("@otto", "go on", reply_to=first["id"])
    whole = town.otto.thread(first["id"])
    assert [m["payload"]["text"] for m in whole["messages"]] == ["begin", "go on"]
    assert town.otto.thread(first["id"], limit=1)["next"] == first["seq"]
    assert len(town.otto.thread(first["id"], after=first["seq"])["messages"]) == 1


@row
def search(town: Town) -> None:
    town.otto.send("@vera", "a needle in a haystack")
    (found,) = town.vera.search("needle haystack", limit=5)["messages"]
    assert found["payload"]["text"] == "a needle in a haystack"


@row
def mail(town: Town) -> None:
    id = town.otto.send("@vera", "for two eyes")["message"]["id"]
    (newest,) = town.owner.mail(limit=1)["messages"]
    assert (newest["id"], newest["payload"]["text"]) == (id, "for two eyes")
    assert "payload" not in town.vera.mail(limit=1)["messages"][0]


@row
def explain(town: Town) -> None:
    id = town.otto.send("@vera", "who says so?")["message"]["id"]
    assert town.otto.explain(id)["token"]["sender"] == "otto"
    assert town.owner.explain(id)["sender"] == "@otto"


@row
def redact(town: Town) -> None:
    id = town.otto.send("@vera", "a secret")["message"]["id"]
    assert town.otto.redact(id, "it was a secret")["redacted"]
    assert "payload" not in town.vera.read(id)


@row
def put_chunk(town: Town) -> None:
    put = town.otto.put_chunk(b"a part", (1 << 20) + 4)
    assert put["number"] == 0
    assert (
        town.otto.put_chunk(b"more", (1 << 20) + 4, number=1, upload=put["upload"])["number"] == 1
    )


@row
def drop_upload(town: Town) -> None:
    put = town.otto.put_chunk(b"a part", 20)
    assert town.otto.drop_upload(put["upload"]) == {"dropped": True}


@row
def acquire(town: Town) -> None:
    got = town.otto.acquire("A-1", branch="main", worktree="/w", note="mine", ttl_s=60)
    assert got["acquired"]
    assert (got["claim"]["holder"], got["claim"]["branch"]) == ("@otto", "main")
    no = town.vera.acquire("A-1")
    assert (no["acquired"], no["code"]) == (False, "CLAIM_HELD")
    assert no["held_by"] == [got["claim"]]
    assert not town.vera.acquire("A-1", wait_s=1)["acquired"]
    paths = town.otto.acquire(paths="src/**", repo="github.com/o/acquire")["claim"]["paths"]
    assert paths == ["src/**"]
    assert not town.vera.acquire(paths=["src/a.py"], repo="https://github.com/o/acquire.git")[
        "acquired"
    ]


@row
def renew(town: Town) -> None:
    claim = town.otto.acquire("R-1", ttl_s=60)["claim"]
    renewed = town.otto.renew("R-1", fence=claim["fence"], ttl_s=600)["claim"]
    assert renewed["expires_at"] > claim["expires_at"]
    assert town.otto.renew(id=claim["id"], ttl_s=6000)["claim"]["fence"] == claim["fence"]


@row
def release(town: Town) -> None:
    claim = town.otto.acquire("R-2")["claim"]
    assert town.otto.release("R-2", fence=claim["fence"]) == {"released": True}
    assert town.otto.release("R-2") == {"released": False}
    claim = town.otto.acquire("R-2")["claim"]
    assert town.otto.release(id=claim["id"]) == {"released": True}


@row
def check(town: Town) -> None:
    assert town.owner.check("C-1") == {"claimed": False, "claims": []}
    claim = town.otto.acquire("C-1")["claim"]
    assert town.vera.check("C-1") == {"claimed": True, "claims": [claim]}
    assert not town.vera.check(paths=["docs/**"], repo="github.com/o/check")["claimed"]


@row
def guard(town: Town) -> None:
    here: Any = {"repo": "github.com/o/guard", "worktree": "/w"}
    claim = town.otto.acquire(paths=["src/**"], **here)["claim"]
    free = {"allowed": True, "denied": [], "warned": []}
    assert town.otto.guard(["src/a.py"], **here) == free
    denied = town.vera.guard(["src/a.py", "b.py"], **here)
    assert (denied["allowed"], denied["code"]) == (False, "CLAIM_HELD")
    assert denied["denied"] == [{"path": "src/a.py", "claim": claim}]
    afar = town.owner.guard(["src/a.py"], repo="github.com/o/guard", worktree="/v")
    assert (afar["allowed"], len(afar["warned"])) == (True, 1)
    claim = town.otto.acquire(paths=["src/**"], everywhere=True, **here)["claim"]
    assert claim["everywhere"]
    afar = town.vera.guard(["src/a.py"], repo="github.com/o/guard", worktree="/v")
    assert afar["denied"] == [{"path": "src/a.py", "claim": claim}]


@row
def report_commit(town: Town) -> None:
    claim = town.otto.acquire(paths=["src/**"], repo="github.com/o/commit")["claim"]
    made = town.vera.report_commit("5" * 40, ["src/a.py"], repo="github.com/o/commit")
    assert made == {"commit": "5" * 40, "crossed": [{"path": "src/a.py", "claim": claim}]}
    assert "555555555555" in town.otto.inbox(limit=1000)["messages"][-1]["payload"]["text"]


@row
def claims(town: Town) -> None:
    claim = town.otto.acquire("L-1")["claim"]
    assert claim in town.owner.claims()["claims"]
    assert claim in town.otto.claims(mine=True)["claims"]
    assert claim not in town.vera.claims(mine=True)["claims"]


@row
def take_over(town: Town) -> None:
    town.otto.acquire("T-1")
    taken = town.vera.take_over("T-1", reason="it is urgent", note="now", ttl_s=60)
    assert (taken["claim"]["holder"], taken["taken_from"]) == ("@vera", ["@otto"])


@row
def stop_waiting(town: Town) -> None:
    assert town.otto.stop_waiting("S-1") == {"waiting": False}


COMMIT, TREE = "a" * 40, "b" * 40


def given(town: Town, id: str, **said: Any) -> str:
    """The id of a task of vera's, whose gate she holds."""
    town.owner.create_gate("athena", ["@vera"])
    made = town.vera.create_task("Sort it", id=id, gates=["athena"], criteria=["it sorts"], **said)
    return str(made["task"]["id"])


def taken(town: Town, id: str) -> str:
    """The id of a task that otto works on."""
    assert town.otto.take(given(town, id))["taken"]
    return id


def submitted(town: Town, id: str) -> str:
    """The id of a task that otto has submitted."""
    assert town.otto.submit(taken(town, id), COMMIT, tree=TREE)["submitted"]
    return id


def noted(town: Town, id: str, text: str = "it works") -> dict[str, Any]:
    payload = {"kind": "note", "text": text, "task_id": id, "criterion": 1}
    found: dict[str, Any] = town.otto.add_evidence(payload)["evidence"]
    return found


@row
def create_task(town: Town) -> None:
    given(town, "W-1", brief="By name.", priority="high", assignee="@otto", labels=["ui"])
    (task,) = [task for task in town.owner.tasks()["tasks"] if task["id"] == "W-1"]
    assert (task["state"], task["gates"], task["criteria"]) == ("open", ["athena"], 1)
    assert (task["priority"], task["assignee"], task["labels"]) == ("high", "@otto", ["ui"])
    with pytest.raises(errors.GateHasNoHolder):
        town.otto.create_task("Sort it", gates=["hera"])


@row
def tasks(town: Town) -> None:
    given(town, "W-2")
    taken(town, "W-3")
    assert "W-2" in [task["id"] for task in town.otto.tasks("live")["tasks"]]
    mine = [task["id"] for task in town.otto.tasks("taken", mine=True)["tasks"]]
    assert "W-3" in mine
    assert "W-2" not in mine
    (first,) = (page := town.otto.tasks(limit=1))["tasks"]
    assert first not in town.otto.tasks(after=page["next"])["tasks"]


@row
def task(town: Town) -> None:
    shown = town.owner.task(taken(town, "W-4"))
    kinds = [fact["kind"] for fact in shown["story"]]
    assert {"task_created", "task_taken"} <= set(kinds)
    assert [need["what"] for need in shown["missing"]] == ["submission", "criterion", "gate"]


@row
def take(town: Town) -> None:
    got = town.otto.take(given(town, "W-5"), branch="b", worktree="/w", note="n", ttl_s=60)
    assert (got["claim"]["branch"], got["claim"]["holder"]) == ("b", "@otto")
    held = town.vera.take("W-5")
    assert (held["taken"], held["code"]) == (False, "CLAIM_HELD")
    given(town, "W-6", depends_on=["W-5"])
    assert town.otto.take("W-6")["code"] == "GATES_NOT_PASSED"


@row
def submit(town: Town) -> None:
    fence = town.otto.take(given(town, "W-7"))["claim"]["fence"]
    with pytest.raises(errors.StaleFence):
        town.otto.submit("W-7", COMMIT, tree=TREE, fence=fence + 1000)
    done = town.otto.submit("W-7", COMMIT, tree=TREE, fence=fence)["task"]
    assert (done["state"], done["artifact"]) == ("submitted", {"commit": COMMIT, "tree": TREE})


@row
def complete(town: Town) -> None:
    said = noted(town, submitted(town, "W-8"))
    waits = town.otto.complete("W-8")
    assert (waits["completed"], waits["code"]) == (False, "GATES_NOT_PASSED")
    assert [need["what"] for need in waits["missing"]] == ["criterion", "gate"]
    town.vera.judge("W-8", "athena", "pass", evidence=[said["id"]])
    assert town.otto.complete("W-8")["task"]["state"] == "done"
    with pytest.raises(errors.AlreadyDone):
        town.otto.complete("W-8")


@row
def fail(town: Town) -> None:
    with pytest.raises(errors.NotHolder):
        town.vera.fail(taken(town, "W-9"))
    assert town.otto.fail("W-9", note="it cannot be")["task"]["state"] == "failed"


@row
def cancel(town: Town) -> None:
    with pytest.raises(errors.MissingScope):
        town.otto.cancel(given(town, "W-10"))
    assert town.vera.cancel("W-10", note="not now")["task"]["state"] == "cancelled"


@row
def prepare_evidence(town: Town) -> None:
    fence = town.otto.take(given(town, "W-11"))["claim"]["fence"]
    wanted = town.otto.prepare_evidence("W-11", criterion=1, fence=fence)
    assert 0 < wanted.pop("left_s") <= 3600
    assert wanted == {"task": "W-11", "fence": fence, "lease_s": 3600}
    with pytest.raises(errors.StaleFence):
        town.otto.prepare_evidence("W-11", fence=fence + 1)
    with pytest.raises(errors.Usage):
        town.otto.prepare_evidence("W-11", criterion=2)


@row
def add_evidence(town: Town) -> None:
    data = b"2 passed\n"
    payload = {
        "kind": "file",
        "name": "report.txt",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "task_id": taken(town, "W-12"),
    }
    upload = town.otto.put_chunk(data, size=len(data))["upload"]
    with pytest.raises(errors.DigestMismatch):
        town.otto.add_evidence(payload | {"sha256": "0" * 64}, upload=upload)
    upload = town.otto.put_chunk(data, size=len(data))["upload"]
    added = town.otto.add_evidence(payload, upload=upload, key="report")["evidence"]
    assert (added["kind"], added["by"], added["task"]) == ("file", "@otto", "W-12")
    assert town.otto.add_evidence(payload, key="report")["evidence"] == added
    assert town.owner.evidence(added["id"])["content"]["text"] == data.decode()


@row
def evidence(town: Town) -> None:
    said = noted(town, taken(town, "W-13"), "it works, I think")
    shown = town.owner.evidence(said["id"])
    assert (shown["evidence"], shown["counts"]) == (said, False)
    with pytest.raises(errors.NotFound):
        town.otto.evidence("00000000")


@row
def create_gate(town: Town) -> None:
    made = town.owner.create_gate("hera", ["@vera", "otto"])["gate"]
    assert (made["name"], made["holders"]) == ("hera", ["@otto", "@vera"])
    with pytest.raises(errors.NameTaken):
        town.owner.create_gate("hera", ["@vera"])
    assert town.vera.create_gate("hera", ["@vera"], replace=True)["gate"]["holders"] == ["@vera"]


@row
def gates(town: Town) -> None:
    submitted(town, "W-14")
    (gate,) = [gate for gate in town.otto.gates()["gates"] if gate["name"] == "athena"]
    assert gate["can_judge"] == ["@vera"]
    assert "W-14" in gate["due"]


@row
def prepare_verdict(town: Town) -> None:
    artifact = {"commit": COMMIT, "tree": TREE}
    found = town.vera.prepare_verdict(submitted(town, "W-15"), "athena")
    assert found == {"task": "W-15", "gate": "athena", "artifact": artifact}
    with pytest.raises(errors.OwnWork):
        town.otto.prepare_verdict("W-15", "athena")


@row
def judge(town: Town) -> None:
    with pytest.raises(errors.NotSubmitted):
        town.vera.judge(submitted(town, "W-16"), "athena", "pass", commit="c" * 40)
    said = {"commit": COMMIT, "note": "it is red", "fix": ["make fix"]}
    judged = town.vera.judge("W-16", "athena", "fail", **said)
    assert (judged["verdict"]["fix"], judged["task"]["state"]) == (["make fix"], "taken")
    assert judged["blocker"]["to"] == "@otto"


@row
def check_gate(town: Town) -> None:
    commit = "d" * 40
    assert town.owner.check_gate("athena", commit)["code"] == "GATES_NOT_PASSED"
    town.otto.submit(taken(town, "W-17"), commit, tree=TREE)
    town.vera.judge("W-17", "athena", "pass")
    assert town.otto.check_gate("athena", commit)["passed"]


@row
def raise_blocker(town: Town) -> None:
    said = {"severity": "warn", "fix": ["make fast"]}
    raised = town.vera.raise_blocker("it is slow", task=taken(town, "W-18"), **said)
    assert (raised["blocker"]["to"], raised["blocker"]["fix"]) == ("@otto", ["make fast"])
    assert raised["deliveries"][0]["recipient"] == "@otto"
    assert town.otto.raise_blocker("where is it?", to="@vera")["blocker"]["severity"] == "stop"


@row
def resolve_blocker(town: Town) -> None:
    raised = town.vera.raise_blocker("it is slow", task=taken(town, "W-19"))["blocker"]
    with pytest.raises(errors.OwnWork):
        town.otto.resolve_blocker(raised["id"])
    assert town.vera.resolve_blocker(raised["id"], note="so be it")["blocker"]["resolved_by"] == (
        "@vera"
    )


@row
def blockers(town: Town) -> None:
    raised = town.vera.raise_blocker("it is slow", task=taken(town, "W-20"))["blocker"]
    assert town.otto.blockers("W-20") == {"blockers": [raised]}
    assert raised in town.owner.blockers()["blockers"]
    town.vera.resolve_blocker(raised["id"])
    assert town.owner.blockers("W-20") == {"blockers": []}
    assert len(town.owner.blockers("W-20", all=True)["blockers"]) == 1


@row
def whoami(town: Town) -> None:
    me = town.hand(town.tokens["otto"], "s-whoami").whoami()
    assert (me["sender"], me["session"]) == ("otto", "s-whoami")


@row
def agents(town: Town) -> None:
    everybody = town.owner.agents()["agents"]
    assert {"@otto", "@vera"} <= {agent["address"] for agent in everybody}
    (vera,) = town.otto.agents("vera")["agents"]
    assert vera["kind"] == "human"


@row
def join(town: Town) -> None:
    made = town.owner.join("mira", surface="cli", label="for a test", scopes=["mail"])
    assert (made["sender"], made["scopes"]) == ("mira-cli", ["mail"])
    assert town.hand(made["token"]).whoami()["address"] == "@mira-cli"


@row
def invite(town: Town) -> None:
    made = town.owner.invite("hugo", surface="desk", own=["rolf"], ttl_s=60)
    assert (made["sender"], made["kind"], made["own"]) == ("hugo-desk", "human", ["@rolf"])
    assert made["path"] == f"/invite/{made['invitation']}"


@row
def accept_invitation(town: Town) -> None:
    code = town.owner.invite("hanna")["invitation"]
    made = town.hand(None).accept_invitation(code)
    assert town.hand(made["token"]).whoami()["sender"] == made["sender"] == "hanna"


@row
def connections(town: Town) -> None:
    (found,) = town.vera.connections()["connections"]
    assert (found["id"], found["person"]) == (town.connection.id, "@rosa")


@row
def name_connection(town: Town) -> None:
    assert town.vera.name_connection(town.connection.id, "my phone")["name"] == "my phone"


@row
def revoke_connection(town: Town) -> None:
    browser = token_id(hashed(town.tokens["rosa"]))
    assert town.owner.revoke_connection(browser) == {"revoked": [browser]}
    with pytest.raises(errors.BadToken, match="was revoked"):
        town.rosa.whoami()


@row
def groups(town: Town) -> None:
    town.owner.create_group("readers", ["@otto"])
    assert {"address": "@readers", "members": ["@otto"]} in town.otto.groups()["groups"]


@row
def create_group(town: Town) -> None:
    made = town.vera.create_group("devs", ["@otto", "@vera"])
    assert made == {"name": "devs", "address": "@devs", "members": ["@otto", "@vera"]}


@row
def tokens(town: Town) -> None:
    assert {"otto", "vera"} <= {token["sender"] for token in town.owner.tokens()["tokens"]}


@row
def show_token(town: Town) -> None:
    id = town.owner.identify_token(town.tokens["otto"])["id"]
    assert town.owner.show_token(id)["sender"] == "otto"


@row
def mint_token(town: Town) -> None:
    made = town.owner.mint_token("otto", label="another", scopes=["mail"], ttl_s=600)
    assert (made["label"], made["scopes"]) == ("another", ["mail"])
    assert town.hand(made["token"]).whoami()["sender"] == "otto"


@row
def rotate_token(town: Town) -> None:
    old = town.owner.mint_token("vera")
    new = town.owner.rotate_token(old["id"])
    assert new["replaced"] == [old["id"]]
    assert town.hand(new["token"]).whoami()["sender"] == "vera"
    with pytest.raises(errors.BadToken):
        town.hand(old["token"]).whoami()


@row
def revoke_token(town: Town) -> None:
    made = town.owner.join("passing")
    assert town.owner.revoke_token(sender="passing") == {"revoked": [made["token_id"]]}


@row
def reaffirm_tokens(town: Town) -> None:
    assert town.owner.reaffirm_tokens() == {"reaffirmed": []}


@row
def label_token(town: Town) -> None:
    made = town.owner.mint_token("vera")
    assert "contradiction" in town.owner.label_token(made["id"], "otto")
    assert "contradiction" not in town.owner.label_token(made["id"], "Vera, at home")


@row
def import_tokens(town: Town) -> None:
    rows = [{"token": "an old token", "agent": "vera", "label": "Vera, old"}]
    found = town.owner.import_tokens(rows)
    assert (found["importable"], found["imported"]) == (1, 0)
    assert [row["verdict"] for row in found["rows"]] == ["clear-text secret"]
    moved = town.owner.import_tokens(rows, map={"Vera, old": "otto"}, apply=True)
    assert [row["verdict"] for row in moved["rows"]] == ["contradiction"]
    assert town.hand("an old token").whoami()["sender"] == "otto"


@row
def identify_token(town: Town) -> None:
    found = town.owner.identify_token(town.tokens["vera"])
    assert (found["known"], found["active"], found["sender"]) == (True, True, "vera")
    assert town.otto.identify_token("some other token") == {"known": False}


@row
def mute(town: Town) -> None:
    muted = town.otto.mute(ttl_s=600)
    assert (muted["address"], muted["muted"], "until" in muted) == ("@otto", True, True)
    assert town.owner.mute("otto", off=True) == {"address": "@otto", "muted": False}


@row
def attend(town: Town) -> None:
    sent = town.otto.send("@vera", "are you there?")["message"]["id"]
    told = town.vera.attend("prompt")
    assert sent in [message["id"] for message in told["news"]]
    assert "news" not in town.vera.attend("tool")
    (step,) = town.otto.receipts(sent)["deliveries"][0]["history"][1:]
    assert (step["state"], step["adapter"]) == ("woken", "python")
    town.otto.acquire(paths=["src/**"], repo="github.com/o/attend")
    edit = town.vera.attend("edit", "mine", paths=["src/a.py"], repo="github.com/o/attend")
    assert edit["allowed"] is False
    assert town.vera.attend("idle", wait_s=1)["address"] == "@vera"


@row
def start_session(town: Town) -> None:
    started = town.otto.start_session("s-start")
    assert started == {"session": "s-start", "sender": "otto"}


@row
def find_session(town: Town) -> None:
    assert town.owner.find_session("s-find") == {"session": "s-find"}
    town.otto.start_session("s-find")
    assert town.owner.find_session("s-find")["sender"] == "otto"


@row
def keep_session(town: Town) -> None:
    town.otto.start_session("s-keep")
    claim = town.hand(town.tokens["otto"], "s-keep").acquire("K-1")["claim"]
    assert claim["session"] == "s-keep"
    assert town.otto.keep_session("s-keep") == {"claims": [claim]}


@row
def end_session(town: Town) -> None:
    town.otto.start_session("s-end")
    claim = town.hand(town.tokens["otto"], "s-end").acquire("E-1")["claim"]
    assert town.otto.end_session("s-end") == {"ended": "s-end", "released": [claim]}


@row
def status(town: Town) -> None:
    assert town.owner.status()["paused"] is False
    assert town.otto.status()["workspace"] == town.otto.whoami()["workspace"]


@row
def storage(town: Town) -> None:
    assert town.owner.storage()["directory"] == str(town.directory)
    assert "directory" not in town.otto.storage()


@row
def doctor(town: Town) -> None:
    town.otto.acquire(paths=["src/**"], repo="github.com/o/doctor")
    town.vera.report_commit("6" * 40, ["src/a.py"], repo="github.com/o/doctor")
    found = town.owner.doctor()
    assert not found["ok"]
    assert any("666666666666" in finding["message"] for finding in found["findings"])


@row
def review(town: Town) -> None:
    asked = town.otto.send("@vera", "unanswered?", type="ask")["message"]["id"]
    assert asked in [ask["id"] for ask in town.owner.review(since_s=600)["unanswered"]]


@row
def settings(town: Town) -> None:
    assert "recipients" in [setting["name"] for setting in town.otto.settings()["settings"]]


@row
def change_setting(town: Town) -> None:
    assert town.owner.change_setting("recipients", "strict")["value"] == "strict"
    try:
        with pytest.raises(errors.UnknownRecipient):
            town.otto.send("@vara", "hello")
    finally:
        town.owner.change_setting("recipients", "open")


@row
def pause(town: Town) -> None:
    assert town.owner.pause("for a test") == {"paused": True, "reason": "for a test"}
    try:
        with pytest.raises(errors.Paused) as caught:
            town.otto.send("@vera", "hello")
        assert caught.value.members["reason"] == "for a test"
    finally:
        town.owner.resume()


@row
def resume(town: Town) -> None:
    assert town.vera.resume() == {"paused": False}


@row
def events(town: Town) -> None:
    sent = town.otto.send("@vera", "an event")["message"]
    found = town.vera.events(sent["seq"] - 1, limit=1)
    assert [event["message"]["id"] for event in found["events"]] == [sent["id"]]
    assert found["reached"] == sent["seq"]


@row
def log(town: Town) -> None:
    (first,) = town.otto.log(limit=1)["facts"]
    assert first["kind"] == "workspace_created"
    assert {fact["kind"] for fact in town.owner.log(1, kind="agent_joined")["facts"]} == {
        "agent_joined"
    }


@row
def verify(town: Town) -> None:
    note = town.owner.checkpoint()["checkpoint"]
    assert town.otto.verify(note)["ok"]


@row
def checkpoint(town: Town) -> None:
    assert town.otto.checkpoint()["entries"] == town.owner.storage()["entries"]


@row
def prove(town: Town) -> None:
    assert town.otto.prove(2)["proof"] == "inclusion"
    assert town.otto.prove(since=2)["proof"] == "consistency"


@row
def prove_many(town: Town) -> None:
    proofs = town.otto.prove_many([1, 2])
    assert (proofs["proof"], [entry["seq"] for entry in proofs["entries"]]) == (
        "inclusions",
        [1, 2],
    )


@row
def export(town: Town) -> None:
    with host_cookie_name(town):
        assert town.owner.export(town.root / "export.jsonl")["entries"] > 0
        assert (town.root / "export.jsonl").exists()


@row
def backup(town: Town) -> None:
    with host_cookie_name(town):
        assert town.owner.backup(town.root / "backup.db")["entries"] > 0
        assert (town.root / "backup.db").exists()


@row
def restore(town: Town) -> None:
    with host_cookie_name(town):
        town.owner.backup(town.root / "to-restore.db")
        assert town.owner.restore(town.root / "to-restore.db")["restored"]
        with pytest.raises(errors.BadToken):
            town.otto.whoami()
        assert town.owner.reaffirm_tokens()["reaffirmed"]
    assert town.otto.whoami()["sender"] == "otto"


@row
def rebuild(town: Town) -> None:
    with host_cookie_name(town):
        assert town.owner.rebuild()["changed"] is False


def host_cookie_name(town: Town) -> AbstractContextManager[object]:
    """What names files of a machine is for that machine, and nothing that a URL leads to."""
    if town.way == "url":
        return pytest.raises(errors.NotFound)
    return nullcontext()


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=chosen.restores if verb == "restore" else ()) for verb in ROWS],
)
def test_a_verb_does_the_same_wherever_it_is_asked(verb: str, town: Town) -> None:
    ROWS[verb](town)


def test_every_verb_has_a_row() -> None:
    assert ROWS.keys() == verbs().keys()


# --- what the verbs are


def asked(verb: Method[..., Any]) -> Any:
    """The act of a verb with nothing said but what must be."""
    needed = {
        name: {"data": b"x", "size": 1, "rows": ()}.get(name, "x")
        for name, parameter in inspect.signature(verb.describe).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and name != "self"
    }
    return verb.describe(None, **needed).request


def test_every_act_that_can_be_asked_for_has_one_verb() -> None:
    found = [type(asked(verb)) for verb in verbs().values()]
    assert sorted(map(str, found)) == sorted(map(str, ROUTED))


@pytest.mark.parametrize("name", verbs())
def test_a_verb_promises_what_its_act_is_answered_with(name: str) -> None:
    verb = verbs()[name]
    (promised,) = get_args(get_type_hints(verb.describe)["return"])
    assert promised == catalogue.answer_type(type(asked(verb)))


@pytest.mark.parametrize("name", verbs())
def test_a_verb_shows_its_parameters_and_says_what_it_does(name: str) -> None:
    client = interlock.connect("nowhere")
    method = getattr(client, name)
    assert "self" not in inspect.signature(method).parameters
    assert method.__doc__
    assert method.__name__ == name


def test_both_clients_have_the_same_verbs() -> None:
    shared = set(verbs()) | {"listen", "claimed", "call"}
    assert shared <= set(dir(AsyncClient))


def test_the_client_acts_as_the_owner_where_the_verb_allows_it() -> None:
    personal = {verb for verb in ROUTED if asked_by_sender(verb)}
    owners = {v for v in ROUTED if v.declared.owner or v.declared.open or v.declared.maintenance}
    # The owner may make these requests too, and names itself to do so.
    assert personal & owners == {CancelTask, ResolveBlocker, Mute}
    anyone = {verb for verb in ROUTED if verb.declared.anyone}
    assert personal | owners | anyone == {*ROUTED}


def asked_by_sender(verb: type[Verb]) -> bool:
    required = dict.fromkeys((f.name for f in fields_of(verb).values() if f.required), "x")
    return verb(**required).needs_sender()


# --- refusals


REFUSED: dict[str, tuple[type[errors.Refusal], Callable[[Town], Any]]] = {
    "a recipient of no shape": (
        errors.InvalidRecipientShape,
        lambda town: town.otto.send("AGENT:vera", "hello"),
    ),
    "no such message": (errors.NotFound, lambda town: town.otto.read("#999999")),
    "no such type": (errors.UnknownType, lambda town: town.otto.send("@vera", "x", type="sned")),
    "a verb's own type": (
        errors.UseVerb,
        lambda town: town.otto.send("@vera", type="agent_joined", payload={}),
    ),
    "no payload": (errors.InvalidMessage, lambda town: town.otto.send("@vera")),
    "a scope that is missing": (errors.MissingScope, lambda town: town.otto.pause()),
    "a fence that is stale": (errors.StaleFence, lambda town: town.otto.release("F-1", fence=1)),
    "another body": (
        errors.IdempotencyConflict,
        lambda town: [town.otto.send("@vera", text, key="k-9") for text in ("one", "two")],
    ),
    "nobody's token": (errors.BadToken, lambda town: town.hand("ilk_nobody").whoami()),
    "an item and paths": (errors.Usage, lambda town: town.otto.check("C-9", paths=["a"], repo="r")),
    "no such task": (
        errors.NotFound,
        lambda town: town.vera.judge("W-99", "athena", "pass"),
    ),
    "half a character": (errors.InvalidMessage, lambda town: town.otto.send("@vera", "\ud800")),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_is_the_same_exception_wherever_it_comes_from(why: str, town: Town) -> None:
    kind, call = REFUSED[why]
    with pytest.raises(errors.Refusal) as caught:
        call(town)
    assert type(caught.value) is kind
    told = caught.value.as_dict()
    assert told["message"]
    if kind is errors.InvalidRecipientShape:
        assert (told["to"], told["did_you_mean"]) == ("AGENT:vera", ["@vera"])
        assert len(told["valid_shapes"]) == 2


def test_text_is_given_once(town: Town) -> None:
    with pytest.raises(errors.Usage):
        town.otto.send("@vera", "here", payload={"text": "and there"})


# --- the parts that are no verbs


def test_any_act_can_be_asked_for_as_it_is(town: Town) -> None:
    assert town.otto.call(Whoami())["sender"] == "otto"


def test_a_large_body_comes_back_as_it_was(town: Town) -> None:
    text = "ein Satz ohne Ende, über 9 MiB\n" * 300_000
    sent = town.otto.send("@vera", text, key="large")
    assert town.vera.read(sent["message"]["id"])["payload"]["text"] == text
    again = town.otto.send("@vera", text, key="large")
    assert again["message"]["id"] == sent["message"]["id"]


def test_a_large_body_that_is_refused_leaves_no_upload(town: Town) -> None:
    unused = "SELECT DISTINCT upload FROM blob_chunks EXCEPT SELECT upload FROM blobs"
    before = Place(town.root).query(unused)
    with pytest.raises(errors.InvalidRecipientShape):
        town.otto.send("vera", "x" * (3 << 20))
    with pytest.raises(errors.InvalidMessage):
        town.otto.send("@vera", "x" * (3 << 20), payload={"colour": "red"})
    assert Place(town.root).query(unused) == before


def test_where_a_server_runs_it_is_the_one_that_is_asked(town: Town) -> None:
    if town.way == "directory":
        assert not (town.directory / "server.json").exists()
        return
    done = 'interlock_http_responses_total{status="200"}'
    before = town.served.metric(done)
    town.otto.whoami()
    assert town.served.metric(done) == before + 2  # looking at it is one of them


def test_paths_are_of_the_repository_that_one_stands_in(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=LIMIT_S, env=environ)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    claim = town.otto.acquire(paths=["./a.py"])["claim"]
    assert (claim["paths"], claim["repo"]) == (["src/a.py"], str(tmp_path / ".git"))
    assert town.vera.check(paths=["src/**"])["claimed"]


# --- who acts


def test_a_token_in_the_environment_acts(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", town.tokens["vera"])
    monkeypatch.setenv("INTERLOCK_SESSION", "s-env")
    me = town.hand(None).whoami()
    assert (me["sender"], me["session"]) == ("vera", "s-env")


def test_a_token_that_is_given_comes_before_the_environment(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_TOKEN", town.tokens["vera"])
    town.vera.start_session("s-veras")
    monkeypatch.setenv("INTERLOCK_SESSION", "s-veras")
    me = town.hand(town.tokens["otto"]).whoami()
    assert me["sender"] == "otto"
    assert "session" not in me
    assert town.hand(town.tokens["vera"]).whoami()["session"] == "s-veras"
    assert town.hand(town.tokens["vera"], "s-other").whoami()["session"] == "s-other"


def test_nobody_acts_where_nobody_is_said_to(town: Town) -> None:
    with pytest.raises(errors.NoIdentity):
        town.hand(None).whoami()


def test_the_only_credential_kept_acts_and_goes_on_acting(place: Place) -> None:
    place.join("otto")
    with interlock.connect(place.workspace) as client:
        assert client.whoami()["sender"] == "otto"
        got = client.acquire("B-1")
        assert got["acquired"]
        assert client.claims(mine=True)["claims"] == [got["claim"]]
        place.join("vera")
        assert client.whoami()["sender"] == "otto"
    with interlock.connect(place.workspace) as client, pytest.raises(errors.NoIdentity):
        client.whoami()


def test_without_a_place_it_is_the_one_that_the_command_finds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = place.ok("init", "--here", INTERLOCK_WORKSPACE=None)["directory"]
    below = place.cwd / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert interlock.connect().place == made
    monkeypatch.setenv("INTERLOCK_WORKSPACE", str(place.root / "named"))
    assert interlock.connect().place == str(place.root / "named")
    assert interlock.connect("here").place == str(below / "here")


def test_connecting_opens_nothing(tmp_path: Path) -> None:
    interlock.connect(tmp_path / "workspace").close()
    assert list(tmp_path.iterdir()) == []


def test_an_address_of_no_server_is_refused_at_once() -> None:
    with pytest.raises(errors.Usage):
        interlock.connect("ftp://example.com")


# --- the package


def test_the_package_is_imported_without_the_client() -> None:
    script = "import interlock, sys; print(sorted(m for m in sys.modules if 'interlock' in m))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert done.stdout == "['interlock']\n"


def test_the_package_has_nothing_that_it_does_not_have() -> None:
    with pytest.raises(AttributeError):
        interlock.disconnect  # type: ignore[attr-defined] # noqa: B018
