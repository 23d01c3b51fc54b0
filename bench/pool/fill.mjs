// One method to get buffers, as a program that reads messages uses them: eight at a time, each filled, read
// once, and done with. Prints processor time for each buffer, pauses of the collector, and peak memory.
import { ArrayBufferPool } from '../../dist/entries/buffers.js';
import { watchGcPauses } from '../../dist/entries/watch.js';

const [method, size, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const atOnce = 8;
const pool = new ArrayBufferPool({ limit: 16 * size });
const methods = {
  'new ArrayBuffer': [(bytes) => new Uint8Array(new ArrayBuffer(bytes)), () => {}],
  'Buffer.allocUnsafe': [(bytes) => Buffer.allocUnsafe(bytes), () => {}],
  ArrayBufferPool: [(bytes) => pool.take(bytes), (taken) => pool.give(taken)],
};
const [take, give] = methods[method];

const watched = watchGcPauses();
const waiting = [];
let checksum = 0;
const begin = process.cpuUsage();
for (let at = 0; at < count; at++) {
  // Messages differ in length.
  const bytes = take(size - (at % 64) * (size >> 9));
  waiting.push(bytes.fill(at & 255));
  if (waiting.length < atOnce) continue;
  const done = waiting.shift();
  checksum += done[done.length >> 1];
  give(done);
}
const { user, system } = process.cpuUsage(begin);
// Node hands out its records of pauses between turns.
await new Promise((resolve) => setTimeout(resolve));
const pauses = watched.report().totalSeconds * 1000;
watched[Symbol.dispose]();
if (checksum < 0) throw new Error('a buffer came back changed');
const peakBytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ microseconds: (user + system) / count, pauses, peakBytes }));
