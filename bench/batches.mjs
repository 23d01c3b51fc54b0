// Ten million samples through adaptiveBatches, beside a plain loop of fixed batches over the same
// samples, turn by turn, in the process' own time; and the memory it takes on the way.
//
//   npm run build && npm run bench batches [-- --samples 10000000] [--rounds 3] [--json]
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './statistics.mjs';

const targets = { ratio: 0.8, growthMiB: 16 };
const { values } = parseArgs({
  options: {
    samples: { type: 'string', default: '10000000' },
    batch: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});
const pass = fileURLToPath(new URL('batches/pass.mjs', import.meta.url));

/** One pass in a process of its own, so that neither finds the other's garbage. */
function measure(way) {
  const args = ['--expose-gc', pass, way, values.samples, values.batch];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${way} ended with exit code ${status}`);
  return JSON.parse(stdout);
}

const found = { plain: [], adaptive: [], resizing: [] };
for (let round = 0; round < Number(values.rounds); round++) {
  for (const [way, passes] of Object.entries(found)) passes.push(measure(way));
}
const speed = (way) => median(found[way].map(({ samplesPerSecond }) => samplesPerSecond));
const growth = (way) => Math.max(...found[way].map(({ growthBytes }) => growthBytes)) / 1024 ** 2;
const result = {
  samples: Number(values.samples),
  batch: Number(values.batch),
  plainSamplesPerSecond: speed('plain'),
  adaptiveSamplesPerSecond: speed('adaptive'),
  resizingSamplesPerSecond: speed('resizing'),
  ratio: speed('adaptive') / speed('plain'),
  resizingRatio: speed('resizing') / speed('plain'),
  growthMiB: Math.max(growth('adaptive'), growth('resizing')),
  targets,
};
if (values.json) console.log(JSON.stringify(result, undefined, 2));
else {
  line('plain loop of fixed batches', result.plainSamplesPerSecond);
  line('adaptiveBatches', result.adaptiveSamplesPerSecond);
  line('adaptiveBatches, always resizing', result.resizingSamplesPerSecond);
  console.log(
    `ratio                             ${result.ratio.toFixed(2)}, resizing ${result.resizingRatio.toFixed(2)} (target: at least ${targets.ratio})`,
  );
  console.log(
    `memory, from 10 % to the end      ${result.growthMiB.toFixed(1)} MiB more (target: at most ${targets.growthMiB})`,
  );
}
const good =
  Math.min(result.ratio, result.resizingRatio) >= targets.ratio &&
  result.growthMiB <= targets.growthMiB;
process.exitCode = good ? 0 : 1;

function line(name, rate) {
  console.log(`${name.padEnd(34)}${(rate / 1e6).toFixed(2)} million samples a second`);
}
