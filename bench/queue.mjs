// A daemon with 100,000 waiting jobs: what a submit and an admission cost, and how long it takes to open. Beside each: what SQLite alone takes to
// commit one row on this disk, in the same run.
//
//   npm run build && node bench/queue.mjs [--jobs 100000] [--rounds 1000] [--json]
//
// On a machine that others use, too, the clock on the wall measures them. So the processor time of the
// daemon's thread stands beside it ("work"), and the targets are for that. Ends with exit code 1 when a
// target is missed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { DatabaseSync } from '@photostructure/sqlite';
import { openDaemon } from '../dist/jobs/daemon/open-daemon.js';
import { openJobStore } from '../dist/jobs/store/job-store.js';
import { randomFrom } from './queue/random.mjs';
import { percentiles, stopwatch } from './queue/stopwatch.mjs';

// GPUs and programs that only exist here: a job holds what it was promised until it is told to end.
const GiB = 2 ** 30;
const totalBytes = 80 * GiB;

const rescan = () => Promise.resolve({ appeared: [], vanished: [] });

function fakeMachine(gpus) {
  const runs = new Map();
  /** `onRead` is called when a device was read, `onStart` when a run begins. */
  const machine = {
    discovery: discovery(),
    engine: engine(),
    onRead() {},
    onStart() {},
    endOldest,
  };
  return machine;

  function endOldest() {
    const [[id, { listener }]] = runs;
    runs.delete(id);
    const at = new Date().toISOString();
    listener({ type: 'finished', at, outcome: 'succeeded', exitCode: 0 });
  }

  function processesOn(deviceId) {
    return [...runs.values()]
      .filter(({ order }) => order.devices.includes(deviceId))
      .map(({ pid, order }) => ({ pid, name: 'fake', usedBytes: order.memoryBytes ?? GiB }));
  }

  function discovery() {
    const devices = Array.from({ length: gpus }, (_, index) => device(`gpu:${index}`));
    return { devices, notes: [], rescan, close() {} };
  }

  function device(id) {
    const unknown = { uuid: 'unknown', driver: 'unknown' };
    const simulated = { source: 'simulated', provenance: 'simulated' };
    return {
      info: { id, kind: 'gpu', name: 'NVIDIA H100 80GB HBM3', ...simulated, ...unknown },
      read() {
        const usedBytes = processesOn(id).reduce((sum, one) => sum + one.usedBytes, 0);
        const freeBytes = totalBytes - usedBytes;
        machine.onRead();
        return { totalBytes, usedBytes, freeBytes, utilizationPercent: 'unknown' };
      },
      processes: () => Promise.resolve(processesOn(id)),
    };
  }

  function engine() {
    let pid = 0;
    return {
      openRun(order, listener) {
        pid += 1;
        runs.set(order.id, { order, listener, pid });
        machine.onStart();
        return { stop() {}, release() {} };
      },
      use() {
        const byPid = new Map([...runs].map(([id, run]) => [run.pid, id]));
        return { knows: () => true, runOf: (of) => byPid.get(of), hostBytes: () => 0 };
      },
      forget: (id) => runs.delete(id),
      close() {},
    };
  }
}

/** What this disk and SQLite take for one durable row, with nothing of ours around. */
function bareCommits(folder, rounds) {
  const database = new DatabaseSync(join(folder, 'bare.db'));
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (x TEXT)');
  const insert = database.prepare('INSERT INTO t VALUES (?)');
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const watch = stopwatch();
    insert.run('x'.repeat(300));
    times.push(watch());
  }
  database.close();
  return times;
}

/** A daemon that has run for a minute is measured, not its first second. */
const warmUp = 100;
/** Turns of the event loop in which a job starts, if any does: what ended may have left too little room. */
const patience = 5;
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
  report(await measure(folder));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** What a person sends. */
function request(number) {
  return {
    name: `job ${number}`,
    command: [process.execPath, 'train.py', '--seed', String(number)],
    priority: Math.floor(random() * 5),
    memoryBytes: Math.floor((0.5 + random() * 40) * GiB),
    gpus: random() < 0.05 ? 2 : 1,
    cwd: folder,
    env: { WANDB_MODE: 'offline' },
  };
}

/** The same, as it is kept. */
function kept(number) {
  const { memoryBytes: bytes, gpus, cwd, env, ...job } = request(number);
  const need = { bytes, basis: 'stated', gpus };
  return {
    ...job,
    owner: 'owner',
    need,
    workloadKey: `workload ${number % 500}`,
    details: { cwd, env },
  };
}

async function measure(home) {
  const store = await openJobStore(join(home, 'jobs.db'));
  // The queue is full at 100,000: there must be room for those that are submitted below.
  const before = jobs - rounds - warmUp;
  for (let number = 0; number < before; number++) store.submit(kept(number), 1e12 + number);
  store.close();

  const machine = fakeMachine(8);
  const { discovery, engine } = machine;
  const opening = stopwatch();
  const daemon = await openDaemon({ home, discovery, engine, environment: {}, folder });
  const open = opening();
  const { waiting, running } = daemon.counts();
  if (waiting + running !== before) throw new Error('the store lost jobs');
  await filled(daemon);

  const submits = [];
  for (let number = 0; number < warmUp + rounds; number++) {
    const job = request(before + number);
    const watch = stopwatch();
    await daemon.submit(job);
    const time = watch();
    if (number >= warmUp) submits.push(time);
    // It looks whether the new one may start, before the next one comes.
    await wait(0);
  }
  const admissions = await endAndStart(daemon, machine);
  await daemon.close();
  return { open, submits, admissions, bare: bareCommits(home, rounds) };
}

/** Until the devices hold as much as they can. */
async function filled(daemon) {
  for (let before = -1; daemon.counts().running !== before; ) {
    before = daemon.counts().running;
    await wait(1500);
  }
}

/**
 * Each round one job ends, and others are admitted in its place. Timed from the last reading of a
 * device, which shows that there is room, to the start, which is stored by then.
 */
async function endAndStart(daemon, machine) {
  const taken = [];
  for (let round = 0; taken.length < rounds; round++) {
    if (round > 20 * rounds) throw new Error('jobs end, and none starts');
    const starts = [];
    let watch = stopwatch();
    machine.onRead = () => {
      watch = stopwatch();
    };
    machine.onStart = () => starts.push(watch());
    machine.endOldest();
    for (let turn = 0; turn < patience && starts.length === 0; turn++) await wait(0);
    await wait(0);
    // The first rounds find code not compiled yet; several starts are several admissions.
    if (starts.length === 1 && round >= warmUp) taken.push(starts[0]);
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
        `Opening the daemon: ${open.wallMs.toFixed(0)} ms, of which ${open.workMs.toFixed(0)} ms work.`,
        missed.length === 0 ? 'All targets met.' : `Missed: ${missed.join(', ')}.`,
      ].join('\n'),
    );
  }
  process.exitCode = missed.length === 0 ? 0 : 1;
}
