// `npm run bench` lists the benchmarks, `npm run bench NAME -- OPTIONS` runs one. Its header comment tells its options,
// its targets and its exit code. Run `npm run build` first.
//
// `--rows FILE` works for each benchmark that has `--json`: FILE keeps the document that it prints, with the command,
// the date, the machine and its load; `FILE#SET` keeps it beside others. Figures in the docs come from such files
// (bench/claims).
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, platform, release } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Name, file, one line. Those under bench/gpu need a GPU. */
const benchmarks = [
  ['accuracy', 'accuracy.mjs', 'traced estimates beside every peak in bench/truth/peaks.json'],
  ['allocator', 'allocator.mjs', 'events a second of the simulated allocator on recorded jobs'],
  ['answers', 'answers-beside-estimates.mjs', 'answers of a server while it makes an estimate'],
  ['batches', 'batches.mjs', 'ten million samples through adaptiveBatches'],
  ['batches-python', 'python_batches.py', 'ten million samples through plimsoll.batches'],
  ['buffers', 'buffers.mjs', 'hit rates beside LRU and LFU; compression beside gzip and brotli'],
  ['cards', 'cards.mjs', 'traced estimates for other cards beside the runs of xMem'],
  ['claims', 'claims.mjs', 'claims of earlier memory tools beside ours; figures of the docs'],
  ['dashboard', 'dashboard.mjs', 'frames of the dashboard with 10,000 jobs; needs Chromium'],
  ['events', 'events.mjs', 'requests of a trace beside the requests of recorded runs'],
  ['exporter', 'exporter.mjs', 'processor time and memory of the exporter; needs root'],
  ['external', 'external.mjs', 'formulas beside 21 peaks that others published'],
  ['fleet', 'fleet.mjs', 'the Fleet view with 1,000 nodes; needs Chromium'],
  ['forecast', 'forecast.mjs', 'alarms on recorded runs beside least squares'],
  ['formula', 'formula.mjs', 'formulas beside every measured peak, with no Python'],
  ['gc', 'python_gc.py', "pauses of Python's collector with plimsoll.schedule_gc"],
  ['generic', 'generic.mjs', 'the formula for unknown families beside traces of their code'],
  ['layers', 'layers.mjs', 'processor time of a formula for models with many layers'],
  ['leak', 'leak.mjs', 'leak verdicts on recorded runs beside a Mann-Kendall test'],
  ['loader', 'python_loader.py', 'epochs of plimsoll.loader beside the default DataLoader'],
  ['makespan', 'makespan.mjs', '200 jobs on a real Slurm with our estimates; needs root'],
  ['max-batch', 'max-batch.mjs', 'the largest batch of plan beside the largest that ran'],
  ['monitor', 'monitor.mjs', 'processor time of plimsoll monitor beside nvitop'],
  ['node-gc', 'node-gc.mjs', "pauses of Node's collector with the advice of optimize"],
  ['overhead', 'overhead.mjs', 'a step under plimsoll run beside the same step alone'],
  ['packing', 'packing.mjs', 'a thousand jobs packed onto four simulated GPUs'],
  ['pool', 'pool.mjs', 'ArrayBufferPool beside new ArrayBuffer and Buffer.allocUnsafe'],
  ['programs', 'programs.mjs', 'programs as they are, traced, beside what they took of an H200'],
  ['proof', 'proof.mjs', 'estimates that were written down before their runs were measured'],
  ['provoke-host', 'provoke_host.py', "messages of libraries when the host's memory is short"],
  ['queue', 'queue.mjs', 'submit and admission with 100,000 waiting jobs'],
  ['replay', 'replay.mjs', 'a million rows through replay beside JSON.parse'],
  ['replay-buffer', 'python_replay.py', 'plimsoll.replay beside plain arrays: memory and samples'],
  ['sampling', 'sampling.mjs', 'one reading beside C and nvidia-smi; the cost of watching'],
  ['scale', 'scale.mjs', 'what docs/scale.md multiplies: a supervisor, the answer of a fleet'],
  ['sharded', 'sharded.mjs', 'one rank of many, traced, beside what a rank took of an H200'],
  ['snapshot', 'snapshot.mjs', 'reading a snapshot beside pickle.load'],
  ['snapshot-page', 'snapshot-page.mjs', 'the page of a 500 MB snapshot in Chromium'],
  ['startup', 'startup.mjs', 'plimsoll --version beside bare Node'],
  ['streams', 'streams.mjs', 'a thousand open event streams beside a bare server'],
  ['trace', 'trace.mjs', 'an estimate of a 7B model beside the start of its libraries'],
  ['gpu-claims', 'gpu/claims/measure.py', 'training memory, speed and out-of-memory with optimize'],
  ['gpu-debug', 'gpu/debug_environment.py', 'steps with debug settings of the environment'],
  ['gpu-growing', 'gpu/recovery/growing.py', 'loops whose memory grows under a cap'],
  ['gpu-messages', 'gpu/recovery/provoke.py', 'messages of libraries when a card is full'],
  ['gpu-optimize', 'gpu/recovery/optimize_models.py', 'plimsoll.optimize beside the plain run'],
  ['gpu-optimize-training', 'gpu/sessions/optimize_training.py', 'its batch beside the largest'],
  ['gpu-pinned', 'gpu/pools/pinned.py', 'pinned staging memory with and without the pool'],
  [
    'gpu-ranks',
    'gpu/measure_ranks.py',
    'one rank of many on a real GPU, its other ranks pretended',
  ],
  ['gpu-rank-programs', 'gpu/ranks/measure.py', 'sharded programs with every allocator event'],
  ['gpu-recovery', 'gpu/recovery/recovery.py', 'recovery on a real GPU beside accelerate'],
  ['gpu-seeds', 'gpu/trainers/dropout_seeds.py', 'limited runs with dropout beside other seeds'],
  ['gpu-settle', 'gpu/recovery/settle.py', 'the microbatch of a recovering step beside a bisect'],
  ['gpu-spread', 'gpu/sessions/spread.py', 'plimsoll.spread beside the model as it is'],
  ['gpu-steps', 'gpu/trainers/overhead.py', 'a step of a Trainer with and without our guard'],
  ['gpu-loop-steps', 'gpu/trainers/overhead_loops.py', 'a step of other loops, likewise'],
  ['gpu-trainers', 'gpu/trainers/card.py', 'unchanged trainers under a third of their memory'],
  ['mix', 'gpu/mix/mix.mjs', 'real jobs sharing one GPU; --tiny does without one'],
].map(([name, file, does]) => ({ name, file: `bench/${file}`, does }));

/** How many letters must change, come or go to make one name of the other. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (const [to, target] of [...other].entries()) {
      next.push(Math.min(row[to + 1] + 1, next[to] + 1, row[to] + (letter === target ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1);
}

function nearest(name) {
  return benchmarks.toSorted((a, b) => distance(name, a.name) - distance(name, b.name))[0].name;
}

function program(file) {
  if (file.endsWith('.mjs')) return process.execPath;
  const own = join(root, '.venv/bin/python');
  return existsSync(own) ? own : 'python3';
}

/** The value of `--rows`, and the other options. */
function withoutRows(options) {
  const at = options.indexOf('--rows');
  if (at < 0) return { others: options };
  return { rows: options[at + 1], others: options.filter((_, n) => n !== at && n !== at + 1) };
}

async function run({ name, file }, options) {
  const { rows, others } = withoutRows(options);
  const keeps = options.includes('--rows');
  if (keeps && rows === undefined) return refused('--rows needs a file.');
  const argv = [
    join(root, file),
    ...others,
    ...(keeps && !others.includes('--json') ? ['--json'] : []),
  ];
  const date = new Date().toISOString();
  const before = loadavg();
  const child = spawn(program(file), argv, {
    stdio: ['inherit', keeps ? 'pipe' : 'inherit', 'inherit'],
  });
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (part) => {
    text += part;
    process.stdout.write(part);
  });
  const code = await new Promise((resolve) => {
    child.on('error', (error) => resolve(refused(`${name} did not start: ${error.message}`)));
    child.on('close', (status, signal) => resolve(status ?? (signal === 'SIGINT' ? 130 : 1)));
  });
  if (!keeps) return code;
  let result;
  try {
    result = JSON.parse(text);
  } catch {
    return refused(`${name} printed no JSON document, so there are no rows to keep.`);
  }
  const command = ['npm run bench', name, ...(others.length > 0 ? ['--', ...others] : [])].join(
    ' ',
  );
  const machine = {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    system: `${platform()} ${release()}`,
    load: [before[0], loadavg()[0]].map((one) => Number(one.toFixed(1))),
  };
  const kept = {
    command,
    date,
    machine,
    versions: { node: process.versions.node },
    source: 'measured',
    result,
  };
  keep(rows, kept);
  return code;
}

/** `FILE#SET` is one set of a file that keeps several. */
function keep(place, kept) {
  const [file, set] = place.split('#');
  const others =
    set !== undefined && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  const document = set === undefined ? kept : { ...others, [set]: kept };
  writeFileSync(file, `${readable(document)}\n`);
}

function isPlain(value) {
  return typeof value !== 'object' || value === null;
}

function isOneLine(value) {
  return isPlain(value) || (Array.isArray(value) && value.every(isPlain));
}

/** Six digits are more than any clock here tells. Whole numbers, such as bytes, stay as they are. */
function sixDigits(_, value) {
  const isPart = typeof value === 'number' && !Number.isInteger(value);
  return isPart ? Number(value.toPrecision(6)) : value;
}

/** JSON in which what holds no other object is one line: a row. */
function readable(value, indent = '') {
  const entries = Object.entries(value ?? {});
  const holdsObjects = entries.some(([, one]) => !isOneLine(one));
  if (typeof value !== 'object' || !holdsObjects) return JSON.stringify(value, sixDigits);
  const isArray = Array.isArray(value);
  const deeper = `${indent} `;
  const lines = entries.map(
    ([key, one]) => `${deeper}${isArray ? '' : `${JSON.stringify(key)}: `}${readable(one, deeper)}`,
  );
  const [open, close] = isArray ? '[]' : '{}';
  return `${open}\n${lines.join(',\n')}\n${indent}${close}`;
}

function refused(message) {
  process.stderr.write(`bench: ${message}\n`);
  return 2;
}

function list() {
  const widths = [0, 1].map((column) =>
    Math.max(...benchmarks.map(({ name, file }) => [name, file][column].length)),
  );
  console.log(
    'npm run bench NAME [-- OPTIONS]   (npm run build first; options: the header of the file)',
  );
  for (const { name, file, does } of benchmarks) {
    console.log(`${name.padEnd(widths[0])}  ${file.padEnd(widths[1])}  ${does}`);
  }
  return 0;
}

async function main([name, ...options]) {
  if (name === undefined || name === '--help') return list();
  const found = benchmarks.find((one) => one.name === name);
  if (found) return run(found, options);
  return refused(
    `There is no benchmark "${name}". Did you mean "${nearest(name)}"? See "npm run bench".`,
  );
}

process.exitCode = await main(process.argv.slice(2));
