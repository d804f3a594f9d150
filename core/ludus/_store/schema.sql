-- The league of a run. Logs only grow; payoffs and behaviour are sums over matches, kept in the same transaction.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE players (name TEXT PRIMARY KEY, role TEXT NOT NULL, team INTEGER, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    id INTEGER PRIMARY KEY, participant TEXT NOT NULL UNIQUE, player TEXT NOT NULL, number INTEGER NOT NULL,
    hash TEXT NOT NULL, parent TEXT, decisions INTEGER NOT NULL, version INTEGER NOT NULL, created_s REAL NOT NULL,
    manifest TEXT NOT NULL, UNIQUE (player, number)
);
CREATE TABLE retired (participant TEXT PRIMARY KEY, created_s REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE pools (
    id INTEGER PRIMARY KEY, pool TEXT NOT NULL, model TEXT NOT NULL, enters INTEGER NOT NULL, created_s REAL NOT NULL
);
CREATE TABLE fixtures (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, player TEXT NOT NULL, seats TEXT NOT NULL, seed INTEGER NOT NULL,
    matches INTEGER NOT NULL, scenario TEXT NOT NULL, reason TEXT NOT NULL, paired TEXT NOT NULL,
    created_s REAL NOT NULL, closed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX open_fixtures ON fixtures (id) WHERE closed = 0;
CREATE TABLE matches (
    fixture INTEGER NOT NULL, first INTEGER NOT NULL, played INTEGER NOT NULL, numbers BLOB NOT NULL,
    outcomes BLOB NOT NULL, ticks BLOB NOT NULL, statistics BLOB NOT NULL, PRIMARY KEY (fixture, first)
) WITHOUT ROWID;
CREATE TABLE totals (kind TEXT PRIMARY KEY, matches INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE payoffs (
    kind TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL,
    wins INTEGER NOT NULL, draws INTEGER NOT NULL, losses INTEGER NOT NULL, PRIMARY KEY (kind, a, b)
) WITHOUT ROWID;
CREATE TABLE behaviour (
    participant TEXT NOT NULL, name TEXT NOT NULL, matches INTEGER NOT NULL, total REAL NOT NULL, squares REAL NOT NULL,
    PRIMARY KEY (participant, name)
) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY, player TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL, version INTEGER NOT NULL,
    decisions INTEGER NOT NULL, UNIQUE (player, path)
);
CREATE TABLE checksums (
    name TEXT NOT NULL, part INTEGER NOT NULL, sum BLOB NOT NULL, PRIMARY KEY (name, part)
) WITHOUT ROWID;
CREATE TRIGGER matches_stay BEFORE DELETE ON matches BEGIN SELECT RAISE(ABORT, 'the match log is append-only'); END;
CREATE TRIGGER matches_fixed BEFORE UPDATE ON matches
WHEN NEW.fixture != OLD.fixture OR NEW.first != OLD.first OR NEW.played <= OLD.played
BEGIN SELECT RAISE(ABORT, 'the match log is append-only'); END;
CREATE TRIGGER pools_stay BEFORE DELETE ON pools BEGIN SELECT RAISE(ABORT, 'the pool log is append-only'); END;
CREATE TRIGGER pools_fixed BEFORE UPDATE ON pools BEGIN SELECT RAISE(ABORT, 'the pool log is append-only'); END;
