// What an estimate of a 7B model costs: `plimsoll estimate`, Python and its trace included, beside
// the bare start of the same libraries, turn by turn. Then gpt2: cold, the same question again, and
// by a tracer that is loaded already, as a server has one.
//
//   npm run build && node bench/trace.mjs [--rounds 3] [--python PROGRAM] [--json]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { pythonTrace, warmTracer } from '../dist/estimate/trace/python-trace.js';
import { benchPython } from './accuracy/traces.mjs';
import { median } from './statistics.mjs';

const targets = { seconds: 15, bytes: 1.5e9, coldSeconds: 5, repeatedSeconds: 0.5 };
const config = fileURLToPath(new URL('truth/configs/llama-2-7b.json', import.meta.url));
const small = fileURLToPath(new URL('truth/configs/gpt2.json', import.meta.url));
const command = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    python: { type: 'string', default: benchPython() },
    json: { type: 'boolean', default: false },
  },
});

/** Waits for a command; tells its time, its processors' time, and the memory of its largest process. */
const measurer = `import resource, subprocess, sys, time
begin = time.monotonic()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
seconds = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
most = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(seconds, used.ru_utime + used.ru_stime, most)
sys.exit(code)`;

const settings = ['--mode', 'train', '--batch', '4', '--seq', '512', '--precision', 'bf16'];
const ask = (file) => [
  process.execPath,
  command,
  'estimate',
  file,
  ...settings,
  '--json',
  '--python',
  values.python,
];
const bare = (code) => [values.python, '-W', 'ignore', '-c', code];
const jobs = {
  estimate: [...ask(config), '--no-cache'],
  start: bare('import torch, transformers.modeling_utils'),
  torch: bare('import torch'),
  cold: [...ask(small), '--no-cache'],
  repeated: ask(small),
};
// Kept answers of this run alone.
const home = mkdtempSync(join(tmpdir(), 'plimsoll-bench-'));
process.env['PLIMSOLL_HOME'] = home;
const measured = { estimate: [], start: [], torch: [], cold: [], repeated: [], warm: [] };
try {
  measure(jobs.repeated);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const [name, job] of Object.entries(jobs)) measured[name].push(measure(job));
  }
  measured.warm.push(...(await warmSeconds(Number(values.rounds))));
} finally {
  rmSync(home, { recursive: true, force: true });
}

const of = (name, key) => median(measured[name].map((one) => one[key]));
const figures = (name) => ({
  seconds: of(name, 'seconds'),
  processorSeconds: of(name, 'processorSeconds'),
  bytes: of(name, 'bytes'),
});
const result = {
  rounds: Number(values.rounds),
  estimate: figures('estimate'),
  start: figures('start'),
  torch: figures('torch'),
  cold: figures('cold'),
  repeated: figures('repeated'),
  warmSeconds: of('warm', 'seconds'),
  coldRatio: of('cold', 'processorSeconds') / of('start', 'processorSeconds'),
  ratio: of('estimate', 'processorSeconds') / of('start', 'processorSeconds'),
  targets,
};
if (values.json) console.log(JSON.stringify(result, undefined, 2));
else {
  console.log(`Llama 2 7B, training in bf16 with AdamW, ${result.rounds} rounds`);
  row('plimsoll estimate', result.estimate, ` (targets: ${targets.seconds} s, 1.50 GB)`);
  row('import torch, transformers', result.start, '');
  console.log(`  ${'times as much work'.padEnd(28)} ${result.ratio.toFixed(1)}`);
  console.log('gpt2, the same settings');
  row('cold', result.cold, ` (target: ${targets.coldSeconds} s)`);
  row('import torch', result.torch, '');
  row('the same question again', result.repeated, ` (target: ${targets.repeatedSeconds} s)`);
  console.log(`  ${'trace, tracer loaded'.padEnd(28)} ${result.warmSeconds.toFixed(1)} s`);
  console.log(`  ${'cold / both imports'.padEnd(28)} ${result.coldRatio.toFixed(2)}`);
}
// The clock counts what others do on this machine, the processors' time counts two cores twice.
const { seconds, processorSeconds, bytes } = result.estimate;
const quick = Math.min(seconds, processorSeconds) <= targets.seconds;
const coldQuick =
  Math.min(result.cold.seconds, result.cold.processorSeconds) <= targets.coldSeconds;
process.exitCode = quick && coldQuick && bytes <= targets.bytes ? 0 : 1;

function measure(job) {
  const { status, stdout, stderr } = spawnSync(values.python, ['-c', measurer, ...job], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${job.join(' ')} ended with exit code ${status}: ${stderr}`);
  const [took, processors, most] = stdout.trim().split(' ').map(Number);
  return { seconds: took, processorSeconds: processors, bytes: most };
}

async function warmSeconds(rounds) {
  const where = { python: values.python, environment: process.env, folder: process.cwd() };
  const warm = warmTracer(where, async () => 'unchanged');
  const workload = {
    mode: 'train',
    batch: 4,
    sequence: 512,
    precision: 'bf16',
    optimizer: 'adamw',
  };
  const taken = [];
  try {
    // The first one waits for the imports.
    for (let round = 0; round <= rounds; round += 1) {
      const begin = performance.now();
      await pythonTrace({ kind: 'config', path: small }, workload, { ...where, warm });
      taken.push({ seconds: (performance.now() - begin) / 1000 });
    }
  } finally {
    warm.close();
  }
  return taken.slice(1);
}

function row(name, one, note) {
  const time = `${one.seconds.toFixed(1)} s (processors: ${one.processorSeconds.toFixed(1)} s)`;
  console.log(`  ${name.padEnd(28)} ${time}, ${(one.bytes / 1e9).toFixed(2)} GB${note}`);
}
