// A small training job with nothing to download: a network of one wide layer learns a made-up
// function. What it keeps for the backward pass grows with the microbatch, as in any training.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createNetwork, type Network } from './network.js';
import { sampleAt } from './samples.js';

const { values } = parseArgs({
  options: {
    'batch-size': { type: 'string', default: '1024' },
    accumulate: { type: 'string', default: '1' },
    steps: { type: 'string', default: '20' },
    width: { type: 'string', default: '1024' },
    checkpoint: { type: 'string' },
  },
});
const microbatch = Number(values['batch-size']);
const accumulation = Number(values.accumulate);
const steps = Number(values.steps);
const learningRate = 1;

const network = createNetwork(Number(values.width));
const firstStep = restore(network);
if (firstStep > 0) process.stdout.write(`goes on at step ${firstStep + 1}\n`);

let loss = Number.NaN;
for (let step = firstStep; step < steps; step++) {
  network.zeroGradients();
  loss = 0;
  for (let part = 0; part < accumulation; part++) {
    const first = (step * accumulation + part) * microbatch;
    // Each microbatch counts by its share, so that the sum is the mean over the whole batch.
    loss += network.backward(first, microbatch, sampleAt, 1 / (microbatch * accumulation));
  }
  network.update(learningRate);
  save(network, step + 1);
  process.stdout.write(`\rstep ${step + 1}/${steps}  loss ${loss.toFixed(6)}`);
}
process.stdout.write(`\nfinal loss ${loss}\n`);

/** The step it had reached before, with its weights; 0 at the first start. */
function restore(into: Network): number {
  const file = values.checkpoint;
  if (file === undefined || !existsSync(file)) return 0;
  const bytes = readFileSync(file);
  const numbers = new Float64Array(
    bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
  );
  into.weights.set(numbers.subarray(1));
  return numbers[0] ?? 0;
}

/** Whole or not at all: a crash in between leaves the one before. */
function save(from: Network, step: number): void {
  const file = values.checkpoint;
  if (file === undefined) return;
  const numbers = new Float64Array(from.weights.length + 1);
  numbers[0] = step;
  numbers.set(from.weights, 1);
  writeFileSync(`${file}.new`, new Uint8Array(numbers.buffer));
  renameSync(`${file}.new`, file);
}
