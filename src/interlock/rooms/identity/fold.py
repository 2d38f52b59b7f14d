"""The identity room's tables, and how facts change them."""

from interlock.log.facts import Header
from interlock.rooms.transaction import FactKind, FoldedState, admins, everyone, sql_fold

# map: identity_agents    principals: otto
#      identity_senders   agents on their surfaces: otto, otto-cli; groups share the namespace
#      identity_tokens    hashes only, each bound to one sender
#      identity_sessions  running clients of a sender
#      identity_groups, identity_members
#      identity_muted     muted names, until a time or without an end
#      identity_people       people, and the verifiers of their passwords
#      identity_owned        the person that owns an agent
#      identity_invitations  one-time links
#      identity_connections  clients that act for people; each is a token too
#      identity_spent        used refresh tokens
#      identity_displays  display names of agents, from an import
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


MINTED = (
    "INSERT INTO identity_tokens VALUES (:hash, :id, :sender, :label, :scopes, :fact_sender, "
    ":fact_at, :fact_seq, :expires_at, NULL, 0, :use, :client, NULL)"
)
MINTED_OPTIONAL = ("label", "expires_at", "use", "client")
KEEP_REFRESH = (
    "UPDATE identity_connections SET refresh_hash = :refresh_hash, "
    "refresh_expires_at = :refresh_expires_at, refreshed_at = :fact_at WHERE id = :id"
)


def _fold_group(state: FoldedState, fact: Header) -> None:
    name = fact.outcome["name"]
    state.execute("INSERT OR REPLACE INTO identity_groups VALUES (?, ?)", (name, fact.seq))
    state.execute("DELETE FROM identity_members WHERE name = ?", (name,))
    for member in fact.outcome["members"]:
        state.execute("INSERT INTO identity_members VALUES (?, ?)", (name, member))


FACTS = {
    "agent_joined": FactKind(
        "A sender joined: an agent, or an agent on a surface.",
        everyone,
        sql_fold(
            "INSERT OR IGNORE INTO identity_agents VALUES (:agent, :kind, :fact_at, :fact_seq)",
            "INSERT INTO identity_senders VALUES (:sender, :agent, :surface, :fact_at, :fact_seq)",
            optional=("surface",),
        ),
    ),
    "token_minted": FactKind(
        "A sender got a token. The fact has its id and its hash, never the token.",
        admins,
        sql_fold(MINTED, optional=MINTED_OPTIONAL, words=("scopes",)),
        hidden=("hash",),
        reauthenticates=True,
    ),
    "token_imported": FactKind(
        "An admin [imported a token](identity.md#tokens-of-another-bus) of another bus.",
        admins,
        sql_fold(
            MINTED,
            "INSERT OR IGNORE INTO identity_displays SELECT agent, :display_name FROM "
            "identity_senders WHERE sender = :sender AND :display_name IS NOT NULL",
            optional=(*MINTED_OPTIONAL, "display_name"),
            words=("scopes",),
        ),
        hidden=("hash",),
    ),
    "token_rebound": FactKind(
        "An admin moved an imported token to another sender.",
        admins,
        sql_fold("UPDATE identity_tokens SET sender = :sender WHERE id = :id"),
        reauthenticates=True,
    ),
    "token_labelled": FactKind(
        "A token got another label.",
        admins,
        sql_fold("UPDATE identity_tokens SET label = :label WHERE id = :id"),
    ),
    "token_revoked": FactKind(
        "A token, a browser's sign-in or a connection ended.",
        admins,
        sql_fold(
            "UPDATE identity_tokens SET revoked_at = :fact_at WHERE id = :id",
            "UPDATE identity_connections SET ended_at = :fact_at WHERE id = :id",
            "DELETE FROM identity_spent WHERE id = :id",
        ),
        reauthenticates=True,
    ),
    "token_reaffirmed": FactKind(
        "A token is valid again after a restore.",
        admins,
        sql_fold("UPDATE identity_tokens SET suspended = 0 WHERE id = :id"),
    ),
    "group_set": FactKind(
        "A caller created a group, or changed its members.",
        everyone,
        _fold_group,
    ),
    "session_started": FactKind(
        "A client of a sender started.",
        everyone,
        sql_fold("INSERT INTO identity_sessions VALUES (:session, :fact_sender, :fact_at, NULL)"),
    ),
    "session_ended": FactKind(
        "A client of a sender ended.",
        everyone,
        sql_fold("UPDATE identity_sessions SET ended_at = :fact_at WHERE session = :session"),
    ),
    "wakes_muted": FactKind(
        "A caller muted an agent, so that mail does not wake it, or unmuted it.",
        everyone,
        sql_fold(
            "DELETE FROM identity_muted WHERE name = :name",
            "INSERT INTO identity_muted SELECT :name, :until WHERE NOT coalesce(:off, 0)",
            optional=("until", "off"),
        ),
    ),
    # A name has one valid invitation at a time.
    "person_invited": FactKind(
        "A caller made an invitation. A [person](people.md) or a machine can join by its link.",
        admins,
        sql_fold(
            "DELETE FROM identity_invitations "
            "WHERE name = :name AND surface IS :surface AND used_at IS NULL",
            "INSERT INTO identity_invitations VALUES (:hash, :id, :name, :surface, :kind, :own, "
            ":fact_sender, :expires_at, NULL)",
            optional=("surface",),
            words=("own",),
        ),
        hidden=("hash",),
    ),
    "invitation_accepted": FactKind(
        "A person or a machine used an invitation.",
        admins,
        sql_fold("UPDATE identity_invitations SET used_at = :fact_at WHERE id = :id"),
    ),
    "invitation_withdrawn": FactKind(
        "An invitation became invalid before its use.",
        admins,
        sql_fold("DELETE FROM identity_invitations WHERE id = :id"),
    ),
    "agent_owned": FactKind(
        "A [person](people.md) owns an agent from now on.",
        admins,
        sql_fold("INSERT OR REPLACE INTO identity_owned VALUES (:agent, :person)"),
    ),
    "password_set": FactKind(
        "A person set a password. The fact has a proof of it under the workspace's key.",
        admins,
        sql_fold("INSERT OR REPLACE INTO identity_people VALUES (:person, :proof)"),
        hidden=("proof",),
    ),
    "person_locked_out": FactKind(
        "A person was locked out: the person cannot sign in, and owns no agents.",
        admins,
        sql_fold(
            "DELETE FROM identity_people WHERE name = :person",
            "DELETE FROM identity_owned WHERE person = :person",
        ),
    ),
    "connection_granted": FactKind(
        "A person allowed a [client](connectors.md) to act as a sender.",
        admins,
        sql_fold(
            "INSERT INTO identity_connections VALUES (:id, :person, :sender, :client, "
            ":client_name, :name, :scopes, :resource, :redirect_uri, :challenge, :code_hash, "
            ":code_expires_at, :fact_at, NULL, NULL, NULL, NULL)",
            optional=("name",),
            words=("scopes",),
        ),
        hidden=(
            "challenge",
            "code_hash",
        ),
    ),
    # From now on the connection is a token of its sender.
    "connection_opened": FactKind(
        "A client got the tokens of its connection. The fact has their hashes, never the tokens.",
        admins,
        sql_fold(
            "INSERT INTO identity_tokens SELECT :hash, id, sender, NULL, scopes, person, :fact_at, "
            ":fact_seq, :expires_at, NULL, 0, 'connection', client_name, resource "
            "FROM identity_connections WHERE id = :id",
            KEEP_REFRESH,
        ),
        hidden=(
            "hash",
            "refresh_hash",
        ),
    ),
    "connection_refreshed": FactKind(
        "A client renewed the tokens of its connection.",
        admins,
        sql_fold(
            "INSERT OR IGNORE INTO identity_spent SELECT refresh_hash, id FROM "
            "identity_connections WHERE id = :id",
            "UPDATE identity_tokens SET hash = :hash, expires_at = :expires_at WHERE id = :id",
            KEEP_REFRESH,
        ),
        hidden=(
            "hash",
            "refresh_hash",
        ),
        reauthenticates=True,
    ),
    "connection_named": FactKind(
        "A connection got another name.",
        admins,
        sql_fold("UPDATE identity_connections SET name = :name WHERE id = :id"),
    ),
}
# Facts of other rooms that change the tables of this room too.
FOLDS = {
    # A restore loses the revocations, changed passwords, used invitations and used refresh tokens
    # since the backup. Therefore tokens are suspended, and people need new invitations.
    "epoch_started": sql_fold(
        "UPDATE identity_tokens SET revoked_at = :fact_at "
        "WHERE use IS NOT NULL AND revoked_at IS NULL",
        "UPDATE identity_tokens SET suspended = 1 WHERE revoked_at IS NULL",
        "UPDATE identity_connections SET ended_at = :fact_at WHERE ended_at IS NULL",
        "DELETE FROM identity_people",
        "DELETE FROM identity_invitations WHERE used_at IS NULL",
    ),
}
