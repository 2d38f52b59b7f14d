"""The statements for PostgreSQL, each with its purpose."""

# map: interlock_log     position -> hash, header, digests of blobs (one a line), seal
#      interlock_bodies  position -> salt and body; deleted by redaction
#      interlock_heads   one row per workspace, whose lock is the turn
#      interlock_blobs   digest -> the upload that has the bytes
#      interlock_chunks  an upload's bytes; names of uploads sort as bytes do
#      interlock_aside   entries of the log without a valid seal
#      interlock_nodes   the reports of nodes; a crash may empty it

# Create the tables. The advisory lock makes nodes that start at the same time wait for each other.
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
# Create the row whose lock is the turn.
HEAD = "INSERT INTO interlock_heads VALUES (%s) ON CONFLICT DO NOTHING"

# Read the last entry and the clock.
LAST = """
SELECT last.seq, last.hash, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (VALUES (1)) AS always LEFT JOIN LATERAL (
    SELECT seq, hash FROM interlock_log WHERE workspace = {workspace} AND seq > 0
    ORDER BY seq DESC LIMIT 1) AS last ON true
"""
# Begin the turn: three statements in one message. The last one reads the log after the lock.
BEGIN = (
    """
BEGIN;
SELECT 1 FROM interlock_heads WHERE workspace = {workspace} FOR UPDATE;
"""
    + LAST
)
# Append entries and bodies if the head has not moved. A body without an entry is overwritten.
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
# Make uploads blobs. If two uploads have the same bytes, the first stays.
KEEP_BLOBS = """
INSERT INTO interlock_blobs(workspace, sha256, upload, size)
SELECT %s, new.* FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS new ON CONFLICT DO NOTHING
"""
# Delete the chunks of uploads that are not blobs.
DROP_UPLOADS = """
DELETE FROM interlock_chunks WHERE workspace = %s AND upload = ANY(%s) AND upload NOT IN (
    SELECT upload FROM interlock_blobs WHERE workspace = %s)
"""
# Delete the chunks of old uploads that never became blobs.
DROP_STALE = """
DELETE FROM interlock_chunks WHERE workspace = %s AND upload < %s AND upload NOT IN (
    SELECT upload FROM interlock_blobs WHERE workspace = %s)
"""
# Delete blobs with their chunks.
DROP_BLOBS = """
WITH gone AS (DELETE FROM interlock_blobs WHERE workspace = %s AND sha256 = ANY(%s) RETURNING *)
DELETE FROM interlock_chunks USING gone
WHERE interlock_chunks.workspace = gone.workspace AND interlock_chunks.upload = gone.upload
"""
# Move the entries at these positions aside, before they are written again. Bodies stay.
UNSEAT = """
WITH found AS (
    DELETE FROM interlock_log WHERE workspace = %s AND seq = ANY(%s) RETURNING *
)
INSERT INTO interlock_aside(workspace, seq, hash, header, keeps, mac)
SELECT workspace, seq, hash, header, keeps, mac FROM found
"""
# Erase redacted bodies.
ERASE = "DELETE FROM interlock_bodies WHERE workspace = %s AND seq = ANY(%s)"

# Read entries with their bodies, up to and including the one that exceeds the limit of bytes.
READ = """
SELECT seq, hash, header, keeps, mac, salt, body FROM (
    SELECT log.*, salt, body, sum(coalesce(octet_length(body), 0)) OVER (
        ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (
        SELECT * FROM interlock_log WHERE workspace = %s AND seq > %s ORDER BY seq LIMIT %s
    ) AS log LEFT JOIN interlock_bodies USING (workspace, seq)
) AS found WHERE coalesce(before, 0) < %s ORDER BY seq
"""
# Read entries without their bodies.
HEADERS = """
SELECT seq, hash, header, keeps, mac, NULL::bytea, NULL::bytea FROM interlock_log
WHERE workspace = %s AND seq > %s ORDER BY seq LIMIT %s
"""
# Lock an entry, to compare it before it is set aside.
LOCK_ENTRY = """
SELECT 1 FROM interlock_log WHERE workspace = %(workspace)s AND seq = %(seq)s FOR UPDATE
"""
# Move an entry and its body aside.
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
# Move entries before position 1 aside. No node reads them.
SET_STRAYS_ASIDE = """
WITH found AS (
    DELETE FROM interlock_log WHERE workspace = %s AND (seq < 1 OR seq IS NULL) RETURNING *
)
INSERT INTO interlock_aside(workspace, seq, hash, header, keeps, mac)
SELECT workspace, seq, hash, header, keeps, mac FROM found
"""
# Count the entries that were set aside.
ASIDE = "SELECT count(*) FROM interlock_aside WHERE workspace = %s"
# Delete the entries that were set aside.
DISCARD_ASIDE = "DELETE FROM interlock_aside WHERE workspace = %s"

# Write a chunk of an upload, unless the upload is a blob by now.
PUT_CHUNK = """
INSERT INTO interlock_chunks SELECT %(workspace)s, %(upload)s, %(number)s, %(data)b
WHERE NOT EXISTS (SELECT 1 FROM interlock_blobs
    WHERE workspace = %(workspace)s AND upload = %(upload)s)
ON CONFLICT (workspace, upload, number) DO UPDATE SET data = excluded.data
"""
# Read the next chunk of an upload.
CHUNK = """
SELECT number, data FROM interlock_chunks WHERE workspace = %s AND upload = %s AND number > %s
ORDER BY number LIMIT 1
"""
# Find the upload with the bytes of a blob.
UPLOAD_OF = "SELECT upload FROM interlock_blobs WHERE workspace = %s AND sha256 = %s"

# Write the report of a node.
BEAT = """
INSERT INTO interlock_nodes VALUES (%s, %s, %b, clock_timestamp())
ON CONFLICT (workspace, node) DO UPDATE SET about = excluded.about, seen = excluded.seen
"""
# Read the reports of all nodes.
NODES = "SELECT node, about FROM interlock_nodes WHERE workspace = %s"
# Delete old reports.
FORGET_NODES = """
DELETE FROM interlock_nodes WHERE workspace = %s AND seen < clock_timestamp() - %s::interval
"""
# Read the settings with which PostgreSQL may lose acknowledged writes.
SETTINGS = """
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')
"""
# Count the replicas.
FOLLOWERS = "SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'"
