"""Every answer of a real node has the shape that `contracts.answers` says, and nothing besides.

A day in a small town drives a node through every act that can be asked for, along the branches
that change what is in the answer. What was answered is held against the types with nothing coerced
and no other members allowed; and whatever the types say may be absent was once there, and once not.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import apsw
import pytest
import redis
from databases import ValkeyServer
from letting_in import RESOURCE, VERIFIER, connected, granted, refreshed, signed_in
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from interlock import processes
from interlock.contracts import acts, answers, tokens
from interlock.contracts.acts import Credentials
from interlock.contracts.answers import ANSWERS
from interlock.contracts.routes import ROUTES
from interlock.errors import IdentityMismatch
from interlock.log.encoding import digest
from interlock.node import Node
from interlock.node import repair as repairing
from interlock.node import wake_ups as dispatching
from interlock.rooms.folding import KINDS

START = 2_000_000_000_000  # a time that no clock of a test machine shows
HOUR = 3_600_000
LIMIT_S = 30
OWNER = Credentials(owner=True)
Answer = dict[str, Any]
COMMIT, TREE = "a" * 40, "b" * 40
OUTPUT, BINARY = b"2 passed\n", b"\x00\xff"

# What is there in every answer that can be made today, though a log may come to lack it.
NEVER_ABSENT = [("Refused", "token")]


class Town:
    """A node on a clock of the test's own, and everything that it was asked and answered."""

    def __init__(self, directory: Path, engine: str | None = None) -> None:
        self.directory = directory
        self.ms = START
        self.told: list[tuple[type, Answer]] = []
        directory.mkdir()
        self.node = Node(str(directory), clock=lambda: self.ms, engine=engine)

    def call(self, who: Credentials, act: Any) -> Answer:
        return self._kept(act, self.node.call(who, act))

    def step(self, who: Credentials, act: Any) -> Answer:
        """One verb without its waiting: whoever asks stands in the queue at once."""
        return self._kept(act, self.node.verb(who, act))

    def _kept(self, act: Any, answer: Answer) -> Answer:
        self.told.append((type(act), answer))
        return answer

    def join(self, name: str, surface: str | None = None, **said: Any) -> Credentials:
        return Credentials(token=self.call(OWNER, acts.Join(name, surface, **said))["token"])

    def uploaded(self, who: Credentials, data: bytes) -> str:
        return str(self.call(who, acts.PutChunk(data, len(data)))["upload"])

    def send(self, who: Credentials, to: str, text: str = "hello", **said: Any) -> str:
        sent = self.call(who, acts.SendMessage(to, "send", {"text": text}, **said))
        return str(sent["message"]["id"])


def people(town: Town) -> tuple[Credentials, Credentials, Credentials]:
    """otto-cli and otto-desktop, surfaces of an agent, and vera, a person."""
    cli = town.join("otto", "cli", label="otto's terminal")
    desktop = town.join("otto", "desktop")
    vera = town.join("vera", kind="human", scopes=("mail", "claim", "work", "admin"))
    return cli._replace(session="s-1"), desktop, vera


def an_hour_of_mail(town: Town) -> None:
    cli, desktop, vera = people(town)
    town.call(OWNER, acts.ListAgents())
    town.call(cli, acts.StartSession("s-1"))
    first = town.send(cli, "@vera", "for you", subject="a line", key="k-1")
    town.send(cli, "@vara", "for whom?", ttl_s=60)
    town.send(cli, "@somebody-else")
    town.send(cli, "@vera", "another")
    reply = town.send(vera, "@otto", "to either", reply_to=first, ttl_s=60)
    town.call(vera, acts.ListInbox(limit=1, adapter="test"))
    town.call(vera, acts.ListInbox("sent", limit=1))
    town.call(cli, acts.ReadMessage(reply))
    town.call(desktop, acts.ReadMessage(reply))
    town.call(desktop, acts.ListInbox("all"))
    town.call(vera, acts.ReadMessage(first))
    town.call(cli, acts.ReadMessage(first, 2, 4))
    town.call(cli, acts.ReadMessage(first, 2, 100))
    town.call(cli, acts.ReadMessage(first, 0, 2))
    town.call(vera, acts.AckMessages((first,), note="done"))
    declined = town.send(cli, "@vera", "would you?")
    town.call(vera, acts.AckMessages((declined,), decline=True))
    town.call(cli, acts.ShowReceipts(first))
    town.call(vera, acts.ShowReceipts(declined))
    town.call(cli, acts.ShowThread(first, limit=1))
    town.call(cli, acts.ShowThread(first))
    town.call(vera, acts.Search("either"))
    town.call(OWNER, acts.ListMail())
    town.call(vera, acts.ListMail())
    town.call(cli, acts.Explain(first))
    town.call(cli, acts.Redact(first, "named a customer"))
    town.call(cli, acts.Explain(first))
    town.call(vera, acts.ReadMessage(first))
    unread = town.send(cli, "@vera", "too late", ttl_s=60)
    town.ms += HOUR
    town.call(cli, acts.ListInbox())
    town.call(vera, acts.AckMessages((unread,)))
    notice = town.call(cli, acts.ListInbox())["messages"][-1]
    assert notice["from"] == "@interlock"
    town.call(cli, acts.Explain(notice["id"]))


def questions(town: Town) -> None:
    cli, _, vera = people(town)
    asked = town.call(cli, acts.Ask("@nobody", "is anybody there?", wait_s=1))
    town.call(cli, acts.FindAnswer(asked["id"]))
    town.call(cli, acts.SendMessage("@vera", "ask", {"question": "in time?", "timeout_s": 1}))
    helper = threading.Thread(target=_answer_when_asked, args=(town.node, vera))
    helper.start()
    found = town.call(cli, acts.Ask("@vera", "may I?", ("yes", "no"), LIMIT_S))
    helper.join(LIMIT_S)
    assert found["answered"], found
    town.call(cli, acts.FindAnswer(found["id"]))
    (ask, *_) = town.call(vera, acts.ListInbox())["messages"]
    town.call(vera, acts.AnswerAsk(ask["id"], "just so", key="k-2"))
    town.ms += HOUR
    town.call(cli, acts.SendMessage("@vera", "ask", {"question": "and now?"}))
    late = town.call(cli, acts.SendMessage("@vera", "ask", {"question": "late?", "timeout_s": 1}))
    town.ms += HOUR
    with pytest.raises(IdentityMismatch):
        town.call(cli._replace(claimed="vera"), acts.Whoami())
    assert late["accepted"]
    town.call(OWNER, acts.Review())


def _answer_when_asked(node: Node, vera: Credentials) -> None:
    inbox = node.call(vera, acts.ListInbox(wait_s=LIMIT_S))["messages"]
    while not (asked := [m for m in inbox if m["payload"].get("question") == "may I?"]):
        inbox = node.call(vera, acts.ListInbox(after=inbox[-1]["seq"], wait_s=LIMIT_S))["messages"]
    node.call(vera, acts.AnswerAsk(asked[0]["id"], "yes"))


def large_bodies(town: Town) -> None:
    cli, *_ = people(town)
    put = town.call(cli, acts.PutChunk(b"x" * 10, 20))
    town.call(cli, acts.DropUpload(put["upload"]))
    town.send(cli, "@vera", "x" * (1 << 21))


def claims(town: Town) -> None:
    cli, desktop, vera = people(town)
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    town.call(OWNER, acts.CheckClaim("B-1"))
    got = town.call(cli, acts.AcquireClaim("B-1", **where))
    town.call(cli, acts.AcquireClaim("B-1", branch="other", ttl_s=7200))
    town.call(desktop, acts.AcquireClaim(paths=("src/**",), repo="r", worktree="/w"))
    town.call(vera, acts.AcquireClaim("B-1"))
    town.step(vera, acts.AcquireClaim("B-1", wait_s=60, **where))
    town.step(desktop, acts.AcquireClaim("B-1", wait_s=60))
    town.call(desktop, acts.StopWaiting("B-1"))
    town.ms += 20_000
    town.step(vera, acts.AcquireClaim("B-1", wait_s=60))
    town.call(desktop, acts.AcquireClaim("B-1"))
    town.call(vera, acts.CheckClaim("B-1"))
    town.call(cli, acts.RenewClaim("B-1", fence=got["claim"]["fence"]))
    town.call(cli, acts.Whoami())
    town.call(desktop, acts.Whoami())
    town.call(vera, acts.Whoami())
    town.call(OWNER, acts.ListClaims())
    town.call(cli, acts.ReleaseClaim("B-1"))
    town.call(cli, acts.ReleaseClaim("B-2"))
    town.call(cli, acts.AcquireClaim("B-2", **where))
    town.call(vera, acts.TakeOverClaim("it is urgent", "B-2"))
    town.call(desktop, acts.AcquireClaim("B-3"))
    town.call(vera, acts.TakeOverClaim("this too", "B-3", **where))
    town.call(cli, acts.FindSession("s-1"))
    town.call(cli, acts.StartSession("s-1"))
    town.call(cli, acts.FindSession("s-1"))
    town.call(cli, acts.AcquireClaim("B-4"))
    town.call(cli, acts.KeepSession("s-1"))
    town.call(cli, acts.EndSession("s-1"))
    town.ms += 3 * HOUR
    town.call(OWNER, acts.Review())


def guarding(town: Town) -> None:
    cli, desktop, vera = people(town)
    where: Any = {"paths": ("src/**",), "repo": "r", "worktree": "/w"}
    town.call(cli, acts.AcquireClaim(**where))
    town.call(cli, acts.AcquireClaim(**where, everywhere=True))
    town.call(desktop, acts.AcquireClaim(paths=("doc/*",), repo="r", worktree="/w"))
    town.step(desktop, acts.AcquireClaim("B-1", wait_s=60))
    town.call(vera, acts.TakeOverClaim("it is urgent", "B-1", everywhere=True))
    town.step(desktop, acts.AcquireClaim("B-1", wait_s=60, everywhere=True))
    for paths in (("src/a.py", "doc/a"), ("doc/a",), ("src/a.py",)):
        town.call(vera, acts.CheckPaths(paths, "r", "/v"))
        town.call(vera, acts.ReportCommit(COMMIT, paths, "r", "/v"))
    town.call(OWNER, acts.Examine())
    town.call(OWNER, acts.ChangeSetting("guard", "off"))
    town.call(vera, acts.CheckPaths(("src/a.py",), "r", "/v"))
    town.call(vera, acts.Attend("edit", "test", ("src/a.py",), "r", "/v"))


def attending(town: Town) -> None:
    """A client's session at each of its steps, and another that is woken from outside."""
    cli, desktop, vera = people(town)
    town.call(OWNER, acts.ChangeSetting("wake.quiet_s", "0"))
    town.call(cli, acts.Attend("start", "test"))
    town.call(cli, acts.AcquireClaim(paths=("src/**",), repo="r"))
    town.call(cli, acts.Attend("start", "test"))
    sent = town.send(vera, "@otto")
    town.call(cli, acts.Attend("prompt", "test"))
    town.call(desktop, acts.Attend("tool", "test"))
    town.call(desktop, acts.Attend("edit", "test", ("src/a.py",), "r", "/w"))
    town.call(cli, acts.Attend("edit", "test", ("src/a.py",), "r", "/w"))
    town.call(vera, acts.SendMessage("@otto-cli", "ask", {"question": "well?"}))
    town.call(cli, acts.Attend("stop", "test", held=1))
    town.call(cli, acts.Attend("idle", "test", wait_s=1))
    town.call(cli, acts.ShowReceipts(sent))
    town.call(OWNER, acts.Pause())
    town.call(cli, acts.Attend("tool", "test"))
    town.call(OWNER, acts.Resume())
    town.call(cli, acts.Attend("end", "test"))
    dead = {"pid": os.getpid(), "started": "long ago", "space": processes.space()}
    town.call(cli._replace(session="s-2"), acts.Attend("tool", "test", window=dead))
    assert town.call(cli, acts.Attend("start", "test"))["lost"] == ["s-2"]
    for outcome, why in (("failed", "it is busy"), ("woken", None), ("unknown", None)):
        late = town.send(vera, "@otto-desktop")
        begun = dispatching.begin(town.node, "otto-desktop", "test")
        assert begun is not None
        town.call(vera, acts.ShowReceipts(late))
        dispatching.end(town.node, begun, "otto-desktop", outcome, why)
        town.call(vera, acts.ShowReceipts(late))
    town.call(OWNER, acts.Mute("otto", 60))
    town.call(cli, acts.Mute())
    town.call(OWNER, acts.ListAgents())
    town.call(cli, acts.Mute(off=True))


def tasks(town: Town) -> None:
    """Every way that a task can go."""
    cli, desktop, vera = people(town)
    town.call(OWNER, acts.CreateGate("athena", ("@vera", "@otto")))
    said: Any = {"priority": "high", "assignee": "@otto", "labels": ("ui",), "brief": "By name."}
    first = acts.CreateTask("Sort it", "T-1", criteria=("it sorts",), gates=("athena",), **said)
    town.call(vera, first)
    town.call(vera, acts.CreateTask("Show it", depends_on=("T-1",), assignee="@ghost"))
    town.call(OWNER, acts.ListTasks(limit=1))
    town.call(OWNER, acts.ListTasks("live"))
    town.call(vera, acts.TakeTask("T-2"))
    town.call(OWNER, acts.ShowTask("T-2"))
    town.call(OWNER, acts.ShowTask("T-1"))
    town.call(vera, acts.PrepareEvidence("T-1", 1))
    town.call(vera, acts.AcquireClaim("B-1", worktree="/w"))
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    fence = town.call(cli, acts.TakeTask("T-1", **where))["claim"]["fence"]
    town.call(cli, acts.TakeTask("T-1"))
    town.call(desktop, acts.TakeTask("T-1"))
    town.step(vera, acts.AcquireClaim("T-1", wait_s=60))
    town.call(desktop, acts.TakeTask("T-1"))
    town.call(vera, acts.StopWaiting("T-1"))
    town.call(cli, acts.PrepareEvidence("T-1"))
    town.call(cli, acts.SubmitTask("T-1", COMMIT, TREE, fence))
    town.call(vera, acts.Whoami())
    town.call(cli, acts.Whoami())
    town.call(OWNER, acts.Review())
    town.call(OWNER, acts.ListGates())
    town.call(vera, acts.PrepareVerdict("T-1", "athena"))
    town.call(cli, acts.CompleteTask("T-1"))
    town.call(OWNER, acts.CheckGate("athena", COMMIT))
    town.call(vera, acts.GiveVerdict("T-1", "athena", "fail", COMMIT, "red", ("make fix",)))
    town.call(cli, acts.CompleteTask("T-1"))
    town.call(OWNER, acts.CheckGate("athena", COMMIT))
    town.call(OWNER, acts.ShowTask("T-1"))
    ran = town.call(cli, acts.AddEvidence(a_run(), town.uploaded(cli, OUTPUT)))
    town.call(cli, acts.SubmitTask("T-1", COMMIT))
    relied_on = (ran["evidence"]["id"],)
    by_checks: Any = {"evidence": relied_on, "tree": TREE, "rules": digest(b"make test")}
    town.call(vera, acts.GiveVerdict("T-1", "athena", "pass", **by_checks))
    said = {"kind": "note", "text": "it sorts", "task_id": "T-4", "criterion": 1}
    other = acts.CreateTask("Note it", "T-4", criteria=("it is noted",), gates=("athena",))
    town.call(vera, other)
    town.call(cli, acts.TakeTask("T-4"))
    note = town.call(cli, acts.AddEvidence(said))["evidence"]["id"]
    town.call(cli, acts.SubmitTask("T-4", COMMIT, TREE))
    town.call(vera, acts.GiveVerdict("T-4", "athena", "pass", evidence=(note,)))
    town.call(OWNER, acts.ShowTask("T-4"))
    town.call(vera, acts.PrepareVerdict("T-1", "athena"))
    town.call(OWNER, acts.CheckGate("athena", COMMIT))
    town.call(OWNER, acts.ShowTask("T-1"))
    town.call(cli, acts.CompleteTask("T-1"))
    town.call(OWNER, acts.ShowTask("T-1"))
    town.call(desktop, acts.TakeTask("T-2"))
    town.call(desktop, acts.FailTask("T-2", "it cannot be shown"))
    town.call(cli, acts.CreateTask("Print it", "T-3"))
    town.call(cli, acts.CancelTask("T-3"))
    town.call(OWNER, acts.ListTasks())


def evidence(town: Town) -> None:
    cli, _, vera = people(town)
    town.call(vera, acts.CreateTask("Sort it", "T-1", criteria=("it sorts",)))
    town.call(cli, acts.TakeTask("T-1"))
    about: Any = {"task_id": "T-1", "criterion": 1, "title": "seen"}
    town.call(cli, acts.AddEvidence({"kind": "note", "text": "it works"} | about))
    town.call(vera, acts.AddEvidence({"kind": "url", "url": "https://example.com/"}))
    kept = {"sha256": digest(BINARY), "size": len(BINARY)}
    file = {"kind": "file", "name": "a.bin", "task_id": "T-1"} | kept
    added = town.call(cli, acts.AddEvidence(file, town.uploaded(cli, BINARY)))
    town.call(OWNER, acts.ShowEvidence(added["evidence"]["id"]))
    ran = town.call(cli, acts.AddEvidence(a_run(), town.uploaded(cli, OUTPUT)))
    town.call(OWNER, acts.ShowEvidence(ran["evidence"]["id"], 2, 5))
    town.call(OWNER, acts.ShowEvidence(ran["evidence"]["id"]))
    whole = a_run() | {
        "exit_code": 1,
        "interrupted": True,
        "ended_by": "time limit",
        "produced": 10_000,
        "masked": 2,
        "spooled": True,
        "tests": {"passed": 2, "failed": 1, "skipped": 1, "errors": 1},
    }
    town.call(cli, acts.AddEvidence(whole, town.uploaded(cli, OUTPUT)))
    bare = {name: value for name, value in whole.items() if name not in ("commit", "tree", "dirty")}
    bare |= {"tests": {}, "output": {"sha256": digest(b""), "size": 0}}
    town.call(cli, acts.AddEvidence(bare))
    note = town.call(vera, acts.AddEvidence({"kind": "note", "text": "the word is sesame"}))
    town.call(vera, acts.Redact(note["evidence"]["id"], "a password"))
    town.call(OWNER, acts.ShowEvidence(note["evidence"]["id"]))
    town.call(OWNER, acts.ShowTask("T-1"))


def blockers(town: Town) -> None:
    cli, _, vera = people(town)
    town.call(OWNER, acts.CreateGate("athena", ("@vera",)))
    town.call(vera, acts.CreateTask("Sort it", "T-1", gates=("athena",)))
    town.call(cli, acts.TakeTask("T-1"))
    town.call(cli, acts.SubmitTask("T-1", COMMIT, TREE))
    town.call(vera, acts.GiveVerdict("T-1", "athena", "fail", note="red"))
    raised = town.call(vera, acts.RaiseBlocker("it is slow", "T-1", fix=("make fast",)))["blocker"]
    leaked = town.call(cli, acts.RaiseBlocker("sesame does not open", to="@vara"))["blocker"]
    town.call(cli, acts.Redact(leaked["id"], "a password"))
    town.call(OWNER, acts.ListBlockers())
    town.call(OWNER, acts.Review())
    town.call(cli, acts.CompleteTask("T-1"))
    town.call(vera, acts.ResolveBlocker(raised["id"], "it is quick now"))
    town.call(cli, acts.ResolveBlocker(leaked["id"]))
    town.call(OWNER, acts.ListBlockers("T-1", all=True))


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


def identity(town: Town) -> None:
    cli, *_ = people(town)
    hashed = tokens.hashed("a token of our own making")
    town.call(OWNER, acts.Join("milo", token_hash=tokens.hashed("another")))
    town.call(OWNER, acts.ListAgents("otto"))
    town.call(cli, acts.Whoami())
    town.ms += 1000
    town.call(OWNER, acts.ListAgents())
    town.call(OWNER, acts.CreateGroup("devs", ("@otto", "@vera")))
    town.call(OWNER, acts.ListGroups())
    town.call(OWNER, acts.MintToken("milo", "for a day", (), 60, hashed))
    made = town.call(OWNER, acts.MintToken("milo"))
    town.call(OWNER, acts.ShowToken(made["id"]))
    town.call(OWNER, acts.RotateToken(made["id"]))
    brought = tokens.hashed("brought along")
    town.call(OWNER, acts.RotateToken(tokens.token_id(hashed), token_hash=brought))
    mine = tokens.hashed(cli.token or "")
    for known in (mine, brought, tokens.hashed(made["token"]), tokens.hashed("unknown")):
        town.call(OWNER, acts.IdentifyToken(known))
    town.call(OWNER, acts.ShowToken(tokens.token_id(brought)))
    town.call(OWNER, acts.LabelToken(tokens.token_id(brought), "Milo, at home"))
    imports(town)
    town.call(OWNER, acts.RevokeToken(sender="milo"))
    town.call(OWNER, acts.ListTokens())


def letting_people_in(town: Town) -> None:
    """Rosa, who owns robo, in two browsers; a client that acts as robo, and one that is not open
    yet; and somebody on another machine."""
    nobody = Credentials()
    kept = tokens.hashed("kept by who joins")
    rosa = signed_in(town.node, "rosa", "robo")
    asked = acts.SignIn("rosa", VERIFIER, tokens.hashed("in a browser without a name"))
    town.node.call(nobody, asked)
    acting = connected(town.node, rosa, "robo", "phone")
    town.call(OWNER, acts.IdentifyToken(tokens.hashed(acting.token)))
    town.call(OWNER, acts.Explain(town.send(Credentials(acting.token, audience=RESOURCE), "@rosa")))
    refreshed(town.node, acting)
    town.call(OWNER, acts.MintToken("rosa", "Rosa, at home", ttl_s=60))
    town.call(OWNER, acts.MintToken("robo"))
    granted(town.node, rosa, "rosa")
    town.call(
        OWNER, acts.Invite("hugo", "desk", ("rex",), ttl_s=60, code_hash=tokens.hashed("a code"))
    )
    town.call(nobody, acts.AcceptInvitation("a code", kept))
    code = town.call(OWNER, acts.Invite("hanna"))["invitation"]
    town.call(OWNER, acts.Invite("hugo", "desk", ("rex",)))
    withdrawn = town.call(OWNER, acts.Invite("nobody"))["id"]
    town.call(OWNER, acts.ListConnections())
    town.call(nobody, acts.AcceptInvitation(code))
    for who in (OWNER, Credentials(token=rosa)):
        town.call(who, acts.ListConnections())
    town.call(OWNER, acts.NameConnection(acting.id, "her phone"))
    town.call(OWNER, acts.ListTokens())
    town.call(Credentials(token=rosa), acts.RevokeConnection(acting.id))
    town.call(OWNER, acts.RevokeConnection(withdrawn))
    town.call(OWNER, acts.RevokeConnection("@hugo"))


def imports(town: Town) -> None:
    rows = (
        {"token_hash": "1" * 64, "agent": "milo", "label": "Milo", "project": "shop"},
        {"token_hash": tokens.hashed("old"), "agent": "milo", "label": "Otto", "project": "mill"},
        {"token_hash": "3" * 64, "agent": "nils", "label": "N", "display_name": "N", "clear": True},
        {"token_hash": "4" * 64, "agent": "nils", "scope": ["mail", "read"]},
        {"token_hash": "7" * 64, "agent": "nils", "expires_at": START * 2},
        {"token_hash": "5" * 64, "agent": "nils", "active": False},
        {"agent": "nils"},
        {"token_hash": "6" * 64, "label": "nobody's"},
    )
    town.call(OWNER, acts.ImportTokens(rows[:1]))
    town.call(OWNER, acts.ImportTokens(rows))
    town.call(OWNER, acts.ImportTokens(rows, apply=True))
    town.call(OWNER, acts.Explain(town.send(acts.Credentials("old"), "@vera")))
    town.call(OWNER, acts.Examine())
    town.call(OWNER, acts.ImportTokens(rows, {"Otto": "otto"}, apply=True))


def the_workspace(town: Town) -> None:
    cli, *_ = people(town)
    town.call(OWNER, acts.ListSettings())
    town.call(OWNER, acts.ChangeSetting("recipients", "strict"))
    town.call(OWNER, acts.Pause())
    town.call(OWNER, acts.ShowStatus())
    town.call(OWNER, acts.Pause("a disk is full"))
    town.call(OWNER, acts.ShowStatus())
    town.call(OWNER, acts.Resume())
    town.call(OWNER, acts.ShowStorage())
    town.call(cli, acts.ShowStorage())


def audit(town: Town) -> None:
    cli, *_ = people(town)
    town.send(cli, "@vera")
    town.call(cli, acts.ShowLog(limit=2))
    town.call(cli, acts.VerifyLog())
    town.call(cli, acts.SignCheckpoint())
    town.call(cli, acts.Prove(seq=2))
    town.call(cli, acts.Prove(since=3))
    town.call(cli, acts.ProveMany((1, 3)))
    town.call(OWNER, acts.ExportLog(str(town.directory.parent / "export.jsonl")))
    town.call(OWNER, acts.Rebuild())
    town.call(OWNER, acts.ShowLog())


def a_restore(town: Town) -> None:
    cli, *_ = people(town)
    town.call(OWNER, acts.ShowStorage())
    backup = str(town.directory.parent / "backup.db")
    town.call(OWNER, acts.Backup(backup))
    town.call(OWNER, acts.Restore(backup))
    mine = tokens.hashed(cli.token or "")
    town.call(OWNER, acts.IdentifyToken(mine))
    town.call(OWNER, acts.ShowToken(tokens.token_id(mine)))
    town.call(OWNER, acts.ListTokens())
    town.call(OWNER, acts.RotateToken(tokens.token_id(mine)))
    town.call(OWNER, acts.MintToken("otto-cli"))
    town.call(OWNER, acts.ReaffirmTokens())
    town.call(OWNER, acts.ShowLog())


def damage(town: Town) -> None:
    people(town)
    log = apsw.Connection(os.path.join(town.directory, "log.db"))
    log.execute("UPDATE log SET header = CAST(replace(header, 'otto', 'milo') AS BLOB)")
    log.close()
    town.call(OWNER, acts.VerifyLog())


def an_engine(town: Town) -> None:
    """A log that a server keeps, which loses an entry, gets it back, and goes away."""
    beside = town.directory.parent
    with ValkeyServer(beside / "valkey") as server:
        town.node.close()
        (beside / "node").mkdir()
        town.node = Node(str(beside / "node"), engine=server.url + "?workspace=town")
        people(town)
        town.call(OWNER, acts.ShowStorage())
        lost = town.node.head()
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{town}:log", f"{lost}-0")
        assert repairing.restore(town.node)["restored"] == 1
        town.call(OWNER, acts.ListEvents(limit=1000))
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{town}:log", f"{town.node.head()}-0")
        assert repairing.give_up(town.node)["given_up"] == 1
        town.call(OWNER, acts.ListEvents(limit=1000))
    _until_troubled(town)
    town.call(OWNER, acts.ShowStorage())
    town.node.close()
    town.node = Node(str(beside / "node"))
    _until_troubled(town)
    town.call(OWNER, acts.ShowStorage())


def _until_troubled(town: Town) -> None:
    assert town.node.shared is not None
    deadline = time.monotonic() + 30
    while town.node.shared.trouble is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


HOURS = (
    *(an_hour_of_mail, questions, large_bodies, claims, guarding, attending, tasks, evidence),
    *(blockers, identity, letting_people_in, the_workspace, audit, a_restore, damage, an_engine),
)
# A log that an engine keeps is not restored over its nodes' heads.
EMBEDDED = (a_restore,)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[type, Answer]]:
    """All that was asked and answered, each hour in a town of its own."""
    found: list[tuple[type, Answer]] = []
    for hour in HOURS:
        engine = "sqlite" if hour in EMBEDDED else None
        town = Town(tmp_path_factory.mktemp("town") / "workspace", engine)
        hour(town)
        if hour not in (damage, an_engine):
            town.call(OWNER, acts.ListEvents(limit=2))
            town.call(OWNER, acts.ListEvents(limit=1000))
        town.node.close()
        found += town.told
    return found


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    """No types but those written, and no members but those named."""
    strict = ConfigDict(extra="forbid", strict=True)
    with pytest.MonkeyPatch.context() as patch:
        for kind in _typed_dicts():
            patch.setattr(kind, "__pydantic_config__", strict, raising=False)
        yield


def _typed_dicts() -> list[Any]:
    return [kind for kind in vars(answers).values() if is_typeddict(kind)]


def test_every_act_that_can_be_asked_for_has_its_answer() -> None:
    assert ANSWERS.keys() == {route.act for route in ROUTES}


@pytest.mark.parametrize("act", ANSWERS, ids=lambda act: act.__name__)
def test_what_a_node_answers_is_what_the_contract_says(
    act: type, told: list[tuple[type, Answer]]
) -> None:
    examples = [answer for asked, answer in told if asked is act]
    assert examples, f"nobody asks for {act.__name__} in this test"
    check = TypeAdapter(ANSWERS[act])
    for example in examples:
        assert check.validate_python(example) == example


@pytest.mark.parametrize("act", ANSWERS, ids=lambda act: act.__name__)
def test_an_answer_with_anything_besides_or_anything_less_is_none(
    act: type, told: list[tuple[type, Answer]]
) -> None:
    example = max((answer for asked, answer in told if asked is act), key=len)
    check = TypeAdapter(ANSWERS[act])
    with pytest.raises(ValidationError):
        check.validate_python(example | {"surprise": 1})
    if act is acts.AckMessages:
        return  # every message has one of three states, and none of them is sure
    with pytest.raises(ValidationError):
        check.validate_python({})


def test_every_member_that_may_be_absent_was_once_there_and_once_not(
    told: list[tuple[type, Answer]],
) -> None:
    here: set[tuple[str, str]] = set()
    gone: set[tuple[str, str]] = set()
    for act, answer in told:
        _look(ANSWERS[act], answer, here, gone)
    optional = {
        (kind.__name__, name)
        for kind in _typed_dicts()
        for name in kind.__optional_keys__
        if not kind.__name__.startswith("_")
    }
    assert sorted(optional - here) == []
    assert sorted(optional - gone) == NEVER_ABSENT


def _look(kind: Any, value: Any, here: set[tuple[str, str]], gone: set[tuple[str, str]]) -> None:
    """Notes which optional members an answer has, and which it lacks."""
    if get_origin(kind) is list:
        for item in value:
            _look(get_args(kind)[0], item, here, gone)
    elif is_typeddict(kind):
        for name, hint in get_type_hints(kind).items():
            (here if name in value else gone).add((kind.__name__, name))
            if name in value:
                _look(hint, value[name], here, gone)
    elif branches := [branch for branch in get_args(kind) if is_typeddict(branch)]:
        _look(next(b for b in branches if _fits(b, value)), value, here, gone)


def _fits(kind: Any, value: Any) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def test_every_kind_of_fact_is_an_event_that_was_seen(told: list[tuple[type, Answer]]) -> None:
    kinds = {
        event["kind"]
        for act, answer in told
        if act is acts.ListEvents
        for event in answer["events"]
    }
    assert kinds == set(KINDS)
