// What earlier memory tools claimed, and what Plimsoll comes to: our figure, how it was obtained, on which
// device, and plainly where a claim is not reached.
//
//   npm run build && npm run bench:claims [-- --json] [--quick] [--recorded] [--python .venv/bin/python]
//
// Rows of a GPU were measured once and are read from bench/results; the others are measured now (some
// minutes; --quick takes one, --recorded leaves them out).
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { measuredClaims } from './claims/measured.mjs';
import { recordedClaims } from './claims/recorded.mjs';

const own = fileURLToPath(new URL('../.venv/bin/python', import.meta.url));
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    recorded: { type: 'boolean', default: false },
    python: { type: 'string', default: existsSync(own) ? own : 'python3' },
  },
});

const rows = [...recordedClaims(), ...(values.recorded ? [] : measuredClaims(values))];
if (values.json) console.log(JSON.stringify({ rows }, undefined, 2));
else {
  console.log('| claim | ours | verdict | how | on | command |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  for (const { claim, ours, verdict, how, on, command } of rows) {
    console.log(`| ${claim} | ${ours} | ${verdict} | ${how} | ${on} | \`${command}\` |`);
  }
}
