// A mix of real training jobs on one GPU: one after another, then packed by memory. The same steps both
// times. What is compared: how long it takes, how much is trained a second, who runs out of memory.
//
//   node bench/gpu/mix/mix.mjs [--plimsoll ./plimsoll] [--python python3] [--seconds 8] [--only gpt2,bert]
//     [--tiny] [--limit 360] [--output mix.json]
//
// On a machine without Node, with the archive that "npm run bundle" makes:
//   ./plimsoll-*/runtime/node bench/gpu/mix/mix.mjs --plimsoll ./plimsoll-*/plimsoll
//
// Run it from the root of the checkout. About six minutes on an H200. With --tiny the same jobs in
// miniature on whatever there is, the host's memory included. Ends with exit code 1 when a job failed
// or ran out of memory, or packing was no faster.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { truthFolder } from '../../truth.mjs';
import { runPhase } from './phase.mjs';
import { reportOf } from './report.mjs';
import { tinyJob } from './tiny.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { values } = parseArgs({
  options: {
    plimsoll: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    seconds: { type: 'string' },
    only: { type: 'string' },
    tiny: { type: 'boolean', default: false },
    limit: { type: 'string', default: '360' },
    output: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'plimsoll-mix-'));
try {
  process.exitCode = await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function main() {
  const jobs = chosenJobs();
  const options = {
    jobs,
    folder,
    command: commandOf(values.plimsoll ?? `${root}bin/plimsoll.js`),
    python: values.python,
    seconds: Number(values.seconds ?? (values.tiny ? 1 : 8)),
    limitSeconds: Number(values.limit),
  };
  console.log(`${jobs.length} training jobs, one after another ...`);
  const alone = await runPhase({
    ...options,
    name: 'one after another',
    environment: { MAX_CONCURRENT_JOBS: '1' },
  });
  const steps = new Map(
    alone.jobs.flatMap(({ job, trained }) => (trained ? [[job, trained.steps]] : [])),
  );
  console.log(`... ${alone.seconds.toFixed(1)} s; the same steps again, packed ...`);
  // A limit of the outside world does not belong into this one.
  const packed = await runPhase({
    ...options,
    name: 'packed',
    steps,
    environment: { MAX_CONCURRENT_JOBS: '' },
  });
  const { text, figures, ok } = reportOf(alone, packed);
  console.log(text);
  if (values.output) writeFileSync(values.output, `${JSON.stringify(figures, undefined, 2)}\n`);
  return ok ? 0 : 1;
}

/** The launcher of an archive is a program; the file of a checkout needs Node. */
function commandOf(path) {
  return path.endsWith('.js') ? [process.execPath, resolve(path)] : [resolve(path)];
}

/** `cases/...` is a file of the set `cases`, anything else of this checkout. */
function placeOf(path) {
  return path.startsWith('cases/')
    ? join(truthFolder('cases'), path.slice('cases/'.length))
    : join(root, path);
}

function chosenJobs() {
  const all = JSON.parse(readFileSync(new URL('jobs.json', import.meta.url), 'utf8'));
  const wanted = values.only?.split(',');
  return all
    .filter(({ name }) => wanted === undefined || wanted.includes(name))
    .map((job) => {
      const placed = job.path ? Object.assign(job, { path: placeOf(job.path) }) : job;
      return values.tiny ? tinyJob(placed, folder) : placed;
    });
}
