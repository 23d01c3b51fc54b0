// How the time of a formula grows with the layers of a model: processor time per layer, beside that
// of 100 layers. A ratio of 1 means that the time is linear.
//
//   npm run build && node bench/layers.mjs [--layers 100,200,400,800,1600] [--json]
import { parseArgs } from 'node:util';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { knownEstimate } from '../dist/estimate/formula/known-estimate.js';
import { describeConfig } from '../dist/model/config/describe-config.js';
import { threadMilliseconds } from './thread-time.mjs';

const { values } = parseArgs({
  options: {
    layers: { type: 'string', default: '100,200,400,800,1600' },
    json: { type: 'boolean', default: false },
  },
});
const gpu = findGpu('h200');
const usual = {
  mode: 'train',
  batch: 8,
  sequence: 1024,
  precision: 'bf16',
  optimizer: 'adamw',
  checkpointing: false,
};

function millisecondsPerLayer(layers, workload) {
  const config = { model_type: 'llama', num_hidden_layers: layers };
  const model = describeConfig(config, 'config.json');
  const before = threadMilliseconds();
  knownEstimate(model, { ...usual, ...workload }, gpu);
  return (threadMilliseconds() - before) / layers;
}

const rows = [];
for (const checkpointing of [false, true]) {
  // The first run compiles; it is not counted.
  millisecondsPerLayer(20, { checkpointing });
  let first;
  for (const layers of values.layers.split(',').map(Number)) {
    const each = millisecondsPerLayer(layers, { checkpointing });
    first ??= each;
    rows.push({ layers, checkpointing, millisecondsPerLayer: each, ratio: each / first });
  }
}
if (values.json) console.log(JSON.stringify({ rows }, undefined, 2));
else {
  for (const { layers, checkpointing, millisecondsPerLayer: each, ratio } of rows) {
    const how = checkpointing ? 'checkpointing' : 'plain';
    console.log(
      `${how.padEnd(14)} ${String(layers).padStart(5)} layers  ${each.toFixed(2)} ms a layer  ${ratio.toFixed(2)} x`,
    );
  }
}
