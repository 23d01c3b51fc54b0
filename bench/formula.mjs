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
import { rowOf, summary } from './accuracy/figures.mjs';
import { asText, missed } from './formula/table.mjs';

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
