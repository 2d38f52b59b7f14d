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
        done("who one is", OTTO, has={"sender": "otto-cli", "open": 1}),
        done("who one is in a session", S1, first=(STARTED,), has={"session": "s-1"}),
        refused("BAD_TOKEN", "who a stranger is", STRANGER),
        refused("TOKEN_EXPIRED", "who one was", LATE),
        refused(
            "NO_IDENTITY",
            "the owner is no sender",
            OWNER,
            own_words=True,
            not_at={"mcp": "it is nobody there"},
        ),
        refused(
            "IDENTITY_MISMATCH",
            "who another is",
            Caller("otto-cli", claims_to_be="vera"),
            not_at={"python": NO_WORD},
        ),
        refused("WRONG_AUDIENCE", "a token for another place", CONNECTION, own_words=True),
        refused("IDENTITY_MISMATCH", "another's session", Caller("nova", "s-1"), first=(STARTED,)),
    ),
    workspace.Attend: (
        done("a client starts", S1, {"step": "start", "adapter": "test"}),
        done(
            "a client is pointed to its mail",
            OTTO,
            {"step": "prompt", "adapter": "test"},
            has={"address": "@otto-cli", "open": 1, "unread": 1},
        ),
        done(
            "a client is handed what is urgent",
            OTTO,
            {"step": "stop", "adapter": "test", "held": 1},
        ),
        done(
            "an idle client waits for what wakes it",
            OTTO,
            {"step": "idle", "adapter": "test", "wait_s": 1},
        ),
        no(
            "CLAIM_HELD",
            "a client edits what another holds",
            OTTO,
            {"step": "edit", "adapter": "test", "paths": [PROOF], **HERE},
            first=(THEIRS,),
        ),
        done(
            "a client ends",
            S1,
            {"step": "end", "adapter": "test"},
            first=(STARTED, held(S1, "B-9")),
        ),
        done(
            "a client in a pause",
            OTTO,
            {"step": "tool", "adapter": "test"},
            first=(PAUSED,),
            has={"paused": True},
        ),
        refused("USAGE", "no step", OTTO, {"step": "jump", "adapter": "test"}),
        refused(
            "NO_IDENTITY",
            "a client of nobody",
            OWNER,
            {"step": "start", "adapter": "test"},
            own_words=True,
        ),
    ),
    workspace.ShowStatus: (
        done(
            "how it stands",
            OWNER,
            has={"senders": 7, "messages": 7, "tasks": 4, "blockers": 1, "paused": False},
        ),
        done("how it stands in a pause", OTTO, first=(PAUSED,), has={"pause_reason": "lunch"}),
    ),
    workspace.ShowStorage: (
        done("how long the log is", OWNER, has={"directory": "<root>/workspace"}),
        done("how long the log is, for an agent", OTTO, has={"directory": None}),
    ),
    workspace.Review: (
        done(
            "what needs a person",
            OWNER,
            {"since_s": 86400},
            first=(sent(OTTO, "@vera", "x", ttl_s=60),),
            has={"unanswered": [{"id": "$ask"}]},
        ),
        refused("MISSING_SCOPE", "an agent reviews nothing", OTTO),
    ),
    workspace.Examine: (
        done("nothing is wrong", OWNER, has={"ok": True, "findings": []}),
        no(
            None,
            "a commit that nobody guarded is wrong",
            OTTO,
            first=(THEIRS, Step(OTTO, claims.ReportCommit, COMMITTED)),
            has={"ok": False, "findings": [{"check": "commits-guarded"}]},
        ),
    ),
    workspace.ListSettings: (done("the settings", OTTO),),
    workspace.ChangeSetting: (
        done(
            "a setting", OWNER, {"name": "recipients", "value": "strict"}, has={"value": "strict"}
        ),
        refused("USAGE", "a setting that there is not", OWNER, {"name": "nope", "value": "x"}),
        refused("USAGE", "a value that cannot be", OWNER, {"name": "limits.hops", "value": "0"}),
        refused(
            "MISSING_SCOPE", "an agent sets nothing", OTTO, {"name": "recipients", "value": "open"}
        ),
    ),
    workspace.Pause: (
        done("a pause", OWNER, {"reason": "lunch"}, has={"paused": True, "reason": "lunch"}),
        done("a pause for no reason", DORA),
        refused("MISSING_SCOPE", "an agent pauses nothing", OTTO),
    ),
    workspace.Resume: (
        done("the pause ends", OWNER, first=(PAUSED,), has={"paused": False}),
        refused("MISSING_SCOPE", "an agent resumes nothing", OTTO, first=(PAUSED,)),
    ),
    workspace.ListEvents: (
        done("what happened, for an agent", OTTO, {"limit": 50}),
        done(
            "what happened, for the owner",
            OWNER,
            {"after": 2, "limit": 3},
            has={"reached": 5, "more": True},
        ),
    ),
    workspace.ShowLog: (
        done("the facts", OWNER, {"after": 1, "limit": 4}),
        done("the first fact", OTTO, {"limit": 1}, has={"facts": [{"kind": "workspace_created"}]}),
        done("the facts of a kind, for an agent", NOVA, {"kind": "claim_granted"}),
        refused("USAGE", "more facts than there may be", OWNER, {"limit": 5000}, own_words=True),
    ),
    workspace.VerifyLog: (
        done("the log is as it was", OWNER, has={"ok": True}),
        done("the log is as it was, for an agent", OTTO, {"checkpoint": "$checkpoint"}),
        no("LOG_DAMAGED", "the log is damaged", OWNER, damage=DAMAGED, has={"seq": "$mail_seq"}),
        refused("USAGE", "a checkpoint of nothing", OWNER, {"checkpoint": "x"}),
    ),
    workspace.SignCheckpoint: (done("a checkpoint", OWNER),),
    workspace.Prove: (
        done("a proof of an entry", OWNER, {"seq": 2}, has={"proof": "inclusion"}),
        done("a proof of growth", OTTO, {"since": 3}, has={"proof": "consistency"}),
        refused("NOT_FOUND", "a proof of what is not there", OWNER, {"seq": 999}),
    ),
    workspace.ProveMany: (
        done(
            "proofs of entries",
            OTTO,
            {"seqs": [2, 5]},
            has={"proof": "inclusions", "entries": [{"seq": 2}, {"seq": 5}]},
        ),
        refused("NOT_FOUND", "proofs of what is not there", OWNER, {"seqs": [2, 999]}),
    ),
    workspace.ExportLog: (
        done("the log in a file", OWNER, {"file": "$root/new.jsonl"}),
        refused("USAGE", "a file that exists", OWNER, {"file": "$root/made.db"}),
        refused("MISSING_SCOPE", "no export for an agent", OTTO, {"file": "$root/new.jsonl"}),
    ),
    workspace.Backup: (
        done("a backup", OWNER, {"file": "$root/new.db"}),
        refused("USAGE", "a backup over a file", OWNER, {"file": "$root/made.db"}),
        refused("MISSING_SCOPE", "no backup for an agent", OTTO, {"file": "$root/new.db"}),
    ),
    workspace.Restore: (
        done("a backup is put back", OWNER, {"file": "$root/made.db"}, has={"restored": True}),
        refused("NOT_A_WORKSPACE", "no backup to put back", OWNER, {"file": "$root/nowhere.db"}),
        refused(
            "MISSING_SCOPE", "nothing is put back by an agent", OTTO, {"file": "$root/made.db"}
        ),
    ),
    workspace.Rebuild: (
        done("the state is folded again", OWNER, has={"rebuilt": True, "changed": False}),
        refused("MISSING_SCOPE", "no folding for an agent", OTTO),
    ),
}
