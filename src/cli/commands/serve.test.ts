import { expect, it } from 'vitest';
import { accessNotes } from './serve.js';

it.each([
  [{ hasToken: true, uid: 1000 }, []],
  [
    { hasToken: false, uid: 1000 },
    ['no token: every user of this machine can run commands as you'],
  ],
  [{ hasToken: true, uid: 0 }, ['it runs as root, and so do the jobs of its owner']],
  [
    { hasToken: true, uid: 0, localUsers: true },
    [
      'it runs as root, and so do the jobs of its owner',
      'every account of this machine can run jobs here, as itself',
    ],
  ],
  [
    { hasToken: true, uid: 1000, localUsers: true },
    ['accounts that were added with "plimsoll users add" can run commands as you'],
  ],
])('a server says what follows from %j', (started, notes) => {
  expect(accessNotes(started)).toEqual(notes);
});
