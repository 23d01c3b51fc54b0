import { describe, expect, it } from 'vitest';
import type { Account } from '../../run/types.js';
import { type Identity, owner } from './permissions.js';
import { readableFor, submitters } from './submitter.js';

const accounts: Readonly<Record<string, Account>> = {
  root: { uid: 0, gid: 0, name: 'root' },
  ada: { uid: 1000, gid: 1000, name: 'ada' },
};
const findAccount = (name: string) => Promise.resolve(accounts[name]);
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
    expect(await submitters(serverUid, findAccount)(identity)).toEqual(expected);
  });

  it.each([
    ['a user without an account', user()],
    ['an account that is not there', user({ account: 'bob' })],
    // Its name was given to another account while it was connected.
    ['a local account that is another by now', local('ada', 1001)],
    ['a local account whose name is that of root by now', local('root', 1001)],
  ])('is never root by accident: %s is refused', async (_, identity) => {
    const submitting = submitters(0, findAccount)(identity);
    await expect(submitting).rejects.toMatchObject({ code: 'no-account' });
  });
});

describe('the workload of a client', () => {
  const ada = local('ada', 1000);

  it.each([{ script: '/srv/train.py' }, { model: '/srv/model' }])(
    'names no file where the server is root: %o',
    (workload) => {
      expect(() => readableFor(ada, workload, 0)).toThrow(
        expect.objectContaining({ code: 'not-as-root' }),
      );
      for (const [who, uid] of [
        [owner, 0],
        [ada, 1000],
        [user({ account: 'root' }), 0],
      ] as const) {
        expect(readableFor(who, workload, uid)).toBe(workload);
      }
    },
  );

  it.each([
    ['evil/link', 'catalogue:evil/link'],
    ['llama-3-8b', 'catalogue:llama-3-8b'],
    ['catalogue:llama-3-8b', 'catalogue:llama-3-8b'],
    ['torchvision:resnet50', 'torchvision:resnet50'],
  ])('names %s, which a server that is root looks for in its catalogue', (model, asked) => {
    expect(readableFor(ada, { model, batch: 2 }, 0)).toEqual({ model: asked, batch: 2 });
    expect(readableFor(owner, { model }, 0)).toEqual({ model });
  });
});
