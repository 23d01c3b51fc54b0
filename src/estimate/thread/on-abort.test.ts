import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { onAbort } from './estimate-threads.js';

it('does what was asked for and not forgotten, with one listener for all', () => {
  const controller = new AbortController();
  const done: number[] = [];
  const forgets = Array.from({ length: 50 }, (_, at) =>
    onAbort(controller.signal, () => done.push(at)),
  );
  for (const forget of forgets.slice(2)) forget();
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
  controller.abort();
  expect(done).toEqual([0, 1]);
});
