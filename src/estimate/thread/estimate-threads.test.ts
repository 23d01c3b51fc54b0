import { afterEach, describe, expect, it } from 'vitest';
import { describeConfig } from '../../model/config/describe-config.js';
import { findGpu } from '../cards/gpus.js';
import type { EstimateTask } from '../estimate-work.js';
import { NoFormula } from '../formula/checks.js';
import {
  answerOfError,
  type EstimateThreads,
  estimateThreads,
  readAnswer,
} from './estimate-threads.js';

const model = describeConfig({ model_type: 'gpt2', n_layer: 2 }, 'config.json');
if (model.family === 'unknown') throw new Error('GPT-2 is known');
const gpu = findGpu('h100');
/** Uses the batch to tell the test programs apart. */
const task = (batch: number): EstimateTask => ({
  kind: 'formula',
  model,
  gpu,
  workload: {
    mode: 'infer',
    batch,
    precision: 'bf16',
    optimizer: 'sgd',
    checkpointing: false,
  },
});

/** A thread in place of the real one: batch 1 answers, 2 never ends, 3 fills its heap, 4 exits. */
const source = `
import { parentPort, threadId } from 'node:worker_threads';
parentPort.on('message', ({ workload: { batch } }) => {
  if (batch === 2) for (;;);
  if (batch === 3) { const kept = []; for (;;) kept.push(new Array(1000).fill(batch)); }
  if (batch === 4) process.exit(7);
  parentPort.postMessage({ kind: 'done', answer: { notes: [String(threadId)] } });
});`;
const program = new URL(`data:text/javascript,${encodeURIComponent(source)}`);

let open: EstimateThreads[] = [];
afterEach(async () => {
  await Promise.all(open.map((one) => one.close()));
  open = [];
});
function threads(options: { most?: number; timeoutSeconds?: number; heapMebibytes?: number } = {}) {
  const made = estimateThreads({ program, most: 1, ...options });
  open.push(made);
  return made;
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'answered',
    (error: unknown) => Reflect.get(Object(error), 'code') ?? String(error),
  );

describe('estimateThreads', () => {
  it('uses an idle thread again', async () => {
    const { work } = threads();
    const first = await work(task(1));
    expect(await work(task(1))).toEqual(first);
  });

  it('leaves this thread free while one works, and ends that one when its client goes away', async () => {
    const { work } = threads();
    const gone = new AbortController();
    const heavy = work(task(2), gone.signal);
    // Queued behind it: there is one thread.
    const light = work(task(1));
    gone.abort();
    expect(await codeOf(heavy)).toBe('interrupted');
    expect(await codeOf(light)).toBe('answered');
  });

  it('answers a light task before a heavy one that came first', async () => {
    const { work, close } = threads({ most: 2 });
    const order: string[] = [];
    const heavy = codeOf(work(task(2))).then(() => order.push('heavy'));
    await work(task(1)).then(() => order.push('light'));
    await close();
    await heavy;
    expect(order).toEqual(['light', 'heavy']);
  });

  it('ends a thread that takes too long, or too much, or that exits; the next one works', async () => {
    expect(await codeOf(threads({ timeoutSeconds: 0.1 }).work(task(2)))).toBe('estimate-timeout');
    const { work } = threads({ heapMebibytes: 16 });
    expect(await codeOf(work(task(4)))).toContain('thread of an estimate ended');
    expect(await codeOf(work(task(3)))).toBe('estimate-memory-limit');
    expect(await codeOf(work(task(1)))).toBe('answered');
  });

  it('gives up a task that waits as soon as its client is gone, and all when it closes', async () => {
    const { work, close } = threads();
    const heavy = codeOf(work(task(2)));
    const gone = new AbortController();
    const waiting = codeOf(work(task(1), gone.signal));
    const late = codeOf(work(task(1)));
    gone.abort();
    expect(await waiting).toBe('interrupted');
    await close();
    expect([await heavy, await late]).toEqual(['interrupted', 'interrupted']);
    expect(await codeOf(work(task(1)))).toBe('interrupted');
  });

  it('gives errors back as they were thrown', () => {
    const unknown = new NoFormula('this');
    expect(() => readAnswer(answerOfError(unknown))).toThrow(unknown);
    expect(() => readAnswer(answerOfError(new TypeError('broken')))).toThrow('broken');
  });
});
