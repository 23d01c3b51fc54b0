// Our estimates against figures that others published, for cards and settings that we did not measure.
//
//   npm run build && node bench/external.mjs [--json]
//
// All by formula: tracing each would need the versions of its source. What a source does that a formula
// does not know (torch.compile, a loss in chunks) stands beside the difference. `bench cards` has the
// rows of xMem, traced. It prints a rule of thumb beside each: 4 bytes a parameter for weights,
// gradients and two states (2 in 16 bits), with nothing for activations.
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readModel } from '../dist/model/read-model.js';
import { answerEstimate } from '../dist/plan/answers/answer-estimate.js';
import { fieldWording } from '../dist/plan/answers/wording.js';
import { median } from './statistics.mjs';
import { truthFolder } from './truth.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } });
const published = JSON.parse(readFileSync(file('truth/external/published.json'), 'utf8'));
const machine = {
  environment: process.env,
  folder: process.cwd(),
  gpusHere: () => Promise.resolve([]),
  hostBytes: totalmem(),
  wording: fieldWording,
};

const rows = [];
for (const one of published) rows.push(await compared(one));
const known = rows.filter(({ failure }) => failure === undefined);
const alike = known.filter(({ likelyReason }) => likelyReason === undefined);
const summary = {
  rows: rows.length,
  estimated: known.length,
  medianOfAll: spread(known, 'difference'),
  medianWhereSettingsAgree: spread(alike, 'difference'),
  ruleOfThumb: spread(known, 'ruleDifference'),
};
if (values.json) console.log(JSON.stringify({ summary, rows }, undefined, 2));
else print();

async function compared({ request, config, publishedBytes, figure, ...row }) {
  const model = `${truthFolder('cases')}external/${config}.json`;
  try {
    const { peak } = await answerEstimate({ ...request, model, method: 'formula' }, machine);
    const bytes = peak[`${figure}Bytes`];
    const { description } = await readModel(model);
    const rule = description.parameters * 4 * (request.precision === 'bf16' ? 2 : 4);
    return {
      ...row,
      gpu: request.gpu,
      figure,
      publishedBytes,
      bytes,
      difference: bytes / publishedBytes - 1,
      ruleDifference: rule / publishedBytes - 1,
    };
  } catch (error) {
    return { ...row, gpu: request.gpu, figure, publishedBytes, failure: error.message };
  }
}

function spread(of, name) {
  return of.length === 0 ? 'unknown' : median(of.map((row) => Math.abs(row[name])));
}

function print() {
  let source = '';
  for (const row of rows) {
    if (row.source !== source) console.log(`\n${row.source}`);
    source = row.source;
    const found =
      row.failure === undefined
        ? `${gib(row.bytes)} ${percent(row.difference).padStart(8)}`
        : `not estimated: ${row.failure}`;
    const words = `  ${row.setting.padEnd(52)} ${row.figure.padEnd(9)} ${gib(row.publishedBytes)} ${found}`;
    console.log(row.likelyReason === undefined ? words : `${words}  (likely: ${row.likelyReason})`);
  }
  const { rows: count, estimated, medianOfAll, medianWhereSettingsAgree, ruleOfThumb } = summary;
  console.log(`\n${estimated} of ${count} estimated, by formula.`);
  console.log(`Distance in the median: ${percent(medianOfAll)}; where settings agree`);
  console.log(`${percent(medianWhereSettingsAgree)}; rule of thumb ${percent(ruleOfThumb)}.`);
}

function gib(bytes) {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`.padStart(9);
}

function percent(share) {
  if (typeof share !== 'number') return share;
  return `${share >= 0 ? '+' : ''}${(share * 100).toFixed(1)} %`;
}
