// How near the traced estimate of one rank comes to what a rank of many took of an H200: every run in
// bench/truth/sharded.json, beside the same job's weights, gradients and states shared out by division.
//
//   npm run build && node bench/sharded.mjs [--only TEXT] [--cases FILE] [--parallel 1] [--json]
//   node bench/sharded.mjs --large        time and memory of Llama-3-70B on 64 ranks alone
//   node bench/sharded.mjs --published    figures that others published alone
//   node bench/sharded.mjs --programs     sharded programs as they are alone
//
// All four without an option. Ends with exit code 1 when a target is missed.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { tracedEstimate } from '../dist/estimate/trace/traced-estimate.js';
import { inParallel } from './accuracy/parallel.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';
import { isLargeMet, largeLine, largeRow } from './sharded/large.mjs';
import { areProgramsMet, programLines, programRows } from './sharded/programs.mjs';
import { publishedLines, publishedRows } from './sharded/published.mjs';
import { truthFolder } from './truth.mjs';

// A run of bench/truth/sharded.json as a workload.

/** Which model is traced, and how. */
function caseOf(run, configs) {
  const { way, world, precision, view, bucket, strategy, orig, accum, reshard, nodes, tp } = run;
  const mixed = precision === 'bf16-mixed';
  return {
    source: { kind: 'config', path: `${configs}${run.model}.json` },
    workload: {
      mode: 'train',
      batch: run.batch,
      sequence: run.seq,
      precision: mixed ? 'fp32' : precision,
      optimizer: run.optimizer,
      checkpointing: run.checkpointing,
      ...(accum !== undefined && { accumulation: accum }),
      parallel: {
        way,
        gpus: world,
        ...(mixed && { gatherPrecision: 'bf16', reducePrecision: 'fp32' }),
        ...(nodes !== undefined && { nodes }),
        ...(tp !== undefined && { tensorParallel: tp }),
        ...(reshard === false && { reshard }),
        ...(view === true && { bucketView: true }),
        ...(bucket !== undefined && { bucketMb: bucket }),
        ...(strategy === 'SHARD_GRAD_OP' && { fsdpStrategy: 'grad-op' }),
        ...(orig === false && { originalParameters: false }),
      },
    },
  };
}

/** The rule of thumb: 16 bytes a parameter (8 where all is bf16), shared out over the ranks. */
function dividedBytes({ params, precision, way, world }) {
  if (params === undefined) return Number.NaN;
  const each = precision === 'bf16' ? 2 : 4;
  const shared = way.startsWith('fsdp') ? 4 / world : way === 'zero1' ? 2 + 2 / world : 4;
  return params * each * shared;
}

const targets = { reservedMedian: 0.01, reservedP95: 0.05, allocatedMedian: 0.003 };
const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    cases: { type: 'string', default: file('truth/sharded.json') },
    parallel: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    large: { type: 'boolean', default: false },
    published: { type: 'boolean', default: false },
    programs: { type: 'boolean', default: false },
  },
});

const some = values.large || values.published || values.programs;
const chosen = values.only !== '' || values.cases !== file('truth/sharded.json');
const truth = some ? { results: [] } : JSON.parse(readFileSync(values.cases, 'utf8'));
const configs = `${truthFolder('cases')}sharded-configs/`;
const gpu = findGpu('h200');
const traces = new Traces(benchPython());
const runs = truth.results.filter(({ id }) => id.includes(values.only));
const rows = await inParallel(Number(values.parallel), runs, measure);
const known = rows.filter(({ failure }) => failure === undefined);
const summary = {
  runs: rows.length,
  failed: rows.length - known.length,
  reservedMedian: at(known, 'reserved', 0.5),
  reservedP95: at(known, 'reserved', 0.95),
  allocatedMedian: at(known, 'allocated', 0.5),
  inside: known.filter(({ inside }) => inside).length,
  dividedMedian: at(known, 'divided', 0.5),
};
const large = values.large || !(some || chosen) ? largeRow(benchPython()) : undefined;
const published =
  values.published || !(some || chosen) ? await publishedRows(benchPython(), '') : [];
const programs = values.programs || !(some || chosen) ? programRows(benchPython()) : [];
const missed = Object.entries(targets).filter(([name, most]) => !(summary[name] <= most));
const good =
  (rows.length === 0 || missed.length === 0) &&
  summary.failed === 0 &&
  summary.inside === known.length &&
  areProgramsMet(programs) &&
  (large === undefined || isLargeMet(large));

if (values.json)
  console.log(JSON.stringify({ summary, rows, large, published, programs }, undefined, 2));
else {
  if (rows.length > 0) print();
  if (published.length > 0) console.log(publishedLines(published).join('\n'));
  if (programs.length > 0) console.log(`\n${programLines(programs).join('\n')}`);
  if (large !== undefined) console.log(`\n${largeLine(large)}`);
}
process.exitCode = good ? 0 : 1;

async function measure(run) {
  const { source, workload } = caseOf(run, configs);
  try {
    const trace = await traces.trace(source, workload, gpu);
    const { peak, interval } = await tracedEstimate(trace, gpu, workload.parallel);
    return {
      id: run.id,
      allocated: peak.allocatedBytes / run.peak_allocated - 1,
      reserved: peak.reservedBytes / run.peak_reserved - 1,
      low: interval.lowBytes / run.peak_reserved - 1,
      high: interval.highBytes / run.peak_reserved - 1,
      inside: interval.lowBytes <= run.peak_reserved && interval.highBytes >= run.peak_reserved,
      divided: dividedBytes(run) / run.peak_reserved - 1,
    };
  } catch (failure) {
    return { id: run.id, failure: failure.message };
  }
}

/** The distance at a share of all, the nearest rank. */
function at(of, name, share) {
  const sorted = of.map((row) => Math.abs(row[name])).toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

function print() {
  const width = Math.max(...rows.map(({ id }) => id.length));
  console.log(`${'run'.padEnd(width)}  allocated  reserved  interval             divided`);
  for (const row of rows) {
    if (row.failure !== undefined) console.log(`${row.id.padEnd(width)}  failed: ${row.failure}`);
    else {
      const held = `${percent(row.low)} to ${percent(row.high)}${row.inside ? '' : '  outside'}`;
      const figures = `${percent(row.allocated, 3)}  ${percent(row.reserved, 3)}  ${held}`;
      console.log(`${row.id.padEnd(width)}  ${figures}  ${percent(row.divided)}`);
    }
  }
  const {
    reservedMedian,
    reservedP95,
    allocatedMedian,
    dividedMedian,
    inside,
    runs: all,
  } = summary;
  console.log(
    `\n${all} runs: reserved median ${percent(reservedMedian, 3)} (at most 1 %), 95th percentile ${percent(reservedP95, 3)} (5 %), allocated median ${percent(allocatedMedian, 3)} (0.3 %), ${inside} inside the interval.`,
  );
  if (Number.isNaN(dividedMedian)) return;
  console.log(
    `By division alone the median distance is ${percent(dividedMedian)}, ${ratio(dividedMedian, reservedMedian)}.`,
  );
}

function ratio(theirs, ours) {
  return ours === 0 ? 'and ours is exact' : `${(theirs / ours).toFixed(0)} times ours`;
}

function percent(share, digits = 1) {
  const text = `${(share * 100).toFixed(digits)} %`;
  return share > 0 ? `+${text}` : text;
}
