"""Full-text search over bodies. The index is brought up to date by whoever searches, so that
sending pays nothing for it. It holds no text of its own and is no part of the state."""

from collections.abc import Iterator
from contextlib import closing

import apsw

from interlock.log.encoding import canonical
from interlock.rooms.mail.records import readable
from interlock.rooms.transaction import Mine, NeedsWrite, State

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


_MINE = (
    "SELECT seq FROM mail_deliveries WHERE seq > :after AND recipient IN ("
    "SELECT value FROM json_each(:mailboxes)) UNION "
    "SELECT seq FROM mail_messages WHERE seq > :after AND sender IN ("
    "SELECT value FROM json_each(:senders))"
)


def find(db: State, query: str, mine: Mine, *, as_is: bool = False) -> Iterator[int]:
    """Positions of messages of those names that hold every word of the query, newest first;
    `as_is` where nothing can be written, the index neither."""
    words = " AND ".join('"' + word.replace('"', '""') + '"' for word in query.split())
    names = {name: canonical(list(value)).decode() for name, value in mine._asdict().items()}
    if _behind(db):
        if as_is:
            yield from _beside(db, words, names)
        elif db.execute("PRAGMA query_only").fetchone()[0]:
            raise NeedsWrite
        else:
            _catch_up(db)
    if _exists(db):
        for (seq,) in db.execute(_FOUND, {"words": words} | names):
            yield seq


def _beside(db: State, words: str, names: dict[str, str]) -> Iterator[int]:
    """What is not in the index yet, found with one in memory."""
    after = _indexed(db) if _exists(db) else 0
    mine = {seq for (seq,) in db.execute(_MINE, {"after": after} | names)}
    with closing(apsw.Connection(":memory:")) as memory:
        memory.execute(_TABLES)
        _index(db, memory, after)
        found = memory.execute(
            "SELECT rowid FROM search_words WHERE search_words MATCH ? ORDER BY rowid DESC",
            (words,),
        )
        yield from [int(str(seq)) for (seq,) in found.fetchall() if seq in mine]


def begin_anew(db: State) -> None:
    """Throws the index away: another log than the one it was made of may stand there now."""
    db.execute("DROP TABLE IF EXISTS search_words; DROP TABLE IF EXISTS search_position")


def forget(db: State, seq: int, body: bytes) -> None:
    """Takes a message's words out of the index, for which the index wants to be told them again.
    Of other bodies there are none in it."""
    is_message = db.execute("SELECT 1 FROM mail_messages WHERE seq = ?", (seq,)).fetchone()
    if not is_message or not _exists(db):
        return
    if seq <= _indexed(db):
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
    return bool((newest[0] or 0) > _indexed(db))


def _indexed(db: State) -> int:
    (seq,) = db.execute("SELECT seq FROM search_position").fetchone()
    return int(seq)


def _catch_up(db: State) -> None:
    if not _exists(db):
        db.execute(_TABLES)
    (last,) = db.execute("SELECT max(seq) FROM mail_messages").fetchone()
    _index(db, db, _indexed(db))
    db.execute("UPDATE search_position SET seq = ?", (last or 0,))


def _index(db: State, index: State, after: int) -> None:
    """Puts the words of the messages after a position into an index."""
    for seq, body in db.execute(
        "SELECT m.seq, b.body FROM mail_messages m JOIN bodies b USING (seq) WHERE m.seq > ? "
        "ORDER BY m.seq",
        (after,),
    ):
        words = _words(body, seq)
        index.execute("INSERT INTO search_words(rowid, words) VALUES (?, ?)", (seq, words))


def _words(body: bytes, seq: int) -> str:
    stored = readable(body, seq)
    parts = [stored.get("subject", "")]
    for value in stored.get("payload", {}).values():
        parts += value if isinstance(value, list) else [value]
    return "\n".join(part for part in parts if isinstance(part, str))
