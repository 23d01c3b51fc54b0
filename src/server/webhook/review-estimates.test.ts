import { expect, it } from 'vitest';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { createVirtualClock } from '../../time/clock.js';
import { reviewEstimates } from './review-estimates.js';

const waitSeconds = 8;

/** Estimates that end when the test says so. */
function estimates() {
  const clock = createVirtualClock();
  const made: ((bytes: number) => void)[] = [];
  const ask = reviewEstimates(() => new Promise<number>((resolve) => made.push(resolve)), clock);
  return { clock, made, ask: (request: WorkloadRequest) => ask(request, waitSeconds) };
}

it('goes on when a review cannot wait, and answers the next one of this workload', async () => {
  const { clock, made, ask } = estimates();
  await Promise.all([
    expect(ask({ model: 'gpt2' })).rejects.toMatchObject({ code: 'estimate-not-ready' }),
    clock.advance(waitSeconds),
  ]);
  const second = ask({ model: 'gpt2' });
  made[0]?.(7);
  expect(await second).toBe(7);
  expect(await ask({ model: 'gpt2' })).toBe(7);
  expect(made).toHaveLength(1);
});

it('takes so many different ones at once, and more when those are done', async () => {
  const { made, ask } = estimates();
  const first = Array.from({ length: 200 }, (_, at) => ask({ model: 'gpt2', batch: at + 1 }));
  await expect(ask({ model: 'gpt2', batch: 1000 })).rejects.toMatchObject({
    code: 'too-many-estimates',
  });
  for (const end of made) end(7);
  await Promise.all(first);
  const next = ask({ model: 'gpt2', batch: 1000 });
  made.at(-1)?.(9);
  expect(await next).toBe(9);
});
