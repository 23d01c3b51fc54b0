import { expect, it } from 'vitest';
import { mayWork, notYours, whoWords } from './who.js';

const ada = { name: 'ada', role: 'user' } as const;
const vic = { name: 'vic', role: 'viewer' } as const;
const admin = { name: 'root', role: 'admin' } as const;

it('lets a user touch his own jobs, an admin all, a viewer none', () => {
  const [own, other] = [{ owner: 'ada' }, { owner: 'bob' }];
  expect([notYours(ada, own), notYours(ada, other)]).toEqual([undefined, 'It belongs to bob.']);
  expect([notYours(admin, own), notYours(admin, other)]).toEqual([undefined, undefined]);
  expect(notYours(vic, { owner: 'vic' })).toMatch(/viewer/);
  expect([mayWork(ada), mayWork(vic), mayWork(admin)]).toEqual([true, false, true]);
});

it('names who it is, but for the one person of a server without users', () => {
  expect([whoWords(vic), whoWords({ name: 'owner', role: 'admin' })]).toEqual(['vic, viewer', '']);
});
