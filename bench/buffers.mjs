// What plimsoll/buffers does, beside what others do with the same data and in the same run:
// hit rates beside LRU and LFU, compression beside plain gzip, brotli and none.
//
//   npm run build && npm run bench buffers [-- --only eviction|compression] [--rounds 3] [--json]
//
// Ends with exit code 1 when a hit rate is more than 1 % below the better of LRU and LFU.
import { parseArgs } from 'node:util';
import { compressors } from './buffers/compressors.mjs';
import { observations } from './buffers/observations.mjs';
import { cacheItems, patterns } from './buffers/patterns.mjs';
import { policies } from './buffers/policies.mjs';
import { median } from './statistics.mjs';

/** At most this many points of hit rate below the better of LRU and LFU. */
const maxBelow = 1;
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});

const result = {};
if (values.only !== 'compression') result.eviction = eviction();
if (values.only !== 'eviction') result.compression = compression();
if (values.json) console.log(JSON.stringify(result, undefined, 2));
process.exitCode = (result.eviction ?? []).every(({ below }) => below <= maxBelow) ? 0 : 1;

function eviction() {
  const names = Object.keys(policies);
  print(['hit rate, %', ...names, 'better of both', 'below it'], 28);
  return Object.entries(patterns).map(([pattern, make]) => {
    const trace = make();
    const rates = Object.fromEntries(
      names.map((name) => [name, (100 * policies[name](trace, cacheItems)) / trace.length]),
    );
    const better = Math.max(rates.LRU, rates.LFU);
    const below = better - rates.plimsoll;
    print([pattern, ...Object.values(rates), better, Math.max(0, below)], 28);
    return { pattern, rates, below };
  });
}

function compression() {
  return Object.entries(observations()).map(([data, array]) => {
    print([data, 'ratio', 'in, MB/s', 'out, MB/s'], 44);
    const rows = Object.entries(compressors).map(([name, way]) => {
      const row = measured(name, way, array);
      print([`  ${name}`, row.ratio, row.packRate, row.unpackRate], 44);
      return row;
    });
    return { data, rows };
  });
}

function measured(name, { pack, unpack, bytes }, array) {
  const times = { pack: [], unpack: [] };
  let packed;
  for (let round = 0; round < Number(values.rounds); round++) {
    const begin = performance.now();
    packed = pack(array);
    const middle = performance.now();
    const again = unpack(packed);
    times.pack.push(middle - begin);
    times.unpack.push(performance.now() - middle);
    const same = Buffer.compare(new Uint8Array(again), new Uint8Array(array.buffer)) === 0;
    if (!same) throw new Error('the numbers came back changed');
  }
  const rate = (all) => array.byteLength / 1000 / median(all);
  return {
    name,
    ratio: array.byteLength / bytes(packed),
    packRate: rate(times.pack),
    unpackRate: rate(times.unpack),
  };
}

function print([first, ...cells], width) {
  if (values.json) return;
  const shown = cells.map((cell) => (typeof cell === 'number' ? cell.toFixed(2) : cell));
  console.log(first.padEnd(width) + shown.map((cell) => cell.padStart(16)).join(''));
}
