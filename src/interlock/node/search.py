"""Full-text search over bodies. The index is brought up to date by whoever searches, so that
sending pays nothing for it. It holds no text of its own and is no part of the state."""

from collections.abc import Iterator

from interlock.contracts.encoding import canonical
from interlock.kernel.mail.messages import readable
from interlock.kernel.moment import Mine, NeedsTurn, State

# map: search_words     FTS5 over subject and payload text; rowid is the message's seq
#      search_position  one row: the last body that was looked at
_TABLES = """
CREATE VIRTUAL TABLE search_words USING fts5(words, content='');
INSERT INTO search_words(search_words, rank) VALUES ('secure-delete', 1);
CREATE TABLE search_position(one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;
INSERT INTO search_position VALUES (1, 0);
"""


# The plus keeps SQLite from asking the index about each message by itself: it gathers whose mail
# it is once, and goes through the hits a single time.
_FOUND = (
    "SELECT rowid FROM search_words WHERE search_words MATCH :words AND +rowid IN ("
    "SELECT seq FROM mail_deliveries WHERE recipient IN (SELECT value FROM json_each(:mailboxes)) "
    "UNION ALL "
    "SELECT seq FROM mail_messages WHERE sender IN (SELECT value FROM json_each(:senders))) "
    "ORDER BY rowid DESC"
)


def find(db: State, query: str, mine: Mine, *, as_is: bool = False) -> Iterator[int]:
    """Positions of messages of those names that hold every word of the query, newest first;
    `as_is` of those only that are in the index by now."""
    if as_is and not _exists(db):
        return
    if not as_is and _behind(db):
        if db.execute("PRAGMA query_only").fetchone()[0]:
            raise NeedsTurn
        _catch_up(db)
    words = " AND ".join('"' + word.replace('"', '""') + '"' for word in query.split())
    names = {name: canonical(list(value)).decode() for name, value in mine._asdict().items()}
    for (seq,) in db.execute(_FOUND, {"words": words} | names):
        yield seq


def begin_anew(db: State) -> None:
    """Throws the index away: another log than the one it was made of may stand there now."""
    db.execute("DROP TABLE IF EXISTS search_words; DROP TABLE IF EXISTS search_position")


def forget(db: State, seq: int, body: bytes) -> None:
    """Takes a message's words out of the index, for which the index wants to be told them again.
    Of other bodies there are none in it."""
    is_message = db.execute("SELECT 1 FROM mail_messages WHERE seq = ?", (seq,)).fetchone()
    if not is_message or not _exists(db):
        return
    (indexed,) = db.execute("SELECT seq FROM search_position").fetchone()
    if seq <= indexed:
        db.execute(
            "INSERT INTO search_words(search_words, rowid, words) VALUES ('delete', ?, ?)",
            (seq, _words(body, seq)),
        )


def _exists(db: State) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search_position'").fetchone()
    return found is not None


def _behind(db: State) -> bool:
    if not _exists(db):
        return True
    newest = db.execute("SELECT max(seq) FROM mail_messages").fetchone()
    indexed = db.execute("SELECT seq FROM search_position").fetchone()
    return bool((newest[0] or 0) > indexed[0])


def _catch_up(db: State) -> None:
    if not _exists(db):
        db.execute(_TABLES)
    (indexed,) = db.execute("SELECT seq FROM search_position").fetchone()
    (last,) = db.execute("SELECT max(seq) FROM mail_messages").fetchone()
    for seq, body in db.execute(
        "SELECT m.seq, b.body FROM mail_messages m JOIN bodies b USING (seq) WHERE m.seq > ? "
        "ORDER BY m.seq",
        (indexed,),
    ):
        db.execute("INSERT INTO search_words(rowid, words) VALUES (?, ?)", (seq, _words(body, seq)))
    db.execute("UPDATE search_position SET seq = ?", (last or 0,))


def _words(body: bytes, seq: int) -> str:
    stored = readable(body, seq)
    parts = [stored.get("subject", "")]
    for value in stored.get("payload", {}).values():
        parts += value if isinstance(value, list) else [value]
    return "\n".join(part for part in parts if isinstance(part, str))
