/** Stands in the header of our files, so that no other SQLite file is taken for one. "PLIM". */
export const applicationId = 0x50_4c_49_4d;

/**
 * One script a version. A file of an older version runs through those it misses, in one transaction;
 * a script that was released is never changed.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE job (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    submission TEXT UNIQUE,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    priority INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL,
    deadline_ms INTEGER,
    bytes INTEGER NOT NULL,
    basis TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    workload_key TEXT NOT NULL,
    details TEXT NOT NULL,
    reservation TEXT,
    run_id TEXT,
    started_ms INTEGER,
    ended_ms INTEGER
  ) STRICT;
  CREATE INDEX job_by_state ON job (state, sequence);
  CREATE TABLE attempt (
    job INTEGER NOT NULL REFERENCES job (sequence) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (job, number)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE run (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    workload_key TEXT NOT NULL,
    peak_bytes INTEGER NOT NULL,
    asked TEXT NOT NULL,
    seconds REAL NOT NULL
  ) STRICT;
  CREATE INDEX run_by_workload ON run (workload_key, sequence);
  CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    job INTEGER NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL
  ) STRICT;
  `,
  `
  ALTER TABLE job ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE job ADD COLUMN ending TEXT;
  CREATE INDEX waiting_by_workload ON job (workload_key) WHERE state = 'waiting';
  `,
  `
  CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), mark TEXT NOT NULL) STRICT;
  `,
  `
  ALTER TABLE job ADD COLUMN owner TEXT NOT NULL DEFAULT 'owner';
  `,
  // Reasons were sentences and became codes with data. A damaged row stays as it is.
  `
  UPDATE job SET reason = CASE reason
    WHEN '' THEN 'null' ELSE json_object('code', 'earlier-text', 'text', reason) END;
  UPDATE job SET ending = json_set(ending, '$.reason',
      json_object('code', 'earlier-text', 'text', json_extract(ending, '$.reason')))
    WHERE CASE WHEN json_valid(ending) THEN json_type(ending, '$.reason') = 'text' END;
  UPDATE job SET details = json_set(json_remove(details, '$.degradedWhy'), '$.degradedReason',
      json_object('code', 'earlier-text', 'text', json_extract(details, '$.degradedWhy')))
    WHERE CASE WHEN json_valid(details) THEN json_type(details, '$.degradedWhy') = 'text' END;
  `,
  // So was what a need rests on.
  `
  UPDATE job SET details = json_set(json_remove(details, '$.evidence.why'), '$.evidence.reason',
      json_object('code', 'earlier-text', 'text', json_extract(details, '$.evidence.why')))
    WHERE CASE WHEN json_valid(details) THEN json_type(details, '$.evidence.why') = 'text' END;
  `,
  // Null and 0: its need is known.
  `
  ALTER TABLE job ADD COLUMN estimating INTEGER;
  `,
];

export const schemaVersion = migrations.length;
