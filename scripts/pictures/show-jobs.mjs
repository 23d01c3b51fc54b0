import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../steps.mjs';
import { until } from './show-server.mjs';

/** Runs out of its heap for real where the batch is large, and is started again with less. */
const heap = `
const batch = Number(process.argv[2]);
const held = [];
for (let step = 1; step <= 12; step++) {
  held.push(Array.from({ length: batch * 8000 }, (_, i) => i + 0.5));
  if (held.length > 6) held.shift();
  console.log('batch ' + batch + '  step ' + step);
  await new Promise((resolve) => setTimeout(resolve, 150));
}
console.log('trained');
`;

/** Tells of its steps as a trainer does; after its last step it ends, or goes on for ever. */
const steps = `
import { createConnection } from 'node:net';
const option = (name, usual) => Number(process.argv[process.argv.indexOf(name) + 1] ?? usual);
const [rate, last] = [option('--lr', 0.001), option('--steps', 60)];
const line = createConnection(process.env.PLIMSOLL_BRIDGE);
const say = (message) => line.write(JSON.stringify(message) + '\\n');
say({ type: 'hello', version: 1, pid: process.pid, rank: 0, world: 1, torch: null, hooks: [], device: 'cpu' });
for (let number = 1; last === 0 || number <= last; number++) {
  const loss = 0.3 + 4 / (1 + number * rate * 120) + 0.05 * Math.sin(number);
  const peakBytes = Math.round((180 + 20 * Math.sin(number / 7)) * 2 ** 20);
  say({ type: 'step', who: 'trainer-0', number, microbatch: 8, batch: 8, peakBytes, loss });
  console.log('step ' + number + '  loss ' + loss.toFixed(4));
  await new Promise((resolve) => setTimeout(resolve, 120));
}
line.end();
`;

/** Says that memory ran out, names the snapshot that it left, and fails. */
const dying = `
import { createConnection } from 'node:net';
const line = createConnection(process.env.PLIMSOLL_BRIDGE);
line.write('{"type":"hello","rank":0,"world":1,"hooks":[]}\\n');
console.log('RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB.');
const oom = { type: 'oom', id: 1, kind: 'cuda', message: 'CUDA out of memory. Tried to allocate 96.00 MiB.', microbatch: 1, batch: 1 };
line.write(JSON.stringify({ ...oom, snapshot: process.cwd() + '/left.pickle' }) + '\\n');
line.once('data', () => process.exit(1));
`;

const GiB = 1024 ** 3;

function train(rate, last) {
  return ['node', 'steps.mjs', '--lr', rate, '--steps', last];
}

/** Jobs in every state that a page shows; answers their ids once they are there. */
export async function submitJobs(server, folder) {
  const programs = { 'heap.mjs': heap, 'steps.mjs': steps, 'dying.mjs': dying };
  for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, name), text);
  copyFileSync(join(root, 'bench/truth/snapshots/oom.pickle.xz'), join(folder, 'left.pickle'));
  const submit = async (name, command, gib, more = {}) => {
    const memoryBytes = Math.round(gib * GiB);
    const body = JSON.stringify({ name, command, memoryBytes, cwd: folder, ...more });
    return (await server.json('/jobs', { method: 'POST', body })).id;
  };
  const ended = (id) =>
    until(async () => (await server.json(`/jobs/${id}`)).endedAt !== null).then(() => id);
  const batched = ['node', '--max-old-space-size=64', 'heap.mjs', '{batch_size}'];
  const first = await ended(await submit('resnet50 lr 0.001', train('0.001', '60'), 6));
  const second = await ended(await submit('resnet50 lr 0.003', train('0.003', '60'), 6));
  const recovered = await ended(await submit('bert-base finetune', batched, 4, { batch: 256 }));
  const failed = await ended(await submit('vit-large pretrain', ['node', 'dying.mjs'], 3));
  const running = await submit('gpt2-medium pretrain', train('0.002', '0'), 4);
  await submit('t5-base sweep', train('0.001', '0'), 2);
  const waiting = await submit('llama-8b lora', train('0.001', '0'), 16);
  await submit('whisper-small eval', train('0.001', '0'), 16);
  await submit('sdxl unet', train('0.001', '0'), 16, { priority: 5 });
  await until(async () => {
    const { currentAttempt } = await server.json(`/jobs/${running}`);
    return (currentAttempt?.progress?.length ?? 0) > 40;
  });
  return { first, second, recovered, failed, running, waiting };
}
