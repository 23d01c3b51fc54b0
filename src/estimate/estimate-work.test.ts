import { describe, expect, it } from 'vitest';
import { findGpu } from './cards/gpus.js';
import type { ReadSource } from './estimate-work.js';
import {
  type AnyAnswer,
  type AnyTask,
  type EstimateTask,
  inThisThread,
  inTwoThreads,
  type LeastCapacityTask,
  type ReadTask,
} from './estimate-work.js';
import type { LeastCapacity } from './least-capacity.js';
import { EventStreamBuilder } from './trace/event-stream.js';
import { readTrace } from './trace/trace-file.js';
import { gpt2TraceText, pieces } from './trace/traces-for-tests.js';
import type { Estimate } from './types.js';

const gpu = findGpu('h200');
const short = await readTrace(pieces(gpt2TraceText()));
/** The same step again and again. */
const long = { ...short, stream: repeated(30), category: new Uint8Array(30 * 4000) };

function repeated(times: number) {
  const builder = new EventStreamBuilder();
  for (let time = 0; time < times; time += 1) {
    const slots = Array.from({ length: 2000 }, (_, at) => builder.alloc(1 + ((at * 7919) % 4e6)));
    for (const slot of slots) builder.free(slot);
  }
  return builder.finish();
}

/** Another thread, which says what it was asked for. */
function other(asked: AnyTask[], answer: (task: AnyTask) => Promise<AnyAnswer> = inThisThread) {
  function work(task: EstimateTask): Promise<Estimate>;
  function work(task: ReadTask): Promise<ReadSource>;
  function work(task: LeastCapacityTask): Promise<LeastCapacity>;
  function work(task: AnyTask): Promise<AnyAnswer> {
    asked.push(task);
    return answer(task);
  }
  return work;
}

describe('inTwoThreads', () => {
  it('leaves the least capacity of a long trace to the other thread, with the same answer', async () => {
    const asked: AnyTask[] = [];
    const task = { kind: 'trace', trace: long, gpu } as const;
    const answer = await inTwoThreads(task, other(asked));
    expect(answer).toEqual(await inThisThread(task));
    expect(asked.map(({ kind }) => kind)).toEqual(['least-capacity']);
  });

  it('needs no other thread for a short trace', async () => {
    const asked: AnyTask[] = [];
    const task = { kind: 'trace', trace: short, gpu } as const;
    expect(await inTwoThreads(task, other(asked))).toEqual(await inThisThread(task));
    expect(asked).toEqual([]);
  });

  it('fails where the other thread does', async () => {
    const broken = other([], () => Promise.reject(new Error('ended')));
    await expect(inTwoThreads({ kind: 'trace', trace: long, gpu }, broken)).rejects.toThrow(
      'ended',
    );
  });
});
