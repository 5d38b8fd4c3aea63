-- Version 3: members apply a change first, and hide what it touches when they are asked to (N19). A node of an older
-- version would hide at once and never say that it has applied: so it cannot use these tables.

ALTER TABLE duenotice.head ADD COLUMN hold bigint NOT NULL DEFAULT 0; -- up to where members are asked to hide
ALTER TABLE duenotice.nodes ADD COLUMN applied bigint NOT NULL DEFAULT 0;
UPDATE duenotice.head SET hold = shown;
UPDATE duenotice.nodes SET applied = hidden;

CREATE OR REPLACE FUNCTION duenotice.sight() RETURNS json LANGUAGE sql VOLATILE AS $$
    SELECT json_build_array(
        (SELECT json_build_array(position, shown, epoch, leader, steady, hold) FROM duenotice.head),
        (SELECT coalesce(
            json_agg(json_build_array(life, node, url, version, beat, hidden, replaced, applied) ORDER BY number), '[]')
            FROM duenotice.nodes WHERE joined))
$$;

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

CREATE OR REPLACE FUNCTION duenotice.hide(a_life text, a_position bigint) RETURNS json LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION duenotice.beat(a_life text, a_steady bigint, scopes text[], polled bigint[]) RETURNS json
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
    PERFORM pg_notify('duenotice', 'beat ' || beat || ' ' || a_life)
        FROM duenotice.nodes WHERE life = a_life AND life = (SELECT leader FROM duenotice.head);
    RETURN duenotice.sight();
END $$;

UPDATE duenotice.about SET version = 3, readable_from = 3;
