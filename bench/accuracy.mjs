// How near the traced estimate comes to what an H200 measured, beside the rules people go by.
//
//   npm run build && node bench/accuracy.mjs [--cases FILE --configs FOLDER --scripts FOLDER]
//     [--only TEXT] [--python PROGRAM] [--parallel 2] [--markdown FILE] [--json]
//
// Ends with exit code 1 when a target is missed. Traces are kept under build/accuracy.
import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { tracedEstimate, tracedGpu } from '../dist/estimate/trace/traced-estimate.js';
import { caseFolders, readCases } from './accuracy/cases.mjs';
import { missed, rowOf, summary } from './accuracy/figures.mjs';
import { inParallel } from './accuracy/parallel.mjs';
import { asMarkdown, asText } from './accuracy/tables.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';

const truth = fileURLToPath(new URL('truth/', import.meta.url));
const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: `${truth}peaks.json` },
    configs: { type: 'string', multiple: true, default: [] },
    scripts: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', default: '' },
    python: { type: 'string', default: benchPython() },
    parallel: { type: 'string', default: '2' },
    markdown: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

const folders = caseFolders(values);
const cases = readCases(values.cases, folders).filter(({ id }) => id.includes(values.only));
const traces = new Traces(values.python);
const gpu = findGpu(tracedGpu);
const failures = [];
const estimated = await inParallel(Number(values.parallel), cases, async (one) => {
  try {
    return rowOf(one, await tracedEstimate(await traces.trace(one.source, one.workload), gpu));
  } catch (error) {
    failures.push({ id: one.id, why: error.message });
    return undefined;
  }
});
const rows = estimated.filter((row) => row !== undefined);
const result = summary(rows, failures);
const short = missed(result);

if (values.markdown) {
  const title = `Estimates against measured peaks: ${basename(values.cases)}`;
  writeFileSync(values.markdown, asMarkdown(result, rows, title));
}
if (values.json) console.log(JSON.stringify({ ...result, missed: short, rows }, undefined, 2));
else {
  console.log(asText(result));
  console.log(short.length === 0 ? 'All targets met.' : `Missed: ${short.join('; ')}.`);
}
process.exitCode = short.length === 0 ? 0 : 1;
