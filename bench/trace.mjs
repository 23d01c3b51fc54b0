// What an estimate of a 7B model costs: `plimsoll estimate`, Python and its trace included, beside
// the bare start of the same libraries, turn by turn.
//
//   npm run build && node bench/trace.mjs [--rounds 3] [--python PROGRAM] [--json]
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { benchPython } from './accuracy/traces.mjs';
import { median } from './statistics.mjs';

const targets = { seconds: 15, bytes: 1.5e9 };
const config = fileURLToPath(new URL('truth/configs/llama-2-7b.json', import.meta.url));
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
const estimate = [
  process.execPath,
  command,
  'estimate',
  config,
  ...settings,
  '--json',
  '--no-cache',
];
const jobs = {
  estimate: [...estimate, '--python', values.python],
  start: [values.python, '-W', 'ignore', '-c', 'import torch, transformers'],
};
const measured = { estimate: [], start: [] };
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const [name, job] of Object.entries(jobs)) measured[name].push(measure(job));
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
  ratio: of('estimate', 'processorSeconds') / of('start', 'processorSeconds'),
  targets,
};
if (values.json) console.log(JSON.stringify(result, undefined, 2));
else {
  console.log(`Llama 2 7B, training in bf16 with AdamW, ${result.rounds} rounds`);
  row('plimsoll estimate', result.estimate, ` (targets: ${targets.seconds} s, 1.50 GB)`);
  row('import torch, transformers', result.start, '');
  console.log(`  ${'times as much work'.padEnd(28)} ${result.ratio.toFixed(1)}`);
}
// The clock counts what others do on this machine, the processors' time counts two cores twice.
const { seconds, processorSeconds, bytes } = result.estimate;
const quick = Math.min(seconds, processorSeconds) <= targets.seconds;
process.exitCode = quick && bytes <= targets.bytes ? 0 : 1;

function measure(job) {
  const { status, stdout, stderr } = spawnSync(values.python, ['-c', measurer, ...job], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${job.join(' ')} ended with exit code ${status}: ${stderr}`);
  const [took, processors, most] = stdout.trim().split(' ').map(Number);
  return { seconds: took, processorSeconds: processors, bytes: most };
}

function row(name, one, note) {
  const time = `${one.seconds.toFixed(1)} s (processors: ${one.processorSeconds.toFixed(1)} s)`;
  console.log(`  ${name.padEnd(28)} ${time}, ${(one.bytes / 1e9).toFixed(2)} GB${note}`);
}
