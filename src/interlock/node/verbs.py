"""The table of verbs: for each act its name, the rule that decides it, and who may ask.

Doors, documentation and tests go by this table; a rule that is not in it cannot be reached.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.contracts import acts
from interlock.rooms.claims import guard as guarding
from interlock.rooms.claims import queue as queueing
from interlock.rooms.claims import rules as holding
from interlock.rooms.identity import imports as importing
from interlock.rooms.identity import names, sessions, tokens
from interlock.rooms.mail import reading, sending
from interlock.rooms.people import connections, people
from interlock.rooms.transaction import Answer, Transaction
from interlock.rooms.work import blockers, evidence, gates, story, tasks
from interlock.rooms.workspace import attending, events, overview, redaction, review
from interlock.rooms.workspace import rules as workspace


class Verb(NamedTuple):
    """`scope` is what the token needs. `looks` verbs are tried without the turn first. `owner`
    verbs may be done by whoever owns the embedded file; `open` ones need no identity there.
    `when_paused` verbs are obeyed while the workspace is paused. What `anyone` may ask carries a
    secret of its own, which its rule looks at."""

    name: str
    decide: Callable[[Transaction, Any], Answer]
    scope: str | None = None
    looks: bool = False
    owner: bool = False
    open: bool = False
    when_paused: bool = False
    anyone: bool = False


# What the pages where people sign in and the endpoints of OAuth ask for; no route leads here.
SIGN_IN_VERBS: dict[type, Verb] = {
    acts.ShowInvitation: Verb("invitation", people.show_invitation, looks=True, anyone=True),
    acts.Enrol: Verb("enrol", people.enrol, anyone=True),
    acts.SignIn: Verb("sign in", people.sign_in, anyone=True),
    acts.ChangePassword: Verb("password", people.change_password),
    acts.SignOut: Verb("sign out", people.sign_out, when_paused=True),
    acts.ShowPerson: Verb("person", people.show_person, looks=True),
    acts.GrantConnection: Verb("connect", connections.grant),
    acts.FindGrant: Verb("code", connections.find_grant, looks=True, anyone=True),
    acts.OpenConnection: Verb("connection open", connections.open_connection, anyone=True),
    acts.FindConnection: Verb("connection", connections.find_connection, looks=True, anyone=True),
    acts.RefreshConnection: Verb("connection refresh", connections.refresh, anyone=True),
    acts.CloseConnection: Verb(
        "connection close", connections.close, anyone=True, when_paused=True
    ),
    acts.ReportRefusal: Verb("report", connections.report, anyone=True),
}

VERBS: dict[type, Verb] = {
    acts.Join: Verb("join", names.join, "admin", owner=True),
    acts.CreateGroup: Verb("group create", names.create_group, "admin", owner=True),
    acts.ListGroups: Verb("group list", names.list_groups, looks=True, open=True),
    acts.MintToken: Verb("token mint", tokens.mint, "admin", owner=True),
    acts.RotateToken: Verb("token rotate", tokens.rotate, "admin", owner=True),
    acts.RevokeToken: Verb("token revoke", tokens.revoke, "admin", owner=True, when_paused=True),
    acts.ReaffirmTokens: Verb("token reaffirm", tokens.reaffirm, "admin", owner=True),
    acts.LabelToken: Verb("token label", tokens.label_token, "admin", owner=True),
    acts.ImportTokens: Verb(
        "token import", importing.import_tokens, "admin", looks=True, owner=True
    ),
    acts.ListTokens: Verb("token list", tokens.list_tokens, "admin", looks=True, owner=True),
    acts.ShowToken: Verb("token show", tokens.show_token, "admin", looks=True, owner=True),
    acts.IdentifyToken: Verb("token identify", tokens.identify, looks=True, open=True),
    acts.Invite: Verb("invite", people.invite, "admin", owner=True),
    acts.AcceptInvitation: Verb("join by invitation", people.accept, anyone=True),
    acts.ListConnections: Verb(
        "connection list", connections.list_connections, looks=True, owner=True
    ),
    acts.NameConnection: Verb("connection name", connections.name_connection, owner=True),
    acts.RevokeConnection: Verb(
        "connection revoke", connections.revoke, owner=True, when_paused=True
    ),
    acts.StartSession: Verb("session start", sessions.start_session),
    acts.EndSession: Verb("session end", holding.session_over),
    acts.KeepSession: Verb("session keep", holding.keep_session, looks=True),
    acts.FindSession: Verb("session find", sessions.find_session, looks=True, open=True),
    acts.Attend: Verb("attend", attending.attend, looks=True),
    acts.Whoami: Verb("whoami", overview.whoami, looks=True),
    acts.ListAgents: Verb("agents", names.list_agents, looks=True, open=True),
    acts.ShowStatus: Verb("status", overview.status, looks=True, open=True),
    acts.Review: Verb("review", review.review, looks=True, owner=True),
    acts.ChangeSetting: Verb("settings", workspace.change_setting, "admin", owner=True),
    acts.ListSettings: Verb("settings list", workspace.list_settings, looks=True, open=True),
    acts.Pause: Verb("pause", workspace.pause, "admin", owner=True, when_paused=True),
    acts.Resume: Verb("resume", workspace.resume, "admin", owner=True, when_paused=True),
    acts.Inspect: Verb("audit", workspace.maintain, looks=True, open=True),
    acts.Maintain: Verb(
        "backup, restore, rebuild or export", workspace.maintain, "admin", looks=True, owner=True
    ),
    acts.Mute: Verb("mute", names.mute, owner=True),
    acts.ListEvents: Verb("events", events.list_events, looks=True, open=True),
    acts.SendMessage: Verb("send", sending.send, "mail"),
    acts.PutChunk: Verb("upload", sending.put_chunk),
    acts.DropUpload: Verb("upload drop", sending.drop_upload),
    acts.AnswerAsk: Verb("answer", sending.answer, "mail"),
    acts.FindAnswer: Verb("answer find", sending.find_answer, "mail", looks=True),
    acts.ListInbox: Verb("inbox", reading.inbox, "mail", looks=True),
    acts.ListMail: Verb("mail", reading.list_mail, "admin", looks=True, owner=True),
    acts.ReadMessage: Verb("read", reading.read, "mail", looks=True),
    acts.AckMessages: Verb("ack", reading.ack, "mail"),
    acts.ShowReceipts: Verb("receipts", reading.receipts, "mail", looks=True),
    acts.ShowThread: Verb("thread", reading.thread, "mail", looks=True),
    acts.Search: Verb("search", reading.search, "mail", looks=True),
    acts.Explain: Verb("explain", reading.explain, looks=True, owner=True),
    acts.Redact: Verb("redact", redaction.redact, owner=True),
    acts.AcquireClaim: Verb("claim acquire", holding.acquire, "claim"),
    acts.RenewClaim: Verb("claim renew", holding.renew, "claim"),
    acts.ReleaseClaim: Verb("claim release", holding.release, "claim"),
    acts.TakeOverClaim: Verb("claim take-over", holding.take_over, "claim"),
    acts.StopWaiting: Verb("claim stop-waiting", queueing.stop_waiting, "claim"),
    acts.CheckClaim: Verb("claim check", holding.check, looks=True, open=True),
    acts.CheckPaths: Verb("guard check", guarding.check_paths, looks=True, open=True),
    acts.ReportCommit: Verb("guard note", guarding.report_commit, looks=True, open=True),
    acts.ListClaims: Verb("claim list", holding.list_claims, looks=True, open=True),
    acts.CreateTask: Verb("task create", tasks.create, "work"),
    acts.ListTasks: Verb("task list", story.list_tasks, looks=True, open=True),
    acts.ShowTask: Verb("task show", story.show_task, looks=True, open=True),
    acts.TakeTask: Verb("task take", tasks.take, "work"),
    acts.SubmitTask: Verb("task submit", tasks.submit, "work"),
    acts.CompleteTask: Verb("task complete", tasks.complete, "work"),
    acts.FailTask: Verb("task fail", tasks.fail, "work"),
    acts.CancelTask: Verb("task cancel", tasks.cancel, owner=True),
    acts.PrepareEvidence: Verb("evidence prepare", evidence.prepare, "work", looks=True),
    acts.AddEvidence: Verb("evidence add", evidence.add, "work"),
    acts.ShowEvidence: Verb("evidence show", evidence.show, looks=True, open=True),
    acts.CreateGate: Verb("gate create", gates.create_gate, "admin", owner=True),
    acts.ListGates: Verb("gate list", gates.list_gates, looks=True, open=True),
    acts.PrepareVerdict: Verb("gate prepare", gates.prepare, looks=True),
    acts.GiveVerdict: Verb("gate pass or fail", gates.give_verdict),
    acts.CheckGate: Verb("gate check", gates.check_gate, looks=True, open=True),
    acts.RaiseBlocker: Verb("blocker raise", blockers.raise_blocker, "work"),
    acts.ResolveBlocker: Verb("blocker resolve", blockers.resolve, owner=True),
    acts.ListBlockers: Verb("blocker list", blockers.list_blockers, looks=True, open=True),
} | SIGN_IN_VERBS
