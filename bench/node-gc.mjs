// Pauses of Node's garbage collector in a TypeScript program with many objects, with and without what
// `plimsoll optimize` advises, each in a process of its own, turn by turn.
//
//   npm run bench:node-gc [-- --rounds 5] [--steps 20000] [--json]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { median } from './statistics.mjs';

/** Each row beside the one that its pair names. Its objects take some 100 MiB that stay. */
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
  return rows.map(({ name, options, beside }, at) => {
    const figures = Object.keys(found[at][0]).map((key) => [
      key,
      median(found[at].map((run) => run[key])),
    ]);
    return { name, options, beside, ...Object.fromEntries(figures) };
  });
}

function show(found) {
  if (values.json) {
    console.log(JSON.stringify({ node: process.version, rows: found }, undefined, 2));
    return;
  }
  console.log(
    '| | collections | pauses, ms | longest, ms | processor, ms | beside the row before | peak, MiB |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const { name, beside, ...row } of found) {
    const ratio =
      beside === undefined ? '' : `${(row.processor / found[beside].processor).toFixed(2)} x`;
    const cells = [
      name,
      row.collections,
      row.total.toFixed(0),
      row.longest.toFixed(0),
      row.processor.toFixed(0),
      ratio,
      (row.peakBytes / 2 ** 20).toFixed(0),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
}
