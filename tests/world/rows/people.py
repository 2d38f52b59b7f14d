"""Rows of the verbs of people: invitations and connections."""

from interlock.rooms.people import verbs as people
from world.row import (
    BROWSER,
    DORA,
    NOBODY,
    NOVA,
    OTTO,
    OWNER,
    PAUSED,
    STRANGER,
    VERA,
    Rows,
    Step,
    done,
    refused,
)

INVITED = {"code": "$invitation"}
BY_LINK = {"cli on the file": "a link leads to a server"}

ROWS: Rows = {
    people.Invite: (
        done(
            "a person is invited",
            OWNER,
            {"name": "hugo", "own": ["@nova", "remi"]},
            has={"sender": "hugo", "kind": "human", "own": ["@nova", "@remi"]},
        ),
        done(
            "another machine is invited",
            DORA,
            {"name": "otto", "surface": "laptop", "ttl_s": 3600},
            has={"sender": "otto-laptop", "kind": "agent"},
        ),
        done("an agent is invited", OWNER, {"name": "remi", "kind": "agent"}),
        refused(
            "NAME_TAKEN",
            "an invitation with another kind than registered",
            OWNER,
            {"name": "nova", "kind": "human"},
        ),
        refused(
            "USAGE",
            "an invitation of an agent as an owner",
            OWNER,
            {"name": "nova", "own": ["remi"]},
        ),
        refused(
            "NAME_TAKEN",
            "an invitation that names an agent with an owner",
            OWNER,
            {"name": "hugo", "own": ["robo"]},
        ),
        refused("MISSING_SCOPE", "a person cannot invite", VERA, {"name": "hugo"}),
        refused("MISSING_SCOPE", "an agent cannot invite", OTTO, {"name": "hugo"}),
        refused(
            "PAUSED",
            "an invitation in a paused workspace",
            OWNER,
            {"name": "hugo"},
            first=(PAUSED,),
        ),
    ),
    people.AcceptInvitation: (
        done(
            "accepting an invitation",
            NOBODY,
            INVITED,
            not_at=BY_LINK,
            has={"sender": "rita-laptop"},
        ),
        done("accepting an invitation with a foreign token", STRANGER, INVITED, not_at=BY_LINK),
        refused(
            "BAD_TOKEN",
            "accepting a used invitation",
            NOBODY,
            INVITED,
            first=(Step(OTTO, people.AcceptInvitation, INVITED),),
            not_at=BY_LINK,
        ),
        refused(
            "BAD_TOKEN",
            "accepting an unknown invitation",
            NOBODY,
            {"code": "nobody-is-invited"},
            not_at=BY_LINK,
        ),
        refused(
            "TOKEN_EXPIRED",
            "accepting an expired invitation",
            NOBODY,
            {"code": "$late_invitation"},
            not_at=BY_LINK,
        ),
        refused(
            "PAUSED",
            "accepting an invitation in a paused workspace",
            NOBODY,
            INVITED,
            first=(PAUSED,),
            not_at=BY_LINK,
        ),
    ),
    people.ListConnections: (
        done(
            "a person lists their connections",
            VERA,
            has={"connections": [{"id": "$connection", "person": "@vera"}]},
        ),
        done("a person lists their connections in a browser", BROWSER),
        done("the owner lists all connections", OWNER),
        refused("MISSING_SCOPE", "an agent cannot list connections", OTTO),
    ),
    people.NameConnection: (
        done(
            "a connection is named",
            VERA,
            {"id": "$connection", "name": "my phone"},
            has={"name": "my phone"},
        ),
        refused(
            "MISSING_SCOPE",
            "an agent cannot name a connection",
            NOVA,
            {"id": "$connection", "name": "mine"},
        ),
        refused("USAGE", "a blank name for a connection", VERA, {"id": "$connection", "name": " "}),
    ),
    people.RevokeConnection: (
        done(
            "revoking a connection", VERA, {"id": "$connection"}, has={"revoked": ["$connection"]}
        ),
        done(
            "revoking a connection in a paused workspace",
            VERA,
            {"id": "$connection"},
            first=(PAUSED,),
        ),
        done("withdrawing an invitation", OWNER, {"id": "$invited"}),
        refused("NOT_FOUND", "revoking an invisible invitation", VERA, {"id": "$invited"}),
        done("revoking a browser session", DORA, {"id": "$signed_in"}),
        done("locking out a person", OWNER, {"id": "@vera"}, has={"person": "@vera"}),
        refused("NOT_FOUND", "locking out an unknown name", OWNER, {"id": "@nobody"}),
        refused("NOT_FOUND", "locking out an agent", OWNER, {"id": "@otto"}),
        refused("MISSING_SCOPE", "a person cannot lock out people", VERA, {"id": "@vera"}),
        refused("NOT_FOUND", "revoking an unknown connection", OWNER, {"id": "con_000000000000"}),
        refused(
            "MISSING_SCOPE", "an agent cannot revoke a connection", OTTO, {"id": "$connection"}
        ),
    ),
}
