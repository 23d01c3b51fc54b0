// A queue of 100,000 waiting jobs: what a submit and an admission cost, and how long the store takes
// to open. Beside each: what SQLite alone takes to commit one row on this disk, in the same run.
//
//   npm run build && node bench/queue.mjs [--jobs 100000] [--rounds 1000] [--json]
//
// On a machine that others use, too, the clock on the wall measures them. So the processor time stands
// beside it, and a target is met by the smaller of the two: the thread cannot have worked longer than
// either. Ends with exit code 1 when a target is missed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { admit } from '../dist/jobs/admission.js';
import { Ledger } from '../dist/jobs/ledger.js';
import { openJobStore } from '../dist/jobs/store/job-store.js';
import { WaitingList } from '../dist/jobs/waiting-list.js';
import { bareCommits } from './queue/bare-commits.mjs';
import { randomFrom } from './queue/random.mjs';
import { percentiles, stopwatch } from './queue/stopwatch.mjs';

const GiB = 2 ** 30;
/** A daemon that has run for a minute is measured, not its first second. */
const warmUp = 100;
const targets = { submitMs: 5, admissionMs: 5, openMs: 2000 };
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '1000' },
    json: { type: 'boolean', default: false },
  },
});
const [jobs, rounds] = [Number(values.jobs), Number(values.rounds)];
const row = (times) => ({ p50: percentiles(times, 0.5), p99: percentiles(times, 0.99) });
const line = (name, { p50, p99 }) =>
  `${name.padEnd(24)} ${[p50.wallMs, p50.workMs, p99.wallMs, p99.workMs].map((ms) => ms.toFixed(2).padStart(10)).join('')}`;
const random = randomFrom(20_261_115);
const folder = mkdtempSync(join(tmpdir(), 'plimsoll-queue-'));
try {
  report(await measure(join(folder, 'jobs.db')));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function newJob(number) {
  const bytes = Math.floor((0.5 + random() * 40) * GiB);
  return {
    name: `job ${number}`,
    command: ['python', 'train.py', '--seed', String(number)],
    priority: Math.floor(random() * 5),
    need: { bytes, basis: 'stated', gpus: random() < 0.05 ? 2 : 1 },
    workloadKey: `workload ${number % 500}`,
    details: { cwd: '/srv/data', env: { WANDB_MODE: 'offline' } },
  };
}

function waitingJob({ job, need, turn, deadlineMs }) {
  return { ...need, id: job.id, turn, deadlineMs, expectedSeconds: 'unknown' };
}

async function measure(path) {
  let store = await openJobStore(path);
  for (let number = 0; number < jobs; number++) store.submit(newJob(number), 1e12 + number);
  store.close();

  const opening = stopwatch();
  store = await openJobStore(path);
  const list = new WaitingList(store.waiting());
  const running = new Map(store.jobs(['running']).map((one) => [one.job.id, one]));
  const open = opening();
  if (list.size !== jobs || running.size !== 0) throw new Error('the store lost jobs');

  const submits = [];
  for (let number = 0; number < rounds; number++) {
    const job = newJob(jobs + number);
    const watch = stopwatch();
    list.add(waitingJob(store.submit(job, 2e12 + number)));
    submits.push(watch());
  }
  const admissions = admitAndEnd(store, list);
  store.close();
  return { open, submits, admissions, bare: bareCommits(folder, rounds) };
}

/** Eight GPUs, full all the time: each round one job ends, and others are admitted in its place. */
function admitAndEnd(store, list) {
  const devices = Array.from({ length: 8 }, (_, index) => `gpu:${index}`);
  const ledger = new Ledger(devices.map((id) => ({ id, capacityBytes: 80 * GiB })));
  const running = new Map();
  const taken = [];
  let hold;
  for (let round = 0; taken.length < rounds; round++) {
    for (const id of devices) {
      ledger.observe(id, { atSeconds: round, usedBytes: 0, jobs: new Map() });
    }
    const watch = stopwatch();
    const rooms = ledger.rooms();
    const state = { waiting: list.first(1000), running: [...running.values()], rooms, hold };
    const answer = admit({ ...state, nowMs: 3e12 + round });
    hold = answer.hold;
    for (const { job, reservation } of answer.starts) {
      if (!ledger.reserve(job.id, reservation)) throw new Error('admitted past the load line');
      store.start(job.id, { reservation, runId: `run-${job.id}`, atMs: 3e12 + round });
      list.remove(job.id);
      const { id, turn } = job;
      running.set(id, { id, turn, reservation, expectedEndMs: 'unknown' });
    }
    const time = watch();
    // The first rounds fill the devices with many jobs at once, and find code not compiled yet.
    if (answer.starts.length === 1 && round >= warmUp) taken.push(time);
    const [oldest] = running.keys();
    store.end(oldest, 'succeeded', '', 3e12 + round);
    ledger.release(oldest, round);
    running.delete(oldest);
  }
  return taken;
}

function report({ open, submits, admissions, bare }) {
  const result = {
    jobs,
    rounds,
    open,
    submit: row(submits),
    admission: row(admissions),
    bareCommit: row(bare),
    targets,
  };
  result.ratioToBareCommit = result.submit.p50.wallMs / result.bareCommit.p50.wallMs;
  const missed = [
    [result.submit.p99.workMs <= targets.submitMs, 'submit'],
    [result.admission.p99.workMs <= targets.admissionMs, 'admission'],
    [open.workMs <= targets.openMs, 'open'],
  ]
    .filter(([met]) => !met)
    .map(([, name]) => name);
  if (values.json) console.log(JSON.stringify({ ...result, missed }, undefined, 2));
  else {
    console.log(
      [
        `${jobs} waiting jobs; milliseconds of ${rounds} rounds`,
        `${''.padEnd(24)}   p50 wall  p50 work  p99 wall  p99 work`,
        line('submit', result.submit),
        line('admission of one job', result.admission),
        line('SQLite alone, one row', result.bareCommit),
        `A submit takes ${result.ratioToBareCommit.toFixed(2)} x what SQLite takes to commit a row (p50, wall).`,
        `Opening the store and its queue: ${open.wallMs.toFixed(0)} ms, of which ${open.workMs.toFixed(0)} ms work.`,
        missed.length === 0 ? 'All targets met.' : `Missed: ${missed.join(', ')}.`,
      ].join('\n'),
    );
  }
  process.exitCode = missed.length === 0 ? 0 : 1;
}
