"""Every answer of a real node has the shape that `rooms.answers` states, and nothing besides.

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
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from interlock.errors import IdentityMismatch
from interlock.log.encoding import digest
from interlock.machine import processes
from interlock.node import Node
from interlock.node import repair as repairing
from interlock.node import wake_ups as dispatching
from interlock.rooms import answers, catalogue
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    CheckPaths,
    ListClaims,
    ReleaseClaim,
    RenewClaim,
    ReportCommit,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.folding import KINDS
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import (
    CreateGroup,
    EndSession,
    FindSession,
    IdentifyToken,
    ImportTokens,
    Join,
    KeepSession,
    LabelToken,
    ListAgents,
    ListGroups,
    ListTokens,
    MintToken,
    Mute,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    ShowToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    DropUpload,
    Explain,
    FindAnswer,
    ListInbox,
    ListMail,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
    ShowReceipts,
    ShowThread,
)
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    Invite,
    ListConnections,
    NameConnection,
    RevokeConnection,
    SignIn,
)
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CheckGate,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    ListBlockers,
    ListGates,
    ListTasks,
    PrepareEvidence,
    PrepareVerdict,
    RaiseBlocker,
    ResolveBlocker,
    ShowEvidence,
    ShowTask,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import (
    Attend,
    Backup,
    ChangeSetting,
    Examine,
    ExportLog,
    ListEvents,
    ListSettings,
    Pause,
    Prove,
    ProveMany,
    Rebuild,
    Restore,
    Resume,
    Review,
    ShowLog,
    ShowStatus,
    ShowStorage,
    SignCheckpoint,
    VerifyLog,
    Whoami,
)
from interlock.verbs.credentials import Credentials
from world.databases import ValkeyServer
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
        """One request of a verb that waits: the caller enters the queue, and does not wait."""
        return self._kept(act, self.node.call_once(who, act))

    def _kept(self, act: Any, answer: Answer) -> Answer:
        self.told.append((type(act), answer))
        return answer

    def join(self, name: str, surface: str | None = None, **said: Any) -> Credentials:
        return Credentials(token=self.call(OWNER, Join(name, surface, **said))["token"])

    def uploaded(self, who: Credentials, data: bytes) -> str:
        return str(self.call(who, PutChunk(data, len(data)))["upload"])

    def send(self, who: Credentials, to: str, text: str = "hello", **said: Any) -> str:
        sent = self.call(who, SendMessage(to, {"text": text}, "send", **said))
        return str(sent["message"]["id"])


def people(town: Town) -> tuple[Credentials, Credentials, Credentials]:
    """otto-cli and otto-desktop, surfaces of an agent, and vera, a person."""
    cli = town.join("otto", "cli", label="otto's terminal")
    desktop = town.join("otto", "desktop")
    vera = town.join("vera", kind="human", scopes=("mail", "claim", "work", "admin"))
    return cli._replace(session="s-1"), desktop, vera


def an_hour_of_mail(town: Town) -> None:
    cli, desktop, vera = people(town)
    town.call(OWNER, ListAgents())
    town.call(cli, StartSession("s-1"))
    first = town.send(cli, "@vera", "for you", subject="a line", key="k-1")
    town.send(cli, "@vara", "for whom?", ttl_s=60)
    town.send(cli, "@somebody-else")
    town.send(cli, "@vera", "another")
    reply = town.send(vera, "@otto", "to either", reply_to=first, ttl_s=60)
    town.call(vera, ListInbox(limit=1, adapter="test"))
    town.call(vera, ListInbox("sent", limit=1))
    town.call(cli, ReadMessage(reply))
    town.call(desktop, ReadMessage(reply))
    town.call(desktop, ListInbox("all"))
    town.call(vera, ReadMessage(first))
    town.call(cli, ReadMessage(first, 2, 4))
    town.call(cli, ReadMessage(first, 2, 100))
    town.call(cli, ReadMessage(first, 0, 2))
    town.call(vera, AckMessages((first,), note="done"))
    declined = town.send(cli, "@vera", "would you?")
    town.call(vera, AckMessages((declined,), decline=True))
    town.call(cli, ShowReceipts(first))
    town.call(vera, ShowReceipts(declined))
    town.call(cli, ShowThread(first, limit=1))
    town.call(cli, ShowThread(first))
    town.call(vera, Search("either"))
    town.call(OWNER, ListMail())
    town.call(vera, ListMail())
    town.call(cli, Explain(first))
    town.call(cli, Redact(first, "named a customer"))
    town.call(cli, Explain(first))
    town.call(vera, ReadMessage(first))
    unread = town.send(cli, "@vera", "too late", ttl_s=60)
    town.ms += HOUR
    town.call(cli, ListInbox())
    town.call(vera, AckMessages((unread,)))
    notice = town.call(cli, ListInbox())["messages"][-1]
    assert notice["from"] == "@interlock"
    town.call(cli, Explain(notice["id"]))


def questions(town: Town) -> None:
    cli, _, vera = people(town)
    asked = town.call(cli, Ask("@nobody", "is anybody there?", wait_s=1))
    town.call(cli, FindAnswer(asked["id"]))
    town.call(cli, SendMessage("@vera", {"question": "in time?", "timeout_s": 1}, "ask"))
    helper = threading.Thread(target=_answer_when_asked, args=(town.node, vera))
    helper.start()
    found = town.call(cli, Ask("@vera", "may I?", ("yes", "no"), LIMIT_S))
    helper.join(LIMIT_S)
    assert found["answered"], found
    town.call(cli, FindAnswer(found["id"]))
    (ask, *_) = town.call(vera, ListInbox())["messages"]
    town.call(vera, AnswerAsk(ask["id"], "just so", key="k-2"))
    town.ms += HOUR
    town.call(cli, SendMessage("@vera", {"question": "and now?"}, "ask"))
    late = town.call(cli, SendMessage("@vera", {"question": "late?", "timeout_s": 1}, "ask"))
    town.ms += HOUR
    with pytest.raises(IdentityMismatch):
        town.call(cli._replace(claimed="vera"), Whoami())
    assert late["accepted"]
    town.call(OWNER, Review())


def _answer_when_asked(node: Node, vera: Credentials) -> None:
    inbox = node.call(vera, ListInbox(wait_s=LIMIT_S))["messages"]
    while not (asked := [m for m in inbox if m["payload"].get("question") == "may I?"]):
        inbox = node.call(vera, ListInbox(after=inbox[-1]["seq"], wait_s=LIMIT_S))["messages"]
    node.call(vera, AnswerAsk(asked[0]["id"], "yes"))


def large_bodies(town: Town) -> None:
    cli, *_ = people(town)
    put = town.call(cli, PutChunk(b"x" * 10, 20))
    town.call(cli, DropUpload(put["upload"]))
    town.send(cli, "@vera", "x" * (1 << 21))


def claims(town: Town) -> None:
    cli, desktop, vera = people(town)
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    town.call(OWNER, CheckClaim("B-1"))
    got = town.call(cli, AcquireClaim("B-1", **where))
    town.call(cli, AcquireClaim("B-1", branch="other", ttl_s=7200))
    town.call(desktop, AcquireClaim(paths=("src/**",), repo="r", worktree="/w"))
    town.call(vera, AcquireClaim("B-1"))
    town.step(vera, AcquireClaim("B-1", wait_s=60, **where))
    town.step(desktop, AcquireClaim("B-1", wait_s=60))
    town.call(desktop, StopWaiting("B-1"))
    town.ms += 20_000
    town.step(vera, AcquireClaim("B-1", wait_s=60))
    town.call(desktop, AcquireClaim("B-1"))
    town.call(vera, CheckClaim("B-1"))
    town.call(cli, RenewClaim("B-1", fence=got["claim"]["fence"]))
    town.call(cli, Whoami())
    town.call(desktop, Whoami())
    town.call(vera, Whoami())
    town.call(OWNER, ListClaims())
    town.call(cli, ReleaseClaim("B-1"))
    town.call(cli, ReleaseClaim("B-2"))
    town.call(cli, AcquireClaim("B-2", **where))
    town.call(vera, TakeOverClaim("it is urgent", "B-2"))
    town.call(desktop, AcquireClaim("B-3"))
    town.call(vera, TakeOverClaim("this too", "B-3", **where))
    town.call(cli, FindSession("s-1"))
    town.call(cli, StartSession("s-1"))
    town.call(cli, FindSession("s-1"))
    town.call(cli, AcquireClaim("B-4"))
    town.call(cli, KeepSession("s-1"))
    town.call(cli, EndSession("s-1"))
    town.ms += 3 * HOUR
    town.call(OWNER, Review())


def guarding(town: Town) -> None:
    cli, desktop, vera = people(town)
    where: Any = {"paths": ("src/**",), "repo": "r", "worktree": "/w"}
    town.call(cli, AcquireClaim(**where))
    town.call(cli, AcquireClaim(**where, everywhere=True))
    town.call(desktop, AcquireClaim(paths=("doc/*",), repo="r", worktree="/w"))
    town.step(desktop, AcquireClaim("B-1", wait_s=60))
    town.call(vera, TakeOverClaim("it is urgent", "B-1", everywhere=True))
    town.step(desktop, AcquireClaim("B-1", wait_s=60, everywhere=True))
    for paths in (("src/a.py", "doc/a"), ("doc/a",), ("src/a.py",)):
        town.call(vera, CheckPaths(paths, "r", "/v"))
        town.call(vera, ReportCommit(COMMIT, paths, "r", "/v"))
    town.call(OWNER, Examine())
    town.call(OWNER, ChangeSetting("guard", "off"))
    town.call(vera, CheckPaths(("src/a.py",), "r", "/v"))
    town.call(vera, Attend("edit", "test", ("src/a.py",), "r", "/v"))


def attending(town: Town) -> None:
    """A client's session at each of its steps, and another that is woken from outside."""
    cli, desktop, vera = people(town)
    town.call(OWNER, ChangeSetting("wake.quiet_s", "0"))
    town.call(cli, Attend("start", "test"))
    town.call(cli, AcquireClaim(paths=("src/**",), repo="r"))
    town.call(cli, Attend("start", "test"))
    sent = town.send(vera, "@otto")
    town.call(cli, Attend("prompt", "test"))
    town.call(desktop, Attend("tool", "test"))
    town.call(desktop, Attend("edit", "test", ("src/a.py",), "r", "/w"))
    town.call(cli, Attend("edit", "test", ("src/a.py",), "r", "/w"))
    town.call(vera, SendMessage("@otto-cli", {"question": "well?"}, "ask"))
    town.call(cli, Attend("stop", "test", held=1))
    town.call(cli, Attend("idle", "test", wait_s=1))
    town.call(cli, ShowReceipts(sent))
    town.call(OWNER, Pause())
    town.call(cli, Attend("tool", "test"))
    town.call(OWNER, Resume())
    town.call(cli, Attend("end", "test"))
    dead = {"pid": os.getpid(), "started": "long ago", "space": processes.space()}
    town.call(cli._replace(session="s-2"), Attend("tool", "test", window=dead))
    assert town.call(cli, Attend("start", "test"))["lost"] == ["s-2"]
    for outcome, why in (("failed", "it is busy"), ("woken", None), ("unknown", None)):
        late = town.send(vera, "@otto-desktop")
        begun = dispatching.begin(town.node, "otto-desktop", "test")
        assert begun is not None
        town.call(vera, ShowReceipts(late))
        dispatching.end(town.node, begun, "otto-desktop", outcome, why)
        town.call(vera, ShowReceipts(late))
    town.call(OWNER, Mute("otto", 60))
    town.call(cli, Mute())
    town.call(OWNER, ListAgents())
    town.call(cli, Mute(off=True))


def tasks(town: Town) -> None:
    """Every way that a task can go."""
    cli, desktop, vera = people(town)
    town.call(OWNER, CreateGate("athena", ("@vera", "@otto")))
    said: Any = {"priority": "high", "assignee": "@otto", "labels": ("ui",), "brief": "By name."}
    first = CreateTask("Sort it", "T-1", criteria=("it sorts",), gates=("athena",), **said)
    town.call(vera, first)
    town.call(vera, CreateTask("Show it", depends_on=("T-1",), assignee="@ghost"))
    town.call(OWNER, ListTasks(limit=1))
    town.call(OWNER, ListTasks("live"))
    town.call(vera, TakeTask("T-2"))
    town.call(OWNER, ShowTask("T-2"))
    town.call(OWNER, ShowTask("T-1"))
    town.call(vera, PrepareEvidence("T-1", 1))
    town.call(vera, AcquireClaim("B-1", worktree="/w"))
    where: Any = {"branch": "main", "worktree": "/w", "note": "mine"}
    fence = town.call(cli, TakeTask("T-1", **where))["claim"]["fence"]
    town.call(cli, TakeTask("T-1"))
    town.call(desktop, TakeTask("T-1"))
    town.step(vera, AcquireClaim("T-1", wait_s=60))
    town.call(desktop, TakeTask("T-1"))
    town.call(vera, StopWaiting("T-1"))
    town.call(cli, PrepareEvidence("T-1"))
    town.call(cli, SubmitTask("T-1", COMMIT, TREE, fence))
    town.call(vera, Whoami())
    town.call(cli, Whoami())
    town.call(OWNER, Review())
    town.call(OWNER, ListGates())
    town.call(vera, PrepareVerdict("T-1", "athena"))
    town.call(cli, CompleteTask("T-1"))
    town.call(OWNER, CheckGate("athena", COMMIT))
    town.call(vera, GiveVerdict("T-1", "athena", "fail", COMMIT, "red", ("make fix",)))
    town.call(cli, CompleteTask("T-1"))
    town.call(OWNER, CheckGate("athena", COMMIT))
    town.call(OWNER, ShowTask("T-1"))
    ran = town.call(cli, AddEvidence(a_run(), town.uploaded(cli, OUTPUT)))
    town.call(cli, SubmitTask("T-1", COMMIT))
    relied_on = (ran["evidence"]["id"],)
    by_checks: Any = {"evidence": relied_on, "tree": TREE, "rules": digest(b"make test")}
    town.call(vera, GiveVerdict("T-1", "athena", "pass", **by_checks))
    said = {"kind": "note", "text": "it sorts", "task_id": "T-4", "criterion": 1}
    other = CreateTask("Note it", "T-4", criteria=("it is noted",), gates=("athena",))
    town.call(vera, other)
    town.call(cli, TakeTask("T-4"))
    note = town.call(cli, AddEvidence(said))["evidence"]["id"]
    town.call(cli, SubmitTask("T-4", COMMIT, TREE))
    town.call(vera, GiveVerdict("T-4", "athena", "pass", evidence=(note,)))
    town.call(OWNER, ShowTask("T-4"))
    town.call(vera, PrepareVerdict("T-1", "athena"))
    town.call(OWNER, CheckGate("athena", COMMIT))
    town.call(OWNER, ShowTask("T-1"))
    town.call(cli, CompleteTask("T-1"))
    town.call(OWNER, ShowTask("T-1"))
    town.call(desktop, TakeTask("T-2"))
    town.call(desktop, FailTask("T-2", "it cannot be shown"))
    town.call(cli, CreateTask("Print it", "T-3"))
    town.call(cli, CancelTask("T-3"))
    town.call(OWNER, ListTasks())


def evidence(town: Town) -> None:
    cli, _, vera = people(town)
    town.call(vera, CreateTask("Sort it", "T-1", criteria=("it sorts",)))
    town.call(cli, TakeTask("T-1"))
    about: Any = {"task_id": "T-1", "criterion": 1, "title": "seen"}
    town.call(cli, AddEvidence({"kind": "note", "text": "it works"} | about))
    town.call(vera, AddEvidence({"kind": "url", "url": "https://example.com/"}))
    kept = {"sha256": digest(BINARY), "size": len(BINARY)}
    file = {"kind": "file", "name": "a.bin", "task_id": "T-1"} | kept
    added = town.call(cli, AddEvidence(file, town.uploaded(cli, BINARY)))
    town.call(OWNER, ShowEvidence(added["evidence"]["id"]))
    ran = town.call(cli, AddEvidence(a_run(), town.uploaded(cli, OUTPUT)))
    town.call(OWNER, ShowEvidence(ran["evidence"]["id"], 2, 5))
    town.call(OWNER, ShowEvidence(ran["evidence"]["id"]))
    whole = a_run() | {
        "exit_code": 1,
        "interrupted": True,
        "ended_by": "time limit",
        "produced": 10_000,
        "masked": 2,
        "spooled": True,
        "tests": {"passed": 2, "failed": 1, "skipped": 1, "errors": 1},
    }
    town.call(cli, AddEvidence(whole, town.uploaded(cli, OUTPUT)))
    bare = {name: value for name, value in whole.items() if name not in ("commit", "tree", "dirty")}
    bare |= {"tests": {}, "output": {"sha256": digest(b""), "size": 0}}
    town.call(cli, AddEvidence(bare))
    note = town.call(vera, AddEvidence({"kind": "note", "text": "the word is sesame"}))
    town.call(vera, Redact(note["evidence"]["id"], "a password"))
    town.call(OWNER, ShowEvidence(note["evidence"]["id"]))
    town.call(OWNER, ShowTask("T-1"))


def blockers(town: Town) -> None:
    cli, _, vera = people(town)
    town.call(OWNER, CreateGate("athena", ("@vera",)))
    town.call(vera, CreateTask("Sort it", "T-1", gates=("athena",)))
    town.call(cli, TakeTask("T-1"))
    town.call(cli, SubmitTask("T-1", COMMIT, TREE))
    town.call(vera, GiveVerdict("T-1", "athena", "fail", note="red"))
    raised = town.call(vera, RaiseBlocker("it is slow", "T-1", fix=("make fast",)))["blocker"]
    leaked = town.call(cli, RaiseBlocker("sesame does not open", to="@vara"))["blocker"]
    town.call(cli, Redact(leaked["id"], "a password"))
    town.call(OWNER, ListBlockers())
    town.call(OWNER, Review())
    town.call(cli, CompleteTask("T-1"))
    town.call(vera, ResolveBlocker(raised["id"], "it is quick now"))
    town.call(cli, ResolveBlocker(leaked["id"]))
    town.call(OWNER, ListBlockers("T-1", all=True))


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
    hashed = token_format.hashed("a token of our own making")
    town.call(OWNER, Join("milo", token_hash=token_format.hashed("another")))
    town.call(OWNER, ListAgents("otto"))
    town.call(cli, Whoami())
    town.ms += 1000
    town.call(OWNER, ListAgents())
    town.call(OWNER, CreateGroup("devs", ("@otto", "@vera")))
    town.call(OWNER, ListGroups())
    town.call(OWNER, MintToken("milo", "for a day", (), 60, hashed))
    made = town.call(OWNER, MintToken("milo"))
    town.call(OWNER, ShowToken(made["id"]))
    town.call(OWNER, RotateToken(made["id"]))
    brought = token_format.hashed("brought along")
    town.call(OWNER, RotateToken(token_format.token_id(hashed), token_hash=brought))
    mine = token_format.hashed(cli.token or "")
    for known in (
        mine,
        brought,
        token_format.hashed(made["token"]),
        token_format.hashed("unknown"),
    ):
        town.call(OWNER, IdentifyToken(known))
    town.call(OWNER, ShowToken(token_format.token_id(brought)))
    town.call(OWNER, LabelToken(token_format.token_id(brought), "Milo, at home"))
    imports(town)
    town.call(OWNER, RevokeToken(sender="milo"))
    town.call(OWNER, ListTokens())


def letting_people_in(town: Town) -> None:
    """Rosa, who owns robo, in two browsers; a client that acts as robo, and one that is not open
    yet; and somebody on another machine."""
    nobody = Credentials()
    kept = token_format.hashed("kept by who joins")
    rosa = signed_in(town.node, "rosa", "robo")
    asked = SignIn("rosa", VERIFIER, token_format.hashed("in a browser without a name"))
    town.node.call(nobody, asked)
    acting = connected(town.node, rosa, "robo", "phone")
    town.call(OWNER, IdentifyToken(token_format.hashed(acting.token)))
    town.call(OWNER, Explain(town.send(Credentials(acting.token, audience=RESOURCE), "@rosa")))
    refreshed(town.node, acting)
    town.call(OWNER, MintToken("rosa", "Rosa, at home", ttl_s=60))
    town.call(OWNER, MintToken("robo"))
    granted(town.node, rosa, "rosa")
    town.call(
        OWNER, Invite("hugo", "desk", ("rex",), ttl_s=60, code_hash=token_format.hashed("a code"))
    )
    town.call(nobody, AcceptInvitation("a code", kept))
    code = town.call(OWNER, Invite("hanna"))["invitation"]
    town.call(OWNER, Invite("hugo", "desk", ("rex",)))
    withdrawn = town.call(OWNER, Invite("nobody"))["id"]
    town.call(OWNER, ListConnections())
    town.call(nobody, AcceptInvitation(code))
    for who in (OWNER, Credentials(token=rosa)):
        town.call(who, ListConnections())
    town.call(OWNER, NameConnection(acting.id, "her phone"))
    town.call(OWNER, ListTokens())
    town.call(Credentials(token=rosa), RevokeConnection(acting.id))
    town.call(OWNER, RevokeConnection(withdrawn))
    town.call(OWNER, RevokeConnection("@hugo"))


def imports(town: Town) -> None:
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
    town.call(OWNER, ImportTokens(rows[:1]))
    town.call(OWNER, ImportTokens(rows))
    town.call(OWNER, ImportTokens(rows, apply=True))
    town.call(OWNER, Explain(town.send(Credentials("old"), "@vera")))
    town.call(OWNER, Examine())
    town.call(OWNER, ImportTokens(rows, {"Otto": "otto"}, apply=True))


def the_workspace(town: Town) -> None:
    cli, *_ = people(town)
    town.call(OWNER, ListSettings())
    town.call(OWNER, ChangeSetting("recipients", "strict"))
    town.call(OWNER, Pause())
    town.call(OWNER, ShowStatus())
    town.call(OWNER, Pause("a disk is full"))
    town.call(OWNER, ShowStatus())
    town.call(OWNER, Resume())
    town.call(OWNER, ShowStorage())
    town.call(cli, ShowStorage())


def audit(town: Town) -> None:
    cli, *_ = people(town)
    town.send(cli, "@vera")
    town.call(cli, ShowLog(limit=2))
    town.call(cli, VerifyLog())
    town.call(cli, SignCheckpoint())
    town.call(cli, Prove(seq=2))
    town.call(cli, Prove(since=3))
    town.call(cli, ProveMany((1, 3)))
    town.call(OWNER, ExportLog(str(town.directory.parent / "export.jsonl")))
    town.call(OWNER, Rebuild())
    town.call(OWNER, ShowLog())


def a_restore(town: Town) -> None:
    cli, *_ = people(town)
    town.call(OWNER, ShowStorage())
    backup = str(town.directory.parent / "backup.db")
    town.call(OWNER, Backup(backup))
    town.call(OWNER, Restore(backup))
    mine = token_format.hashed(cli.token or "")
    town.call(OWNER, IdentifyToken(mine))
    town.call(OWNER, ShowToken(token_format.token_id(mine)))
    town.call(OWNER, ListTokens())
    town.call(OWNER, RotateToken(token_format.token_id(mine)))
    town.call(OWNER, MintToken("otto-cli"))
    town.call(OWNER, ReaffirmTokens())
    town.call(OWNER, ShowLog())


def damage(town: Town) -> None:
    people(town)
    log = apsw.Connection(os.path.join(town.directory, "log.db"))
    log.execute("UPDATE log SET header = CAST(replace(header, 'otto', 'milo') AS BLOB)")
    log.close()
    town.call(OWNER, VerifyLog())


def an_engine(town: Town) -> None:
    """A log that a server keeps, which loses an entry, gets it back, and goes away."""
    beside = town.directory.parent
    with ValkeyServer(beside / "valkey") as server:
        town.node.close()
        (beside / "node").mkdir()
        town.node = Node(str(beside / "node"), engine=server.url + "?workspace=town")
        people(town)
        town.call(OWNER, ShowStorage())
        lost = town.node.head()
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{town}:log", f"{lost}-0")
        assert repairing.restore(town.node)["restored"] == 1
        town.call(OWNER, ListEvents(limit=1000))
        with closing(redis.Redis(port=server.port)) as client:
            client.xdel("interlock:{town}:log", f"{town.node.head()}-0")
        assert repairing.give_up(town.node)["given_up"] == 1
        town.call(OWNER, ListEvents(limit=1000))
    _until_troubled(town)
    town.call(OWNER, ShowStorage())
    town.node.close()
    town.node = Node(str(beside / "node"))
    _until_troubled(town)
    town.call(OWNER, ShowStorage())


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
            town.call(OWNER, ListEvents(limit=2))
            town.call(OWNER, ListEvents(limit=1000))
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
    if act is AckMessages:
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
        event["kind"] for act, answer in told if act is ListEvents for event in answer["events"]
    }
    assert kinds == set(KINDS)
