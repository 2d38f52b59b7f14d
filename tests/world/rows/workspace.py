"""Rows of the verbs of the workspace: its status, its settings, its log and its upkeep."""

from interlock.rooms.claims import verbs as claims
from interlock.rooms.workspace import verbs as workspace
from world.row import (
    COMMITTED,
    CONNECTION,
    DORA,
    HERE,
    LATE,
    NO_WORD,
    NOVA,
    OTTO,
    OWNER,
    PAUSED,
    PROOF,
    S1,
    STARTED,
    STRANGER,
    THEIRS,
    Caller,
    Rows,
    Step,
    done,
    held,
    no,
    refused,
    sent,
)

DAMAGED = "UPDATE bodies SET body = CAST('x' AS BLOB) WHERE seq = $mail_seq"

ROWS: Rows = {
    workspace.Whoami: (
        done("show one's identity", OTTO, has={"sender": "otto-cli", "open": 1}),
        done("show one's identity in a session", S1, first=(STARTED,), has={"session": "s-1"}),
        refused("BAD_TOKEN", "use an unknown token", STRANGER),
        refused("TOKEN_EXPIRED", "use an expired token", LATE),
        refused(
            "NO_IDENTITY",
            "show the identity of the owner",
            OWNER,
            own_words=True,
            not_at={"mcp": "the owner has no token there"},
        ),
        refused(
            "IDENTITY_MISMATCH",
            "name another sender than the token's",
            Caller("otto-cli", claims_to_be="vera"),
            own_words=True,
            not_at={"python": NO_WORD},
        ),
        refused("WRONG_AUDIENCE", "use a token for another address", CONNECTION, own_words=True),
        refused(
            "IDENTITY_MISMATCH",
            "use another sender's session",
            Caller("nova", "s-1"),
            first=(STARTED,),
        ),
    ),
    workspace.Attend: (
        done("attend the start of a session", S1, {"step": "start", "adapter": "test"}),
        done(
            "attend a prompt with new mail",
            OTTO,
            {"step": "prompt", "adapter": "test"},
            has={"address": "@otto-cli", "open": 1, "unread": 1},
        ),
        done(
            "attend a stop with urgent mail",
            OTTO,
            {"step": "stop", "adapter": "test", "held": 1},
        ),
        done(
            "attend an idle client that waits for mail",
            OTTO,
            {"step": "idle", "adapter": "test", "wait_s": 1},
        ),
        no(
            "CLAIM_HELD",
            "attend an edit of files that another sender holds",
            OTTO,
            {"step": "edit", "adapter": "test", "paths": [PROOF], **HERE},
            first=(THEIRS,),
        ),
        done(
            "attend the end of a session",
            S1,
            {"step": "end", "adapter": "test"},
            first=(STARTED, held(S1, "B-9")),
        ),
        done(
            "attend a step in a pause",
            OTTO,
            {"step": "tool", "adapter": "test"},
            first=(PAUSED,),
            has={"paused": True},
        ),
        refused("USAGE", "attend an unknown step", OTTO, {"step": "jump", "adapter": "test"}),
        refused(
            "NO_IDENTITY",
            "attend a step as the owner",
            OWNER,
            {"step": "start", "adapter": "test"},
            own_words=True,
        ),
    ),
    workspace.ShowStatus: (
        done(
            "show the status",
            OWNER,
            has={"senders": 7, "messages": 7, "tasks": 4, "blockers": 1, "paused": False},
        ),
        done("show the status in a pause", OTTO, first=(PAUSED,), has={"pause_reason": "lunch"}),
    ),
    workspace.ShowStorage: (
        done("show the storage", OWNER, has={"directory": "<root>/workspace"}),
        done("show the storage as an agent", OTTO, has={"directory": None}),
    ),
    workspace.Review: (
        done(
            "review",
            OWNER,
            {"since_s": 86400},
            first=(sent(OTTO, "@vera", "x", ttl_s=60),),
            has={"unanswered": [{"id": "$ask"}]},
        ),
        refused("MISSING_SCOPE", "review as an agent", OTTO),
    ),
    workspace.Examine: (
        done("examine an intact workspace", OWNER, has={"ok": True, "findings": []}),
        no(
            None,
            "examine a workspace with a commit that crossed a claim",
            OTTO,
            first=(THEIRS, Step(OTTO, claims.ReportCommit, COMMITTED)),
            has={"ok": False, "findings": [{"check": "commits-guarded"}]},
        ),
    ),
    workspace.ListSettings: (done("list the settings", OTTO),),
    workspace.ChangeSetting: (
        done(
            "change a setting",
            OWNER,
            {"name": "recipients", "value": "strict"},
            has={"value": "strict"},
        ),
        refused("USAGE", "change an unknown setting", OWNER, {"name": "nope", "value": "x"}),
        refused(
            "USAGE", "change a setting to a bad value", OWNER, {"name": "limits.hops", "value": "0"}
        ),
        refused(
            "MISSING_SCOPE",
            "change a setting as an agent",
            OTTO,
            {"name": "recipients", "value": "open"},
        ),
    ),
    workspace.Pause: (
        done("pause", OWNER, {"reason": "lunch"}, has={"paused": True, "reason": "lunch"}),
        done("pause without a reason", DORA),
        refused("MISSING_SCOPE", "pause as an agent", OTTO),
    ),
    workspace.Resume: (
        done("resume", OWNER, first=(PAUSED,), has={"paused": False}),
        refused("MISSING_SCOPE", "resume as an agent", OTTO, first=(PAUSED,)),
    ),
    workspace.ListEvents: (
        done("list events as an agent", OTTO, {"limit": 50}),
        done(
            "list events as the owner",
            OWNER,
            {"after": 2, "limit": 3},
            has={"reached": 5, "more": True},
        ),
    ),
    workspace.ShowLog: (
        done("show the log", OWNER, {"after": 1, "limit": 4}),
        done(
            "show the first fact",
            OTTO,
            {"limit": 1},
            has={"facts": [{"kind": "workspace_created"}]},
        ),
        done("show the facts of one kind as an agent", NOVA, {"kind": "claim_granted"}),
        refused("USAGE", "show more facts than allowed", OWNER, {"limit": 5000}, own_words=True),
    ),
    workspace.VerifyLog: (
        done("verify the log", OWNER, has={"ok": True}),
        done(
            "verify the log against a checkpoint as an agent", OTTO, {"checkpoint": "$checkpoint"}
        ),
        no("LOG_DAMAGED", "verify a damaged log", OWNER, damage=DAMAGED, has={"seq": "$mail_seq"}),
        refused("USAGE", "verify the log against a bad checkpoint", OWNER, {"checkpoint": "x"}),
    ),
    workspace.SignCheckpoint: (done("sign a checkpoint", OWNER),),
    workspace.Prove: (
        done("prove an entry", OWNER, {"seq": 2}, has={"proof": "inclusion"}),
        done("prove that the log only grew", OTTO, {"since": 3}, has={"proof": "consistency"}),
        refused("NOT_FOUND", "prove an unknown entry", OWNER, {"seq": 999}),
    ),
    workspace.ProveMany: (
        done(
            "prove several entries",
            OTTO,
            {"seqs": [2, 5]},
            has={"proof": "inclusions", "entries": [{"seq": 2}, {"seq": 5}]},
        ),
        refused(
            "NOT_FOUND", "prove several entries with an unknown one", OWNER, {"seqs": [2, 999]}
        ),
    ),
    workspace.ExportLog: (
        done("export the log", OWNER, {"file": "$root/new.jsonl"}),
        refused("USAGE", "export over an existing file", OWNER, {"file": "$root/made.db"}),
        refused("MISSING_SCOPE", "export as an agent", OTTO, {"file": "$root/new.jsonl"}),
    ),
    workspace.Backup: (
        done("back up", OWNER, {"file": "$root/new.db"}),
        refused("USAGE", "back up over an existing file", OWNER, {"file": "$root/made.db"}),
        refused("MISSING_SCOPE", "back up as an agent", OTTO, {"file": "$root/new.db"}),
    ),
    workspace.Restore: (
        done("restore a backup", OWNER, {"file": "$root/made.db"}, has={"restored": True}),
        refused("NOT_A_WORKSPACE", "restore a missing file", OWNER, {"file": "$root/nowhere.db"}),
        refused("MISSING_SCOPE", "restore as an agent", OTTO, {"file": "$root/made.db"}),
    ),
    workspace.Rebuild: (
        done("rebuild the state", OWNER, has={"rebuilt": True, "changed": False}),
        refused("MISSING_SCOPE", "rebuild as an agent", OTTO),
    ),
}
