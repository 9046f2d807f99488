-- The head is one row, which every append and every lease updates.
CREATE TABLE head (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    seq  INTEGER NOT NULL,
    term INTEGER NOT NULL,
    hash BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO head (id, seq, term, hash) VALUES (1, 0, 0, zeroblob(32));

-- Unsigned numbers are stored as the signed number of the same bits.
CREATE TABLE events (
    seq          INTEGER PRIMARY KEY,
    term         INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    subject_kind TEXT    NOT NULL,
    subject_name TEXT    NOT NULL,
    incarnation  INTEGER NOT NULL,
    host_seq     INTEGER NOT NULL,
    body         BLOB    NOT NULL,
    hash         BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE leases (
    term   INTEGER PRIMARY KEY,
    holder TEXT    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- Bodies are files; see snapshot.go.
CREATE TABLE snapshots (
    seq    INTEGER PRIMARY KEY,
    term   INTEGER NOT NULL,
    hash   BLOB    NOT NULL CHECK (length(hash) = 32),
    format TEXT    NOT NULL,
    digest TEXT    NOT NULL
) STRICT;
