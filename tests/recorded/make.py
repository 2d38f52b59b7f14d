"""Records logs, for the tests of this and every later release.

    python tests/recorded/make.py

The program records the days below that have no recording. It runs the rows of `world/rows` until
each kind of fact occurs in a recording. Then it folds again the recordings whose expected state has
another schema.

A recording is made once and never changed. When the state's schema changes, the same facts give
another digest.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from interlock.errors import Refusal
from interlock.log.encoding import decode, digest
from interlock.log.facts import parse_header
from interlock.node import Node, audit, upkeep
from interlock.node import wake_ups as dispatching
from interlock.rooms import folding
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckPaths,
    ReleaseClaim,
    RenewClaim,
    ReportCommit,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.identity import token_format
from interlock.rooms.identity.verbs import (
    CreateGroup,
    EndSession,
    ImportTokens,
    Join,
    KeepSession,
    LabelToken,
    MintToken,
    Mute,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    Search,
    SendMessage,
)
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    CloseConnection,
    Enrol,
    GrantConnection,
    Invite,
    NameConnection,
    OpenConnection,
    RefreshConnection,
    ReportRefusal,
    RevokeConnection,
    SignIn,
    SignOut,
)
from interlock.rooms.work.verbs import (
    AddEvidence,
    CancelTask,
    CompleteTask,
    CreateGate,
    CreateTask,
    FailTask,
    GiveVerdict,
    RaiseBlocker,
    ResolveBlocker,
    SubmitTask,
    TakeTask,
)
from interlock.rooms.workspace.verbs import Attend, ChangeSetting, Pause, Resume, Whoami
from interlock.verbs.answers import Answer
from interlock.verbs.credentials import Credentials

HERE = os.path.dirname(os.path.abspath(__file__))
# A day that no real clock has reached. A restore uses the machine's own clock for its epoch, and a
# clock behind the log does not change the log's time.
MORNING = 1_893_999_600_000
MINUTE = 60_000
OWNER = Credentials(owner=True)
REPO = "https://git.example/interlock/sample"
CLIENT = "https://client.example/about.json"
RESOURCE = "https://interlock.example/mcp"
VERIFIER = "a" * 64


class Day:
    """A workspace with a clock that the script moves."""

    def __init__(self, directory: str) -> None:
        self.now = MORNING
        self.directory = directory
        self.node = Node(directory, clock=lambda: self.now)
        self.refused: list[str] = []
        self._secrets = 0

    def later(self, minutes: float) -> None:
        self.now += round(minutes * MINUTE)

    def do(self, who: Credentials, request: Any) -> Answer:
        self.later(0.1)
        return self.node.call(who, request)

    def refuse(self, who: Credentials, request: Any) -> None:
        try:
            self.do(who, request)
        except Refusal as refusal:
            self.refused.append(refusal.code)
        else:
            raise AssertionError(f"{request} was not refused")

    def send(self, who: Credentials, to: str, type: str, payload: Answer, **more: Any) -> str:
        self.later(0.1)
        sent = self.node.call(who, SendMessage(to, payload, type, **more))
        return str(sent["message"]["id"])

    def token(self, prefix: str = token_format.PREFIX) -> tuple[str, str]:
        """A predictable token, and its hash."""
        self._secrets += 1
        token = token_format.compose(bytes([self._secrets]) * token_format.SECRET_BYTES, prefix)
        return token, token_format.hashed(token)

    def join(self, name: str, surface: str | None = None, **more: Any) -> Credentials:
        token, hash = self.token()
        self.do(OWNER, Join(name, surface, token_hash=hash, **more))
        return Credentials(token=token)


class Cast:
    """The senders of the day."""

    def __init__(self, day: Day) -> None:
        self.cli = day.join("otto", "cli", label="otto in a terminal")
        self.desktop = day.join("otto", "desktop")
        self.neo = day.join("neo-gpt", scopes=("mail", "claim", "gate:review"))
        self.vera = day.join("vera", kind="human", scopes=("admin",))


def identity(day: Day, cast: Cast) -> None:
    day.do(OWNER, CreateGroup("builders", ("@otto-cli", "@neo-gpt", "@vera")))
    day.do(cast.vera, CreateGroup("builders", ("@otto", "@neo-gpt")))
    token, hash = day.token()
    day.do(cast.vera, MintToken("otto-cli", "for an hour", ("mail",), 3600, hash))
    day.do(Credentials(token=token), Whoami())
    minted = day.do(OWNER, MintToken("neo-gpt", token_hash=day.token()[1]))
    day.do(OWNER, RotateToken(minted["id"], token_hash=day.token()[1]))
    day.do(OWNER, MintToken("otto-desktop", token_hash=day.token()[1]))
    day.do(cast.vera, ChangeSetting("names.pattern", "[a-z.]+@[a-z.]+"))
    guest = day.join("kim@example.org", kind="human")
    day.send(guest, "@vera", "send", {"text": "Good morning: 早上好, 🌞."})
    day.do(OWNER, RevokeToken(sender="kim@example.org"))
    day.refuse(guest, Whoami())


def mail(day: Day, cast: Cast) -> str:
    """Send every type of message to every kind of recipient. Return a message to redact."""
    cli, desktop, neo, vera = cast.cli, cast.desktop, cast.neo, cast.vera
    day.send(cli, "AGENT:*", "announce", {"text": "otto is here", "client": "cli", "pid": 4711})
    day.send(vera, "@builders", "send", {"text": "Standup at ten.", "content_type": "text/plain"})
    first = day.send(vera, "@otto", "send", {"text": "Who takes B-0444?"}, subject="B-0444")
    day.do(cli, ListInbox(adapter="watch"))
    day.do(desktop, ListInbox())
    day.do(cli, ReadMessage(first))
    reply = day.send(cli, "@vera", "send", {"text": "I do."}, reply_to=first, key="reply-1")
    day.send(cli, "@vera", "send", {"text": "I do."}, reply_to=first, key="reply-1")
    day.refuse(cli, SendMessage("@vera", {"text": "Not I."}, "send", key="reply-1"))
    day.send(vera, "@otto", "wake", {"text": "Look at the thread.", "about": reply}, thread=first)
    day.send(
        vera,
        "@neo-gpt",
        "command",
        {"command": "make test", "why": "before the merge", "cwd": "/src"},
        priority="high",
        wake=True,
    )
    day.send(
        neo,
        "@vera",
        "blocker",
        {"what": "the disk is full", "severity": "stop", "fix": ["df -h"], "task_id": "B-0444"},
        priority="critical",
    )
    asked = day.send(
        neo, "@vera", "ask", {"question": "Merge?", "options": ["yes", "no"], "timeout_s": 600}
    )
    day.do(vera, AnswerAsk(asked, "yes", key="answer-1"))
    day.send(neo, "@otto-desktop", "ask", {"question": "Is anybody there?", "timeout_s": 60})
    day.send(cli, "@nobody-yet", "send", {"text": "Kept until you join."}, wake=False)
    day.send(cli, "@neo-gpt", "send", {"text": "Too late."}, ttl_s=300, priority="low")
    day.send(neo, "@vera", "send", {"text": "z" * ((1 << 20) + 1)}, subject="as a blob")
    opened = day.do(vera, ListInbox())["messages"]
    day.do(vera, AckMessages(tuple(m["id"] for m in opened[:3]), note="done"))
    day.do(vera, AckMessages((opened[3]["id"],), decline=True))
    day.do(neo, Search("merge"))
    return day.send(cli, "@vera", "send", {"text": "the password is sesame"}, key="slip")


def claims(day: Day, cast: Cast) -> None:
    cli, desktop, neo, vera = cast.cli, cast.desktop, cast.neo, cast.vera
    held = day.do(cli, AcquireClaim(item="B-0444", branch="b-0444", worktree="/w/1", ttl_s=600))
    day.do(cli, AcquireClaim(item="B-0444", note="nearly there", ttl_s=1200))
    day.do(cli, RenewClaim(item="B-0444", ttl_s=1800, fence=held["claim"]["fence"]))
    day.do(neo, AcquireClaim(paths=("src/**", "doc/*.md"), repo=REPO))
    day.do(cli, AcquireClaim(paths=("src/a.py",), repo=REPO))
    # Two senders wait. The first asks again, the second does not.
    day.do(neo, AcquireClaim(item="B-0444", wait_s=3600))
    day.do(vera, AcquireClaim(item="B-0444", wait_s=3600))
    for _ in range(3):
        day.later(0.3)
        day.do(neo, AcquireClaim(item="B-0444", wait_s=3600))
    day.refuse(neo, ReleaseClaim(item="B-0444"))
    day.do(cli, ReleaseClaim(item="B-0444"))
    day.do(neo, AcquireClaim(item="B-0444", ttl_s=600, branch="neo/b-0444"))
    day.do(vera, TakeOverClaim("neo is away", item="B-0444", ttl_s=120))
    day.refuse(neo, RenewClaim(item="B-0444", fence=held["claim"]["fence"]))
    day.do(desktop, AcquireClaim(item="B-0444", wait_s=60))
    day.do(desktop, StopWaiting(item="B-0444"))
    day.later(3)
    day.do(neo, ListInbox())
    # A session that ends releases its claims and leaves its queues.
    window = cli._replace(session="window-1")
    day.do(window, StartSession("window-1"))
    day.do(window, AcquireClaim(item="B-0445", ttl_s=900))
    day.do(neo, AcquireClaim(item="B-0446", ttl_s=900))
    day.do(window, AcquireClaim(item="B-0446", wait_s=300))
    day.later(10)
    day.do(window, KeepSession("window-1"))
    day.do(window, EndSession("window-1"))


def order(day: Day, cast: Cast, slip: str) -> None:
    """Settings, recorded refusals, a pause and a redaction."""
    day.do(OWNER, ChangeSetting("recipients", "strict"))
    day.refuse(cast.cli, SendMessage("@nobody", {"text": "anyone?"}, "send"))
    day.do(OWNER, ChangeSetting("recipients", "open"))
    day.refuse(cast.cli._replace(claimed="@vera"), SendMessage("@neo-gpt", {"text": "x"}, "send"))
    day.refuse(cast.cli, Join("mole", scopes=("admin",), token_hash=day.token()[1]))
    day.refuse(cast.neo, TakeOverClaim("I want it", item="B-0446"))
    day.do(cast.vera, Pause("the disk is moved"))
    day.refuse(cast.cli, AcquireClaim(item="B-0447"))
    day.do(cast.vera, Resume())
    day.do(cast.cli, Redact(slip, "a password"))
    day.refuse(cast.cli, SendMessage("@vera", {"text": "another"}, "send", key="slip"))


def restore(day: Day, cast: Cast) -> None:
    """A new epoch, in which the owner reaffirms tokens."""
    backup = os.path.join(day.directory, "backup.db")
    upkeep.backup(day.node, OWNER, backup)
    day.send(cast.cli, "@vera", "send", {"text": "abandoned"})
    day.do(cast.neo, AcquireClaim(item="B-0448", ttl_s=60))
    upkeep.restore(day.node, OWNER, backup)
    day.refuse(cast.vera, Whoami())
    day.do(OWNER, ReaffirmTokens(sender="vera"))
    day.do(OWNER, ReaffirmTokens(sender="otto-cli"))
    day.do(cast.vera, AcquireClaim(item="B-0448", ttl_s=60))
    day.later(2)
    day.do(cast.cli, AcquireClaim(item="B-0448"))
    day.send(cast.cli, "@vera", "send", {"text": "Good night."})


def work(day: Day) -> None:
    """Three tasks: one fails at its gate, is fixed and done, one fails, and one is cancelled."""
    cast = Cast(day)
    cli, vera = cast.cli, cast.vera
    day.do(OWNER, CreateGate("review", ("@vera",)))
    day.do(OWNER, CreateGate("review", ("@vera", "@otto-desktop"), replace=True))
    shown = CreateTask(
        "Sort the list",
        "B-0450",
        "By name, then by date.",
        ("make test passes", "it reads well"),
        ("review",),
        priority="high",
        assignee="@otto",
        labels=("ui", "list"),
    )
    day.do(vera, shown)
    day.do(vera, CreateTask("Print the list", depends_on=("B-0450",)))
    day.do(cli, TakeTask("T-2"))
    fence = day.do(cli, TakeTask("B-0450", "b-0450", "/w/1", ttl_s=600))["claim"]["fence"]
    _prove(day, cli, commit="1" * 40, tree="2" * 40, exit_code=2)
    day.do(cli, SubmitTask("B-0450", "1" * 40, fence=fence))
    day.refuse(cast.desktop, GiveVerdict("B-0450", "review", "pass"))
    fix = ("make fmt", "make test")
    day.do(vera, GiveVerdict("B-0450", "review", "fail", note="it is red", fix=fix))
    day.later(20)
    # The lease has ended. Another window takes the task, and gets another fence.
    window = cli._replace(session="window-2")
    day.do(window, TakeTask("B-0450"))
    day.refuse(cli, SubmitTask("B-0450", "3" * 40, "4" * 40, fence))
    _prove(day, window, commit="3" * 40, tree="4" * 40, exit_code=0)
    note = {"kind": "note", "text": "I read it twice.", "task_id": "B-0450", "criterion": 2}
    said = day.do(window, AddEvidence(note))["evidence"]["id"]
    slip = {"kind": "url", "url": "https://ci.example/7?token=sesame", "task_id": "B-0450"}
    leaked = day.do(vera, AddEvidence(slip))["evidence"]["id"]
    day.do(vera, Redact(leaked, "a token"))
    stuck = day.do(window, RaiseBlocker("no reviewer is here", "B-0450"))["blocker"]["id"]
    day.do(vera, ResolveBlocker(stuck, "now there is"))
    day.do(window, SubmitTask("B-0450", "3" * 40, "4" * 40))
    day.do(window, CompleteTask("B-0450"))
    judged: Any = {"evidence": (said,), "tree": "4" * 40, "rules": digest(b"make test")}
    day.do(vera, GiveVerdict("B-0450", "review", "pass", "3" * 7, **judged))
    day.do(window, CompleteTask("B-0450"))
    day.refuse(window, FailTask("B-0450"))
    day.do(cli, TakeTask("T-2"))
    day.do(cli, FailTask("T-2", "there is no printer"))
    day.do(vera, CreateTask("Buy a printer"))
    day.do(vera, CancelTask("T-3", "too dear"))


def _prove(day: Day, who: Credentials, *, commit: str, tree: str, exit_code: int) -> None:
    output = f"make: exit {exit_code}\n".encode()
    upload = day.do(who, PutChunk(output, len(output)))["upload"]
    run = {
        "kind": "run",
        "task_id": "B-0450",
        "criterion": 1,
        "command": ["make", "test"],
        "cwd": ".",
        "exit_code": exit_code,
        "duration_ms": 1200,
        "commit": commit,
        "tree": tree,
        "dirty": False,
        "output": {"sha256": digest(output), "size": len(output)},
    }
    day.do(who, AddEvidence(run, upload))


def play(day: Day) -> None:
    cast = Cast(day)
    identity(day, cast)
    slip = mail(day, cast)
    claims(day, cast)
    order(day, cast, slip)
    day.later(30)
    restore(day, cast)


def folded(path: str) -> Answer:
    """The state that the recorded headers fold to, under the schema of this release."""
    state = apsw.Connection(":memory:")
    state.execute(folding.TABLES)
    with open(path, "rb") as file:
        about = decode(file.readline())
        for line in file:
            folding.fold(state, parse_header(decode(line)["header"].encode()))
    return {
        "entries": about["entries"],
        "root": about["root"],
        "schema": folding.SCHEMA,
        "digest": folding.state_digest(state),
    }


def expect(path: str) -> None:
    """Write the expected state of the recording at `path`."""
    expected = folded(path)
    with open(path.removesuffix("l"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=2)
        file.write("\n")
    print(f"{path}: {expected['entries']} entries, state digest {expected['digest'][:16]}…")


def repair(day: Day) -> None:
    """The fact of a node that restored entries to its engine. The script needs no engine."""
    day.join("otto")
    outcome = {"first": 2, "last": 3, "node": "laptop-0a1b2c"}
    day.node.do(lambda turn: turn.system().append("log_repaired", outcome))


def waking(day: Day) -> None:
    """Clients that get news of their mail at each step, wake-ups that succeed and fail, muted
    agents, and commits that cross claims."""
    cast = Cast(day)
    neo, vera = cast.neo, cast.vera
    window = cast.cli._replace(session="window-3")
    day.do(OWNER, ChangeSetting("wake.quiet_s", "0"))
    day.send(vera, "@otto", "send", {"text": "Who takes B-0460?"})
    day.send(vera, "AGENT:*", "announce", {"text": "vera is here"}, wake=True)
    day.do(window, Attend("prompt", "claude-code"))
    red = {"what": "main is red", "severity": "stop", "fix": ["make"]}
    blocked = day.send(vera, "@otto-cli", "blocker", red)
    day.do(window, Attend("stop", "claude-code"))
    day.do(window, AckMessages((blocked,)))
    day.send(vera, "@otto", "send", {"text": "Are you there?"})
    day.do(window, Attend("idle", "claude-code-rewake"))
    _wakes(day, cast)
    day.do(neo, Mute(ttl_s=600))
    day.do(vera, Mute("@otto"))
    day.do(vera, Mute("@otto", off=True))
    _crossings(day, cast, window)
    day.do(window, Attend("end", "claude-code"))


def _wakes(day: Day, cast: Cast) -> None:
    """A wake-up that fails, its retry that succeeds, and one whose end is never recorded."""
    day.send(cast.cli, "@neo-gpt", "send", {"text": "The build waits for you."})
    tried = dispatching.begin(day.node, "neo-gpt", "tmux")
    assert tried is not None
    dispatching.end(day.node, tried, "neo-gpt", "failed", "no pane is at its prompt")
    again = dispatching.begin(day.node, "neo-gpt", "tmux")
    assert again is not None
    dispatching.end(day.node, again, "neo-gpt", "woken")
    day.send(cast.cli, "@neo-gpt", "send", {"text": "And for this."})
    assert dispatching.begin(day.node, "neo-gpt", "command") is not None
    day.later(2)
    day.do(cast.vera, ListInbox())


def _crossings(day: Day, cast: Cast, window: Credentials) -> None:
    claimed: Any = {"paths": ("src/**",), "repo": REPO, "worktree": "/w/3"}
    day.do(window, AcquireClaim(**claimed, ttl_s=900))
    day.do(window, AcquireClaim(**claimed, ttl_s=900, everywhere=True))
    waiting = AcquireClaim(paths=("src/a.py",), repo=REPO, wait_s=600, everywhere=True)
    day.node.call_once(cast.neo, waiting)
    day.do(cast.neo, CheckPaths(("src/a.py",), REPO, "/w/4"))
    day.do(cast.neo, ReportCommit("5" * 40, ("src/a.py", "src/b.py"), REPO, "/w/4"))
    day.do(cast.neo, ReportCommit("5" * 40, ("src/a.py", "src/b.py"), REPO, "/w/4"))


def people(day: Day) -> None:
    """Rosa accepts an invitation, signs in and connects clients, some of which misuse their tokens.
    Another machine joins. The owner imports tokens. After a restore, Rosa signs in again."""
    cast = Cast(day)
    invited = _invited(day, cast.vera, "kim")
    day.do(cast.vera, RevokeConnection("inv_" + token_format.hashed(invited)[:12]))
    laptop = _invited(day, OWNER, "otto", surface="laptop")
    day.do(Credentials(), AcceptInvitation(laptop, day.token()[1]))
    day.refuse(Credentials(), AcceptInvitation(laptop, day.token()[1]))
    _invited(day, OWNER, "rosa")
    rosa = _enrolled(day, "rosa", "otto", "robo")
    second, hash = day.token()
    day.do(Credentials(), SignIn("rosa", VERIFIER, hash, "Firefox on Linux"))
    day.refuse(Credentials(), SignIn("rosa", "b" * 64, day.token()[1]))
    _connections(day, rosa)
    day.do(Credentials(token=second), SignOut())
    day.do(Credentials(), ReportRefusal("TOKEN_IN_URL", "e" * 16))
    _imports(day)
    backup = os.path.join(day.directory, "backup.db")
    upkeep.backup(day.node, OWNER, backup)
    upkeep.restore(day.node, OWNER, backup)
    again = _enrolled(day, "rosa")
    _opened(day, again, "rosa", None)
    _granted(day, again, "robo", "phone")
    _invited(day, OWNER, "kim", ttl_s=3600)
    kim = _enrolled(day, "kim", "kites")
    _opened(day, kim, "kites", "phone")
    _invited(day, OWNER, "kim", surface="laptop")
    day.refuse(cast.neo, RevokeConnection("@kim"))
    day.do(OWNER, RevokeConnection("@kim"))


def _invited(day: Day, who: Credentials, name: str, **more: Any) -> str:
    code, hash = day.token(token_format.INVITATION)
    day.do(who, Invite(name, code_hash=hash, **more))
    return code


def _enrolled(day: Day, name: str, *own: str) -> Credentials:
    code = _invited(day, OWNER, name, own=own)
    token, hash = day.token()
    day.do(Credentials(), Enrol(code, VERIFIER, hash))
    return Credentials(token=token)


def _granted(day: Day, who: Credentials, agent: str, surface: str | None) -> str:
    code, hash = day.token(token_format.CODE)
    day.do(who, _asked(agent, surface, hash))
    return code


def _asked(agent: str, surface: str | None, code_hash: str) -> GrantConnection:
    client = CLIENT, "A client", RESOURCE, "https://client.example/back"
    return GrantConnection(agent, surface, ("mail", "work"), *client, "c" * 43, code_hash)


def _opened(
    day: Day, who: Credentials, agent: str, surface: str | None
) -> tuple[str, Credentials, str]:
    """The code of a connection, the credentials of its client, and its refresh token."""
    code = _granted(day, who, agent, surface)
    (token, hash), (refresh, refresh_hash) = day.token(), day.token(token_format.REFRESH)
    day.do(Credentials(), OpenConnection(code, CLIENT, hash, refresh_hash))
    return code, Credentials(token=token, audience=RESOURCE), refresh


def _connections(day: Day, rosa: Credentials) -> None:
    """A connection that stays open, one with a reused refresh token, and one with a reused code.
    Also one that its client closes, and one that Rosa revokes."""
    code, phone, refresh = _opened(day, rosa, "otto", "phone")
    day.do(rosa, NameConnection("con_" + token_format.hashed(code)[:12], "my phone"))
    day.send(phone, "@vera", "send", {"text": "From my phone."})
    day.refuse(phone._replace(audience=None), Whoami())
    day.refuse(rosa, _asked("vera", None, day.token(token_format.CODE)[1]))
    day.later(90)
    day.refuse(phone, Whoami())
    asked = RefreshConnection(refresh, CLIENT, day.token()[1], day.token(token_format.REFRESH)[1])
    day.do(Credentials(), asked)
    _, _, copied = _opened(day, rosa, "robo", None)
    for _ in range(2):
        new = day.token()[1], day.token(token_format.REFRESH)[1]
        day.do(Credentials(), RefreshConnection(copied, CLIENT, *new))
    replayed, *_ = _opened(day, rosa, "robo", "laptop")
    new = day.token()[1], day.token(token_format.REFRESH)[1]
    day.do(Credentials(), OpenConnection(replayed, CLIENT, *new))
    _, _, closed = _opened(day, rosa, "rosa", None)
    day.do(Credentials(), CloseConnection(closed, CLIENT))
    ended, *_ = _opened(day, rosa, "rosa", "desk")
    day.do(rosa, RevokeConnection("con_" + token_format.hashed(ended)[:12]))


def _imports(day: Day) -> None:
    rows = (
        {"token_hash": "1" * 64, "agent": "neo-gpt", "label": "Neo GPT", "display_name": "Neo GPT"},
        {"token_hash": "2" * 64, "agent": "otto-cli", "label": "Milo", "scope": ["mail"]},
    )
    day.do(OWNER, ImportTokens(rows, apply=True))
    day.do(OWNER, ImportTokens(rows, {"Milo": "milo"}, apply=True))
    day.do(OWNER, LabelToken(token_format.token_id("1" * 64), "neo-gpt, at work"))


# The script of each recorded day. The recordings never change. Add a day for a kind of fact that no
# row appends.
DAYS: dict[str, Callable[[Day], None]] = {
    "v1": play,
    "v2": work,
    "v3": repair,
    "v4": waking,
    "v5": people,
}


def record(path: str, node: Node) -> None:
    """Export the log of a node, and write the state that it folds to."""
    live = upkeep.state_digest(node)
    audit.export(node, OWNER, path)
    os.chmod(path, 0o644)
    if folded(path)["digest"] != live:
        raise SystemExit("The recording folds to another state than the workspace had.")
    expect(path)


def recordings() -> list[str]:
    return sorted(os.path.join(HERE, n) for n in os.listdir(HERE) if n.endswith(".jsonl"))


def record_days() -> None:
    for name, play in DAYS.items():
        path = os.path.join(HERE, f"{name}.jsonl")
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory() as directory:
                day = Day(directory)
                play(day)
                record(path, day.node)
                day.node.close()


def kinds_in(path: str) -> set[str]:
    with open(path, "rb") as file:
        next(file)
        return {parse_header(decode(line)["header"].encode()).kind for line in file}


def record_rows() -> None:
    """Record the log of a row for each kind of fact that no recording has."""
    missing = set(folding.KINDS).difference(*map(kinds_in, recordings()))
    if not missing:
        return
    sys.path.append(os.path.dirname(HERE))
    from world.doors import Python
    from world.fork_server import Servers
    from world.furnished import Furnished
    from world.playing import Stage
    from world.rows import ROWS

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "furnished").mkdir()
        furnished, servers = Furnished(root / "furnished"), Servers()
        for number, row in enumerate(ROWS):
            if missing and row.kind == "done" and "python" not in row.not_at:
                stage = Stage(row, furnished, root / str(number), servers, is_served=False)
                stage.call(row, Python().call)
                with Node(str(stage.workspace.place.workspace)) as node:
                    kinds = {event.kind for event in node.events(stage.before, 1000)} & missing
                    if kinds:
                        record(os.path.join(HERE, f"{min(kinds)}.jsonl"), node)
                        missing -= kinds
    if missing:
        raise SystemExit(f"No row has these kinds of facts: {', '.join(sorted(missing))}.")


def main() -> None:
    record_days()
    record_rows()
    for path in recordings():
        with open(path.removesuffix("l"), encoding="utf-8") as file:
            is_current = json.load(file)["schema"] == folding.SCHEMA
        if not is_current:
            expect(path)


if __name__ == "__main__":
    main()
