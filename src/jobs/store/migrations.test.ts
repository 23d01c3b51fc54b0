import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openJobStore } from './job-store.js';
import { applicationId, migrations } from './schema.js';
import { loadSqlite } from './sqlite.js';

/** The version in which a reason was still a sentence. */
const sentences = 4;

it('opens a store of earlier versions, and keeps the reasons that were sentences', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-migrations-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'jobs.db');
  const { DatabaseSync } = await loadSqlite();
  const old = new DatabaseSync(path);
  old.exec(`PRAGMA application_id = ${applicationId}`);
  for (const script of migrations.slice(0, sentences)) old.exec(script);
  old.exec(`PRAGMA user_version = ${sentences}`);
  const insert = old.prepare(
    `INSERT INTO job (state, reason, name, command, priority, turn, submitted_ms, bytes, basis,
       gpus, workload_key, details, ending, run_id, started_ms, ended_ms, reservation)
     VALUES (?, ?, 'train', '["train"]', 0, 1, 1, 10, 'stated', 1, 'k', ?, ?, 'run', 2, ?, NULL)`,
  );
  insert.run('failed', 'It ended with exit code 3.', '{}', null, 3);
  insert.run('succeeded', '', '{"degradedWhy":"It was too large."}', null, 3);
  insert.run('running', '', '{}', '{"state":"cancelled","reason":"Cancelled."}', null);
  insert.run('failed', 'It broke.', 'no JSON', 'no JSON', 3);
  insert.run(
    'waiting',
    '',
    '{"evidence":{"why":"Stated: 10 B.","estimatedBytes":7,"runs":2}}',
    null,
    3,
  );
  old.close();

  const store = await openJobStore(path);
  const text = (words: string) => ({ code: 'earlier-text', text: words });
  expect(store.job('1')?.job.reason).toEqual(text('It ended with exit code 3.'));
  expect(store.job('2')).toMatchObject({
    job: { reason: null },
    details: { degradedReason: text('It was too large.') },
  });
  expect(store.job('2')?.details).not.toHaveProperty('degradedWhy');
  expect(store.job('3')?.ending).toEqual({ state: 'cancelled', reason: text('Cancelled.') });
  expect(store.job('4')?.job.reason).toEqual({ code: 'damaged-record', column: 'details' });
  expect(store.job('5')?.details.evidence).toEqual({
    reason: text('Stated: 10 B.'),
    estimatedBytes: 7,
    runs: 2,
  });
  store.close();
});
