// How near the traced estimate comes on cards that are not the H200: the runs that xMem's authors
// published (arXiv 2510.21048), beside xMem's own estimate of each.
//
//   npm run build && node bench/cards.mjs [--python PROGRAM] [--only TEXT] [--parallel 1] [--json]
//
// The runs had torch 2.6.0, cuDNN 9.1 and transformers 4.51.3. With another Python its versions are
// traced, which matters for transformers; the first line says which they are. Ends with exit code 1
// where xMem is nearer in the median or at the 90th percentile.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { tracedEstimate } from '../dist/estimate/trace/traced-estimate.js';
import { inParallel } from './accuracy/parallel.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';
import { median } from './statistics.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values } = parseArgs({
  options: {
    python: { type: 'string', default: benchPython() },
    only: { type: 'string', default: '' },
    parallel: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
});

const truth = JSON.parse(readFileSync(file('truth/other-cards.json'), 'utf8'));
const cases = truth.filter(({ model }) => model.includes(values.only));
const versions = versionsOf(values.python);
const traces = new Traces(values.python);
const rows = await inParallel(Number(values.parallel), cases, measure);
const groups = ['cnn', 'transformer', 'all'].map((kind) => {
  const of = rows.filter((row) => kind === 'all' || row.kind === kind);
  return { kind, ours: spread(of, 'error'), xmem: spread(of, 'xmemError'), counts: countsOf(of) };
});

if (values.json) console.log(JSON.stringify({ versions, groups, rows }, undefined, 2));
else {
  console.log(`Traced with ${versions}; the runs had torch 2.6.0, transformers 4.51.3.\n`);
  for (const row of rows) console.log(lineOf(row));
  console.log();
  for (const group of groups) console.log(groupLine(group));
}
process.exitCode = groups.every(isNearer) ? 0 : 1;

async function measure(one) {
  const gpu = findGpu(one.gpu);
  const args = [`model=${one.model}`, `batch=${one.batch}`, `seq=${one.seq ?? 128}`];
  const source = { kind: 'script', path: file('cards/workload.py'), args };
  const workload = { mode: 'train', batch: 1, precision: 'fp32', optimizer: one.optimizer };
  const answer = { ...one, kind: one.kind === 'cnn' ? 'cnn' : 'transformer' };
  try {
    const trace = await traces.trace(source, { ...workload, checkpointing: false }, gpu);
    const { peak, interval } = await tracedEstimate(trace, gpu);
    return {
      ...answer,
      error: peak.reservedBytes / one.groundBytes - 1,
      xmemError: one.xmemBytes / one.groundBytes - 1,
      low: interval.lowBytes / one.groundBytes - 1,
      high: interval.highBytes / one.groundBytes - 1,
      refused: peak.leastCapacityBytes > gpu.capacityBytes,
    };
  } catch (failure) {
    return { ...answer, failure: failure.message };
  }
}

function spread(of, name) {
  const distances = of.filter(estimated).map((row) => Math.abs(row[name]));
  if (distances.length === 0) return undefined;
  const sorted = distances.toSorted((a, b) => a - b);
  return { median: median(sorted), p90: sorted[Math.ceil(0.9 * sorted.length) - 1] };
}

function countsOf(of) {
  const known = of.filter(estimated);
  const inside = known.filter(({ low, high }) => low <= 0 && high >= 0).length;
  const refused = known.filter((row) => row.refused).length;
  return { cases: of.length, failed: of.length - known.length, inside, refused };
}

function isNearer({ ours, xmem, counts }) {
  if (counts.failed > 0) return false;
  return ours === undefined || (ours.median <= xmem.median && ours.p90 <= xmem.p90);
}

function estimated({ failure }) {
  return failure === undefined;
}

function lineOf({ model, gpu, optimizer, batch, failure, error, xmemError, low, high, refused }) {
  const name = `${model} ${optimizer} ${batch}`.padEnd(34);
  if (failure !== undefined) return `${name} ${gpu.padEnd(10)} failed: ${failure}`;
  const within = `interval ${percent(low)} to ${percent(high)}`;
  const verdict = refused ? ', refused though it ran' : '';
  return `${name} ${gpu.padEnd(10)} ours ${percent(error)}, xMem ${percent(xmemError)}, ${within}${verdict}`;
}

function groupLine({ kind, ours, xmem, counts }) {
  if (ours === undefined) return `${kind}: no case`;
  const { cases: count, failed, inside, refused } = counts;
  const known = count - failed;
  const both = (name) => `${percent(ours[name])} beside xMem's ${percent(xmem[name])}`;
  return `${kind}: ${known} of ${count}; median ${both('median')}, 90th percentile ${both('p90')}; ${inside} of ${known} in the interval; ${refused} refused though they ran`;
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

function versionsOf(python) {
  const ask =
    'from importlib.metadata import version\nprint(", ".join(n + " " + version(n) for n in ("torch", "transformers", "torchvision")))';
  const { stdout, stderr, error, status } = spawnSync(python, ['-c', ask], { encoding: 'utf8' });
  if (error || status !== 0) throw new Error(`${python}: ${error?.message ?? stderr}`);
  return stdout.trim();
}
