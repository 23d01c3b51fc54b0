// How quickly a snapshot is read, beside Python's pickle.load on the same file, turn by turn in one
// run; how much memory that takes beside the size of the file; and 1 GB in one go. The large files
// are the recorded one over and over.
//
//   npm run build && node bench/snapshot.mjs [--megabytes 500] [--rounds 3] [--no-gigabyte] [--json]
//   npm run build && node bench/snapshot.mjs --fuzz 1000000
//   npm run build && node bench/snapshot.mjs --hostile
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { unpackedSnapshot } from './snapshot/unpacked.mjs';
import { median } from './statistics.mjs';

const targets = { timeRatio: 0.5, memoryRatio: 1.5 };
const { values } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '500' },
    rounds: { type: 'string', default: '3' },
    'no-gigabyte': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    fuzz: { type: 'string' },
    hostile: { type: 'boolean', default: false },
    child: { type: 'string' },
    analyse: { type: 'boolean', default: false },
  },
});

const self = fileURLToPath(import.meta.url);
const here = fileURLToPath(new URL('snapshot/', import.meta.url));
if (values.child !== undefined) {
  const { readOnce } = await import('./snapshot/ours.mjs');
  console.log(JSON.stringify(await readOnce(values.child, values.analyse)));
} else if (values.fuzz !== undefined) {
  const { fuzz } = await import('./snapshot/fuzz.mjs');
  fuzz(Number(values.fuzz), Date.now() % 2 ** 31);
} else if (values.hostile) {
  const { refuseAll } = await import('./snapshot/hostile.mjs');
  process.exitCode = refuseAll(self) ? 0 : 1;
} else {
  await compare(mkdtempSync(join(tmpdir(), 'plimsoll-bench-')));
}

async function compare(folder) {
  try {
    const small = join(folder, 'small.pickle');
    writeFileSync(small, unpackedSnapshot());
    const measured = [await measure(folder, Number(values.megabytes) * 1e6, Number(values.rounds))];
    if (!values['no-gigabyte']) measured.push(await measure(folder, 1e9, 1));
    if (values.json) console.log(JSON.stringify({ targets, results: measured }));
    const missed = measured.filter(
      ({ timeRatio, memoryRatio }) =>
        timeRatio > targets.timeRatio || memoryRatio > targets.memoryRatio,
    );
    process.exitCode = missed.length > 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(folder, bytes, rounds) {
  const path = join(folder, 'large.pickle');
  run('python3', [`${here}repeat.py`, join(folder, 'small.pickle'), path, String(bytes)]);
  const fileBytes = statSync(path).size;
  const python = [];
  const ours = [];
  for (let round = 0; round < rounds; round += 1) {
    python.push(JSON.parse(run('python3', [`${here}load.py`, path])));
    ours.push(JSON.parse(run(process.execPath, [self, '--child', path])));
  }
  const analysed = JSON.parse(run(process.execPath, [self, '--child', path, '--analyse']));
  const result = {
    fileBytes,
    events: analysed.events,
    pythonSeconds: middle(python, 'seconds'),
    seconds: middle(ours, 'seconds'),
    timeRatio: middle(ours, 'seconds') / middle(python, 'seconds'),
    busyRatio: middle(ours, 'busySeconds') / middle(python, 'busySeconds'),
    peakBytes: middle(ours, 'peakBytes'),
    memoryRatio: middle(ours, 'peakBytes') / fileBytes,
    pythonMemoryRatio: middle(python, 'peakBytes') / fileBytes,
    analyseSeconds: analysed.analyseSeconds,
    analyseMemoryRatio: analysed.analysePeakBytes / fileBytes,
  };
  if (!values.json) print(result);
  return result;
}

function middle(all, key) {
  return median(all.map((one) => one[key]));
}

function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

function print(result) {
  console.log(`${megabytes(result.fileBytes)}, ${result.events.toLocaleString('en-US')} events`);
  console.log(
    `  time    ${result.seconds.toFixed(2)} s, pickle.load ${result.pythonSeconds.toFixed(2)} s: ${result.timeRatio.toFixed(2)} x (at most ${targets.timeRatio}); by processor time ${result.busyRatio.toFixed(2)} x`,
  );
  console.log(
    `  memory  ${megabytes(result.peakBytes)}: ${result.memoryRatio.toFixed(2)} x the file (at most ${targets.memoryRatio}); pickle.load ${result.pythonMemoryRatio.toFixed(2)} x`,
  );
  console.log(
    `  and to analyse it ${result.analyseSeconds.toFixed(2)} s, ${result.analyseMemoryRatio.toFixed(2)} x the file`,
  );
}

function run(command, argv) {
  const { status, stdout, stderr, error } = spawnSync(command, argv, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw error ?? new Error(`${command} ${argv.join(' ')} failed: ${stderr}`);
  return stdout;
}
