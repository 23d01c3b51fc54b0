// Whether a trace asks for what the real run asked for: the same sizes in the same order, for each
// of the recorded runs in the set `events` of truth/. Sizes are as the allocator rounds them.
//
//   npm run build && node bench/events.mjs [--only TEXT] [--python PROGRAM] [--json]
//     [--cases FILE --events FOLDER --configs FOLDER --scripts FOLDER]
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { blockSizeFor } from '../dist/estimate/allocator/sizes.js';
import { caseFolders, caseNamed, readCases } from './accuracy/cases.mjs';
import { percent } from './accuracy/figures.mjs';
import { inParallel } from './accuracy/parallel.mjs';
import { sharedInOrder } from './accuracy/sequence.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';
import { truthFolder } from './truth.mjs';

const truth = fileURLToPath(new URL('truth/', import.meta.url));
const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: `${truth}peaks.json` },
    events: { type: 'string' },
    configs: { type: 'string', multiple: true, default: [] },
    scripts: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', default: '' },
    python: { type: 'string', default: benchPython() },
    json: { type: 'boolean', default: false },
  },
});

const cases = readCases(values.cases, caseFolders(values));
const traces = new Traces(values.python);
const folder = values.events ?? join(truthFolder('events'), 'known');
// A folder may hold recordings of more than one list of cases.
const files = readdirSync(folder).filter(
  (file) => file.includes(values.only) && caseNamed(cases, file) !== undefined,
);
const results = await inParallel(2, files, async (file) => {
  const { id, source, workload } = caseNamed(cases, file);
  return { id, ...compared(recorded(file), traced(await traces.text(source, workload))) };
});

if (values.json) console.log(JSON.stringify(results, undefined, 2));
else for (const result of results) console.log(line(result));

/** What was asked for, without what importing torchaudio asked for in that process. */
function recorded(file) {
  const content = readFileSync(join(folder, file));
  const run = JSON.parse((file.endsWith('.gz') ? gunzipSync(content) : content).toString());
  return run.events
    .filter(([kind, , , stack]) => kind === 'alloc' && !run.stacks[stack].includes('kaldi.py'))
    .map(([, , bytes, stack]) => ({ bytes, by: run.stacks[stack].split(' < ')[0] }));
}

function traced(text) {
  const strings = [];
  const asked = [];
  for (const event of text
    .trimEnd()
    .split('\n')
    .map((one) => JSON.parse(one))) {
    if (event[0] === 's') strings.push(event[2]);
    else if (event[0] === 'a') asked.push({ bytes: event[2], by: strings[event[3]] });
    else if (event[0] === 'o' && event[1] > 0) asked.push({ bytes: event[1], by: 'a convolution' });
  }
  return asked;
}

function compared(real, ours) {
  const { length, firstDifference } = sharedInOrder(
    real.map(({ bytes }) => blockSizeFor(bytes, [])),
    ours.map(({ bytes }) => blockSizeFor(bytes, [])),
  );
  const at = firstDifference;
  return {
    real: real.length,
    traced: ours.length,
    // Of both together, so that what only one of them asked for counts against it.
    share: (2 * length) / (real.length + ours.length),
    first: at === undefined ? undefined : { at, real: real[at], traced: ours[at] },
  };
}

function said(one) {
  return one === undefined ? 'nothing' : `${one.bytes} (${one.by || 'backward'})`;
}

function line({ id, real, traced: ours, share, first }) {
  const difference =
    first === undefined
      ? 'the same sizes in the same order'
      : `first at ${first.at}: real ${said(first.real)}, traced ${said(first.traced)}`;
  return `${percent(share).padStart(9)}  ${id}  ${real} real, ${ours} traced; ${difference}`;
}
