// One pass over made-up samples: pass.mjs plain|adaptive|resizing SAMPLES BATCH
import { adaptiveBatches } from '../../dist/index.js';

const [, , way, samplesText, batchText] = process.argv;
const [samples, batchSize] = [Number(samplesText), Number(batchText)];

function* source() {
  for (let id = 0; id < samples; id++) yield { id, text: 'sample', weight: 1 };
}

let count = 0;
let sum = 0;
let early = 0;
let latest = 0;
/** Some work for each sample, the same for all ways; the memory is looked at ten times. */
function work(batch) {
  for (const { id } of batch) sum += id;
  const before = count;
  count += batch.length;
  if (Math.floor((before * 10) / samples) === Math.floor((count * 10) / samples)) return;
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  latest = heapUsed + external;
  early ||= latest;
}

async function plain() {
  let batch = [];
  for (const sample of source()) {
    batch.push(sample);
    if (batch.length < batchSize) continue;
    await Promise.resolve(work(batch));
    batch = [];
  }
  if (batch.length > 0) await Promise.resolve(work(batch));
}

async function adaptive() {
  // Up and down all the time, or as the memory of this machine is.
  let look = 0;
  const up = { memoryPercent: () => (look++ % 4 < 2 ? 90 : 20), checkSeconds: 0.001 };
  const batches = adaptiveBatches(source(), { batchSize, ...(way === 'resizing' ? up : {}) });
  for await (const batch of batches) work(batch);
}

const begin = process.cpuUsage();
await (way === 'plain' ? plain() : adaptive());
const { user, system } = process.cpuUsage(begin);
if (count !== samples || sum !== (samples * (samples - 1)) / 2)
  throw new Error('samples were lost or doubled');
console.log(
  JSON.stringify({
    samplesPerSecond: (samples / (user + system)) * 1e6,
    growthBytes: latest - early,
  }),
);
