/**
 * A process that opens a store and works on it until it is killed. It prints a line for each change
 * after it was acknowledged, and nothing else.
 */
import { writeSync } from 'node:fs';
import { openJobStore } from './job-store.js';

const [path = '', round = ''] = process.argv.slice(2);
const store = await openJobStore(path);
const report = (word: string, id: string) => writeSync(1, `${word} ${id}\n`);

// What a daemon does on its start: what ran is accounted for.
for (const { job } of store.jobs(['running'])) {
  report('ended', store.end(job.id, 'failed', { code: 'lost', message: '' }, 2).job.id);
}
for (let number = 0; ; number++) {
  const submission = `${round}-${number}`;
  const need = { bytes: 1, basis: 'stated', gpus: 1 } as const;
  const { job } = store.submit(
    {
      name: submission,
      owner: 'owner',
      command: ['true'],
      priority: 0,
      need,
      workloadKey: 'k',
      details: {},
      submission,
    },
    1,
  );
  report('submitted', job.id);
  if (number % 2 === 0) continue;
  const [next] = store.jobs(['waiting'], '0', 1);
  if (next === undefined) continue;
  const reservation = { devices: ['gpu:0'], bytes: 1, basis: 'stated' } as const;
  report('started', store.start(next.job.id, { reservation, runId: submission, atMs: 1 }).job.id);
  if (number % 3 === 0) report('ended', store.end(next.job.id, 'succeeded', null, 2).job.id);
}
