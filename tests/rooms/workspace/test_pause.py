"""A pause refuses every verb that writes, and leases still end."""

import uuid
from typing import Any

from interlock.rooms import catalogue
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    ReleaseClaim,
    RenewClaim,
    StopWaiting,
    TakeOverClaim,
)
from interlock.rooms.identity.verbs import (
    CreateGroup,
    EndSession,
    Join,
    KeepSession,
    LabelToken,
    MintToken,
    Mute,
    ReaffirmTokens,
    RotateToken,
    StartSession,
)
from interlock.rooms.mail.verbs import (
    AckMessages,
    AnswerAsk,
    Ask,
    DropUpload,
    ListInbox,
    PutChunk,
    ReadMessage,
    Redact,
    SendMessage,
)
from interlock.rooms.people.verbs import (
    AcceptInvitation,
    ChangePassword,
    Enrol,
    GrantConnection,
    Invite,
    NameConnection,
    OpenConnection,
    RefreshConnection,
    ReportRefusal,
    SignIn,
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
from interlock.rooms.workspace.verbs import ChangeSetting, Pause, Resume, Whoami
from world.workspace import OWNER, Workspace, text_to

WRITING: list[Any] = [
    Join("eve", token_hash="a" * 64),
    CreateGroup("devs", ("otto",)),
    MintToken("otto", token_hash="b" * 64),
    RotateToken(sender="otto", token_hash="c" * 64),
    ReaffirmTokens(),
    LabelToken("tok_0", "otto"),
    Invite("eve", code_hash="a" * 64),
    AcceptInvitation("a code", "b" * 64),
    Enrol("a code", "c" * 64, "b" * 64),
    SignIn("eve", "c" * 64, "b" * 64),
    ChangePassword("c" * 64, "d" * 64),
    GrantConnection(
        *("boss", None, ("mail",), "client", "A client", "https://x.example/mcp"),
        *("https://client.example/back", "c" * 43, "a" * 64),
    ),
    OpenConnection("a code", "client", "b" * 64, "c" * 64),
    RefreshConnection("a token", "client", "b" * 64, "c" * 64),
    NameConnection("con_0", "a phone"),
    ReportRefusal("TOKEN_IN_URL", "d" * 16),
    StartSession("s9"),
    EndSession("s1"),
    ChangeSetting("recipients", "strict"),
    SendMessage("@vera", {"text": "x"}, "send"),
    PutChunk(b"x", 1),
    DropUpload(f"{0:015}.boss.{uuid.UUID(int=0)}"),
    AnswerAsk("#7", "yes"),
    AckMessages(("#7",)),
    Redact("#7", "why"),
    AcquireClaim(item="B-2"),
    RenewClaim(item="B-1"),
    ReleaseClaim(item="B-1"),
    TakeOverClaim("why", item="B-1"),
    StopWaiting(item="B-1"),
    CreateTask("Sort the list"),
    TakeTask("T-1"),
    SubmitTask("T-1", "0" * 40, "1" * 40),
    CompleteTask("T-1"),
    FailTask("T-1"),
    CancelTask("T-1"),
    AddEvidence({"kind": "note", "text": "it works", "task_id": "T-1"}),
    CreateGate("athena", ("@boss",)),
    GiveVerdict("T-1", "athena", "pass"),
    RaiseBlocker("it is slow", "T-1"),
    ResolveBlocker("#7"),
    Mute(),
]


def test_every_writing_verb_obeys_a_pause_at_once_and_stores_nothing(workspace: Workspace) -> None:
    # The node runs maintenance verbs, and Ask is a flow that sends.
    decided = [v for v in catalogue.verbs() if not v.declared.maintenance and v is not Ask]
    writes = {v for v in decided if not (v.declared.read_only or v.declared.when_paused)}
    assert {type(act) for act in WRITING} == writes
    boss = workspace.join("boss", scopes=("admin",))._replace(session="s1")
    workspace.call(boss, AcquireClaim(item="B-1"))
    workspace.ms += 1000
    workspace.call(OWNER, Pause("a leak"))
    before = workspace.head()
    for act in WRITING:
        said = workspace.refused("PAUSED", boss, act)
        assert (said["since"], said["reason"]) == ("2033-05-18T03:33:21.000Z", "a leak")
    mismatched = boss._replace(claimed="otto")
    workspace.refused("IDENTITY_MISMATCH", mismatched, text_to("@vera"), is_recorded=False)
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    workspace.send(boss, "@vera")


def test_looking_while_paused_marks_nothing_and_leases_still_end(workspace: Workspace) -> None:
    otto, vera = workspace.join("otto"), workspace.join("vera")
    id = workspace.send(otto, "@vera", ttl_s=60)
    workspace.call(vera._replace(session="s1"), AcquireClaim(item="B-1", ttl_s=60))
    workspace.call(OWNER, Pause())
    before = workspace.head()
    workspace.ms += 50_000
    workspace.call(vera, ListInbox())
    workspace.call(vera, ReadMessage(id))
    workspace.call(vera, KeepSession("s1"))
    workspace.ms += 10_000
    assert workspace.call(OWNER, CheckClaim(item="B-1"))["claimed"] is False
    assert workspace.head() == before
    workspace.call(OWNER, Resume())
    assert workspace.call(otto, Whoami())["unread"] == 1, "now the sender is told that it expired"
    assert len(workspace.facts("claim_expired")) == 1
