-- The tables, and the functions that change them: each is one call, one message, one transaction (N01).
-- All that change something lock the row of `head` first, so any two of them happen one after the other. A function
-- that refuses answers with a word: deposed, not-member, replaced, stale. Then it has changed nothing.

CREATE SCHEMA IF NOT EXISTS duenotice;

CREATE TABLE duenotice.about (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    readable_from integer NOT NULL, -- the oldest version of duenotice's tables that works with these (N16)
    cluster text NOT NULL -- names this journal: a data directory belongs to one
);

CREATE TABLE duenotice.head (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint NOT NULL DEFAULT 0, -- the last record
    shown bigint NOT NULL DEFAULT 0, -- the last that VMs may see
    hold bigint NOT NULL DEFAULT 0, -- up to where members are asked to hide what is older (N19)
    epoch bigint NOT NULL DEFAULT 0, -- grows with each leader
    leader text NOT NULL DEFAULT '', -- a life, or nobody
    steady bigint NOT NULL DEFAULT 0, -- of a leader's last beat (N10)
    turn bigint NOT NULL DEFAULT 0, -- grows with each connection that appends: what an older one sent comes too late (N02)
    origin text NOT NULL -- the server, database and timeline of these records: another one means a restored copy (S3)
) WITH (fillfactor = 10); -- it changes all the time: room for that in its page

CREATE TABLE duenotice.records (
    position bigint PRIMARY KEY,
    epoch bigint NOT NULL,
    format integer NOT NULL,
    crc bigint NOT NULL,
    payload text NOT NULL, -- the truth, under its checksum
    event bytea -- the id of the event that it is about
);
CREATE INDEX records_of_events ON duenotice.records (event, position) WHERE event IS NOT NULL;

CREATE TABLE duenotice.snapshots (
    position bigint PRIMARY KEY,
    format integer NOT NULL,
    crc bigint NOT NULL,
    payload text NOT NULL
);

CREATE TABLE duenotice.nodes (
    life text PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY, -- the order in which they registered
    node text NOT NULL,
    url text NOT NULL,
    version text NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    applied bigint NOT NULL DEFAULT 0,
    hidden bigint NOT NULL DEFAULT 0,
    joined boolean NOT NULL DEFAULT false,
    replaced boolean NOT NULL DEFAULT false
) WITH (fillfactor = 10);

CREATE TABLE duenotice.polls (
    scope text PRIMARY KEY,
    steady bigint NOT NULL
) WITH (fillfactor = 50);

-- The keys of access tokens. They are in no record, and not in what a backup should have: an unlogged table is
-- in no write-ahead log, base backup or standby, and `pg_dump --no-unlogged-table-data` leaves it out. A server that has
-- crashed finds it empty; then a node puts back what it knows.

CREATE UNLOGGED TABLE duenotice.signing_keys (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    keys text NOT NULL
);

-- For people: who did what when.
CREATE VIEW duenotice.history AS SELECT
    position,
    epoch,
    substring(payload from '"at":"([^"]*)"') AS at,
    substring(payload from '"actor":"((?:[^"\\]|\\.)*)"') AS actor,
    substring(payload from '"change":"([a-z-]+)"') AS change,
    convert_from(event, 'UTF8') AS event
FROM duenotice.records;

CREATE FUNCTION duenotice.origin() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT system_identifier FROM pg_control_system())
        || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
        || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$$;

CREATE FUNCTION duenotice.sight() RETURNS json LANGUAGE sql VOLATILE AS $$
    SELECT json_build_array(
        (SELECT json_build_array(position, shown, epoch, leader, steady, hold) FROM duenotice.head),
        (SELECT coalesce(
            json_agg(json_build_array(life, node, url, version, beat, hidden, replaced, applied) ORDER BY number), '[]')
            FROM duenotice.nodes WHERE joined))
$$;

-- Why this life may not go on, if it may not; the caller holds the row of head.
CREATE FUNCTION duenotice.objection(a_life text, must_be_joined boolean) RETURNS json LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN n.life IS NULL OR n.replaced THEN to_json('replaced'::text)
        WHEN must_be_joined AND NOT n.joined THEN to_json('not-member'::text)
    END
    FROM duenotice.head LEFT JOIN duenotice.nodes n ON n.life = a_life
$$;

CREATE FUNCTION duenotice.register(a_life text, a_node text, a_url text, a_version text) RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM duenotice.head FOR UPDATE;
    IF EXISTS (SELECT FROM duenotice.nodes WHERE life = a_life) THEN
        RETURN coalesce(duenotice.objection(a_life, false), duenotice.sight());
    END IF;
    UPDATE duenotice.head SET leader = '' WHERE leader IN (SELECT life FROM duenotice.nodes WHERE node = a_node);
    DELETE FROM duenotice.nodes WHERE node = a_node AND NOT joined;
    UPDATE duenotice.nodes SET replaced = true WHERE node = a_node;
    INSERT INTO duenotice.nodes (life, node, url, version) VALUES (a_life, a_node, a_url, a_version);
    PERFORM pg_notify('duenotice', 'changed');
    RETURN duenotice.sight();
END $$;

CREATE FUNCTION duenotice.join(a_life text, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE objection json;
BEGIN
    PERFORM FROM duenotice.head FOR UPDATE;
    objection := duenotice.objection(a_life, false);
    IF objection IS NOT NULL THEN RETURN objection; END IF;
    UPDATE duenotice.nodes SET joined = true, hidden = greatest(hidden, a_position) WHERE life = a_life;
    PERFORM pg_notify('duenotice', 'changed');
    RETURN duenotice.sight();
END $$;

CREATE FUNCTION duenotice.beat(a_life text, a_steady bigint, scopes text[], polled bigint[]) RETURNS json
LANGUAGE plpgsql AS $$
DECLARE objection json;
BEGIN
    PERFORM FROM duenotice.head FOR UPDATE;
    objection := duenotice.objection(a_life, true);
    IF objection IS NOT NULL THEN RETURN objection; END IF;
    UPDATE duenotice.nodes SET beat = beat + 1 WHERE life = a_life;
    UPDATE duenotice.head SET steady = a_steady WHERE leader = a_life AND steady < a_steady;
    INSERT INTO duenotice.polls AS p (scope, steady)
        SELECT t.scope, max(t.steady) FROM unnest(scopes, polled) AS t(scope, steady) GROUP BY t.scope
        ON CONFLICT (scope) DO UPDATE SET steady = excluded.steady WHERE p.steady < excluded.steady;
    PERFORM pg_notify('duenotice', 'beat ' || beat || ' ' || a_life) FROM duenotice.nodes WHERE life = a_life;
    RETURN duenotice.sight();
END $$;

CREATE FUNCTION duenotice.polls(after bigint) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM duenotice.polls WHERE steady <= after;
    RETURN (SELECT coalesce(json_object_agg(scope, steady), '{}') FROM duenotice.polls);
END $$;

CREATE FUNCTION duenotice.take_over(a_life text, an_epoch bigint, a_beat bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE objection json;
BEGIN
    PERFORM FROM duenotice.head FOR UPDATE;
    objection := duenotice.objection(a_life, true);
    IF objection IS NOT NULL THEN RETURN objection; END IF;
    UPDATE duenotice.head SET epoch = an_epoch + 1, leader = a_life
        WHERE epoch = an_epoch
        AND NOT EXISTS (SELECT FROM duenotice.nodes n WHERE n.life = leader AND n.beat <> a_beat);
    IF NOT FOUND THEN RETURN 'null'; END IF;
    PERFORM pg_notify('duenotice', 'changed');
    RETURN duenotice.sight();
END $$;

CREATE FUNCTION duenotice.take_turn(a_life text, an_epoch bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE answer json;
BEGIN
    UPDATE duenotice.head SET turn = turn + 1 WHERE leader = a_life AND epoch = an_epoch
        RETURNING json_build_array(turn, position) INTO answer;
    RETURN coalesce(answer, '"deposed"');
END $$;

-- `an_origin` is null, or what becomes the origin of all records with this append.
CREATE FUNCTION duenotice.append(
    a_life text, an_epoch bigint, a_turn bigint, after bigint,
    formats integer[], crcs bigint[], payloads text[], events bytea[], a_steady bigint, an_origin text
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    found_head duenotice.head;
    last bigint := after + cardinality(payloads);
BEGIN
    UPDATE duenotice.head SET position = last, steady = greatest(steady, a_steady), origin = coalesce(an_origin, origin)
        WHERE leader = a_life AND epoch = an_epoch AND turn = a_turn AND position = after;
    IF NOT FOUND THEN
        SELECT * INTO found_head FROM duenotice.head;
        RETURN CASE
            WHEN found_head.leader <> a_life OR found_head.epoch <> an_epoch THEN '"deposed"'
            WHEN found_head.turn <> a_turn THEN '"stale"'
            ELSE to_json(found_head.position)
        END;
    END IF;
    INSERT INTO duenotice.records (position, epoch, format, crc, payload, event)
        SELECT after + r.n, an_epoch, r.format, r.crc, r.payload, r.event
        FROM unnest(formats, crcs, payloads, events) WITH ORDINALITY AS r(format, crc, payload, event, n);
    PERFORM pg_notify('duenotice', 'appended ' || last);
    RETURN 'true';
END $$;

-- What a member has applied or hidden, and what is to be held, does not wait for the disk or for a standby before others
-- hear of it: if it is lost, it is said again. `append` and `show` wait, and with them all that was before.

CREATE FUNCTION duenotice.apply(a_life text, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE is_joined boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM duenotice.head FOR UPDATE;
    SELECT joined INTO is_joined FROM duenotice.nodes WHERE life = a_life;
    IF is_joined IS NULL THEN RETURN '"replaced"'; END IF;
    IF NOT is_joined THEN RETURN '"not-member"'; END IF;
    IF a_position > (SELECT position FROM duenotice.head) THEN RETURN '"rewound"'; END IF;
    UPDATE duenotice.nodes SET applied = greatest(applied, a_position) WHERE life = a_life;
    PERFORM pg_notify('duenotice', 'applied ' || a_position || ' ' || a_life);
    RETURN 'true';
END $$;

CREATE FUNCTION duenotice.hold(a_life text, an_epoch bigint, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE missing json;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM duenotice.head WHERE leader = a_life AND epoch = an_epoch FOR UPDATE;
    IF NOT FOUND THEN RETURN '"deposed"'; END IF;
    IF a_position > (SELECT position FROM duenotice.head) THEN RETURN '"rewound"'; END IF;
    SELECT json_agg(life ORDER BY number) INTO missing
        FROM duenotice.nodes WHERE joined AND greatest(applied, hidden) < a_position AND life <> a_life;
    IF missing IS NOT NULL THEN RETURN missing; END IF;
    UPDATE duenotice.head SET hold = greatest(hold, a_position);
    PERFORM pg_notify('duenotice', 'hold ' || a_position);
    RETURN '[]';
END $$;

CREATE FUNCTION duenotice.hide(a_life text, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE is_joined boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM duenotice.head FOR UPDATE;
    SELECT joined INTO is_joined FROM duenotice.nodes WHERE life = a_life;
    IF is_joined IS NULL THEN RETURN '"replaced"'; END IF;
    IF NOT is_joined THEN RETURN '"not-member"'; END IF;
    IF a_position > (SELECT position FROM duenotice.head) THEN RETURN '"rewound"'; END IF;
    UPDATE duenotice.nodes SET hidden = greatest(hidden, a_position) WHERE life = a_life;
    PERFORM pg_notify('duenotice', 'hid ' || a_position || ' ' || a_life);
    RETURN 'true';
END $$;

CREATE FUNCTION duenotice.show(a_life text, an_epoch bigint, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE missing json;
BEGIN
    PERFORM FROM duenotice.head WHERE leader = a_life AND epoch = an_epoch FOR UPDATE;
    IF NOT FOUND THEN RETURN '"deposed"'; END IF;
    IF a_position > (SELECT position FROM duenotice.head) THEN RETURN '"rewound"'; END IF;
    SELECT json_agg(life ORDER BY number) INTO missing
        FROM duenotice.nodes WHERE joined AND hidden < a_position AND life <> a_life;
    IF missing IS NOT NULL THEN RETURN missing; END IF;
    UPDATE duenotice.nodes SET hidden = greatest(hidden, a_position) WHERE life = a_life;
    UPDATE duenotice.head SET shown = greatest(shown, a_position);
    PERFORM pg_notify('duenotice', 'shown ' || a_position);
    RETURN '[]';
END $$;

CREATE FUNCTION duenotice.put_out(a_life text, an_epoch bigint, a_member text, a_beat bigint) RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM duenotice.head WHERE leader = a_life AND epoch = an_epoch FOR UPDATE;
    IF NOT FOUND THEN RETURN '"deposed"'; END IF;
    IF NOT EXISTS (SELECT FROM duenotice.nodes WHERE life = a_member AND joined) THEN RETURN 'true'; END IF;
    DELETE FROM duenotice.nodes WHERE life = a_member AND beat = a_beat AND replaced;
    UPDATE duenotice.nodes SET joined = false WHERE life = a_member AND beat = a_beat;
    IF EXISTS (SELECT FROM duenotice.nodes WHERE life = a_member AND joined) THEN RETURN 'false'; END IF;
    PERFORM pg_notify('duenotice', 'changed');
    RETURN 'true';
END $$;

CREATE FUNCTION duenotice.resign(a_life text) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    UPDATE duenotice.head SET leader = '' WHERE leader = a_life;
    PERFORM pg_notify('duenotice', 'changed');
    RETURN 'true';
END $$;

CREATE FUNCTION duenotice.leave(a_life text) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM duenotice.head FOR UPDATE;
    UPDATE duenotice.head SET leader = '' WHERE leader = a_life;
    DELETE FROM duenotice.nodes WHERE life = a_life;
    PERFORM pg_notify('duenotice', 'changed');
    RETURN 'true';
END $$;

CREATE FUNCTION duenotice.save_snapshot(
    a_life text, a_position bigint, a_format integer, a_crc bigint, a_payload text, kept integer
) RETURNS json LANGUAGE plpgsql AS $$
DECLARE newest bigint;
BEGIN
    SELECT position INTO newest FROM duenotice.head WHERE leader = a_life;
    IF NOT FOUND THEN RETURN '"deposed"'; END IF;
    IF newest < a_position THEN RETURN to_json(newest); END IF;
    INSERT INTO duenotice.snapshots VALUES (a_position, a_format, a_crc, a_payload)
        ON CONFLICT (position) DO UPDATE
        SET format = excluded.format, crc = excluded.crc, payload = excluded.payload;
    DELETE FROM duenotice.snapshots WHERE position NOT IN
        (SELECT position FROM duenotice.snapshots ORDER BY position DESC LIMIT kept);
    RETURN to_json(newest);
END $$;

INSERT INTO duenotice.about (version, readable_from, cluster) VALUES (3, 3, gen_random_uuid());
INSERT INTO duenotice.head (origin) VALUES (duenotice.origin());
