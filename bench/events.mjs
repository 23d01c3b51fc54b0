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
import { blockSizeFor } from '../dist/estimate/allocator/settings.js';
import { caseFolders, caseNamed, readCases } from './accuracy/cases.mjs';
import { percent } from './accuracy/figures.mjs';
import { inParallel } from './accuracy/parallel.mjs';
import { benchPython, Traces } from './accuracy/traces.mjs';
import { truthFolder } from './truth.mjs';

/**
 * How many values two lists share in the same order (their longest common subsequence), and where
 * they first differ. By Myers' greedy search: quick when they are nearly alike.
 */
function sharedInOrder(a, b) {
  let firstDifference = 0;
  while (firstDifference < a.length && a[firstDifference] === b[firstDifference]) {
    firstDifference += 1;
  }
  if (firstDifference === a.length && a.length === b.length) return { length: a.length };
  const edits = shortestEdit(a, b);
  return { length: (a.length + b.length - edits) / 2, firstDifference };
}

/** The fewest removals and insertions that make `b` of `a`. */
function shortestEdit(a, b) {
  const most = a.length + b.length;
  // How far into `a` the diagonals reach; only every second one is in use at a time.
  const reached = new Int32Array(2 * most + 3);
  const middle = most + 1;
  for (let edits = 0; edits <= most; edits += 1) {
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const left = reached[middle + diagonal - 1];
      const right = reached[middle + diagonal + 1];
      const down = diagonal === -edits || (diagonal !== edits && left < right);
      let x = down ? right : left + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reached[middle + diagonal] = x;
      if (x >= a.length && y >= b.length) return edits;
    }
  }
  return most;
}

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
