// How near the formulas come to what an H200 measured, with no Python and no GPU, beside the rules
// people go by. Models that have no formula must say so: they are counted as refused.
//
//   npm run build && node bench/formula.mjs [--cases FILE --configs FOLDER
//     --scripts FOLDER] [--only TEXT] [--json]
//
// Ends with exit code 1 when a target is missed.
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { formulaEstimate } from '../dist/estimate/formula/formula-estimate.js';
import { Failure } from '../dist/failure.js';
import { readModel } from '../dist/model/read-model.js';
import { caseFolders, readCases } from './accuracy/cases.mjs';
import { percent, rowOf, summary } from './accuracy/figures.mjs';

// The result of the formulas for people, and the targets it is held against.

const targets = { median: 0.05, p95: 0.15, insideShare: 0.95 };

const gibibytes = (bytes) => (bytes / 1024 ** 3).toFixed(2);
const signed = (share) =>
  share === undefined ? '-' : `${share > 0 ? '+' : ''}${percent(share, 1)}`;

/** The targets that were missed, in words; none means that all were met. */
function missed({ reserved, insideShare }) {
  return [
    ['median error of reserved', reserved.median, targets.median],
    ['95th percentile of reserved', reserved.p95, targets.p95],
    ['share outside of the interval', 1 - insideShare, 1 - targets.insideShare],
  ]
    .filter(([, value, most]) => !(value <= most + 1e-12))
    .map(([name, value, most]) => `${name}: ${percent(value)}, wanted at most ${percent(most)}`);
}

function asText(result, rows) {
  const { accelerate, allocated, eighteenBytes, insideShare, intervalWidth, refused } = result;
  const cases = rows.map((row) => [
    row.id,
    gibibytes(row.reservedBytes),
    gibibytes(row.estimate.reservedBytes),
    signed(row.reserved),
    `${gibibytes(row.interval.lowBytes)} to ${gibibytes(row.interval.highBytes)}${row.inside ? '' : ' (outside)'}`,
    signed(row.accelerate),
    signed(row.eighteenBytes),
  ]);
  const methods = [
    ['formula, reserved', result.reserved],
    ['formula, allocated', allocated],
    ['accelerate: 4 x weights, or weights', accelerate],
    ['18 bytes a parameter (training)', eighteenBytes],
  ].map(([name, { cases: count, median, p95, worst, tooLow }]) => [
    name,
    String(count),
    percent(median),
    percent(p95),
    percent(worst),
    percent(tooLow, 0),
  ]);
  const families = result.families.map(({ family, reserved, inside }) => [
    family,
    String(reserved.cases),
    percent(reserved.median),
    percent(reserved.worst),
    `${inside}/${reserved.cases}`,
  ]);
  const caseHead = ['transformers', 'measured', 'formula', 'error', 'interval, GiB', 'accelerate'];
  return [
    align([[...caseHead, '18 bytes'], ...cases]),
    `No formula, and said so: ${refused.length} (convolutional and recurrent models).`,
    align([['family', 'cases', 'median', 'worst', 'in interval'], ...families]),
    align([['error of the peak', 'cases', 'median', '95th', 'worst', 'too low'], ...methods]),
    `In the interval: ${percent(insideShare, 1)} (at least ${percent(targets.insideShare, 0)}); its width: ${percent(intervalWidth, 0)} of the peak (median).`,
  ].join('\n\n');
}

/** The first column to the left, figures to the right. */
function align(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
        )
        .join('  '),
    )
    .join('\n');
}

const { values } = parseArgs({
  options: {
    cases: {
      type: 'string',
      default: fileURLToPath(new URL('truth/peaks.json', import.meta.url)),
    },
    configs: { type: 'string', multiple: true, default: [] },
    scripts: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
});

const folders = caseFolders(values);
const gpu = findGpu('h200');
const rows = [];
const refused = [];
for (const one of readCases(values.cases, folders)) {
  if (!one.id.includes(values.only)) continue;
  if (one.source.kind !== 'config') {
    refused.push({
      id: one.id,
      why: 'There is no formula for what a script or torchvision builds.',
    });
    continue;
  }
  try {
    const model = await readModel(one.source.path);
    rows.push(rowOf(one, formulaEstimate(model, one.workload, gpu)));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    refused.push({ id: one.id, why: error.fact });
  }
}

const result = { ...summary(rows, []), refused };
const short = missed(result);
if (values.json) console.log(JSON.stringify({ ...result, missed: short, rows }, undefined, 2));
else {
  console.log(asText(result, rows));
  console.log(short.length === 0 ? 'All targets met.' : `Missed: ${short.join('; ')}.`);
}
process.exitCode = short.length === 0 ? 0 : 1;
