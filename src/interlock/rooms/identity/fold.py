"""The identity room's tables, and how facts change them."""

from interlock.log.facts import Header
from interlock.rooms.transaction import State

# map: identity_agents    principals: otto
#      identity_senders   where they act: otto, otto-cli; one namespace with agents and groups
#      identity_tokens    hashes only, each bound to one sender
#      identity_sessions  running clients of a sender
#      identity_groups, identity_members
#      identity_muted     names that nothing wakes, until then or for good
#      identity_people       who signs in, and what proves it
#      identity_owned        whose an agent is
#      identity_invitations  one-time links
#      identity_connections  clients that people let act for them; each is a token too
#      identity_spent        what refreshed a connection before
#      identity_displays  how agents are shown to people, where an import said so
TABLES = """
CREATE TABLE identity_agents(name TEXT PRIMARY KEY, kind TEXT NOT NULL, joined_at INTEGER NOT NULL,
    seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_senders(sender TEXT PRIMARY KEY, agent TEXT NOT NULL, surface TEXT,
    joined_at INTEGER NOT NULL, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX identity_surfaces ON identity_senders(agent);
CREATE TABLE identity_tokens(hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, sender TEXT NOT NULL,
    label TEXT, scopes TEXT NOT NULL, minted_by TEXT NOT NULL, minted_at INTEGER NOT NULL,
    seq INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER, suspended INTEGER NOT NULL,
    use TEXT, client TEXT, resource TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE identity_sessions(session TEXT PRIMARY KEY, sender TEXT NOT NULL,
    started_at INTEGER NOT NULL, ended_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_groups(name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_members(name TEXT NOT NULL, member TEXT NOT NULL, PRIMARY KEY (name, member))
    STRICT, WITHOUT ROWID;
CREATE TABLE identity_muted(name TEXT PRIMARY KEY, until INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_people(name TEXT PRIMARY KEY, verifier TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_owned(agent TEXT PRIMARY KEY, person TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_invitations(hash TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL, surface TEXT, kind TEXT NOT NULL, own TEXT NOT NULL,
    invited_by TEXT NOT NULL, expires_at INTEGER NOT NULL, used_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_connections(id TEXT PRIMARY KEY, person TEXT NOT NULL, sender TEXT NOT NULL,
    client TEXT NOT NULL, client_name TEXT NOT NULL, name TEXT, scopes TEXT NOT NULL,
    resource TEXT NOT NULL, redirect_uri TEXT NOT NULL, challenge TEXT NOT NULL,
    code_hash TEXT NOT NULL UNIQUE, code_expires_at INTEGER NOT NULL, granted_at INTEGER NOT NULL,
    refresh_hash TEXT UNIQUE, refresh_expires_at INTEGER, refreshed_at INTEGER,
    ended_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE identity_spent(hash TEXT PRIMARY KEY, id TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE identity_displays(agent TEXT PRIMARY KEY, display TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
"""


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
        "INSERT INTO identity_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?, NULL)",
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
            outcome.get("use"),
            outcome.get("client"),
        ),
    )


def _fold_imported(state: State, fact: Header) -> None:
    _fold_minted(state, fact)
    display = fact.outcome.get("display_name")
    if display is not None:
        state.execute(
            "INSERT OR IGNORE INTO identity_displays SELECT agent, ? FROM identity_senders "
            "WHERE sender = ?",
            (display, fact.outcome["sender"]),
        )


def _fold_rebound(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "UPDATE identity_tokens SET sender = ? WHERE id = ?", (outcome["sender"], outcome["id"])
    )


def _fold_labelled(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "UPDATE identity_tokens SET label = ? WHERE id = ?", (outcome["label"], outcome["id"])
    )


def _fold_revoked(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_tokens SET revoked_at = ? WHERE id = ?", (fact.at, fact.outcome["id"])
    )
    state.execute(
        "UPDATE identity_connections SET ended_at = ? WHERE id = ?", (fact.at, fact.outcome["id"])
    )
    state.execute("DELETE FROM identity_spent WHERE id = ?", (fact.outcome["id"],))


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
    """A token that was revoked after the backup would be alive again: none is trusted yet. A
    password that was changed since, an invitation or a refresh token that was used, would be good
    again: people begin anew."""
    state.execute(
        "UPDATE identity_tokens SET revoked_at = ? WHERE use IS NOT NULL AND revoked_at IS NULL",
        (fact.at,),
    )
    state.execute("UPDATE identity_tokens SET suspended = 1 WHERE revoked_at IS NULL")
    state.execute("UPDATE identity_connections SET ended_at = ? WHERE ended_at IS NULL", (fact.at,))
    state.execute("DELETE FROM identity_people")
    state.execute("DELETE FROM identity_invitations WHERE used_at IS NULL")


def _fold_muted(state: State, fact: Header) -> None:
    name = fact.outcome["name"]
    state.execute("DELETE FROM identity_muted WHERE name = ?", (name,))
    if not fact.outcome.get("off"):
        state.execute("INSERT INTO identity_muted VALUES (?, ?)", (name, fact.outcome.get("until")))


def _fold_invited(state: State, fact: Header) -> None:
    """One invitation of a name is good at a time."""
    outcome = fact.outcome
    state.execute(
        "DELETE FROM identity_invitations WHERE name = ? AND surface IS ? AND used_at IS NULL",
        (outcome["name"], outcome.get("surface")),
    )
    state.execute(
        "INSERT INTO identity_invitations VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            outcome["hash"],
            outcome["id"],
            outcome["name"],
            outcome.get("surface"),
            outcome["kind"],
            " ".join(outcome["own"]),
            fact.sender,
            outcome["expires_at"],
        ),
    )


def _fold_accepted(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_invitations SET used_at = ? WHERE id = ?", (fact.at, fact.outcome["id"])
    )


def _fold_withdrawn(state: State, fact: Header) -> None:
    state.execute("DELETE FROM identity_invitations WHERE id = ?", (fact.outcome["id"],))


def _fold_owned(state: State, fact: Header) -> None:
    state.execute(
        "INSERT OR REPLACE INTO identity_owned VALUES (?, ?)",
        (fact.outcome["agent"], fact.outcome["person"]),
    )


def _fold_password(state: State, fact: Header) -> None:
    state.execute(
        "INSERT OR REPLACE INTO identity_people VALUES (?, ?)",
        (fact.outcome["person"], fact.outcome["proof"]),
    )


def _fold_locked_out(state: State, fact: Header) -> None:
    for table, column in (("identity_people", "name"), ("identity_owned", "person")):
        state.execute(f"DELETE FROM {table} WHERE {column} = ?", (fact.outcome["person"],))


def _fold_granted(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT INTO identity_connections VALUES "
        "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL)",
        (
            outcome["id"],
            outcome["person"],
            outcome["sender"],
            outcome["client"],
            outcome["client_name"],
            outcome.get("name"),
            " ".join(outcome["scopes"]),
            outcome["resource"],
            outcome["redirect_uri"],
            outcome["challenge"],
            outcome["code_hash"],
            outcome["code_expires_at"],
            fact.at,
        ),
    )


def _fold_opened(state: State, fact: Header) -> None:
    """From now on the connection is a token of its sender's."""
    outcome = fact.outcome
    state.execute(
        "INSERT INTO identity_tokens SELECT ?, id, sender, NULL, scopes, person, ?, ?, ?, NULL, "
        "0, 'connection', client_name, resource FROM identity_connections WHERE id = ?",
        (outcome["hash"], fact.at, fact.seq, outcome["expires_at"], outcome["id"]),
    )
    _keep_refresh(state, fact)


def _fold_refreshed(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "INSERT OR IGNORE INTO identity_spent SELECT refresh_hash, id FROM identity_connections "
        "WHERE id = ?",
        (outcome["id"],),
    )
    state.execute(
        "UPDATE identity_tokens SET hash = ?, expires_at = ? WHERE id = ?",
        (outcome["hash"], outcome["expires_at"], outcome["id"]),
    )
    _keep_refresh(state, fact)


def _keep_refresh(state: State, fact: Header) -> None:
    outcome = fact.outcome
    state.execute(
        "UPDATE identity_connections SET refresh_hash = ?, refresh_expires_at = ?, "
        "refreshed_at = ? WHERE id = ?",
        (outcome["refresh_hash"], outcome["refresh_expires_at"], fact.at, outcome["id"]),
    )


def _fold_connection_named(state: State, fact: Header) -> None:
    state.execute(
        "UPDATE identity_connections SET name = ? WHERE id = ?",
        (fact.outcome["name"], fact.outcome["id"]),
    )


FOLDS = {
    "agent_joined": _fold_joined,
    "token_minted": _fold_minted,
    "token_imported": _fold_imported,
    "token_rebound": _fold_rebound,
    "token_labelled": _fold_labelled,
    "token_revoked": _fold_revoked,
    "token_reaffirmed": _fold_reaffirmed,
    "group_set": _fold_group,
    "session_started": _fold_session_started,
    "session_ended": _fold_session_ended,
    "epoch_started": _fold_epoch,
    "wakes_muted": _fold_muted,
    "person_invited": _fold_invited,
    "invitation_accepted": _fold_accepted,
    "invitation_withdrawn": _fold_withdrawn,
    "agent_owned": _fold_owned,
    "password_set": _fold_password,
    "person_locked_out": _fold_locked_out,
    "connection_granted": _fold_granted,
    "connection_opened": _fold_opened,
    "connection_refreshed": _fold_refreshed,
    "connection_named": _fold_connection_named,
}
