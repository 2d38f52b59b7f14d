"""Rows of the verbs of identity: agents, groups, tokens and sessions."""

from interlock.rooms.identity import verbs as identity
from interlock.rooms.workspace import verbs as workspace
from world.row import (
    DORA,
    OTTO,
    OWNER,
    PAUSED,
    S1,
    STARTED,
    VERA,
    Rows,
    Step,
    done,
    held,
    no,
    refused,
)

OLD = {"token_hash": "a" * 64, "agent": "nova", "label": "Nova, at work", "scope": ["mail"]}
OLD_NEO = {"token_hash": "b" * 64, "agent": "nova", "label": "Neo GPT"}

ROWS: Rows = {
    identity.ListAgents: (
        done("all agents", VERA),
        done("all agents, for the owner", OWNER, not_at={"mcp": "the owner is no sender"}),
        done(
            "one agent",
            VERA,
            {"name": "nova"},
            has={"agents": [{"address": "@nova", "kind": "agent"}]},
        ),
        done("an unknown agent", VERA, {"name": "ghost"}, has={"agents": []}),
    ),
    identity.Join: (
        done(
            "an agent joins",
            OWNER,
            {"name": "rita", "surface": "web", "kind": "agent", "label": "Rita"},
            has={"sender": "rita-web", "address": "@rita-web"},
        ),
        done(
            "a person joins with scopes",
            DORA,
            {"name": "rita", "kind": "human", "scopes": ["mail", "gate:athena"]},
            has={"scopes": ["mail", "gate:athena"]},
        ),
        refused("NAME_TAKEN", "a name that is taken", OWNER, {"name": "vera"}),
        refused("USAGE", "a malformed name", OWNER, {"name": "Rita Ré"}),
        refused("USAGE", "an unknown scope", OWNER, {"name": "rita", "scopes": ["root"]}),
        refused("MISSING_SCOPE", "an agent cannot register others", OTTO, {"name": "rita"}),
        refused("PAUSED", "joining a paused workspace", OWNER, {"name": "rita"}, first=(PAUSED,)),
    ),
    identity.ListGroups: (
        done(
            "the groups",
            OTTO,
            has={"groups": [{"address": "@team", "members": ["@otto-cli", "@vera"]}]},
        ),
    ),
    identity.CreateGroup: (
        done(
            "a group",
            OWNER,
            {"name": "crew", "members": ["@nova", "@vera"]},
            has={"name": "crew", "address": "@crew", "members": ["@nova", "@vera"]},
        ),
        refused(
            "NAME_TAKEN", "a group with a taken name", OWNER, {"name": "vera", "members": ["@nova"]}
        ),
        refused(
            "MISSING_SCOPE",
            "an agent cannot create a group",
            OTTO,
            {"name": "crew", "members": ["@nova"]},
        ),
    ),
    identity.ListTokens: (
        done("the tokens", OWNER),
        refused("MISSING_SCOPE", "an agent cannot list tokens", OTTO),
    ),
    identity.ShowToken: (
        done("a token", DORA, {"id": "$vera_token"}, has={"sender": "vera"}),
        refused("NOT_FOUND", "an unknown token", OWNER, {"id": "tok_000000000000"}),
    ),
    identity.MintToken: (
        done(
            "another token",
            OWNER,
            {"sender": "vera", "label": "spare", "ttl_s": 3600},
            has={"label": "spare", "scopes": ["mail", "claim", "work"]},
        ),
        refused("UNKNOWN_SENDER", "a token for an unknown sender", OWNER, {"sender": "ghost"}),
    ),
    identity.RotateToken: (
        done(
            "rotating a token by its id",
            OWNER,
            {"id": "$nova_token"},
            has={"replaced": ["$nova_token"]},
        ),
        done("rotating the token of a sender", OWNER, {"sender": "vera"}),
        refused("USAGE", "rotating an unnamed token", OWNER),
    ),
    identity.RevokeToken: (
        done("revoking a token", OWNER, {"id": "$vera_token"}, has={"revoked": ["$vera_token"]}),
        done("revoking the tokens of a sender", DORA, {"sender": "vera"}),
        refused("NOT_FOUND", "revoking an unknown token", OWNER, {"id": "tok_000000000000"}),
    ),
    identity.LabelToken: (
        done(
            "another label",
            DORA,
            {"id": "$vera_token", "label": "Vera, at home"},
            has={"label": "Vera, at home", "contradiction": None},
        ),
        done(
            "a label that contradicts",
            OWNER,
            {"id": "$vera_token", "label": "nova"},
            has={"label": "nova", "sender": "vera"},
        ),
        refused("USAGE", "a blank label", OWNER, {"id": "$vera_token", "label": " "}),
        refused(
            "NOT_FOUND",
            "a label for an unknown token",
            OWNER,
            {"id": "tok_000000000000", "label": "vera"},
        ),
        refused(
            "MISSING_SCOPE",
            "an agent cannot label a token",
            OTTO,
            {"id": "$vera_token", "label": "vera"},
        ),
    ),
    identity.ImportTokens: (
        done(
            "an import without apply",
            OWNER,
            {"rows": [OLD]},
            has={"applied": False, "importable": 1, "imported": 0},
        ),
        done("an import of a token", DORA, {"rows": [OLD], "apply": True}),
        no(
            None,
            "an import of tokens that are not ready",
            OWNER,
            {"rows": [OLD, OLD_NEO, {"label": "nobody's", "token_hash": "c" * 64}], "apply": True},
            has={"ok": False, "imported": 2},
        ),
        done(
            "an import with a map",
            OWNER,
            {"rows": [OLD_NEO], "map": {"Neo GPT": "neo-gpt"}, "apply": True},
            first=(Step(OWNER, identity.ImportTokens, {"rows": [OLD_NEO], "apply": True}),),
            has={"imported": 1},
        ),
        refused("USAGE", "an import without rows", OWNER, {"rows": []}),
        refused(
            "USAGE", "a label that no row has", OWNER, {"rows": [OLD], "map": {"Neo": "neo-gpt"}}
        ),
        refused("MISSING_SCOPE", "an agent cannot import tokens", OTTO, {"rows": [OLD]}),
        refused(
            "PAUSED",
            "an import into a paused workspace",
            OWNER,
            {"rows": [OLD], "apply": True},
            first=(PAUSED,),
        ),
    ),
    identity.ReaffirmTokens: (
        done("reaffirming all tokens", OWNER, has={"reaffirmed": []}),
        done(
            "reaffirming the tokens of a sender",
            OWNER,
            {"sender": "vera"},
            first=(Step(OWNER, workspace.Restore, {"file": "$backup"}),),
        ),
        refused("MISSING_SCOPE", "an agent cannot reaffirm tokens", OTTO, {"sender": "vera"}),
    ),
    identity.IdentifyToken: (
        done("identifying a token", OTTO, {"token": "$its_token"}, has={"known": True}),
        no(
            None,
            "identifying an unknown token",
            OWNER,
            {"token": "of-somebody-else"},
            has={"known": False},
        ),
    ),
    identity.StartSession: (
        done(
            "starting a session", OTTO, {"id": "s-9"}, has={"session": "s-9", "sender": "otto-cli"}
        ),
        refused("USAGE", "starting a malformed session", OTTO, {"id": "../x"}),
    ),
    identity.FindSession: (
        done(
            "finding a session", OWNER, {"id": "s-1"}, first=(STARTED,), has={"sender": "otto-cli"}
        ),
        done(
            "finding an unknown session",
            OWNER,
            {"id": "s-7"},
            has={"session": "s-7", "sender": None},
        ),
    ),
    identity.KeepSession: (
        done(
            "keeping a session",
            S1,
            {"id": "s-1"},
            first=(STARTED, held(S1, "B-9")),
            has={"claims": [{"item": "B-9", "session": "s-1"}]},
        ),
    ),
    identity.EndSession: (
        done(
            "ending a session",
            S1,
            {"id": "s-1"},
            first=(STARTED, held(S1, "B-9")),
            has={"ended": "s-1", "released": [{"item": "B-9"}]},
        ),
    ),
    identity.Mute: (
        done("an agent mutes itself", OTTO, has={"address": "@otto-cli", "muted": True}),
        done(
            "an agent mutes itself for a time",
            OTTO,
            {"name": "@otto", "ttl_s": 600},
            has={"address": "@otto", "muted": True, "until": "<time>"},
        ),
        done("the owner mutes an agent", OWNER, {"name": "nova"}),
        done(
            "an agent unmutes itself",
            OTTO,
            {"off": True},
            first=(Step(OTTO, identity.Mute),),
            has={"muted": False},
        ),
        refused("MISSING_SCOPE", "an agent cannot mute another", OTTO, {"name": "nova"}),
        refused("NOT_FOUND", "muting an unknown agent", OWNER, {"name": "nov"}),
        refused("PAUSED", "muting in a paused workspace", OTTO, first=(PAUSED,)),
    ),
}
