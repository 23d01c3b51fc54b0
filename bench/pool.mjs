// Buffers that are taken, filled and given back: `ArrayBufferPool` beside plain `new ArrayBuffer` and
// `Buffer.allocUnsafe`, each in a process of its own, turn by turn.
//
//   npm run build && npm run bench pool [-- --rounds 5] [--json]
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { mediansOf } from './statistics.mjs';

const methods = ['new ArrayBuffer', 'Buffer.allocUnsafe', 'ArrayBufferPool'];
const sizes = [
  ['16 KiB', 2 ** 14],
  ['256 KiB', 2 ** 18],
  ['4 MiB', 2 ** 22],
  ['64 MiB', 2 ** 26],
];
/** So many bytes are written in each process. */
const totalBytes = 2 ** 31;
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, json: { type: 'boolean', default: false } },
});
const program = fileURLToPath(new URL('pool/fill.mjs', import.meta.url));

const rows = sizes.map(([label, bytes]) => {
  const found = Object.fromEntries(methods.map((method) => [method, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const method of methods) {
      const args = [program, method, String(bytes), String(Math.ceil(totalBytes / bytes))];
      found[method].push(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })));
    }
  }
  const figures = methods.map((method) => [method, mediansOf(found[method])]);
  return { label, bytes, methods: Object.fromEntries(figures) };
});

if (values.json) console.log(JSON.stringify({ node: process.version, rows }, undefined, 2));
else {
  console.log('| size | method | µs a buffer | of new ArrayBuffer | GC pauses, ms | peak, MiB |');
  console.log('| --- | --- | ---: | ---: | ---: | ---: |');
  for (const { label, methods: found } of rows) {
    const base = found[methods[0]].microseconds;
    for (const [method, { microseconds, pauses, peakBytes }] of Object.entries(found)) {
      const cells = [
        label,
        `\`${method}\``,
        microseconds.toFixed(1),
        `${(microseconds / base).toFixed(2)} x`,
        pauses.toFixed(1),
        (peakBytes / 2 ** 20).toFixed(0),
      ];
      console.log(`| ${cells.join(' | ')} |`);
    }
  }
}
