// Makes web/calculator/tables.jsonl: traced peaks of the classifiers of torchvision, which no formula
// knows, as functions of batch and image. Takes a core for some minutes a model; models that the
// table has already are left out. Usage: node scripts/calculator-tables.mjs [--again] NAME...
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { findGpu } from '../dist/estimate/cards/gpus.js';
import { estimate } from '../dist/estimate/estimate.js';
import { warmTracer } from '../dist/estimate/trace/python-trace.js';

const file = new URL('../web/calculator/tables.jsonl', import.meta.url);
const card = 'h100';
const settings = [
  ['train', 'fp32'],
  ['train', 'amp-bf16'],
  ['infer', 'fp32'],
  ['infer', 'bf16'],
];
/** Three points make the function; the fourth says how far it is off. */
const points = [
  [4, 224],
  [32, 224],
  [32, 448],
  [8, 320],
];
const usual =
  'resnet18 resnet50 resnet101 efficientnet_b0 mobilenet_v3_large vgg16 convnext_tiny densenet121 swin_t vit_b_16';

const given = process.argv.slice(2);
const again = given.includes('--again');
const named = given.filter((word) => !word.startsWith('--'));
const names = named.length > 0 ? named : usual.split(' ');
const lines = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
const tables = new Map(lines.map((line) => [JSON.parse(line).name, line]));
const machine = {
  environment: process.env,
  folder: process.cwd(),
  python: process.env.PLIMSOLL_PYTHON,
};
const warm = warmTracer(machine, async () => 'unchanged');
const gpu = findGpu(card);

/** Of one trace, in the order that web/calculator/tables.ts reads. */
async function traced(name, mode, precision, batch, image) {
  const workload = { mode, batch, image, precision, optimizer: 'sgd', checkpointing: false };
  const { peak, breakdown } = await estimate(
    { source: { kind: 'torchvision', name }, workload, gpu, method: 'trace' },
    { ...machine, warm },
  );
  const of = (part) => breakdown.find((entry) => entry.part === part)?.bytes ?? 0;
  const held = [of('weights'), of('gradients'), of('workspace')];
  return [batch, image, peak.allocatedBytes, peak.reservedBytes, ...held];
}

for (const name of names) {
  if (tables.has(name) && !again) continue;
  const found = {};
  for (const [mode, precision] of settings) {
    const rows = [];
    for (const [batch, image] of points) {
      // The vision transformers take one size of image only.
      if (name.startsWith('vit_') && image !== 224) continue;
      rows.push(await traced(name, mode, precision, batch, image));
    }
    found[`${mode} ${precision}`] = rows;
    process.stderr.write(`${name} ${mode} ${precision}: ${rows.length} points\n`);
  }
  tables.set(name, JSON.stringify({ name, points: found }));
  const sorted = [...tables].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, line]) => line);
  writeFileSync(file, `${sorted.join('\n')}\n`);
}
warm.close?.();
