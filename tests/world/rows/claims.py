"""Rows of the verbs of claims, and of the guard of a repository."""

from interlock.rooms.claims import verbs as claims
from world.row import (
    COMMITTED,
    HERE,
    MIRA,
    NO_WORD,
    NOVA,
    OTTO,
    OWNER,
    PAUSED,
    PROOF,
    S1,
    S2,
    THEIRS,
    VERA,
    WHERE,
    Meanwhile,
    Rows,
    Step,
    done,
    held,
    no,
    refused,
    setting,
)

PATHS = {"paths": ["src/**", "doc"], "repo": "example.com/other"}
ELSEWHERE_HELD = Step(NOVA, claims.AcquireClaim, {"paths": ["*.txt"], **HERE, "worktree": "/far"})
EVERYWHERE_HELD = ELSEWHERE_HELD._replace(fields={**ELSEWHERE_HELD.fields, "everywhere": True})

ROWS: Rows = {
    claims.AcquireClaim: (
        done(
            "acquire a claim",
            VERA,
            {**WHERE, "item": "B-9", "ttl_s": 600},
            has={"acquired": True, "claim": {"holder": "@vera", **WHERE}},
        ),
        done("acquire a claim in a session", S1, {"item": "B-9", "ttl_s": 600}),
        done(
            "acquire a claim on paths",
            OTTO,
            {**PATHS, "ttl_s": 600},
            has={"claim": {"paths": ["doc", "src/**"]}},
        ),
        done("extend one's own claim", OTTO, {"item": "B-1", "ttl_s": 7200}),
        done(
            "claim in a worktree that another holder uses",
            VERA,
            {"item": "B-9", "ttl_s": 600, "worktree": "/w"},
            first=(held(OTTO, "B-8", worktree="/w"),),
        ),
        done(
            "wait in the queue until the claim is free",
            VERA,
            {"item": "B-1", "ttl_s": 600, "wait_s": 40},
            meanwhile=Meanwhile(
                lambda owner: owner.status()["waiting"] == 1,
                Step(OTTO, claims.ReleaseClaim, {"item": "B-1"}),
            ),
            has={"acquired": True},
        ),
        no(
            "CLAIM_HELD",
            "acquire an item that another sender holds",
            VERA,
            {"item": "B-1", "ttl_s": 600},
            has={"acquired": False, "held_by": [{"id": "$claim", "holder": "@otto-cli"}]},
        ),
        no(
            "CLAIM_HELD",
            "acquire an item that another session holds",
            S2,
            {"item": "B-1", "ttl_s": 600},
        ),
        no(
            "CLAIM_HELD",
            "acquire paths that overlap held paths",
            OTTO,
            {"paths": ["src/a.py"], "repo": "example.com/r", "ttl_s": 600},
        ),
        no(
            "CLAIM_HELD",
            "wait in the queue until the wait ends",
            VERA,
            {"item": "B-1", "ttl_s": 600, "wait_s": 1},
        ),
        refused("USAGE", "acquire an item with a bad name", OTTO, {"item": "-5 %", "ttl_s": 600}),
        refused(
            "USAGE",
            "acquire a lease of two years",
            OTTO,
            {"item": "B-9", "ttl_s": 99999999},
            own_words=True,
        ),
        refused(
            "USAGE",
            "acquire a path outside the repository",
            OTTO,
            {"paths": ["../x"], "repo": "example.com/r", "ttl_s": 600},
        ),
        refused(
            "MISSING_SCOPE", "acquire without the scope claim", MIRA, {"item": "B-9", "ttl_s": 600}
        ),
        refused(
            "PAUSED", "acquire in a pause", VERA, {"item": "B-9", "ttl_s": 600}, first=(PAUSED,)
        ),
        done(
            "acquire a claim for every worktree",
            OTTO,
            {**PATHS, "worktree": "/w", "everywhere": True},
            not_at={"mcp": NO_WORD},
            has={"claim": {"everywhere": True}},
        ),
    ),
    claims.ListClaims: (
        done("list every claim", OTTO),
        done("list every claim as the owner", OWNER, not_at={"mcp": "the owner is no sender"}),
        done(
            "list one's own claims",
            VERA,
            {"mine": True},
            not_at={"mcp": "whoami lists them"},
            has={"claims": [{"holder": "@vera", "paths": ["src/**"]}]},
        ),
    ),
    claims.CheckClaim: (
        done("check a free item", OTTO, {"item": "B-9"}, has={"claimed": False, "claims": []}),
        no(
            None,
            "check a held item",
            VERA,
            {"item": "B-1"},
            has={"claimed": True, "claims": [{"id": "$claim"}]},
        ),
        no(
            None,
            "check held paths",
            OTTO,
            {"paths": ["src/a.py"], "repo": "example.com/r"},
        ),
    ),
    claims.RenewClaim: (
        done(
            "renew a claim",
            OTTO,
            {"item": "B-1", "ttl_s": 7200, "fence": "$fence"},
            has={"renewed": True, "claim": {"fence": "$fence", "expires_at": "<120 minutes>"}},
        ),
        done(
            "renew a claim by its id",
            OTTO,
            {"id": "$claim", "ttl_s": 7200},
            not_at={"cli": NO_WORD},
            has={"claim": {"fence": "$fence", "expires_at": "<120 minutes>"}},
        ),
        refused("NOT_HOLDER", "renew another sender's claim", VERA, {"item": "B-1"}),
        refused("NOT_HOLDER", "renew a claim of another session", S1, {"item": "B-1"}),
        refused(
            "STALE_FENCE",
            "renew with an old fence",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            first=(Step(OTTO, claims.ReleaseClaim, {"item": "B-1"}), held(OTTO, "B-1")),
        ),
        refused("NOT_HOLDER", "renew a claim that does not exist", OTTO, {"item": "B-9"}),
    ),
    claims.ReleaseClaim: (
        done("release a claim", OTTO, {"item": "B-1"}, has={"released": True}),
        done(
            "release a claim with its fence",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            not_at={"mcp": NO_WORD},
            has={"released": True},
        ),
        done(
            "release a claim by its id",
            OTTO,
            {"id": "$claim"},
            not_at={"cli": NO_WORD, "mcp": NO_WORD},
            has={"released": True},
        ),
        done("release a claim on paths", VERA, {"paths": ["src/**"], "repo": "example.com/r"}),
        done("release a free item", OTTO, {"item": "B-9"}, has={"released": False}),
        refused("NOT_HOLDER", "release another sender's claim", VERA, {"item": "B-1"}),
        refused(
            "STALE_FENCE",
            "release a claim that was taken over",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            first=(Step(VERA, claims.TakeOverClaim, {"reason": "away", "item": "B-1"}),),
            not_at={"mcp": NO_WORD},
        ),
    ),
    claims.TakeOverClaim: (
        done(
            "take over a claim",
            VERA,
            {**WHERE, "item": "B-1", "reason": "away", "ttl_s": 600},
            has={"claim": {"holder": "@vera"}, "taken_from": ["@otto-cli"]},
        ),
        refused("NOT_FOUND", "take over a free item", VERA, {"item": "B-9", "reason": "r"}),
        refused(
            "MISSING_SCOPE", "take over a claim as an agent", NOVA, {"item": "B-1", "reason": "r"}
        ),
    ),
    claims.StopWaiting: (done("leave the queue", NOVA, {"item": "B-1"}, has={"waiting": False}),),
    claims.CheckPaths: (
        done(
            "check free files",
            OTTO,
            {"paths": [PROOF], **HERE},
            has={"allowed": True, "denied": [], "warned": []},
        ),
        done(
            "check one's own files",
            NOVA,
            {"paths": [PROOF], **HERE},
            first=(THEIRS,),
            has={"allowed": True},
        ),
        no(
            "CLAIM_HELD",
            "check files that another sender holds",
            OTTO,
            {"paths": [PROOF, "a.py"], **HERE},
            first=(THEIRS,),
            has={"allowed": False, "denied": [{"path": PROOF, "claim": {"holder": "@nova"}}]},
        ),
        no(
            "CLAIM_HELD",
            "check held files as the owner",
            OWNER,
            {"paths": [PROOF], **HERE},
            first=(THEIRS,),
            own_words=True,
        ),
        done(
            "check files held in another worktree",
            OTTO,
            {"paths": [PROOF], **HERE},
            first=(ELSEWHERE_HELD,),
            has={"allowed": True, "denied": [], "warned": [{"path": PROOF}]},
        ),
        no(
            "CLAIM_HELD",
            "check files held in every worktree",
            OTTO,
            {"paths": [PROOF], **HERE},
            first=(EVERYWHERE_HELD,),
            has={"denied": [{"path": PROOF, "claim": {"everywhere": True}}]},
        ),
        done(
            "check held files with the guard off",
            OTTO,
            {"paths": [PROOF], **HERE},
            first=(THEIRS, setting("guard", "off")),
            has={"warned": []},
        ),
        refused(
            "USAGE",
            "check files outside the repository",
            OTTO,
            {"paths": ["../x"], **HERE},
            own_words=True,
        ),
    ),
    claims.ReportCommit: (
        done("report a commit without claimed files", OTTO, COMMITTED, has={"crossed": []}),
        done(
            "report a commit that crosses a claim",
            OTTO,
            COMMITTED,
            first=(THEIRS,),
            has={"crossed": [{"path": PROOF, "claim": {"holder": "@nova"}}]},
        ),
        done(
            "report a commit twice",
            OTTO,
            COMMITTED,
            first=(THEIRS, Step(OTTO, claims.ReportCommit, COMMITTED)),
        ),
        refused(
            "USAGE",
            "report a commit by part of its id",
            OTTO,
            {**COMMITTED, "commit": "abc"},
            not_at={"cli": "git names it"},
        ),
    ),
}
