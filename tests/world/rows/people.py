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
        refused("NAME_TAKEN", "a kind that it is not", OWNER, {"name": "nova", "kind": "human"}),
        refused("USAGE", "an agent owns none", OWNER, {"name": "nova", "own": ["remi"]}),
        refused("NAME_TAKEN", "an agent is one person's", OWNER, {"name": "hugo", "own": ["robo"]}),
        refused("MISSING_SCOPE", "a person invites nobody", VERA, {"name": "hugo"}),
        refused("MISSING_SCOPE", "an agent invites nobody", OTTO, {"name": "hugo"}),
        refused("PAUSED", "nobody is invited in a pause", OWNER, {"name": "hugo"}, first=(PAUSED,)),
    ),
    people.AcceptInvitation: (
        done("an invitation", NOBODY, INVITED, not_at=BY_LINK, has={"sender": "rita-laptop"}),
        done("an invitation, whoever shows it", STRANGER, INVITED, not_at=BY_LINK),
        refused(
            "BAD_TOKEN",
            "an invitation is good once",
            NOBODY,
            INVITED,
            first=(Step(OTTO, people.AcceptInvitation, INVITED),),
            not_at=BY_LINK,
        ),
        refused(
            "BAD_TOKEN",
            "an invitation that there is not",
            NOBODY,
            {"code": "nobody-is-invited"},
            not_at=BY_LINK,
        ),
        refused(
            "TOKEN_EXPIRED",
            "an invitation too late",
            NOBODY,
            {"code": "$late_invitation"},
            not_at=BY_LINK,
        ),
        refused(
            "PAUSED",
            "nobody joins by an invitation in a pause",
            NOBODY,
            INVITED,
            first=(PAUSED,),
            not_at=BY_LINK,
        ),
    ),
    people.ListConnections: (
        done(
            "one's own connections",
            VERA,
            has={"connections": [{"id": "$connection", "person": "@vera"}]},
        ),
        done("one's own connections, in a browser", BROWSER),
        done("everybody's connections", OWNER),
        refused("MISSING_SCOPE", "an agent sees no connections", OTTO),
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
            "an agent names no connection",
            NOVA,
            {"id": "$connection", "name": "mine"},
        ),
        refused("USAGE", "a connection has a name", VERA, {"id": "$connection", "name": " "}),
    ),
    people.RevokeConnection: (
        done("a connection ends", VERA, {"id": "$connection"}, has={"revoked": ["$connection"]}),
        done("a connection ends in a pause", VERA, {"id": "$connection"}, first=(PAUSED,)),
        done("an invitation is withdrawn", OWNER, {"id": "$invited"}),
        refused("NOT_FOUND", "another's invitation", VERA, {"id": "$invited"}),
        done("a browser is signed out", DORA, {"id": "$signed_in"}),
        done("a person is locked out", OWNER, {"id": "@vera"}, has={"person": "@vera"}),
        refused("NOT_FOUND", "nobody is locked out", OWNER, {"id": "@nobody"}),
        refused("NOT_FOUND", "no agent is locked out", OWNER, {"id": "@otto"}),
        refused("MISSING_SCOPE", "who may lock out", VERA, {"id": "@vera"}),
        refused("NOT_FOUND", "a connection that there is not", OWNER, {"id": "con_000000000000"}),
        refused("MISSING_SCOPE", "an agent ends no connection", OTTO, {"id": "$connection"}),
    ),
}
