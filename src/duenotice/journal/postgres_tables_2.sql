-- Version 2: the keys of access tokens. They are in no record, and not in what a backup should have: an unlogged table is
-- in no write-ahead log, base backup or standby, and `pg_dump --no-unlogged-table-data` leaves it out. A server that has
-- crashed finds it empty; then a node puts back what it knows.

CREATE UNLOGGED TABLE duenotice.signing_keys (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    keys text NOT NULL
);

UPDATE duenotice.about SET version = 2;
