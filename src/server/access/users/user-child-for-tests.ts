/** Adds users until it is killed; prints the name of each once it was acknowledged. */
import { writeSync } from 'node:fs';
import { newUserToken, openUserStore } from './user-store.js';

const [home = '', word = ''] = process.argv.slice(2);
const users = await openUserStore(home);
for (let number = 0; ; number++) {
  const name = `${word}-${number}`;
  const { id, hash } = newUserToken();
  users.add({
    name,
    role: 'user',
    tokenId: id,
    tokenHash: hash,
    maxMemoryBytes: undefined,
    maxJobs: undefined,
    account: undefined,
    addedAt: '2026-11-16T00:00:00.000Z',
  });
  writeSync(1, `${name}\n`);
}
