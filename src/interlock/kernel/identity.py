"""Identity: agents, their surfaces, tokens and sessions. A token is exactly one sender.

Which sender is a surface of which agent is registered here and never guessed from a hyphen. A
label is display text and decides nothing.
"""

from interlock.contracts.acts import (
    CreateGroup,
    EndSession,
    FindSession,
    IdentifyToken,
    Join,
    ListAgents,
    ListGroups,
    ListTokens,
    MintToken,
    ReaffirmTokens,
    RevokeToken,
    RotateToken,
    ShowToken,
    StartSession,
)
from interlock.contracts.addresses import address, check_name, near
from interlock.contracts.facts import Header
from interlock.contracts.times import rfc3339
from interlock.contracts.tokens import token_id
from interlock.errors import (
    BadToken,
    IdentityMismatch,
    MissingScope,
    NameTaken,
    NotFound,
    TokenExpired,
    UnknownSender,
    Usage,
)
from interlock.kernel.moment import Answer, Caller, Moment, Row, State, absent_dropped

# map: identity_agents    principals: otto
#      identity_senders   where they act: otto, otto-cli; one namespace with agents and groups
#      identity_tokens    hashes only, each bound to one sender
#      identity_sessions  running clients of a sender
#      identity_groups, identity_members
TABLES = """
CREATE TABLE identity_agents(name TEXT PRIMARY KEY, kind TEXT NOT NULL, joined_at INTEGER NOT NULL,
    seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_senders(sender TEXT PRIMARY KEY, agent TEXT NOT NULL, surface TEXT,
    joined_at INTEGER NOT NULL, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_tokens(hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, sender TEXT NOT NULL,
    label TEXT, scopes TEXT NOT NULL, minted_by TEXT NOT NULL, minted_at INTEGER NOT NULL,
    seq INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER, suspended INTEGER NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE identity_sessions(session TEXT PRIMARY KEY, sender TEXT NOT NULL,
    started_at INTEGER NOT NULL, ended_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_groups(name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_members(name TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (name, member))
    STRICT, WITHOUT ROWID;
"""

OWNER = "owner"
SYSTEM = "interlock"
RESERVED = (OWNER, SYSTEM)
BASIC_SCOPES = ("mail", "claim", "work")
OWNER_CALLER = Caller(OWNER, OWNER, "human", scopes=frozenset({"admin"}), owner=True)
SYSTEM_CALLER = Caller(SYSTEM, SYSTEM, "system")

_COLUMNS = "id, sender, label, scopes, minted_by, minted_at, seq, expires_at, revoked_at, suspended"


def authenticate(state: State, now: int, token_hash: str, session: str | None) -> Caller:
    """Who holds this token, or `BadToken`, `TokenExpired`."""
    row = state.execute(
        "SELECT t.id, t.sender, t.scopes, t.expires_at, t.revoked_at, t.suspended, s.agent, "
        "s.surface, a.kind FROM identity_tokens t JOIN identity_senders s USING (sender) "
        "JOIN identity_agents a ON a.name = s.agent WHERE t.hash = ?",
        (token_hash,),
    ).fetchone()
    if row is None:
        raise BadToken
    token, sender, scopes, expires_at, revoked_at, suspended, agent, surface, kind = row
    if revoked_at is not None:
        raise BadToken(f"The token {token} of @{sender} was revoked. Ask for another.")
    if suspended:
        raise BadToken(
            f"The token {token} of @{sender} is suspended since the workspace was restored from "
            f"a backup. If it is still trusted: interlock token reaffirm {token}"
        )
    if expires_at is not None and expires_at <= now:
        raise TokenExpired(
            f"The token {token} of @{sender} expired at {rfc3339(expires_at)}. Its owner can mint "
            f"another: interlock token rotate {token}"
        )
    return Caller(sender, agent, kind, surface, frozenset(scopes.split()), session, token)


def refuse_mismatch(caller: Caller, claimed: str | None) -> None:
    """A sender that is named must be the one the token is bound to."""
    if claimed is not None and claimed.removeprefix("@") != caller.sender:
        raise IdentityMismatch(
            f"The credentials shown are @{caller.sender}'s, and the request says {claimed[:80]!r}. "
            "Leave the sender out: it comes from the token.",
            sender=address(caller.sender),
            claimed=claimed[:80],
        )


def join(moment: Moment, act: Join) -> Answer:
    pattern = moment.setting("names.pattern")
    name = check_name(act.name, pattern)
    sender = name
    if act.surface is not None:
        sender = check_name(f"{name}-{check_name(act.surface, pattern, 'surface')}", pattern)
    agent = moment.one("SELECT kind FROM identity_agents WHERE name = ?", name)
    _refuse_taken(moment, name, sender, known_agent=agent is not None)
    kind = act.kind or (agent[0] if agent else "agent")
    if agent and agent[0] != kind:
        raise NameTaken(f"@{name} is registered as {agent[0]}, not {kind}.", name=name)
    scopes = _scopes(moment, act.scopes)
    joined = absent_dropped(agent=name, surface=act.surface, kind=kind)
    moment.record("agent_joined", joined | {"sender": sender})
    _mint(moment, sender, act.token_hash, act.label, scopes, None)
    return absent_dropped(
        sender=sender, address=address(sender), agent=name, surface=act.surface, kind=kind
    ) | {"scopes": list(scopes), "token_id": token_id(act.token_hash)}


def _refuse_taken(moment: Moment, name: str, sender: str, *, known_agent: bool) -> None:
    """A name must not be what another agent's surface is called, nor the reverse."""
    taken = moment.one("SELECT agent, surface FROM identity_senders WHERE sender = ?", sender)
    if taken and taken[0] == name:
        raise NameTaken(
            f"@{sender} has joined already. For another token of it: interlock token mint "
            f"--sender {sender}",
            name=sender,
        )
    if taken:
        raise NameTaken(
            f"@{sender} is the surface {taken[1]} of @{taken[0]}. Choose another name.", name=sender
        )
    if not known_agent:
        owner = moment.one("SELECT agent, surface FROM identity_senders WHERE sender = ?", name)
        if owner:
            raise NameTaken(
                f"@{name} is the surface {owner[1]} of @{owner[0]}. Choose another name.", name=name
            )
    for candidate in {name, sender}:
        group = moment.one("SELECT 1 FROM identity_groups WHERE name = ?", candidate)
        if group or candidate in RESERVED:
            what = "a group" if group else "reserved"
            raise NameTaken(f"@{candidate} is {what}. Choose another name.", name=candidate)
    if sender != name and moment.one("SELECT 1 FROM identity_agents WHERE name = ?", sender):
        raise NameTaken(f"@{sender} is an agent of its own. Choose another surface.", name=sender)


def _scopes(moment: Moment, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Naming any of mail, claim, work narrows to those named; gate:NAME and admin are added."""
    for scope in asked:
        if scope not in (*BASIC_SCOPES, "admin") and not (
            scope.startswith("gate:") and scope.removeprefix("gate:")
        ):
            raise Usage(
                f"There is no scope {scope[:80]!r}. There are mail, claim, work, gate:NAME, admin."
            )
        if scope.startswith("gate:"):
            check_name(scope.removeprefix("gate:"), "", "gate")
    beyond = sorted({scope for scope in asked if scope not in BASIC_SCOPES})
    if beyond and "admin" not in moment.caller.scopes:
        raise MissingScope(
            f"Granting {', '.join(beyond)} needs the scope admin, which @{moment.caller.sender} "
            "lacks.",
            scope="admin",
        )
    basic = [scope for scope in BASIC_SCOPES if scope in asked] or list(BASIC_SCOPES)
    return (*basic, *beyond)


def _mint(
    moment: Moment,
    sender: str,
    token_hash: str,
    label: str | None,
    scopes: tuple[str, ...],
    expires_at: int | None,
) -> str:
    made = token_id(token_hash)
    moment.record(
        "token_minted",
        absent_dropped(
            id=made,
            hash=token_hash,
            sender=sender,
            label=label,
            scopes=list(scopes),
            expires_at=expires_at,
        ),
    )
    return made


def mint(moment: Moment, act: MintToken) -> Answer:
    name = act.sender.removeprefix("@")
    known = moment.one("SELECT 1 FROM identity_senders WHERE sender = ?", name)
    if known is None:
        raise UnknownSender(
            f"Nobody has joined as @{name[:80]}. A token needs a sender: interlock join NAME",
            did_you_mean=near(name, senders(moment.state)),
        )
    expires_at = moment.now + act.ttl_s * 1000 if act.ttl_s is not None else None
    made = _mint(moment, name, act.token_hash, act.label, _scopes(moment, act.scopes), expires_at)
    return _token_view(_token(moment, made))


def rotate(moment: Moment, act: RotateToken) -> Answer:
    """A new token with the old one's sender, label and scopes; the old ones end at once."""
    rows = _chosen(moment, act.id, act.sender)
    old = rows[-1]
    made = _mint(moment, old[1], act.token_hash, old[2], tuple(old[3].split()), old[7])
    for row in rows:
        moment.record("token_revoked", {"id": row[0], "replaced_by": made})
    return _token_view(_token(moment, made)) | {"replaced": [row[0] for row in rows]}


def revoke(moment: Moment, act: RevokeToken) -> Answer:
    rows = _chosen(moment, act.id, act.sender)
    for row in rows:
        moment.record("token_revoked", {"id": row[0]})
    return {"revoked": [row[0] for row in rows]}


def reaffirm(moment: Moment, act: ReaffirmTokens) -> Answer:
    """Trusts tokens again that a restore suspended."""
    rows = moment.all(f"SELECT {_COLUMNS} FROM identity_tokens WHERE suspended ORDER BY id")
    if act.id is not None or act.sender is not None:
        rows = [row for row in rows if act.id == row[0] or _named(act.sender, row)]
    for row in rows:
        moment.record("token_reaffirmed", {"id": row[0]})
    return {"reaffirmed": [row[0] for row in rows]}


def _named(sender: str | None, row: Row) -> bool:
    return sender is not None and bool(sender.removeprefix("@") == row[1])


def _chosen(moment: Moment, id: str | None, sender: str | None) -> list[Row]:
    """The live tokens meant by an id or a sender, which a caller without admin must own."""
    if (id is None) == (sender is None):
        raise Usage("Name one token by its ID, or all tokens of a sender with --sender.")
    rows = moment.all(
        f"SELECT {_COLUMNS} FROM identity_tokens WHERE revoked_at IS NULL ORDER BY seq"
    )
    rows = [row for row in rows if id == row[0] or _named(sender, row)]
    foreign = any(row[1] != moment.caller.sender for row in rows)
    if foreign and "admin" not in moment.caller.scopes:
        raise MissingScope(
            f"Another sender's tokens need the scope admin, which @{moment.caller.sender} lacks.",
            scope="admin",
        )
    if not rows:
        raise NotFound("There is no such live token. interlock token list shows them.")
    return rows


def list_tokens(moment: Moment, act: ListTokens) -> Answer:
    rows = moment.all(f"SELECT {_COLUMNS} FROM identity_tokens ORDER BY seq")
    return {"tokens": [_token_view(row) for row in rows if _may_see(moment.caller, row)]}


def show_token(moment: Moment, act: ShowToken) -> Answer:
    row = _token(moment, act.id)
    if not _may_see(moment.caller, row):
        raise NotFound("There is no such token. interlock token list shows them.")
    return _token_view(row)


def _may_see(caller: Caller, row: Row) -> bool:
    return "admin" in caller.scopes or bool(row[1] == caller.sender)


def identify(moment: Moment, act: IdentifyToken) -> Answer:
    """Whose token this is. Whoever asks holds it, so it needs no other identity."""
    row = moment.one(f"SELECT {_COLUMNS} FROM identity_tokens WHERE hash = ?", act.token_hash)
    if row is None:
        return {"known": False}
    ended = row[8] is not None or row[9] or (row[7] is not None and row[7] <= moment.now)
    return {"known": True, "active": not ended} | _token_view(row)


def _token(moment: Moment, id: str) -> Row:
    row = moment.one(f"SELECT {_COLUMNS} FROM identity_tokens WHERE id = ?", id)
    if row is None:
        raise NotFound("There is no such token. interlock token list shows them.")
    return row


def _token_view(row: Row) -> Answer:
    id, sender, label, scopes, minted_by, minted_at, seq, expires_at, revoked_at, suspended = row
    return absent_dropped(
        id=id,
        sender=sender,
        address=address(sender),
        label=label,
        scopes=scopes.split(),
        minted_by=address(minted_by),
        minted_at=rfc3339(minted_at),
        seq=seq,
        expires_at=rfc3339(expires_at) if expires_at is not None else None,
        revoked_at=rfc3339(revoked_at) if revoked_at is not None else None,
        suspended=True if suspended else None,
    )


def token_story(moment: Moment, id: str) -> Answer:
    """For `explain`: the token as data, whoever asks."""
    return _token_view(_token(moment, id))


def list_agents(moment: Moment, act: ListAgents) -> Answer:
    """Every address that one can write to: agents, and their surfaces."""
    rows = moment.all(
        "SELECT s.sender, s.agent, s.surface, a.kind FROM identity_senders s "
        "JOIN identity_agents a ON a.name = s.agent ORDER BY s.sender"
    )
    wanted = act.name.removeprefix("@") if act.name is not None else None
    return {
        "agents": [agent_view(moment, *row) for row in rows if wanted is None or wanted in row[:2]]
    }


def agent_view(moment: Moment, sender: str, agent: str, surface: str | None, kind: str) -> Answer:
    reach, seen = moment.store.reach([sender])
    return absent_dropped(
        address=address(sender),
        agent=agent,
        surface=surface,
        kind=kind,
        reach=reach,
        last_seen=rfc3339(seen) if seen is not None else None,
    )


def create_group(moment: Moment, act: CreateGroup) -> Answer:
    name = check_name(act.name, moment.setting("names.pattern"), "group")
    taken = moment.one("SELECT 1 FROM identity_senders WHERE sender = ? OR agent = ?", name, name)
    if taken or name in RESERVED:
        raise NameTaken(f"@{name} is an agent. Choose another name.", name=name)
    members = sorted({member.removeprefix("@") for member in act.members})
    if not members:
        raise Usage("A group needs members: --member @otto --member @vera")
    for member in members:
        if not is_known(moment.state, member):
            raise NotFound(
                f"Nobody has joined as @{member[:80]}, so it cannot be a member.",
                did_you_mean=near(member, names(moment.state)),
            )
    moment.record("group_set", {"name": name, "members": members})
    return {"name": name, "address": address(name), "members": [address(m) for m in members]}


def list_groups(moment: Moment, act: ListGroups) -> Answer:
    rows = moment.all("SELECT name FROM identity_groups ORDER BY name")
    return {
        "groups": [
            {
                "address": address(name),
                "members": [address(m) for m in members(moment.state, name) or ()],
            }
            for (name,) in rows
        ]
    }


def start_session(moment: Moment, act: StartSession) -> Answer:
    row = moment.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", act.id)
    if row is not None and (row[0] != moment.caller.sender or row[1] is not None):
        raise NameTaken("That session was used before. Let interlock run make one.")
    if row is None:
        moment.record("session_started", {"session": act.id})
    return {"session": act.id, "sender": moment.caller.sender}


def end_session(moment: Moment, act: EndSession) -> None:
    """Marks a session as ended; the claims room gives up what it held."""
    row = moment.one("SELECT sender, ended_at FROM identity_sessions WHERE session = ?", act.id)
    if row is not None and row[0] == moment.caller.sender and row[1] is None:
        moment.record("session_ended", {"session": act.id})


def find_session(moment: Moment, act: FindSession) -> Answer:
    row = moment.one(
        "SELECT sender FROM identity_sessions WHERE session = ? AND ended_at IS NULL", act.id
    )
    return absent_dropped(session=act.id, sender=row[0] if row else None)


# --- what other rooms ask of this one


def is_known(state: State, name: str) -> bool:
    row = state.execute(
        "SELECT 1 FROM identity_senders WHERE sender = ?1 UNION ALL "
        "SELECT 1 FROM identity_agents WHERE name = ?1",
        (name,),
    ).fetchone()
    return row is not None


def agent_of(state: State, sender: str) -> str:
    row = state.execute("SELECT agent FROM identity_senders WHERE sender = ?", (sender,)).fetchone()
    return str(row[0]) if row else sender


def senders_of(state: State, name: str) -> list[str]:
    """The senders that see mail for this name: one surface, or every surface of an agent."""
    rows = state.execute(
        "SELECT sender FROM identity_senders WHERE sender = ?1 OR agent = ?1 ORDER BY sender",
        (name,),
    ).fetchall()
    return [row[0] for row in rows]


def members(state: State, group: str) -> list[str] | None:
    """A group's members, or None if there is no such group."""
    rows = state.execute(
        "SELECT member FROM identity_members WHERE name = ? ORDER BY member", (group,)
    ).fetchall()
    return [row[0] for row in rows] or None


def agents(state: State) -> list[str]:
    return [row[0] for row in state.execute("SELECT name FROM identity_agents ORDER BY name")]


def senders(state: State) -> list[str]:
    return [row[0] for row in state.execute("SELECT sender FROM identity_senders ORDER BY sender")]


def names(state: State) -> list[str]:
    return sorted({*agents(state), *senders(state)})


# --- folding


def _fold_joined(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT OR IGNORE INTO identity_agents VALUES (?, ?, ?, ?)",
        (outcome["agent"], outcome["kind"], fact.at, fact.seq),
    )
    state.execute(
        "INSERT INTO identity_senders VALUES (?, ?, ?, ?, ?)",
        (outcome["sender"], outcome["agent"], outcome.get("surface"), fact.at, fact.seq),
    )


def _fold_minted(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT INTO identity_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0)",
        (
            outcome["hash"],
            outcome["id"],
            outcome["sender"],
            outcome.get("label"),
            " ".join(outcome["scopes"]),
            fact.sender,
            fact.at,
            fact.seq,
            outcome.get("expires_at"),
        ),
    )


def _fold_revoked(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_tokens SET revoked_at = ? WHERE id = ?", (fact.at, fact.outcome["id"])
    )


def _fold_reaffirmed(state: State, fact: Header) -> None:
    state.execute("UPDATE identity_tokens SET suspended = 0 WHERE id = ?", (fact.outcome["id"],))


def _fold_group(state: State, fact: Header) -> None:
    name = fact.outcome["name"]
    state.execute("INSERT OR REPLACE INTO identity_groups VALUES (?, ?)", (name, fact.seq))
    state.execute("DELETE FROM identity_members WHERE name = ?", (name,))
    for member in fact.outcome["members"]:
        state.execute("INSERT INTO identity_members VALUES (?, ?)", (name, member))


def _fold_session_started(state: State, fact: Header) -> None:
    state.execute(
        "INSERT INTO identity_sessions VALUES (?, ?, ?, NULL)",
        (fact.outcome["session"], fact.sender, fact.at),
    )


def _fold_session_ended(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_sessions SET ended_at = ? WHERE session = ?",
        (fact.at, fact.outcome["session"]),
    )


def _fold_epoch(state: State, fact: Header) -> None:
    """A token that was revoked after the backup would be alive again: none is trusted yet."""
    state.execute("UPDATE identity_tokens SET suspended = 1 WHERE revoked_at IS NULL")


FOLDS = {
    "agent_joined": _fold_joined,
    "token_minted": _fold_minted,
    "token_revoked": _fold_revoked,
    "token_reaffirmed": _fold_reaffirmed,
    "group_set": _fold_group,
    "session_started": _fold_session_started,
    "session_ended": _fold_session_ended,
    "epoch_started": _fold_epoch,
}
