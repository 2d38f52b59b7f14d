"""Every answer of a real node has exactly the type that `rooms.answers` declares.

The rows of `world/rows` call every verb, and the test lists their facts as events. The scripts
below drive a node along further branches that change the members of an answer. Pydantic validates
each answer against its type, coerces no value and allows no other members. Each optional member is
present in some answer, and absent in another.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import redis
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import get_original_bases, is_typeddict

from interlock.errors import IdentityMismatch
from interlock.log.encoding import digest
from interlock.machine import processes
from interlock.node import Node
from interlock.node import repair as repairing
from interlock.node import wake_ups as dispatching
from interlock.rooms import answers, catalogue
from interlock.rooms.claims import verbs as claims
from interlock.rooms.folding import KINDS
from interlock.rooms.identity import token_format
from interlock.rooms.identity import verbs as identity
from interlock.rooms.mail import verbs as mail
from interlock.rooms.people import verbs as people
from interlock.rooms.work import verbs as work
from interlock.rooms.workspace import verbs as workspace
from interlock.verbs.credentials import Credentials
from world.chosen import variables
from world.databases import ValkeyServer
from world.doors import Python
from world.fork_server import Servers
from world.furnished import Furnished
from world.playing import Stage
from world.row import OWNER as THE_OWNER
from world.rows import ROWS
from world.signed_in_people import RESOURCE, VERIFIER, connected, granted, refreshed, signed_in

pytestmark = pytest.mark.every_engine

ANSWERS = {verb: catalogue.answer_type(verb) for verb in catalogue.verbs() if verb.declared.http}

START = 2_000_000_000_000  # a time that no clock of a test machine shows
HOUR = 3_600_000
LIMIT_S = 30
OWNER = Credentials(owner=True)
Answer = dict[str, Any]
COMMIT, TREE = "a" * 40, "b" * 40
OUTPUT, BINARY = b"2 passed\n", b"\x00\xff"

# Optional members that every answer of these scripts has. A log of another release may lack them.
NEVER_ABSENT = [("Refused", "token")]


class Recorder:
    """A node with a clock that the test sets, and all requests to it with their answers."""

    def __init__(self, directory: Path, engine: str | None = None) -> None:
        self.directory = directory
        self.ms = START
        self.recorded: list[tuple[type, Answer]] = []
        directory.mkdir()
        self.node = Node(str(directory), clock=lambda: self.ms, engine=engine)

    def call(self, who: Credentials, request: Any) -> Answer:
        return self._record(request, self.node.call(who, request))

    def step(self, who: Credentials, request: Any) -> Answer:
        """Make one request of a verb that waits: the caller enters the queue, and does not wait."""
        return self._record(request, self.node.call_once(who, request))

    def _record(self, request: Any, answer: Answer) -> Answer:
        self.recorded.append((type(request), answer))
        return answer

    def join(self, name: str, surface: str | None = None, **fields: Any) -> Credentials:
        return Credentials(token=self.call(OWNER, identity.Join(name, surface, **fields))["token"])

    def uploaded(self, who: Credentials, data: bytes) -> str:
        return str(self.call(who, mail.PutChunk(data, len(data)))["upload"])

    def send(self, who: Credentials, to: str, text: str = "hello", **fields: Any) -> str:
        sent = self.call(who, mail.SendMessage(to, {"text": text}, "send", **fields))
        return str(sent["message"]["id"])


def joined(at: Recorder) -> tuple[Credentials, Credentials, Credentials]:
    """Join otto-cli and otto-desktop, the surfaces of an agent, and vera, a person."""
    cli = at.join("otto", "cli", label="otto's terminal")
    desktop = at.join("otto", "desktop")
    vera = at.join("vera", kind="human", scopes=("mail", "claim", "work", "admin"))
    return cli._replace(session="s-1"), desktop, vera


def an_hour_of_mail(at: Recorder) -> None:
    cli, desktop, vera = joined(at)
    at.call(OWNER, identity.ListAgents())
    at.call(cli, identity.StartSession("s-1"))
    first = at.send(cli, "@vera", "for you", subject="a line", key="k-1")
    at.send(cli, "@vara", "for whom?", ttl_s=60)
    at.send(cli, "@somebody-else")
    at.send(cli, "@vera", "another")
    reply = at.send(vera, "@otto", "to either", reply_to=first, ttl_s=60)
    at.call(vera, mail.ListInbox(limit=1, adapter="test"))
    at.call(vera, mail.ListInbox("sent", limit=1))
    at.call(cli, mail.ReadMessage(reply))
    at.call(desktop, mail.ReadMessage(reply))
    at.call(desktop, mail.ListInbox("all"))
    at.call(vera, mail.ReadMessage(first))
    at.call(cli, mail.ReadMessage(first, 2, 4))
    at.call(cli, mail.ReadMessage(first, 2, 100))
    at.call(cli, mail.ReadMessage(first, 0, 2))
    at.call(vera, mail.AckMessages((first,), note="done"))
    declined = at.send(cli, "@vera", "would you?")
    at.call(vera, mail.AckMessages((declined,), decline=True))
    at.call(cli, mail.ShowReceipts(first))
    at.call(vera, mail.ShowReceipts(declined))
    at.call(cli, mail.ShowThread(first, limit=1))
    at.call(cli, mail.ShowThread(first))
    at.call(vera, mail.Search("either"))
    at.call(OWNER, mail.ListMail())
    at.call(vera, mail.ListMail())
    at.call(cli, mail.Explain(first))
    at.call(cli, mail.Redact(first, "named a customer"))
    at.call(cli, mail.Explain(first))
    at.call(vera, mail.ReadMessage(first))
    unread = at.send(cli, "@vera", "too late", ttl_s=60)
    at.ms += HOUR
    at.call(cli, mail.ListInbox())
    at.call(vera, mail.AckMessages((unread,)))
    notice = at.call(cli, mail.ListInbox())["messages"][-1]
    assert notice["from"] == "@interlock"
    at.call(cli, mail.Explain(notice["id"]))


def questions(at: Recorder) -> None:
    cli, _, vera = joined(at)
    asked = at.call(cli, mail.Ask("@nobody", "is anybody there?", wait_s=1))
    at.call(cli, mail.FindAnswer(asked["id"]))
    at.call(cli, mail.SendMessage("@vera", {"question": "in time?", "timeout_s": 1}, "ask"))
    helper = threading.Thread(target=_answer_when_asked, args=(at.node, vera))
    helper.start()
    found = at.call(cli, mail.Ask("@vera", "may I?", ("yes", "no"), LIMIT_S))
    helper.join(LIMIT_S)
    assert found["answered"], found
    at.call(cli, mail.FindAnswer(found["id"]))
    (ask, *_) = at.call(vera, mail.ListInbox())["messages"]
    at.call(vera, mail.AnswerAsk(ask["id"], "just so", key="k-2"))
    at.ms += HOUR
    at.call(cli, mail.SendMessage("@vera", {"question": "and now?"}, "ask"))
    late = at.call(cli, mail.SendMessage("@vera", {"question": "late?", "timeout_s": 1}, "ask"))
    at.ms += HOUR
    with pytest.raises(IdentityMismatch):
        at.call(cli._replace(claimed="vera"), workspace.Whoami())
    assert late["accepted"]
    at.call(OWNER, workspace.Review())


def _answer_when_asked(node: Node, vera: Credentials) -> None:
    inbox = node.call(vera, mail.ListInbox(wait_s=LIMIT_S))["messages"]
    while not (asked := [m for m in inbox if m["payload"].get("question") == "may I?"]):
        inbox = node.call(vera, mail.ListInbox(after=inbox[-1]["seq"], wait_s=LIMIT_S))["messages"]
    node.call(vera, mail.AnswerAsk(asked[0]["id"], "yes"))


def claiming(at: Recorder) -> None:
    cli, desktop, vera = joined(at)
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    at.call(OWNER, claims.CheckClaim("B-1"))
    got = at.call(cli, claims.AcquireClaim("B-1", **where))
    at.call(cli, claims.AcquireClaim("B-1", branch="other", ttl_s=7200))
    at.call(desktop, claims.AcquireClaim(paths=("src/**",), repo="r", worktree="/w"))
    at.call(vera, claims.AcquireClaim("B-1"))
    at.step(vera, claims.AcquireClaim("B-1", wait_s=60, **where))
    at.step(desktop, claims.AcquireClaim("B-1", wait_s=60))
    at.call(desktop, claims.StopWaiting("B-1"))
    at.ms += 20_000
    at.step(vera, claims.AcquireClaim("B-1", wait_s=60))
    at.call(desktop, claims.AcquireClaim("B-1"))
    at.call(vera, claims.CheckClaim("B-1"))
    at.call(cli, claims.RenewClaim("B-1", fence=got["claim"]["fence"]))
    at.call(cli, workspace.Whoami())
    at.call(desktop, workspace.Whoami())
    at.call(vera, workspace.Whoami())
    at.call(OWNER, claims.ListClaims())
    at.call(cli, claims.ReleaseClaim("B-1"))
    at.call(cli, claims.ReleaseClaim("B-2"))
    at.call(cli, claims.AcquireClaim("B-2", **where))
    at.call(vera, claims.TakeOverClaim("it is urgent", "B-2"))
    at.call(desktop, claims.AcquireClaim("B-3"))
    at.call(vera, claims.TakeOverClaim("this too", "B-3", **where))
    at.call(cli, identity.FindSession("s-1"))
    at.call(cli, identity.StartSession("s-1"))
    at.call(cli, identity.FindSession("s-1"))
    at.call(cli, claims.AcquireClaim("B-4"))
    at.call(cli, identity.KeepSession("s-1"))
    at.call(cli, identity.EndSession("s-1"))
    at.ms += 3 * HOUR
    at.call(OWNER, workspace.Review())


def guarding(at: Recorder) -> None:
    cli, desktop, vera = joined(at)
    where: Any = {"paths": ("src/**",), "repo": "r", "worktree": "/w"}
    at.call(cli, claims.AcquireClaim(**where))
    at.call(cli, claims.AcquireClaim(**where, everywhere=True))
    at.call(desktop, claims.AcquireClaim(paths=("doc/*",), repo="r", worktree="/w"))
    at.step(desktop, claims.AcquireClaim("B-1", wait_s=60))
    at.call(vera, claims.TakeOverClaim("it is urgent", "B-1", everywhere=True))
    at.step(desktop, claims.AcquireClaim("B-1", wait_s=60, everywhere=True))
    for paths in (("src/a.py", "doc/a"), ("doc/a",), ("src/a.py",)):
        at.call(vera, claims.CheckPaths(paths, "r", "/v"))
        at.call(vera, claims.ReportCommit(COMMIT, paths, "r", "/v"))
    at.call(OWNER, workspace.Examine())
    at.call(OWNER, workspace.ChangeSetting("guard", "off"))
    at.call(vera, claims.CheckPaths(("src/a.py",), "r", "/v"))
    at.call(vera, workspace.Attend("edit", "test", ("src/a.py",), "r", "/v"))


def attending(at: Recorder) -> None:
    """A client's session reports each of its steps, and Interlock wakes another sender."""
    cli, desktop, vera = joined(at)
    at.call(OWNER, workspace.ChangeSetting("wake.quiet_s", "0"))
    at.call(cli, workspace.Attend("start", "test"))
    at.call(cli, claims.AcquireClaim(paths=("src/**",), repo="r"))
    at.call(cli, workspace.Attend("start", "test"))
    sent = at.send(vera, "@otto")
    at.call(cli, workspace.Attend("prompt", "test"))
    at.call(desktop, workspace.Attend("tool", "test"))
    at.call(desktop, workspace.Attend("edit", "test", ("src/a.py",), "r", "/w"))
    at.call(cli, workspace.Attend("edit", "test", ("src/a.py",), "r", "/w"))
    at.call(vera, mail.SendMessage("@otto-cli", {"question": "well?"}, "ask"))
    at.call(cli, workspace.Attend("stop", "test", held=1))
    at.call(cli, workspace.Attend("idle", "test", wait_s=1))
    at.call(cli, mail.ShowReceipts(sent))
    at.call(OWNER, workspace.Pause())
    at.call(cli, workspace.Attend("tool", "test"))
    at.call(OWNER, workspace.Resume())
    at.call(cli, workspace.Attend("end", "test"))
    dead = {"pid": os.getpid(), "started": "long ago", "space": processes.space()}
    at.call(cli._replace(session="s-2"), workspace.Attend("tool", "test", window=dead))
    assert at.call(cli, workspace.Attend("start", "test"))["lost"] == ["s-2"]
    for outcome, why in (("failed", "it is busy"), ("woken", None), ("unknown", None)):
        late = at.send(vera, "@otto-desktop")
        begun = dispatching.begin(at.node, "otto-desktop", "test")
        assert begun is not None
        at.call(vera, mail.ShowReceipts(late))
        dispatching.end(at.node, begun, "otto-desktop", outcome, why)
        at.call(vera, mail.ShowReceipts(late))
    at.call(OWNER, identity.Mute("otto", 60))
    at.call(cli, identity.Mute())
    at.call(OWNER, identity.ListAgents())
    at.call(cli, identity.Mute(off=True))


def tasks(at: Recorder) -> None:
    """Tasks in each of their states."""
    cli, desktop, vera = joined(at)
    at.call(OWNER, work.CreateGate("athena", ("@vera", "@otto")))
    more: Any = {"priority": "high", "assignee": "@otto", "labels": ("ui",), "brief": "By name."}
    first = work.CreateTask("Sort it", "T-1", criteria=("it sorts",), gates=("athena",), **more)
    at.call(vera, first)
    at.call(vera, work.CreateTask("Show it", depends_on=("T-1",), assignee="@ghost"))
    at.call(OWNER, work.ListTasks(limit=1))
    at.call(OWNER, work.ListTasks("live"))
    at.call(vera, work.TakeTask("T-2"))
    at.call(OWNER, work.ShowTask("T-2"))
    at.call(OWNER, work.ShowTask("T-1"))
    at.call(vera, work.PrepareEvidence("T-1", 1))
    at.call(vera, claims.AcquireClaim("B-1", worktree="/w"))
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    fence = at.call(cli, work.TakeTask("T-1", **where))["claim"]["fence"]
    at.call(cli, work.TakeTask("T-1"))
    at.call(desktop, work.TakeTask("T-1"))
    at.step(vera, claims.AcquireClaim("T-1", wait_s=60))
    at.call(desktop, work.TakeTask("T-1"))
    at.call(vera, claims.StopWaiting("T-1"))
    at.call(cli, work.PrepareEvidence("T-1"))
    at.call(cli, work.SubmitTask("T-1", COMMIT, TREE, fence))
    at.call(vera, workspace.Whoami())
    at.call(cli, workspace.Whoami())
    at.call(OWNER, workspace.Review())
    at.call(OWNER, work.ListGates())
    at.call(vera, work.PrepareVerdict("T-1", "athena"))
    at.call(cli, work.CompleteTask("T-1"))
    at.call(OWNER, work.CheckGate("athena", COMMIT))
    at.call(vera, work.GiveVerdict("T-1", "athena", "fail", COMMIT, "red", ("make fix",)))
    at.call(cli, work.CompleteTask("T-1"))
    at.call(OWNER, work.CheckGate("athena", COMMIT))
    at.call(OWNER, work.ShowTask("T-1"))
    ran = at.call(cli, work.AddEvidence(a_run(), at.uploaded(cli, OUTPUT)))
    at.call(cli, work.SubmitTask("T-1", COMMIT))
    relied_on = (ran["evidence"]["id"],)
    by_checks: Any = {"evidence": relied_on, "tree": TREE, "rules": digest(b"make test")}
    at.call(vera, work.GiveVerdict("T-1", "athena", "pass", **by_checks))
    payload = {"kind": "note", "text": "it sorts", "task_id": "T-4", "criterion": 1}
    other = work.CreateTask("Note it", "T-4", criteria=("it is noted",), gates=("athena",))
    at.call(vera, other)
    at.call(cli, work.TakeTask("T-4"))
    note = at.call(cli, work.AddEvidence(payload))["evidence"]["id"]
    at.call(cli, work.SubmitTask("T-4", COMMIT, TREE))
    at.call(vera, work.GiveVerdict("T-4", "athena", "pass", evidence=(note,)))
    at.call(OWNER, work.ShowTask("T-4"))
    at.call(vera, work.PrepareVerdict("T-1", "athena"))
    at.call(OWNER, work.CheckGate("athena", COMMIT))
    at.call(OWNER, work.ShowTask("T-1"))
    at.call(cli, work.CompleteTask("T-1"))
    at.call(OWNER, work.ShowTask("T-1"))
    at.call(desktop, work.TakeTask("T-2"))
    at.call(desktop, work.FailTask("T-2", "it cannot be shown"))
    at.call(cli, work.CreateTask("Print it", "T-3"))
    at.call(cli, work.CancelTask("T-3"))
    at.call(OWNER, work.ListTasks())


def evidence(at: Recorder) -> None:
    cli, _, vera = joined(at)
    at.call(vera, work.CreateTask("Sort it", "T-1", criteria=("it sorts",)))
    at.call(cli, work.TakeTask("T-1"))
    about: Any = {"task_id": "T-1", "criterion": 1, "title": "seen"}
    at.call(cli, work.AddEvidence({"kind": "note", "text": "it works"} | about))
    at.call(vera, work.AddEvidence({"kind": "url", "url": "https://example.com/"}))
    kept = {"sha256": digest(BINARY), "size": len(BINARY)}
    file = {"kind": "file", "name": "a.bin", "task_id": "T-1"} | kept
    added = at.call(cli, work.AddEvidence(file, at.uploaded(cli, BINARY)))
    at.call(OWNER, work.ShowEvidence(added["evidence"]["id"]))
    ran = at.call(cli, work.AddEvidence(a_run(), at.uploaded(cli, OUTPUT)))
    at.call(OWNER, work.ShowEvidence(ran["evidence"]["id"], 2, 5))
    at.call(OWNER, work.ShowEvidence(ran["evidence"]["id"]))
    whole = a_run() | {
        "exit_code": 1,
        "interrupted": True,
        "ended_by": "time limit",
        "produced": 10_000,
        "masked": 2,
        "spooled": True,
        "tests": {"passed": 2, "failed": 1, "skipped": 1, "errors": 1},
    }
    at.call(cli, work.AddEvidence(whole, at.uploaded(cli, OUTPUT)))
    bare = {name: value for name, value in whole.items() if name not in ("commit", "tree", "dirty")}
    bare |= {"tests": {}, "output": {"sha256": digest(b""), "size": 0}}
    at.call(cli, work.AddEvidence(bare))
    note = at.call(vera, work.AddEvidence({"kind": "note", "text": "the word is sesame"}))
    at.call(vera, mail.Redact(note["evidence"]["id"], "a password"))
    at.call(OWNER, work.ShowEvidence(note["evidence"]["id"]))
    at.call(OWNER, work.ShowTask("T-1"))


def blockers(at: Recorder) -> None:
    cli, _, vera = joined(at)
    at.call(OWNER, work.CreateGate("athena", ("@vera",)))
    at.call(vera, work.CreateTask("Sort it", "T-1", gates=("athena",)))
    at.call(cli, work.TakeTask("T-1"))
    at.call(cli, work.SubmitTask("T-1", COMMIT, TREE))
    at.call(vera, work.GiveVerdict("T-1", "athena", "fail", note="red"))
    raised = at.call(vera, work.RaiseBlocker("it is slow", "T-1", fix=("make fast",)))["blocker"]
    leaked = at.call(cli, work.RaiseBlocker("sesame does not open", to="@vara"))["blocker"]
    at.call(cli, mail.Redact(leaked["id"], "a password"))
    at.call(OWNER, work.ListBlockers())
    at.call(OWNER, workspace.Review())
    at.call(cli, work.CompleteTask("T-1"))
    at.call(vera, work.ResolveBlocker(raised["id"], "it is quick now"))
    at.call(cli, work.ResolveBlocker(leaked["id"]))
    at.call(OWNER, work.ListBlockers("T-1", all=True))


def a_run() -> Answer:
    """The payload of a run that met the first criterion of T-1."""
    return {
        "kind": "run",
        "task_id": "T-1",
        "criterion": 1,
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 5,
        "commit": COMMIT,
        "tree": TREE,
        "dirty": False,
        "output": {"sha256": digest(OUTPUT), "size": len(OUTPUT)},
    }


def tokens(at: Recorder) -> None:
    cli, *_ = joined(at)
    hashed = token_format.hashed("a token of our own making")
    at.call(OWNER, identity.Join("milo", token_hash=token_format.hashed("another")))
    at.call(OWNER, identity.ListAgents("otto"))
    at.call(cli, workspace.Whoami())
    at.ms += 1000
    at.call(OWNER, identity.ListAgents())
    at.call(OWNER, identity.CreateGroup("devs", ("@otto", "@vera")))
    at.call(OWNER, identity.ListGroups())
    at.call(OWNER, identity.MintToken("milo", "for a day", (), 60, hashed))
    made = at.call(OWNER, identity.MintToken("milo"))
    at.call(OWNER, identity.ShowToken(made["id"]))
    at.call(OWNER, identity.RotateToken(made["id"]))
    brought = token_format.hashed("brought along")
    at.call(OWNER, identity.RotateToken(token_format.token_id(hashed), token_hash=brought))
    mine = token_format.hashed(cli.token or "")
    for known in (
        mine,
        brought,
        token_format.hashed(made["token"]),
        token_format.hashed("unknown"),
    ):
        at.call(OWNER, identity.IdentifyToken(known))
    at.call(OWNER, identity.ShowToken(token_format.token_id(brought)))
    at.call(OWNER, identity.LabelToken(token_format.token_id(brought), "Milo, at home"))
    imports(at)
    at.call(OWNER, identity.RevokeToken(sender="milo"))
    at.call(OWNER, identity.ListTokens())


def people_and_connections(at: Recorder) -> None:
    """Rosa, who owns robo, signs in with two browsers. One client acts as robo, and another has not
    opened its connection yet. Two invited people join from another machine."""
    anonymous = Credentials()
    own_token = token_format.hashed("a token that the invited person made")
    rosa = signed_in(at.node, "rosa", "robo")
    asked = people.SignIn("rosa", VERIFIER, token_format.hashed("in a browser without a name"))
    at.node.call(anonymous, asked)
    acting = connected(at.node, rosa, "robo", "phone")
    at.call(OWNER, identity.IdentifyToken(token_format.hashed(acting.token)))
    at.call(OWNER, mail.Explain(at.send(Credentials(acting.token, audience=RESOURCE), "@rosa")))
    refreshed(at.node, acting)
    at.call(OWNER, identity.MintToken("rosa", "Rosa, at home", ttl_s=60))
    at.call(OWNER, identity.MintToken("robo"))
    granted(at.node, rosa, "rosa")
    at.call(
        OWNER,
        people.Invite("hugo", "desk", ("rex",), ttl_s=60, code_hash=token_format.hashed("a code")),
    )
    at.call(anonymous, people.AcceptInvitation("a code", own_token))
    code = at.call(OWNER, people.Invite("hanna"))["invitation"]
    at.call(OWNER, people.Invite("hugo", "desk", ("rex",)))
    withdrawn = at.call(OWNER, people.Invite("gustav"))["id"]
    at.call(OWNER, people.ListConnections())
    at.call(anonymous, people.AcceptInvitation(code))
    for who in (OWNER, Credentials(token=rosa)):
        at.call(who, people.ListConnections())
    at.call(OWNER, people.NameConnection(acting.id, "her phone"))
    at.call(OWNER, identity.ListTokens())
    at.call(Credentials(token=rosa), people.RevokeConnection(acting.id))
    at.call(OWNER, people.RevokeConnection(withdrawn))
    at.call(OWNER, people.RevokeConnection("@hugo"))


def imports(at: Recorder) -> None:
    rows = (
        {"token_hash": "1" * 64, "agent": "milo", "label": "Milo", "project": "shop"},
        {
            "token_hash": token_format.hashed("old"),
            "agent": "milo",
            "label": "Otto",
            "project": "mill",
        },
        {"token_hash": "3" * 64, "agent": "nils", "label": "N", "display_name": "N", "clear": True},
        {"token_hash": "4" * 64, "agent": "nils", "scope": ["mail", "read"]},
        {"token_hash": "7" * 64, "agent": "nils", "expires_at": START * 2},
        {"token_hash": "5" * 64, "agent": "nils", "active": False},
        {"agent": "nils"},
        {"token_hash": "6" * 64, "label": "nobody's"},
    )
    at.call(OWNER, identity.ImportTokens(rows[:1]))
    at.call(OWNER, identity.ImportTokens(rows))
    at.call(OWNER, identity.ImportTokens(rows, apply=True))
    at.call(OWNER, mail.Explain(at.send(Credentials("old"), "@vera")))
    at.call(OWNER, workspace.Examine())
    at.call(OWNER, identity.ImportTokens(rows, {"Otto": "otto"}, apply=True))


def audit(at: Recorder) -> None:
    cli, *_ = joined(at)
    at.send(cli, "@vera")
    at.call(cli, workspace.ShowLog(limit=2))
    at.call(cli, workspace.VerifyLog())
    at.call(cli, workspace.SignCheckpoint())
    at.call(cli, workspace.Prove(seq=2))
    at.call(cli, workspace.Prove(since=3))
    at.call(cli, workspace.ProveMany((1, 3)))
    at.call(OWNER, workspace.ExportLog(str(at.directory.parent / "export.jsonl")))
    at.call(OWNER, workspace.Rebuild())
    at.call(OWNER, workspace.ShowLog())


def a_restore(at: Recorder) -> None:
    cli, *_ = joined(at)
    at.call(OWNER, workspace.ShowStorage())
    backup = str(at.directory.parent / "backup.db")
    at.call(OWNER, workspace.Backup(backup))
    at.call(OWNER, workspace.Restore(backup))
    mine = token_format.hashed(cli.token or "")
    at.call(OWNER, identity.IdentifyToken(mine))
    at.call(OWNER, identity.ShowToken(token_format.token_id(mine)))
    at.call(OWNER, identity.ListTokens())
    at.call(OWNER, identity.RotateToken(token_format.token_id(mine)))
    at.call(OWNER, identity.MintToken("otto-cli"))
    at.call(OWNER, identity.ReaffirmTokens())
    at.call(OWNER, workspace.ShowLog())


def an_engine_with_losses(at: Recorder) -> None:
    """An engine loses an entry, which the node restores, loses another, which the node abandons,
    and stops."""
    parent = at.directory.parent
    with ValkeyServer(parent / "valkey") as server:
        at.node.close()
        (parent / "node").mkdir()
        at.node = Node(str(parent / "node"), engine=server.url + "?workspace=joined")
        joined(at)
        at.call(OWNER, workspace.ShowStorage())
        lost = at.node.head()
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{joined}:log", f"{lost}-0")
        assert repairing.restore(at.node)["restored"] == 1
        at.call(OWNER, workspace.ListEvents(limit=1000))
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{joined}:log", f"{at.node.head()}-0")
        assert repairing.give_up(at.node)["given_up"] == 1
        at.call(OWNER, workspace.ListEvents(limit=1000))
    _until_troubled(at)
    at.call(OWNER, workspace.ShowStorage())
    at.node.close()
    at.node = Node(str(parent / "node"))
    _until_troubled(at)
    at.call(OWNER, workspace.ShowStorage())


def _until_troubled(at: Recorder) -> None:
    assert at.node.shared is not None
    deadline = time.monotonic() + 30
    while at.node.shared.trouble is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


SCRIPTS = (
    *(an_hour_of_mail, questions, claiming, guarding, attending, tasks, evidence),
    *(blockers, tokens, people_and_connections, audit, a_restore, an_engine_with_losses),
)
# Only an embedded log can be restored.
EMBEDDED = (a_restore,)


@pytest.fixture(scope="module")
def recorded(
    furnished: Furnished, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[type, Answer]]:
    """The answers to every row and every script, each in its own workspace."""
    found: list[tuple[type, Answer]] = []
    rows = [row for row in ROWS if row.kind != "refused" and "python" not in row.not_at]
    for row in rows:
        if not row.restores or not variables():
            stage = Stage(row, furnished, tmp_path_factory.mktemp("row"), servers, is_served=False)
            found.append((row.verb, stage.call(row, Python().call).answer))
            listed = Python().call(
                stage.workspace, THE_OWNER, workspace.ListEvents, {"after": stage.before}
            )
            found.append((workspace.ListEvents, listed.answer))
    for script in SCRIPTS:
        engine = "sqlite" if script in EMBEDDED else None
        at = Recorder(tmp_path_factory.mktemp("script") / "workspace", engine)
        script(at)
        if script is not an_engine_with_losses:
            at.call(OWNER, workspace.ListEvents(limit=2))
            at.call(OWNER, workspace.ListEvents(limit=1000))
        at.node.close()
        found += at.recorded
    return found


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    """Validate without coercion, and refuse members that a type does not declare."""
    strict = ConfigDict(extra="forbid", strict=True)
    with pytest.MonkeyPatch.context() as patch:
        for kind in _typed_dicts():
            patch.setattr(kind, "__pydantic_config__", strict, raising=False)
        yield


def _typed_dicts() -> list[Any]:
    return [kind for kind in vars(answers).values() if is_typeddict(kind)]


@pytest.mark.parametrize("verb", ANSWERS, ids=lambda verb: verb.__name__)
def test_every_answer_of_a_node_has_its_declared_type(
    verb: type, recorded: list[tuple[type, Answer]]
) -> None:
    examples = [answer for asked, answer in recorded if asked is verb]
    assert examples, f"{verb.__name__} has no row in tests/world/rows"
    check = TypeAdapter(ANSWERS[verb])
    for example in examples:
        assert check.validate_python(example) == example


@pytest.mark.parametrize("verb", ANSWERS, ids=lambda verb: verb.__name__)
def test_the_types_of_answers_refuse_other_and_missing_members(
    verb: type, recorded: list[tuple[type, Answer]]
) -> None:
    example = max((answer for asked, answer in recorded if asked is verb), key=len)
    check = TypeAdapter(ANSWERS[verb])
    with pytest.raises(ValidationError):
        check.validate_python(example | {"surprise": 1})
    if verb is mail.AckMessages:
        return  # each list of message ids in this answer is optional
    with pytest.raises(ValidationError):
        check.validate_python({})


def test_each_optional_member_was_present_once_and_absent_once(
    recorded: list[tuple[type, Answer]],
) -> None:
    here: set[tuple[str, str]] = set()
    gone: set[tuple[str, str]] = set()
    for verb, answer in recorded:
        _note_members(ANSWERS[verb], answer, here, gone)
    parts = get_original_bases(answers.OtherEvent)
    optional = {
        (kind.__name__, name)
        for kind in _typed_dicts()
        for name in kind.__optional_keys__
        if kind not in parts and not kind.__name__.startswith("_")
    }
    assert sorted(optional - here) == []
    assert sorted(optional - gone) == NEVER_ABSENT


def _note_members(
    kind: Any, value: Any, here: set[tuple[str, str]], gone: set[tuple[str, str]]
) -> None:
    """Note which members an answer has, and which it lacks."""
    if get_origin(kind) is list:
        for item in value:
            _note_members(get_args(kind)[0], item, here, gone)
    elif is_typeddict(kind):
        for name, hint in get_type_hints(kind).items():
            (here if name in value else gone).add((kind.__name__, name))
            if name in value:
                _note_members(hint, value[name], here, gone)
    elif branches := [branch for branch in get_args(kind) if is_typeddict(branch)]:
        _note_members(next(b for b in branches if _fits(b, value)), value, here, gone)


def _fits(kind: Any, value: Any) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def test_every_kind_of_fact_occurs_as_an_event(recorded: list[tuple[type, Answer]]) -> None:
    listed = [answer["events"] for verb, answer in recorded if verb is workspace.ListEvents]
    kinds = {event["kind"] for events in listed for event in events}
    assert kinds == set(KINDS)
