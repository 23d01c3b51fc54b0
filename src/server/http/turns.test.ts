import { expect, it } from 'vitest';
import { Turns } from '../app.js';

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

it('lets few of many go in each turn, the newest first, and all of them in the end', async () => {
  const turns = new Turns();
  const gone: number[] = [];
  const all = Array.from({ length: 7 }, (_, number) => turns.next().then(() => gone.push(number)));
  expect([gone, turns.count]).toEqual([[], 7]);
  await turn();
  expect(gone).toEqual([6, 5]);
  const late = turns.next().then(() => gone.push(7));
  await turn();
  expect(gone).toEqual([6, 5, 7, 4]);
  await Promise.all([...all, late]);
  expect([gone, turns.count]).toEqual([[6, 5, 7, 4, 3, 2, 1, 0], 0]);
  await turns.next();
  expect(turns.count).toBe(0);
});
