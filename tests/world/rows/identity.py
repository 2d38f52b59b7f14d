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
        done("who is there", VERA),
        done("who is there, for the owner", OWNER, not_at={"mcp": "the owner is no sender"}),
        done(
            "one who is there",
            VERA,
            {"name": "nova"},
            has={"agents": [{"address": "@nova", "kind": "agent"}]},
        ),
        done("one who is not there", VERA, {"name": "ghost"}, has={"agents": []}),
    ),
    identity.Join: (
        done(
            "somebody joins",
            OWNER,
            {"name": "rita", "surface": "web", "kind": "agent", "label": "Rita"},
            has={"sender": "rita-web", "address": "@rita-web"},
        ),
        done(
            "somebody joins with scopes",
            DORA,
            {"name": "rita", "kind": "human", "scopes": ["mail", "gate:athena"]},
            has={"scopes": ["mail", "gate:athena"]},
        ),
        refused("NAME_TAKEN", "a name that is taken", OWNER, {"name": "vera"}),
        refused("USAGE", "a name that cannot be one", OWNER, {"name": "Rita Ré"}),
        refused("USAGE", "a scope that there is not", OWNER, {"name": "rita", "scopes": ["root"]}),
        refused("MISSING_SCOPE", "an agent lets nobody join", OTTO, {"name": "rita"}),
        refused("PAUSED", "nobody joins in a pause", OWNER, {"name": "rita"}, first=(PAUSED,)),
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
            "NAME_TAKEN", "a group of a taken name", OWNER, {"name": "vera", "members": ["@nova"]}
        ),
        refused(
            "MISSING_SCOPE", "an agent makes no group", OTTO, {"name": "crew", "members": ["@nova"]}
        ),
    ),
    identity.ListTokens: (
        done("the tokens", OWNER),
        refused("MISSING_SCOPE", "an agent sees no tokens", OTTO),
    ),
    identity.ShowToken: (
        done("a token", DORA, {"id": "$vera_token"}, has={"sender": "vera"}),
        refused("NOT_FOUND", "a token that there is not", OWNER, {"id": "tok_000000000000"}),
    ),
    identity.MintToken: (
        done(
            "another token",
            OWNER,
            {"sender": "vera", "label": "spare", "ttl_s": 3600},
            has={"label": "spare", "scopes": ["mail", "claim", "work"]},
        ),
        refused("UNKNOWN_SENDER", "a token of nobody", OWNER, {"sender": "ghost"}),
    ),
    identity.RotateToken: (
        done(
            "a new token for an old one",
            OWNER,
            {"id": "$nova_token"},
            has={"replaced": ["$nova_token"]},
        ),
        done("a new token for a sender's", OWNER, {"sender": "vera"}),
        refused("USAGE", "a new token for none", OWNER),
    ),
    identity.RevokeToken: (
        done("a token ends", OWNER, {"id": "$vera_token"}, has={"revoked": ["$vera_token"]}),
        done("a sender's tokens end", DORA, {"sender": "vera"}),
        refused("NOT_FOUND", "a token that cannot end", OWNER, {"id": "tok_000000000000"}),
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
        refused("USAGE", "no label", OWNER, {"id": "$vera_token", "label": " "}),
        refused(
            "NOT_FOUND", "a label for no token", OWNER, {"id": "tok_000000000000", "label": "vera"}
        ),
        refused(
            "MISSING_SCOPE",
            "an agent labels no token",
            OTTO,
            {"id": "$vera_token", "label": "vera"},
        ),
    ),
    identity.ImportTokens: (
        done(
            "what would be imported",
            OWNER,
            {"rows": [OLD]},
            has={"applied": False, "importable": 1, "imported": 0},
        ),
        done("an old token", DORA, {"rows": [OLD], "apply": True}),
        no(
            None,
            "old tokens that are not ready",
            OWNER,
            {"rows": [OLD, OLD_NEO, {"label": "nobody's", "token_hash": "c" * 64}], "apply": True},
            has={"ok": False, "imported": 2},
        ),
        done(
            "an old token of a label",
            OWNER,
            {"rows": [OLD_NEO], "map": {"Neo GPT": "neo-gpt"}, "apply": True},
            first=(Step(OWNER, identity.ImportTokens, {"rows": [OLD_NEO], "apply": True}),),
            has={"imported": 1},
        ),
        refused("USAGE", "no old tokens", OWNER, {"rows": []}),
        refused(
            "USAGE", "a label that no row has", OWNER, {"rows": [OLD], "map": {"Neo": "neo-gpt"}}
        ),
        refused("MISSING_SCOPE", "an agent imports none", OTTO, {"rows": [OLD]}),
        refused(
            "PAUSED",
            "nothing is imported in a pause",
            OWNER,
            {"rows": [OLD], "apply": True},
            first=(PAUSED,),
        ),
    ),
    identity.ReaffirmTokens: (
        done("tokens are trusted again", OWNER, has={"reaffirmed": []}),
        done(
            "one token is trusted again",
            OWNER,
            {"sender": "vera"},
            first=(Step(OWNER, workspace.Restore, {"file": "$backup"}),),
        ),
        refused("MISSING_SCOPE", "an agent trusts no token", OTTO, {"sender": "vera"}),
    ),
    identity.IdentifyToken: (
        done("whose a token is", OTTO, {"token": "$its_token"}, has={"known": True}),
        no(None, "nobody's token", OWNER, {"token": "of-somebody-else"}, has={"known": False}),
    ),
    identity.StartSession: (
        done("a session", OTTO, {"id": "s-9"}, has={"session": "s-9", "sender": "otto-cli"}),
        refused("USAGE", "no session", OTTO, {"id": "../x"}),
    ),
    identity.FindSession: (
        done(
            "whose a session is", OWNER, {"id": "s-1"}, first=(STARTED,), has={"sender": "otto-cli"}
        ),
        done("nobody's session", OWNER, {"id": "s-7"}, has={"session": "s-7", "sender": None}),
    ),
    identity.KeepSession: (
        done(
            "a session is kept",
            S1,
            {"id": "s-1"},
            first=(STARTED, held(S1, "B-9")),
            has={"claims": [{"item": "B-9", "session": "s-1"}]},
        ),
    ),
    identity.EndSession: (
        done(
            "a session ends",
            S1,
            {"id": "s-1"},
            first=(STARTED, held(S1, "B-9")),
            has={"ended": "s-1", "released": [{"item": "B-9"}]},
        ),
    ),
    identity.Mute: (
        done("nothing wakes me", OTTO, has={"address": "@otto-cli", "muted": True}),
        done(
            "nothing wakes me for a while",
            OTTO,
            {"name": "@otto", "ttl_s": 600},
            has={"address": "@otto", "muted": True, "until": "<time>"},
        ),
        done("nothing wakes another", OWNER, {"name": "nova"}),
        done(
            "I am woken again",
            OTTO,
            {"off": True},
            first=(Step(OTTO, identity.Mute),),
            has={"muted": False},
        ),
        refused("MISSING_SCOPE", "an agent mutes no other", OTTO, {"name": "nova"}),
        refused("NOT_FOUND", "nobody to mute", OWNER, {"name": "nov"}),
        refused("PAUSED", "muting in a pause", OTTO, first=(PAUSED,)),
    ),
}
