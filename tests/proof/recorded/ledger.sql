PRAGMA application_id = 1131376748;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE attempts (
    id           INTEGER PRIMARY KEY,
    goal_hash    TEXT NOT NULL,
    goal_text    TEXT NOT NULL,
    strategy     TEXT NOT NULL,
    success      INTEGER NOT NULL CHECK (success IN (0, 1)),
    time_seconds REAL NOT NULL,
    tactics      TEXT NOT NULL,
    timestamp    REAL NOT NULL,
    error        TEXT NOT NULL,
    verified     INTEGER NOT NULL CHECK (verified IN (0, 1)),
    subgoals     TEXT NOT NULL,
    metadata     TEXT NOT NULL,
    config       TEXT NOT NULL,
    toolchain    TEXT NOT NULL,
    budget       REAL NOT NULL,
    run          TEXT NOT NULL,
    UNIQUE (goal_hash, strategy, config, toolchain, budget)
);
INSERT INTO "attempts" VALUES(1,'79da508301eaaac3aa760b345a233a43197f0bc3460491b8a280730600eed357','∀ n : Nat, n * n + n = 2 * (n * (n + 1) / 2)','micro',0,9.94774975999462185427e-01,'[]',1.79509372911065721509e+09,'timeout',0,'[]','{"calls": 14, "families": [], "lean_seconds": 0.99, "nodes": 4, "seconds_by_family": {"finishers": 0.893, "induction": 0.055, "logic": 0.012, "rewriting": 0.012}}','micro 2','4.28.0-pre wasm 75930b7c7cd90cbb repl 32917d07',1.0,'p');
INSERT INTO "attempts" VALUES(2,'79da508301eaaac3aa760b345a233a43197f0bc3460491b8a280730600eed357','∀ n : Nat, n * n + n = 2 * (n * (n + 1) / 2)','simple',0,1.01586764799867523834e+00,'[]',1.79509373017063379287e+09,'timeout',0,'[]','{"calls": 11, "families": [], "lean_seconds": 1.015, "nodes": 2, "seconds_by_family": {"finishers": 1.013, "logic": 0.001}}','micro 2 finishers','4.28.0-pre wasm 75930b7c7cd90cbb repl 32917d07',1.0,'p');
INSERT INTO "attempts" VALUES(3,'259bc8bcfc3b5f0494815c8036d322edf8ab3e3670c41eca259715f963cb926e','∀ n : Nat, n + 0 = n','micro',1,2.79837180005415575578e-02,'["intro n", "rfl"]',1.79509373324227666855e+09,'',1,'[]','{"calls": 5, "families": ["logic", "finishers"], "lean_seconds": 0.028, "nodes": 2, "seconds_by_family": {"finishers": 0.024, "logic": 0.003}}','micro 2','4.28.0-pre wasm 75930b7c7cd90cbb repl 32917d07',1.0,'p');
INSERT INTO "attempts" VALUES(4,'79da508301eaaac3aa760b345a233a43197f0bc3460491b8a280730600eed357','∀ n : Nat, n * n + n = 2 * (n * (n + 1) / 2)','micro',1,1.26609600300071178935e+00,'["intro n", "induction n", "\u00b7 decide", "\u00b7 rename_i n a\n  grind -verbose"]',1.79509373542597961423e+09,'',1,'[]','{"calls": 16, "families": ["logic", "induction", "finishers", "finishers"], "lean_seconds": 0.76, "nodes": 4, "seconds_by_family": {"finishers": 0.718, "induction": 0.004, "logic": 0.003, "rewriting": 0.012}}','micro 2','4.28.0-pre wasm 75930b7c7cd90cbb repl 32917d07',2.0,'p');
INSERT INTO "attempts" VALUES(5,'d6070264c515d514d1b44c7272f4e02b22e7d9ac4b5785ecd1a79892dd971cf5','∀ p q : Prop, p ∧ q → q ∧ p','micro',1,2.05792699998710304498e-02,'["intro p q a", "(simp_all; done)"]',1.79509373550550484655e+09,'',1,'[]','{"calls": 5, "families": ["logic", "finishers"], "lean_seconds": 0.02, "nodes": 2, "seconds_by_family": {"finishers": 0.014, "logic": 0.005}}','micro 2','4.28.0-pre wasm 75930b7c7cd90cbb repl 32917d07',1.0,'p');
CREATE TABLE goals (
    goal_hash  TEXT PRIMARY KEY,
    goal_text  TEXT NOT NULL,
    context    TEXT NOT NULL,
    name       TEXT NOT NULL,
    difficulty REAL NOT NULL,
    priority   REAL NOT NULL
);
INSERT INTO "goals" VALUES('259bc8bcfc3b5f0494815c8036d322edf8ab3e3670c41eca259715f963cb926e','∀ n : Nat, n + 0 = n','[]','add_zero',0.5,0.5);
INSERT INTO "goals" VALUES('d6070264c515d514d1b44c7272f4e02b22e7d9ac4b5785ecd1a79892dd971cf5','∀ p q : Prop, p ∧ q → q ∧ p','[]','swap',0.7,0.5);
INSERT INTO "goals" VALUES('79da508301eaaac3aa760b345a233a43197f0bc3460491b8a280730600eed357','∀ n : Nat, n * n + n = 2 * (n * (n + 1) / 2)','[]','hard',0.5,0.9);
CREATE TABLE premise_cache (
    goal_hash TEXT NOT NULL,
    model     TEXT NOT NULL,
    premises  TEXT NOT NULL,
    use_count INTEGER NOT NULL,
    PRIMARY KEY (goal_hash, model)
);
CREATE TABLE tactic_cache (
    goal_hash    TEXT PRIMARY KEY,
    tactics      TEXT NOT NULL,
    success_rate REAL NOT NULL,
    avg_time     REAL NOT NULL,
    use_count    INTEGER NOT NULL
);
INSERT INTO "tactic_cache" VALUES('259bc8bcfc3b5f0494815c8036d322edf8ab3e3670c41eca259715f963cb926e','["intro n", "rfl"]',1.0,2.79837180005415575578e-02,1);
INSERT INTO "tactic_cache" VALUES('79da508301eaaac3aa760b345a233a43197f0bc3460491b8a280730600eed357','["intro n", "induction n", "\u00b7 decide", "\u00b7 rename_i n a\n  grind -verbose"]',1.0,1.26609600300071178935e+00,1);
INSERT INTO "tactic_cache" VALUES('d6070264c515d514d1b44c7272f4e02b22e7d9ac4b5785ecd1a79892dd971cf5','["intro p q a", "(simp_all; done)"]',1.0,2.05792699998710304498e-02,1);
CREATE INDEX attempts_by_search ON attempts (toolchain, config);
COMMIT;
