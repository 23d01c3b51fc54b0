// Pauses of Node's garbage collector in a TypeScript program with many objects, with and without what
// `plimsoll optimize` advises, each in a process of its own, turn by turn.
//
//   npm run bench node-gc [-- --rounds 5] [--steps 20000] [--json]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { mediansOf } from './statistics.mjs';

/** `beside` is the row that a figure is compared with. Objects that stay take some 100 MiB. */
const rows = [
  { name: 'new objects: the default (16 MiB)', options: [] },
  { name: 'new objects: 64 MiB, as advised', options: ['--max-semi-space-size=64'], beside: 0 },
  { name: 'new objects: 128 MiB', options: ['--max-semi-space-size=128'], beside: 0 },
  { name: 'heap nearly full (120 MiB)', options: ['--max-old-space-size=120'] },
  { name: 'twice the heap, as advised', options: ['--max-old-space-size=240'], beside: 3 },
];
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    steps: { type: 'string', default: '20000' },
    json: { type: 'boolean', default: false },
  },
});

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-node-gc-'));
try {
  const outfile = join(folder, 'program.mjs');
  const source = fileURLToPath(new URL('node-gc/program.ts', import.meta.url));
  await build({ entryPoints: [source], outfile, bundle: true, platform: 'node', format: 'esm' });
  show(measured(outfile));
} finally {
  rmSync(folder, { recursive: true });
}

function measured(program) {
  const found = rows.map(() => []);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [at, { options }] of rows.entries()) {
      const args = [...options, program, '400000', values.steps, '400'];
      found[at].push(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })));
    }
  }
  return rows.map((row, at) => ({ row, figures: mediansOf(found[at]) }));
}

function show(found) {
  if (values.json) {
    console.log(JSON.stringify({ node: process.version, rows: found }, undefined, 2));
    return;
  }
  console.log(
    '| | collections | pauses, ms | longest, ms | processor, ms | of the row compared with | peak, MiB |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const { row, figures } of found) {
    const beside = found[row.beside]?.figures.processor;
    const cells = [
      row.name,
      figures.collections,
      figures.total.toFixed(0),
      figures.longest.toFixed(0),
      figures.processor.toFixed(0),
      beside === undefined ? '' : `${(figures.processor / beside).toFixed(2)} x`,
      (figures.peakBytes / 2 ** 20).toFixed(0),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}
