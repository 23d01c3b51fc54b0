// What plimsoll/buffers does, beside what others do with the same data and in the same run:
// hit rates beside LRU and LFU, compression beside plain gzip, brotli and none.
//
//   npm run build && npm run bench buffers [-- --only eviction|compression] [--rounds 3] [--json]
//
// Ends with exit code 1 when a hit rate is more than 1 % below the better of LRU and LFU.

import { parseArgs } from 'node:util';
import zlib from 'node:zlib';
import { Tier } from '../dist/buffers/buffer-store.js';
import { joinPlanes, packPart, splitPlanes, unpackPart } from '../dist/buffers/record.js';
import { cacheItems, observations, patterns } from './buffers/patterns.mjs';
import { median } from './statistics.mjs';

/** Hits of each way to choose what goes, over the same requests. */
const policies = {
  LRU: (trace, items) => {
    const held = new Map();
    return count(trace, (key) => {
      const hit = held.delete(key);
      held.set(key, true);
      if (held.size > items) held.delete(held.keys().next().value);
      return hit;
    });
  },
  LFU: (trace, items) => leastFrequent(trace, items),
  plimsoll: (trace, items) => {
    const tier = new Tier(items);
    return count(trace, (number) => {
      const key = String(number);
      const hit = tier.use(key) !== undefined;
      if (!hit) tier.add(key, { rawBytes: 1 }, 1);
      return hit;
    });
  },
};

function count(trace, isHit) {
  let hits = 0;
  for (const key of trace) if (isHit(key)) hits += 1;
  return hits;
}

/** The least used goes; among equals the one that was used longest ago. Counts end with the item. */
function leastFrequent(trace, items) {
  const counts = new Map();
  const groups = new Map();
  const enter = (key, uses) => {
    counts.set(key, uses);
    if (!groups.has(uses)) groups.set(uses, new Set());
    groups.get(uses).add(key);
  };
  const leave = (key) => {
    const uses = counts.get(key);
    counts.delete(key);
    groups.get(uses).delete(key);
    if (groups.get(uses).size === 0) groups.delete(uses);
    return uses;
  };
  return count(trace, (key) => {
    if (counts.has(key)) {
      enter(key, leave(key) + 1);
      return true;
    }
    if (counts.size >= items) {
      const [victim] = groups.get(Math.min(...groups.keys()));
      leave(victim);
    }
    enter(key, 1);
    return false;
  });
}

const bytesOf = (array) => new Uint8Array(array.buffer);
const shuffled = (array) => Buffer.concat(splitPlanes(bytesOf(array), 4));
function unshuffled(bytes) {
  const length = bytes.length / 4;
  return joinPlanes(
    [0, 1, 2, 3].map((plane) => bytes.subarray(plane * length, (plane + 1) * length)),
  );
}
const quality = (value) => ({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: value } });
const over = (pack, unpack) => ({
  pack: (array) => pack(shuffled(array)),
  unpack: (packed) => unshuffled(unpack(packed)),
  bytes: (packed) => packed.length,
});

/** Ways to keep numbers, each with its way back. zstd only where this Node has it. */
const compressors = {
  none: {
    pack: (array) => Buffer.from(bytesOf(array)),
    unpack: (packed) => new Uint8Array(packed),
    bytes: (packed) => packed.length,
  },
  gzip: {
    pack: (array) => zlib.gzipSync(bytesOf(array)),
    unpack: (packed) => zlib.gunzipSync(packed),
    bytes: (packed) => packed.length,
  },
  'shuffle, deflate 1': over(
    (bytes) => zlib.deflateRawSync(bytes, { level: 1 }),
    zlib.inflateRawSync,
  ),
  'shuffle, deflate 6': over((bytes) => zlib.deflateRawSync(bytes), zlib.inflateRawSync),
  'shuffle, brotli 1': over(
    (bytes) => zlib.brotliCompressSync(bytes, quality(1)),
    zlib.brotliDecompressSync,
  ),
  'shuffle, brotli 4': over(
    (bytes) => zlib.brotliCompressSync(bytes, quality(4)),
    zlib.brotliDecompressSync,
  ),
  ...(zlib.zstdCompressSync && {
    'shuffle, zstd': over((bytes) => zlib.zstdCompressSync(bytes), zlib.zstdDecompressSync),
  }),
  plimsoll: {
    pack: (array) =>
      packPart(
        { name: '', kind: 'array', dtype: 'float32', shape: [array.length], bytes: bytesOf(array) },
        true,
      ),
    unpack: (part) => unpackPart(part).bytes,
    bytes: (part) => part.planes.reduce((sum, { bytes }) => sum + bytes.length, 0),
  },
};

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
