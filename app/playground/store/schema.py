"""The tables, indices and views of the database, and the migrations from the first version."""

from __future__ import annotations

INDEXED = 1024 * 1024
"""Most characters of a text that are indexed. The index additions of one text stay in memory until
it is complete: for 64 MiB of numbers that was 1.6 GB."""

_WHOLE_TEXTS = """
    CREATE VIEW texts (pos, session, seq, kind, text) AS SELECT pos, session, seq, kind,
        CASE kind
            WHEN 'prompt_added' THEN json_extract(body, '$.text')
            WHEN 'part_ended' THEN
                json_extract(body, '$.name') || ' ' || json_extract(body, '$.text')
            WHEN 'call_decided' THEN
                coalesce(json_extract(body, '$.arguments'), '') || ' ' ||
                json_extract(body, '$.text')
            ELSE (SELECT group_concat(json_extract(value, '$.text'), ' ')
                FROM json_each(body, '$.result.content'))
        END
    FROM events WHERE kind IN ('prompt_added', 'part_ended', 'call_decided', 'call_ended');
"""
"""The text searchable before step 8, by the position of its event."""

TEXTS = _WHOLE_TEXTS.replace("CASE kind", "substr(CASE kind").replace(
    "END\n", f"END, 1, {INDEXED})\n"
)
"""The searchable text; `found` is the index of it."""

TOKENS = 'tokenize="unicode61 remove_diacritics 2"'
"""The tokenizer of `found`."""

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, title TEXT NOT NULL DEFAULT '', created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'idle',
        model TEXT NOT NULL DEFAULT '', calls INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0, deleted_ms INTEGER);
    CREATE INDEX sessions_by_time ON sessions (updated_ms DESC, id);
    CREATE TABLE events (
        pos INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
        recording INTEGER, start INTEGER, stop INTEGER);
    CREATE UNIQUE INDEX events_in_order ON events (session, seq);
    CREATE TABLE recordings (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        number INTEGER NOT NULL, clean INTEGER NOT NULL, PRIMARY KEY (session, number))
        WITHOUT ROWID;
    CREATE TABLE chunks (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        recording INTEGER NOT NULL, start INTEGER NOT NULL, at_ms INTEGER NOT NULL,
        bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX chunks_in_order ON chunks (session, recording, start);
    CREATE TABLE tools (name TEXT PRIMARY KEY, body TEXT NOT NULL, enabled INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL);
    """,
    """
    CREATE TABLE confirmations (name TEXT NOT NULL, origin TEXT NOT NULL,
        PRIMARY KEY (name, origin)) WITHOUT ROWID;
    """,
    """
    CREATE TABLE profiles (name TEXT PRIMARY KEY, body TEXT NOT NULL, updated_ms INTEGER NOT NULL);
    """,
    """
    ALTER TABLE sessions ADD COLUMN tasks INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE tool_versions (name TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
        saved_ms INTEGER NOT NULL, PRIMARY KEY (name, version)) WITHOUT ROWID;
    INSERT INTO tool_versions SELECT name, 1, body, updated_ms FROM tools;
    CREATE TABLE servers (name TEXT PRIMARY KEY, body TEXT NOT NULL, accepted TEXT NOT NULL,
        updated_ms INTEGER NOT NULL);
    """,
    """
    CREATE TABLE rules (session TEXT PRIMARY KEY, body TEXT NOT NULL, updated_ms INTEGER NOT NULL);
    """,
    f"""
    ALTER TABLE sessions ADD COLUMN profile TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN parent TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN parent_seq INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN own INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE sessions ADD COLUMN pinned_ms INTEGER;
    ALTER TABLE sessions ADD COLUMN archived_ms INTEGER;
    CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent != '';
    CREATE INDEX sessions_pinned ON sessions (pinned_ms) WHERE pinned_ms IS NOT NULL;
    CREATE INDEX sessions_by_state ON sessions (state, updated_ms DESC);
    CREATE INDEX sessions_by_model ON sessions (model, updated_ms DESC);
    CREATE INDEX sessions_deleted ON sessions (deleted_ms) WHERE deleted_ms IS NOT NULL;
    CREATE INDEX sessions_with_tasks ON sessions (tasks) WHERE tasks > 0;
    CREATE INDEX sessions_by_title ON sessions (updated_ms DESC, id, title)
        WHERE deleted_ms IS NULL;
    CREATE TABLE tags (session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        tag TEXT NOT NULL, PRIMARY KEY (session, tag)) WITHOUT ROWID;
    CREATE INDEX tags_by_name ON tags (tag, session);
    CREATE TABLE called (session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        tool TEXT NOT NULL, PRIMARY KEY (session, tool)) WITHOUT ROWID;
    CREATE INDEX called_by_tool ON called (tool, session);
    CREATE TABLE shares (session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        number INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (session, number)) WITHOUT ROWID;
    CREATE INDEX shares_by_owner ON shares (owner, number);
    ALTER TABLE recordings ADD COLUMN masked TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE recordings ADD COLUMN sha256 TEXT NOT NULL DEFAULT '';
    {_WHOLE_TEXTS}
    CREATE VIRTUAL TABLE found USING fts5 (text, content='texts', content_rowid='pos',
        prefix='2 3', {TOKENS});
    CREATE INDEX texts_in_order ON events (pos, session)
        WHERE kind IN ('prompt_added', 'part_ended', 'call_decided', 'call_ended');
    INSERT INTO found (rowid, text) SELECT pos, text FROM texts;
    INSERT OR IGNORE INTO called SELECT session, json_extract(body, '$.name') FROM events
        WHERE kind IN ('part_started', 'part_ended') AND json_extract(body, '$.name') != '';
    UPDATE sessions SET profile = coalesce((SELECT json_extract(body, '$.settings.profile.name')
        FROM events WHERE session = sessions.id AND kind IN ('session_started', 'settings_changed')
        ORDER BY seq DESC LIMIT 1), '');
    CREATE INDEX sessions_by_profile ON sessions (profile, updated_ms DESC);
    """,  # noqa: S608
    # Fixes rows: imported sessions cut in mid-run were listed as running, and forks under tools
    # that only their parent called. A "?" in a name may replace invalid UTF-8; such names stay.
    """
    UPDATE sessions SET state = 'interrupted', waiting = 0 WHERE NOT own AND state = 'running';
    UPDATE sessions SET tasks = 0 WHERE NOT own AND tasks > 0;
    DELETE FROM called WHERE session IN (SELECT id FROM sessions WHERE parent != '')
        AND tool NOT LIKE '%?%' AND NOT EXISTS (SELECT 1 FROM events
            WHERE events.session = called.session AND kind IN ('part_started', 'part_ended')
                AND CASE WHEN json_valid(body)
                    THEN json_extract(body, '$.name') END = called.tool);
    """,
    # The rest of a long text beyond its event's body; only the beginning is indexed.
    f"""
    CREATE TABLE rests (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        seq INTEGER NOT NULL, nth INTEGER NOT NULL, bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX rests_in_order ON rests (session, seq, nth);
    CREATE TEMP TABLE long AS SELECT pos FROM events
        WHERE kind IN ('prompt_added', 'part_ended', 'call_decided', 'call_ended')
            AND length(body) > {INDEXED} AND json_valid(body);
    INSERT INTO found (found, rowid, text) SELECT 'delete', pos, text FROM texts
        WHERE pos IN (SELECT pos FROM long);
    DROP VIEW texts;
    {TEXTS}
    INSERT INTO found (rowid, text) SELECT pos, text FROM texts WHERE pos IN (SELECT pos FROM long);
    DROP TABLE temp.long;
    """,  # noqa: S608
    # The ends of the pieces in a shared row, and their times; older rows have one piece.
    """
    ALTER TABLE chunks ADD COLUMN cuts TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE taps (id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body TEXT NOT NULL,
        updated_ms INTEGER NOT NULL);
    """,
    # The slices of request bodies; `seq` is the event that added a slice. The event of a large body
    # contains a list of slice numbers.
    """
    CREATE TABLE slices (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        nth INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, bytes BLOB NOT NULL);
    CREATE UNIQUE INDEX slices_in_order ON slices (session, nth);
    """,
    """
    ALTER TABLE sessions ADD COLUMN tap TEXT NOT NULL DEFAULT '';
    CREATE INDEX sessions_by_tap ON sessions (tap, updated_ms DESC, id) WHERE tap != '';
    """,
    """
    ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
    ALTER TABLE sessions ADD COLUMN above TEXT NOT NULL DEFAULT '';
    """,
    # `session` is the run's, possibly purged; `outcome` is '' from the claim to the end.
    """
    CREATE TABLE batches (id TEXT PRIMARY KEY, digest TEXT NOT NULL, name TEXT NOT NULL,
        body TEXT NOT NULL, runs INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
        created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL);
    CREATE INDEX batches_by_digest ON batches (digest, created_ms DESC);
    CREATE TABLE batch_runs (batch TEXT NOT NULL REFERENCES batches (id) ON DELETE CASCADE,
        case_id TEXT NOT NULL, variant TEXT NOT NULL, model TEXT NOT NULL,
        repetition INTEGER NOT NULL, session TEXT NOT NULL, claimed_ms INTEGER NOT NULL,
        outcome TEXT NOT NULL DEFAULT '', body TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (batch, case_id, variant, model, repetition)) WITHOUT ROWID;
    ALTER TABLE sessions ADD COLUMN batch TEXT NOT NULL DEFAULT '';
    CREATE INDEX sessions_by_batch ON sessions (batch) WHERE batch != '';
    CREATE INDEX sessions_of_no_batch ON sessions (updated_ms DESC, id) WHERE batch = '';
    """,
)
"""Step n migrates a file from user_version n to n + 1. Only append steps."""
