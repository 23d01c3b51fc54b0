// What earlier memory tools claimed, and what Plimsoll comes to: our figure, how it was obtained, on which
// device, and plainly where a claim is not reached. And the figures of README and docs, from kept rows.
//
//   npm run build && npm run bench claims [-- --json] [--quick] [--recorded] [--python .venv/bin/python]
//   npm run bench claims -- --check    which pages say otherwise than the rows; exit code 1 where one does
//   npm run bench claims -- --write    writes the figures of the rows into the pages
//
// Rows of a GPU were measured once and are read from bench/results/rows; the others are measured now (some
// minutes; --quick takes one, --recorded reads them from the kept rows, too).
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { claims, differences, rewritten } from './claims/figures.mjs';
import { keptClaims, measuredClaims } from './claims/measured.mjs';
import { recordedClaims } from './claims/recorded.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const own = `${root}.venv/bin/python`;
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    recorded: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    python: { type: 'string', default: existsSync(own) ? own : 'python3' },
  },
});

if (values.write) {
  for (const file of new Set(claims.flatMap(({ stated }) => stated.map((one) => one.in)))) {
    const text = readFileSync(root + file, 'utf8');
    writeFileSync(root + file, rewritten(file, text));
  }
}
if (values.write || values.check) {
  const found = differences();
  for (const line of found) console.log(line);
  if (found.length === 0) console.log(`${claims.length} claims: the pages say what the rows say.`);
  process.exitCode = found.length === 0 ? 0 : 1;
} else show();

function show() {
  const others = values.recorded ? keptClaims() : measuredClaims(values);
  const rows = [...recordedClaims(), ...others];
  if (values.json) return console.log(JSON.stringify({ rows }, undefined, 2));
  console.log('| claim | ours | verdict | how | on | command |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  for (const { claim, ours, verdict, how, on, command } of rows) {
    console.log(`| ${claim} | ${ours} | ${verdict} | ${how} | ${on} | \`${command}\` |`);
  }
}
