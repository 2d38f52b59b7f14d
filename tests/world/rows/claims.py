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

ROWS: Rows = {
    claims.AcquireClaim: (
        done("a claim", VERA, {**WHERE, "item": "B-9", "ttl_s": 600}, has={"acquired": True}),
        done("a claim of a session", S1, {"item": "B-9", "ttl_s": 600}),
        done("a claim on paths", OTTO, {**PATHS, "ttl_s": 600}),
        done("one's own again", OTTO, {"item": "B-1", "ttl_s": 7200}),
        done(
            "a worktree that another uses is said",
            VERA,
            {"item": "B-9", "ttl_s": 600, "worktree": "/w"},
            first=(held(OTTO, "B-8", worktree="/w"),),
        ),
        done(
            "a claim that is waited for",
            VERA,
            {"item": "B-1", "ttl_s": 600, "wait_s": 40},
            meanwhile=Meanwhile(
                lambda owner: owner.status()["waiting"] == 1,
                Step(OTTO, claims.ReleaseClaim, {"item": "B-1"}),
            ),
            has={"acquired": True},
        ),
        no("CLAIM_HELD", "what another holds", VERA, {"item": "B-1", "ttl_s": 600}),
        no("CLAIM_HELD", "what another session holds", S2, {"item": "B-1", "ttl_s": 600}),
        no(
            "CLAIM_HELD",
            "paths that meet held ones",
            OTTO,
            {"paths": ["src/a.py"], "repo": "example.com/r", "ttl_s": 600},
        ),
        no("CLAIM_HELD", "waited for in vain", VERA, {"item": "B-1", "ttl_s": 600, "wait_s": 1}),
        refused("USAGE", "an item that cannot be one", OTTO, {"item": "-5 %", "ttl_s": 600}),
        refused(
            "USAGE",
            "a lease of two years",
            OTTO,
            {"item": "B-9", "ttl_s": 99999999},
            own_words=True,
        ),
        refused(
            "USAGE",
            "a path out of the repository",
            OTTO,
            {"paths": ["../x"], "repo": "example.com/r", "ttl_s": 600},
        ),
        refused("MISSING_SCOPE", "a claim without the scope", MIRA, {"item": "B-9", "ttl_s": 600}),
        refused(
            "PAUSED", "a claim in a pause", VERA, {"item": "B-9", "ttl_s": 600}, first=(PAUSED,)
        ),
        done(
            "a claim that guards every copy",
            OTTO,
            {**PATHS, "worktree": "/w", "everywhere": True},
            not_at={"mcp": NO_WORD},
        ),
    ),
    claims.ListClaims: (
        done("every claim", OTTO),
        done("every claim, for the owner", OWNER, not_at={"mcp": "the owner is no sender"}),
        done("one's own claims", VERA, {"mine": True}, not_at={"mcp": "whoami lists them"}),
    ),
    claims.CheckClaim: (
        done("what nobody holds", OTTO, {"item": "B-9"}, has={"claimed": False, "claims": []}),
        no(None, "what somebody holds", VERA, {"item": "B-1"}, has={"claimed": True}),
        no(
            None,
            "paths that somebody holds",
            OTTO,
            {"paths": ["src/a.py"], "repo": "example.com/r"},
        ),
    ),
    claims.RenewClaim: (
        done(
            "a longer lease",
            OTTO,
            {"item": "B-1", "ttl_s": 7200, "fence": "$fence"},
            has={"renewed": True},
        ),
        done(
            "a longer lease, by its id",
            OTTO,
            {"id": "$claim", "ttl_s": 7200},
            not_at={"cli": NO_WORD},
        ),
        refused("NOT_HOLDER", "another's lease", VERA, {"item": "B-1"}),
        refused("NOT_HOLDER", "a lease of another session", S1, {"item": "B-1"}),
        refused(
            "STALE_FENCE",
            "a lease with an old fence",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            first=(Step(OTTO, claims.ReleaseClaim, {"item": "B-1"}), held(OTTO, "B-1")),
        ),
        refused("NOT_HOLDER", "a lease that there is not", OTTO, {"item": "B-9"}),
    ),
    claims.ReleaseClaim: (
        done("given up", OTTO, {"item": "B-1"}, has={"released": True}),
        done(
            "given up, with its fence",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            not_at={"mcp": NO_WORD},
        ),
        done(
            "given up, by its id", OTTO, {"id": "$claim"}, not_at={"cli": NO_WORD, "mcp": NO_WORD}
        ),
        done("given up, on paths", VERA, {"paths": ["src/**"], "repo": "example.com/r"}),
        done("nobody's", OTTO, {"item": "B-9"}, has={"released": False}),
        refused("NOT_HOLDER", "another's cannot be given up", VERA, {"item": "B-1"}),
        refused(
            "STALE_FENCE",
            "what was taken over meanwhile",
            OTTO,
            {"item": "B-1", "fence": "$fence"},
            first=(Step(VERA, claims.TakeOverClaim, {"reason": "away", "item": "B-1"}),),
            not_at={"mcp": NO_WORD},
        ),
    ),
    claims.TakeOverClaim: (
        done("taken over", VERA, {**WHERE, "item": "B-1", "reason": "away", "ttl_s": 600}),
        refused("NOT_FOUND", "taken over from nobody", VERA, {"item": "B-9", "reason": "r"}),
        refused("MISSING_SCOPE", "taken over by an agent", NOVA, {"item": "B-1", "reason": "r"}),
    ),
    claims.StopWaiting: (done("out of the queue", NOVA, {"item": "B-1"}, has={"waiting": False}),),
    claims.CheckPaths: (
        done(
            "files that nobody holds",
            OTTO,
            {"paths": [PROOF], **HERE},
            has={"allowed": True, "denied": [], "warned": []},
        ),
        done(
            "files of one's own",
            NOVA,
            {"paths": [PROOF], **HERE},
            first=(THEIRS,),
            has={"allowed": True},
        ),
        no(
            "CLAIM_HELD",
            "files that another holds",
            OTTO,
            {"paths": [PROOF, "a.py"], **HERE},
            first=(THEIRS,),
            has={"allowed": False},
        ),
        no(
            "CLAIM_HELD",
            "files that somebody holds, for one who has no name",
            OWNER,
            {"paths": [PROOF], **HERE},
            first=(THEIRS,),
            own_words=True,
        ),
        done(
            "files that another holds in another worktree",
            OTTO,
            {"paths": [PROOF], **HERE},
            first=(ELSEWHERE_HELD,),
            has={"allowed": True},
        ),
        done(
            "files that another holds, where nothing guards them",
            OTTO,
            {"paths": [PROOF], **HERE},
            first=(THEIRS, setting("guard", "off")),
            has={"warned": []},
        ),
        refused(
            "USAGE",
            "files outside the repository",
            OTTO,
            {"paths": ["../x"], **HERE},
            own_words=True,
        ),
    ),
    claims.ReportCommit: (
        done("a commit that crosses nothing", OTTO, COMMITTED, has={"crossed": []}),
        done("a commit that crosses a claim", OTTO, COMMITTED, first=(THEIRS,)),
        done(
            "a commit that was reported before",
            OTTO,
            COMMITTED,
            first=(THEIRS, Step(OTTO, claims.ReportCommit, COMMITTED)),
        ),
        refused(
            "USAGE",
            "a commit by half its name",
            OTTO,
            {**COMMITTED, "commit": "abc"},
            not_at={"cli": "git names it"},
        ),
    ),
}
