import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import * as fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { openJobStore } from './job-store.js';
import type { NewJob } from './records.js';

const job: NewJob = {
  name: 'train',
  owner: 'ada',
  command: ['python', 'train.py'],
  priority: 0,
  need: { bytes: 1000, basis: 'stated', gpus: 1 },
  workloadKey: 'k',
  details: { cwd: '/tmp', env: { A: 'b' } },
};

/** Values that a damaged column may hold. */
const values: Readonly<Record<string, readonly (string | number | null)[]>> = {
  state: ['waiting', 'running', 'gone', ''],
  reason: ['null', 'no JSON', '{"code":"expired"}', '{"code":"?"}', '[]'],
  basis: ['stated', 'unknown', 'guess'],
  command: ['["a"]', '[]', '[1]', '{}', '"a"', '["a"', '["a"]\0', '["a\u0001"]', '["a",]', "['a']"],
  details: [
    '{}',
    '[]',
    'null',
    '',
    '{"cwd":1}',
    '{"cwd":"/"}',
    '{"env":[]}',
    '{"env":{"A":1}}',
    '{"env":{"A":"b"},"cwd":"/x"}',
    '{"cwd":"/","cwd":1}',
    '{"env":{},"env":{"A":1}}',
    '{"env":null}',
    '{"env":"x"}',
    '{cwd:"/"}',
    '{"workload":{"a":[1,{"b":null}]}}',
  ],
  ending: [null, '{}', '{"state":"failed","reason":{"code":"expired"}}'],
  reservation: [null, '{}', '{"devices":["gpu:0"],"bytes":1}'],
  submitted_ms: [0, 8.64e15, 8.64e15 + 1, -8.64e15 - 1],
  deadline_ms: [null, 5, 8.64e15 + 1],
  run_id: [null, 'run'],
  started_ms: [null, 7],
};

it('ends exactly those jobs that are shown as damaged, whatever a row holds', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-rows-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'jobs.db');
  const single = Object.entries(values).flatMap(([column, of]) => of.map((one) => [[column, one]]));
  const changed = fc.sample(
    fc.record(
      Object.fromEntries(
        Object.entries(values).map(([name, of]) => [name, fc.constantFrom(...of)]),
      ),
      { requiredKeys: [] },
    ),
    { numRuns: 100, seed: 14 },
  );
  const rows = [[], ...single, ...changed.map((one) => Object.entries(one))];
  const first = await openJobStore(path);
  for (const _ of rows) first.submit(job, 1000);
  first.close();
  const database = new DatabaseSync(path);
  database.exec('BEGIN');
  rows.forEach((columns, index) => {
    for (const [column, value] of columns) {
      database
        .prepare(`UPDATE job SET ${String(column)} = ? WHERE sequence = ?`)
        .run(value ?? null, index + 1);
    }
  });
  database.exec('COMMIT');
  database.close();

  const store = await openJobStore(path);
  const isDamaged = (id: string) => store.job(id)?.job.reason?.code === 'damaged-record';
  const ids = rows.map((_, index) => String(index + 1));
  const damaged = ids.filter(isDamaged);
  expect(damaged.length).toBeGreaterThan(30);
  expect(ids.length - damaged.length).toBeGreaterThan(20);
  expect(store.endDamaged(2000)).toEqual(damaged);
  expect(store.endDamaged(3000)).toEqual([]);
  const ends = store.events(0).filter(({ atMs }) => atMs === 2000);
  expect(ends.map(({ type, data }) => [type, data['state']])).toEqual(
    damaged.map(() => ['ended', 'failed']),
  );
  expect(store.waiting().every(({ id }) => !isDamaged(id))).toBe(true);
  store.close();
});
