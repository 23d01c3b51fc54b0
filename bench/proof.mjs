// Estimates that were written down before the runs that they are held against.
//
//   npm run build && node bench/proof.mjs --estimate   estimates the cases of the list `proof` of truth/cases
//   python3 bench/gpu/measure_cases.py proof --output FILE, its set in rows/cases.json
//   node bench/proof.mjs                               holds the one against the other
//
// Ends with exit code 1 when a target is missed. Estimates are not made again once runs were measured.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { tracedEstimate, tracedGpu } from '../dist/estimate/trace/traced-estimate.js';
import { caseFolders, casesOf, readCases } from './accuracy/cases.mjs';
import { percent, rowOf, summary } from './accuracy/figures.mjs';
import { inParallel } from './accuracy/parallel.mjs';
import { asText } from './accuracy/tables.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';
import { truthFolder } from './truth.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const listed = `${truthFolder('cases')}lists/proof.json`;
const written = here('results/rows/estimates.json');
const measured = here('results/rows/cases.json');
const folders = caseFolders();
const targets = { p95: 0.02, insideShare: 0.95, width: 0.04 };

const { values } = parseArgs({ options: { estimate: { type: 'boolean', default: false } } });
if (values.estimate) await writeEstimates();
else compare();

function keptIn(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

async function writeEstimates() {
  if (keptIn(measured).proof) throw new Error(`${measured}#proof: the runs were measured already.`);
  const traces = new Traces(benchPython());
  const gpu = findGpu(tracedGpu);
  const cases = casesOf(JSON.parse(readFileSync(listed, 'utf8')), folders);
  const estimates = await inParallel(2, cases, async ({ id, source, workload }) => {
    const trace = await traces.trace(source, workload);
    const { peak, interval } = await tracedEstimate(trace, gpu);
    return { id, torch: trace.torch, peak, interval };
  });
  const proof = { estimatedAt: new Date().toISOString(), gpu: gpu.name, estimates };
  writeFileSync(written, `${JSON.stringify({ ...keptIn(written), proof }, undefined, 1)}\n`);
  console.log(`${estimates.length} estimates are in ${written}.`);
}

function compare() {
  const { estimatedAt, estimates } = keptIn(written).proof;
  const byId = new Map(estimates.map((one) => [one.id, one]));
  const cases = readCases(`${measured}#proof`, folders);
  const failures = estimates
    .filter(({ id }) => !cases.some((one) => one.id === id))
    .map(({ id }) => ({ id, why: 'it was not measured' }));
  const rows = cases.map((one) => rowOf(one, byId.get(one.id)));
  const result = summary(rows, failures);
  console.log(`Estimated at ${estimatedAt}, before the runs were measured.\n\n${asText(result)}`);
  const short = [
    ['95th percentile of reserved', result.reserved.p95, targets.p95],
    ['share outside of the interval', 1 - result.insideShare, 1 - targets.insideShare],
    ['width of the interval', result.intervalWidth, targets.width],
    ['share that was not measured', failures.length / estimates.length, 0],
  ].filter(([, value, most]) => !(value <= most + 1e-12));
  for (const [name, value, most] of short) {
    console.log(`Missed: ${name}: ${percent(value)}, wanted at most ${percent(most)}.`);
  }
  process.exitCode = short.length === 0 ? 0 : 1;
}
