import { describe, expect, it } from 'vitest';
import type { Account } from '../../run/account.js';
import { type Identity, owner } from './identity.js';
import { readsForOthers, submitters } from './submitter.js';

const accounts: Readonly<Record<string, Account>> = {
  root: { uid: 0, gid: 0, name: 'root' },
  ada: { uid: 1000, gid: 1000, name: 'ada' },
};
const findAccount = (name: string) => Promise.resolve(accounts[name]);
const job = { command: ['true'], memoryBytes: 1 };
const user = (more: Partial<Identity> = {}): Identity => ({
  name: 'ada',
  role: 'user',
  quota: {},
  ...more,
});
const local = (account: string, uid: number): Identity =>
  user({ name: `${account}@local`, account, uid });

describe('what a job runs as', () => {
  it.each([
    ['of anybody, on a server that is not root', 1000, user({ account: 'root' }), { name: 'ada' }],
    ['of the owner, on one that is root', 0, owner, { name: 'owner' }],
    [
      'of a user with an account',
      0,
      user({ account: 'ada' }),
      { name: 'ada', account: accounts['ada'] },
    ],
    ['of a user whose account was said to be root', 0, user({ account: 'root' }), { name: 'ada' }],
    ['of a local account', 0, local('ada', 1000), { name: 'ada@local', account: accounts['ada'] }],
  ])('%s', async (_, serverUid, identity, expected) => {
    expect(await submitters(serverUid, findAccount)(identity, job)).toEqual(expected);
  });

  it.each([
    ['a user without an account', user()],
    ['an account that is not there', user({ account: 'bob' })],
    // Its name was given to another account while it was connected.
    ['a local account that is another by now', local('ada', 1001)],
    ['a local account whose name is that of root by now', local('root', 1001)],
  ])('is never root by accident: %s is refused', async (_, identity) => {
    const submitting = submitters(0, findAccount)(identity, job);
    await expect(submitting).rejects.toMatchObject({ code: 'no-account' });
  });

  it('is not asked of root with a script or a file of its own', async () => {
    const asked = { ...job, workload: { script: '/srv/train.py' } };
    const submitting = submitters(0, findAccount)(local('ada', 1000), asked);
    await expect(submitting).rejects.toMatchObject({ code: 'not-as-root' });
    expect(readsForOthers(local('ada', 1000), 0)).toBe(true);
    expect(readsForOthers(owner, 0)).toBe(false);
    expect(readsForOthers(user({ account: 'root' }), 0)).toBe(false);
    expect(readsForOthers(local('ada', 1000), 1000)).toBe(false);
  });
});
