"""Full-text search over bodies. A search updates the index, so that sending does not pay for it.
The index stores no text of its own and is not part of the state."""

from collections.abc import Iterator
from contextlib import closing

import apsw

from interlock.log.encoding import canonical
from interlock.rooms.mail.records import readable
from interlock.rooms.transaction import FoldedState, Mine, NeedsWrite

# map: search_words     FTS5 over subject and payload text; rowid is the message's seq
#      search_position  one row: the last message in the index
_TABLES = """
CREATE VIRTUAL TABLE search_words USING fts5(words, content='');
INSERT INTO search_words(search_words, rank) VALUES ('secure-delete', 1);
CREATE TABLE search_position(one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL) STRICT;
INSERT INTO search_position VALUES (1, 0);
"""


# Find messages of these names by their words. The plus keeps SQLite from searching the index once
# for each message. SQLite then collects the messages of the names once and reads the hits once.
_FOUND = (
    "SELECT rowid FROM search_words WHERE search_words MATCH :words AND +rowid IN ("
    "SELECT seq FROM mail_deliveries WHERE recipient IN (SELECT value FROM json_each(:mailboxes)) "
    "UNION ALL "
    "SELECT seq FROM mail_messages WHERE sender IN (SELECT value FROM json_each(:senders))) "
    "ORDER BY rowid DESC"
)


# The messages of these names after a position.
_MINE = (
    "SELECT seq FROM mail_deliveries WHERE seq > :after AND recipient IN ("
    "SELECT value FROM json_each(:mailboxes)) UNION "
    "SELECT seq FROM mail_messages WHERE seq > :after AND sender IN ("
    "SELECT value FROM json_each(:senders))"
)


def find(db: FoldedState, query: str, mine: Mine, *, as_is: bool = False) -> Iterator[int]:
    """Yield the positions of messages of those names that have every word of the query, newest
    first. `as_is` searches without writing, not even the index. Raises NeedsWrite on a read-only
    connection with an outdated index."""
    words = " AND ".join('"' + word.replace('"', '""') + '"' for word in query.split())
    names = {name: canonical(list(value)).decode() for name, value in mine._asdict().items()}
    indexed = _indexed(db)
    (newest,) = db.execute("SELECT max(seq) FROM mail_messages").fetchone()
    if indexed is None or (newest or 0) > indexed:
        after = indexed or 0
        if as_is:
            # Index the messages that the stored index lacks, in memory.
            new = {seq for (seq,) in db.execute(_MINE, {"after": after} | names)}
            with closing(apsw.Connection(":memory:")) as memory:
                memory.execute(_TABLES)
                _index(db, memory, after)
                found = memory.execute(
                    "SELECT rowid FROM search_words WHERE search_words MATCH ? ORDER BY rowid DESC",
                    (words,),
                )
                yield from [int(str(seq)) for (seq,) in found.fetchall() if seq in new]
        elif db.execute("PRAGMA query_only").fetchone()[0]:
            raise NeedsWrite
        else:
            if indexed is None:
                db.execute(_TABLES)
            _index(db, db, after)
            indexed = newest or 0
            db.execute("UPDATE search_position SET seq = ?", (indexed,))
    if indexed is not None:
        for (seq,) in db.execute(_FOUND, {"words": words} | names):
            yield seq


def begin_anew(db: FoldedState) -> None:
    """Drop the index, because a restore may have replaced the log."""
    db.execute("DROP TABLE IF EXISTS search_words; DROP TABLE IF EXISTS search_position")


def forget(db: FoldedState, seq: int, body: bytes) -> None:
    """Remove a message's words from the index. FTS5 needs the words for that. Bodies of other facts
    are not in the index."""
    is_message = db.execute("SELECT 1 FROM mail_messages WHERE seq = ?", (seq,)).fetchone()
    indexed = _indexed(db)
    if is_message and indexed is not None and seq <= indexed:
        db.execute(
            "INSERT INTO search_words(search_words, rowid, words) VALUES ('delete', ?, ?)",
            (seq, _words(body, seq)),
        )


def _indexed(db: FoldedState) -> int | None:
    """The position of the last message in the index, or None without an index."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search_position'").fetchone():
        return None
    (seq,) = db.execute("SELECT seq FROM search_position").fetchone()
    return int(seq)


def _index(db: FoldedState, index: FoldedState, after: int) -> None:
    """Put the words of the messages after a position into an index."""
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
