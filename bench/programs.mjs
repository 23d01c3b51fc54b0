// Programs as they are: what `plimsoll estimate -- python ...` answers, beside what they took of an H200.
//
//   npm run build && node bench/programs.mjs [--programs FOLDER] [--only TEXT] [--python PROGRAM] [--at-once N] [--cores N] [--json]
//
// FOLDER holds measured.json and the programs; as a rule they are those of truth/programs.tsv. Answers are kept in build/programs, by a hash of all they
// depend on. A program whose packages this Python lacks is left out, and named. `--at-once N` estimates N
// programs at a time, each bound to cores of its own (taskset), for machines with many: to two, or as many
// as `--cores` says. Ends with exit code 1 when a target is missed.
//
// Machines differ in speed, and shared ones from minute to minute. So each time is also told as a multiple of
// the time that importing torch and transformers took there shortly before.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { benchPython } from './accuracy/traces.mjs';
import { truthFolder, truthRows } from './truth.mjs';

const targets = { median: 0.01, ninetieth: 0.05, held: 0.95, seconds: 30, bytes: 2 * 2 ** 30 };
const command = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));

const { values } = parseArgs({
  options: {
    programs: { type: 'string' },
    only: { type: 'string', default: '' },
    python: { type: 'string', default: benchPython() },
    'at-once': { type: 'string', default: '1' },
    cores: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
  },
});

const coresEach = wholeNumber('cores', availableParallelism());
const atOnce = wholeNumber('at-once', Math.max(1, Math.floor(availableParallelism() / coresEach)));

/** Waits for a command, and tells the memory of its largest process and the processors' time. */
const measurer = `import json, resource, subprocess, sys
end = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([end.returncode, end.stdout, end.stderr[-2000:], used.ru_maxrss * 1024, used.ru_utime + used.ru_stime]))`;

/** What a program imports before it does anything. */
const imports =
  'import torch, torchvision; from transformers import AutoModel, Trainer; print("done")';
/** How many programs are estimated before imports are timed again. */
const timedEach = 20;
const importSeconds = [];
let timing;
let estimated = 0;

const root = fileURLToPath(new URL('..', import.meta.url));
const kept = join(root, 'build', 'programs');
mkdirSync(kept, { recursive: true });
const ground = groundHash();

const folderOfAll = values.programs ?? truthFolder('programs');
const programs = values.programs ? measuredIn(values.programs) : measuredHere();
const rows = [];
const leftOut = [];
const waiting = programs.filter(({ name }) => name.includes(values.only));
await Promise.all(Array.from({ length: atOnce }, (_, place) => estimateWaiting(place)));
const errors = rows.map(({ error }) => Math.abs(error)).toSorted((a, b) => a - b);
const at = (share) => errors[Math.ceil(share * errors.length) - 1] ?? Number.NaN;
const summary = {
  programs: rows.length,
  leftOut,
  failed: rows.filter(({ failure }) => failure !== undefined).length,
  median: at(0.5),
  ninetieth: at(0.9),
  held: rows.filter(({ held }) => held).length / rows.length,
  targets,
};
if (values.json) console.log(JSON.stringify({ ...summary, rows }, undefined, 2));
else {
  console.log(
    `${summary.programs} programs, ${summary.failed} failed; error of reserved: median ${percent(summary.median)} (target ${percent(targets.median)}), 90th percentile ${percent(summary.ninetieth)} (${percent(targets.ninetieth)}); interval holds in ${percent(summary.held)}`,
  );
}
const slow = rows.filter(({ seconds }) => seconds > targets.seconds);
const multiples = rows
  .map(({ seconds, imports: once }) => seconds / once)
  .filter(Number.isFinite)
  .toSorted((a, b) => a - b);
const large = rows.filter(({ bytes }) => bytes > targets.bytes);
if (!values.json) {
  console.log(
    `time, as a multiple of importing torch and transformers (${range(importSeconds)}): median ${times(multiples[Math.floor(multiples.length / 2)])}, longest ${times(multiples.at(-1))}`,
  );
  console.log(`longer than ${targets.seconds} s: ${namesOf(slow)}`);
  console.log(`more than ${targets.bytes / 2 ** 30} GiB: ${namesOf(large)}`);
}
const met =
  summary.failed === 0 &&
  summary.median <= targets.median &&
  summary.ninetieth <= targets.ninetieth &&
  summary.held >= targets.held &&
  slow.length === 0 &&
  large.length === 0;
process.exitCode = met ? 0 : 1;

/** Takes programs until none waits. The place, from 0, says which cores are its own. */
async function estimateWaiting(place) {
  for (let program = waiting.shift(); program !== undefined; program = waiting.shift()) {
    const row = await keptOrMeasured(program, place);
    const missing = /No module named '([^']+)'/.exec(row.failure ?? '')?.[1];
    if (missing === undefined) rows.push(row);
    else leftOut.push({ name: program.name, missing });
    if (values.json) continue;
    console.log(missing === undefined ? lineOf(row) : `${program.name}: left out, no ${missing}`);
  }
}

function measuredIn(folder) {
  return JSON.parse(readFileSync(join(folder, 'measured.json'), 'utf8')).programs;
}

function measuredHere() {
  return truthRows('programs').map((row) => ({
    name: row.name,
    folder: row.set,
    argv: row.arguments.split(' '),
    allocatedBytes: Number(row.allocated_bytes),
    reservedBytes: Number(row.reserved_bytes),
  }));
}

function wholeNumber(name, most) {
  const value = Number(values[name]);
  if (!Number.isInteger(value) || value < 1 || value > most) {
    console.error(`--${name} ${values[name]}: a whole number from 1 to ${most} is expected here`);
    process.exit(2);
  }
  return value;
}

function namesOf(some) {
  return some.length === 0 ? 'none' : some.map(({ name }) => name).join(', ');
}

function byName(a, b) {
  return a < b ? -1 : Number(a > b);
}

/** Everything that an answer depends on, but for the program. */
function groundHash() {
  const hash = createHash('sha256').update(values.python);
  for (const folder of [
    'python/plimsoll',
    'python/plimsoll_trace',
    'dist/estimate',
    'dist/model',
  ]) {
    for (const entry of readdirSync(join(root, folder), { recursive: true }).toSorted(byName)) {
      if (/\.(py|js)$/.test(entry)) hash.update(readFileSync(join(root, folder, entry)));
    }
  }
  return hash.digest('hex');
}

async function keptOrMeasured(program, place) {
  const hash = createHash('sha256')
    .update(JSON.stringify([ground, program, textOf(program)]))
    .digest('hex');
  const file = join(kept, `${program.name}-${hash.slice(0, 16)}.json`);
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'));
  const row = await measure(program, place);
  if (row.failure === undefined) writeFileSync(file, JSON.stringify(row));
  return row;
}

/** A program's own code: one file, or those of the package that follows `-m`. */
function textOf({ folder, argv: [first, second] }) {
  const place = join(folderOfAll, folder);
  if (first !== '-m') return readFileSync(join(place, first), 'utf8');
  const files = readdirSync(join(place, second)).filter((file) => file.endsWith('.py'));
  return files.toSorted(byName).map((file) => readFileSync(join(place, second, file), 'utf8'));
}

async function measure({ name, folder, argv, allocatedBytes, reservedBytes }, place) {
  const first = place * coresEach;
  const bound = atOnce === 1 ? [] : ['taskset', '-c', `${first}-${first + coresEach - 1}`];
  if (estimated++ % timedEach === 0) timing = timeImports(bound);
  const once = await timing;
  const started = performance.now();
  const asked = [
    'estimate',
    '--gpu',
    'h200',
    '--json',
    '--',
    values.python,
    '-W',
    'ignore',
    ...argv,
  ];
  const output = await outputOf(
    [...bound, values.python, '-c', measurer, process.execPath, command, ...asked],
    join(folderOfAll, folder),
  );
  const seconds = (performance.now() - started) / 1000;
  const [status, stdout, stderr, bytes, processorSeconds] = JSON.parse(output);
  const cost = { seconds, processorSeconds, bytes, imports: once };
  if (status !== 0) return { name, error: Infinity, held: false, failure: stderr.trim(), ...cost };
  const { peak, interval, phases } = JSON.parse(stdout);
  return {
    name,
    error: peak.reservedBytes / reservedBytes - 1,
    allocatedError: peak.allocatedBytes / allocatedBytes - 1,
    held: interval.lowBytes <= reservedBytes && reservedBytes <= interval.highBytes,
    phase: phases.find(({ makesPeak }) => makesPeak)?.phase,
    ...cost,
  };
}

/** NaN where this Python lacks a package. Once without a clock, so that the files lie in memory. */
async function timeImports(bound) {
  const once = () => outputOf([...bound, values.python, '-W', 'ignore', '-c', imports], root);
  if ((await once()).trim() !== 'done') return Number.NaN;
  const started = performance.now();
  await once();
  const seconds = (performance.now() - started) / 1000;
  importSeconds.push(seconds);
  return seconds;
}

function outputOf([program, ...args], cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
    const parts = [];
    child.stdout.on('data', (part) => parts.push(part));
    child.on('error', reject);
    child.on('close', () => resolve(Buffer.concat(parts).toString('utf8')));
  });
}

function lineOf({ name, error, allocatedError, held, phase, failure, ...cost }) {
  const { seconds, processorSeconds, bytes, imports: once } = cost;
  const time = `${seconds.toFixed(0)} s (${times(seconds / once)} the imports, ${processorSeconds.toFixed(0)} s of processors), ${(bytes / 2 ** 30).toFixed(1)} GiB`;
  if (failure !== undefined) return `${name}: failed: ${failure.split('\n').at(-1)} ${time}`;
  return `${name}: reserved ${percent(error)}, allocated ${percent(allocatedError)}, interval ${held ? 'holds' : 'misses'}, peak in ${phase}; ${time}`;
}

function times(multiple) {
  return Number.isFinite(multiple) ? `${multiple.toFixed(1)} times` : 'unknown times';
}

function range(seconds) {
  if (seconds.length === 0) return 'not timed';
  return `${Math.min(...seconds).toFixed(1)} to ${Math.max(...seconds).toFixed(1)} s`;
}

function percent(share) {
  return `${(share * 100).toFixed(2)} %`;
}
