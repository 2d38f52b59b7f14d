"""What is said to PostgreSQL, statement by statement."""

# map: interlock_log     position -> hash, header, digests of blobs by lines, seal
#      interlock_bodies  position -> salt and body; deleted by redaction
#      interlock_heads   one row per workspace, whose lock is the turn
#      interlock_blobs   digest -> which upload holds the bytes
#      interlock_chunks  an upload's bytes; names of uploads sort as bytes do
#      interlock_aside   what was found in the log and is none of ours
#      interlock_nodes   what nodes say of themselves; a crash may empty it
# Nodes that start at once wait for each other here.
TABLES = """
DO $$ BEGIN
IF to_regclass('interlock_nodes') IS NULL THEN
PERFORM pg_advisory_xact_lock(7596557155469685603);
CREATE TABLE IF NOT EXISTS interlock_log(workspace text, seq bigint, hash text NOT NULL,
    header bytea NOT NULL, keeps text NOT NULL, mac text NOT NULL, PRIMARY KEY (workspace, seq));
CREATE TABLE IF NOT EXISTS interlock_bodies(workspace text, seq bigint, salt bytea NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (workspace, seq));
CREATE TABLE IF NOT EXISTS interlock_heads(workspace text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS interlock_blobs(workspace text, sha256 text, upload text NOT NULL,
    size bigint NOT NULL, PRIMARY KEY (workspace, sha256));
CREATE TABLE IF NOT EXISTS interlock_chunks(workspace text, upload text COLLATE "C",
    number bigint, data bytea NOT NULL, PRIMARY KEY (workspace, upload, number));
CREATE TABLE IF NOT EXISTS interlock_aside(workspace text, seq bigint, hash text, header bytea,
    keeps text, mac text, salt bytea, body bytea, at timestamptz DEFAULT clock_timestamp());
CREATE UNLOGGED TABLE IF NOT EXISTS interlock_nodes(workspace text, node text,
    about bytea NOT NULL, seen timestamptz NOT NULL, PRIMARY KEY (workspace, node));
END IF; END $$
"""
HEAD = "INSERT INTO interlock_heads VALUES (%s) ON CONFLICT DO NOTHING"

LAST = """
SELECT last.seq, last.hash, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (VALUES (1)) AS always LEFT JOIN LATERAL (
    SELECT seq, hash FROM interlock_log WHERE workspace = {workspace} AND seq > 0
    ORDER BY seq DESC LIMIT 1) AS last ON true
"""
# One message and three statements: the last looks at the log when the lock is ours, and not before.
BEGIN = (
    """
BEGIN;
SELECT 1 FROM interlock_heads WHERE workspace = {workspace} FOR UPDATE;
"""
    + LAST
)
# A body at a position that no entry had is nobody's, and gives way.
APPEND = """
WITH last AS (
    SELECT seq, hash FROM interlock_log WHERE workspace = %(workspace)b AND seq > 0
    ORDER BY seq DESC LIMIT 1
), head AS (
    SELECT coalesce(max(seq), 0) = %(seq)b AND coalesce(max(hash), %(genesis)b) = %(hash)b AS good
    FROM last
), kept AS (
    INSERT INTO interlock_log(workspace, seq, hash, header, keeps, mac)
    SELECT %(workspace)b, new.* FROM head, unnest(%(seqs)b::bigint[], %(hashes)b::text[],
        %(headers)b::bytea[], %(keeps)b::text[], %(macs)b::text[]) AS new WHERE head.good
), said AS (
    INSERT INTO interlock_bodies(workspace, seq, salt, body)
    SELECT %(workspace)b, new.* FROM head, unnest(%(said)b::bigint[], %(salts)b::bytea[],
        %(bodies)b::bytea[]) AS new WHERE head.good
    ON CONFLICT (workspace, seq) DO UPDATE SET salt = excluded.salt, body = excluded.body
)
SELECT good FROM head
"""
KEEP_BLOBS = """
INSERT INTO interlock_blobs(workspace, sha256, upload, size)
SELECT %s, new.* FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS new ON CONFLICT DO NOTHING
"""
DROP_UPLOADS = """
DELETE FROM interlock_chunks WHERE workspace = %s AND upload = ANY(%s) AND upload NOT IN (
    SELECT upload FROM interlock_blobs WHERE workspace = %s)
"""
DROP_STALE = """
DELETE FROM interlock_chunks WHERE workspace = %s AND upload < %s AND upload NOT IN (
    SELECT upload FROM interlock_blobs WHERE workspace = %s)
"""
DROP_BLOBS = """
WITH gone AS (DELETE FROM interlock_blobs WHERE workspace = %s AND sha256 = ANY(%s) RETURNING *)
DELETE FROM interlock_chunks USING gone
WHERE interlock_chunks.workspace = gone.workspace AND interlock_chunks.upload = gone.upload
"""
# What stood there is kept aside; a body that we do not have stays as it is.
UNSEAT = """
WITH found AS (
    DELETE FROM interlock_log WHERE workspace = %s AND seq = ANY(%s) RETURNING *
)
INSERT INTO interlock_aside(workspace, seq, hash, header, keeps, mac)
SELECT workspace, seq, hash, header, keeps, mac FROM found
"""
ERASE = "DELETE FROM interlock_bodies WHERE workspace = %s AND seq = ANY(%s)"

# The last of them is the one that passes so many bytes.
READ = """
SELECT seq, hash, header, keeps, mac, salt, body FROM (
    SELECT log.*, salt, body, sum(coalesce(octet_length(body), 0)) OVER (
        ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT * FROM interlock_log WHERE workspace = %s AND seq > %s ORDER BY seq LIMIT %s
    ) AS log LEFT JOIN interlock_bodies USING (workspace, seq)
) AS found WHERE coalesce(before, 0) < %s ORDER BY seq
"""
HEADERS = """
SELECT seq, hash, header, keeps, mac, NULL::bytea, NULL::bytea FROM interlock_log
WHERE workspace = %s AND seq > %s ORDER BY seq LIMIT %s
"""
LOCK_ENTRY = """
SELECT 1 FROM interlock_log WHERE workspace = %(workspace)s AND seq = %(seq)s FOR UPDATE
"""
SET_ASIDE = """
WITH found AS (
    DELETE FROM interlock_log WHERE workspace = %(workspace)s AND seq = %(seq)s RETURNING *
), said AS (
    DELETE FROM interlock_bodies WHERE workspace = %(workspace)s AND seq = %(seq)s RETURNING *
)
INSERT INTO interlock_aside(workspace, seq, hash, header, keeps, mac, salt, body)
SELECT workspace, seq, hash, header, keeps, mac, salt, body
FROM found LEFT JOIN said USING (workspace, seq)
"""
# The log begins at 1, and nobody reads what stands before that, or nowhere.
SET_STRAYS_ASIDE = """
WITH found AS (
    DELETE FROM interlock_log WHERE workspace = %s AND (seq < 1 OR seq IS NULL) RETURNING *
)
INSERT INTO interlock_aside(workspace, seq, hash, header, keeps, mac)
SELECT workspace, seq, hash, header, keeps, mac FROM found
"""
ASIDE = "SELECT count(*) FROM interlock_aside WHERE workspace = %s"
DISCARD_ASIDE = "DELETE FROM interlock_aside WHERE workspace = %s"

PUT_CHUNK = """
INSERT INTO interlock_chunks SELECT %(workspace)s, %(upload)s, %(number)s, %(data)b
WHERE NOT EXISTS (SELECT 1 FROM interlock_blobs
    WHERE workspace = %(workspace)s AND upload = %(upload)s)
ON CONFLICT (workspace, upload, number) DO UPDATE SET data = excluded.data
"""
CHUNK = """
SELECT number, data FROM interlock_chunks WHERE workspace = %s AND upload = %s AND number > %s
ORDER BY number LIMIT 1
"""
UPLOAD_OF = "SELECT upload FROM interlock_blobs WHERE workspace = %s AND sha256 = %s"

BEAT = """
INSERT INTO interlock_nodes VALUES (%s, %s, %b, clock_timestamp())
ON CONFLICT (workspace, node) DO UPDATE SET about = excluded.about, seen = excluded.seen
"""
NODES = "SELECT node, about FROM interlock_nodes WHERE workspace = %s"
FORGET_NODES = """
DELETE FROM interlock_nodes WHERE workspace = %s AND seen < clock_timestamp() - %s::interval
"""
SETTINGS = """
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')
"""
FOLLOWERS = "SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'"
