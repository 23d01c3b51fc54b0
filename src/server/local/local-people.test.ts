import { describe, expect, it } from 'vitest';
import type { Person } from '../access/people.js';
import { type LocalPeopleOptions, openLocalPeople } from './local-people.js';

const ada: Person = {
  subject: 'user:ada',
  secret: 'hash',
  identity: { name: 'ada', role: 'viewer', quota: { maxJobs: 1 }, account: 'lovelace' },
};
const names: Readonly<Record<number, string>> = {
  1000: 'lovelace',
  1001: 'owner',
  65_534: 'nobody',
};

function people(options: Partial<LocalPeopleOptions> = {}) {
  return openLocalPeople({
    serverUid: 0,
    forAll: true,
    token: 'a-token-of-the-server',
    byAccount: (account) => (account === 'lovelace' ? ada : undefined),
    nameOf: (uid) => Promise.resolve(names[uid]),
    isUnknown: () => false,
    ...options,
  });
}
const peer = (uid: number) => ({ uid, gid: uid });

describe('accounts on the local socket', () => {
  it.each([
    [0, 0],
    [1000, 1000],
    // Root can read the token of every server.
    [1000, 0],
  ])('of a server of uid %i, uid %i is the owner', async (serverUid, uid) => {
    const { identity, subject } = await people({ serverUid, forAll: false }).of(peer(uid));
    expect([identity.name, identity.role, subject]).toEqual(['owner', 'admin', '']);
  });

  it('are the user that was added with that account, with its role and quota', async () => {
    for (const serverUid of [0, 999]) {
      expect(await people({ serverUid }).of(peer(1000))).toBe(ada);
    }
  });

  it('are users of their own on a server that is root, under a name that cannot be added', async () => {
    const { identity } = await people().of(peer(1001));
    expect(identity).toEqual({
      name: 'owner@local',
      role: 'user',
      quota: {},
      account: 'owner',
      uid: 1001,
    });
  });

  it.each([
    ['others than the owner where that was not allowed', { forAll: false }, 1001],
    ['accounts that were not added, where it cannot run jobs as them', { serverUid: 999 }, 1001],
    ['a uid that the machine has no name for', {}, 54_321],
    ['a uid that stands for every account outside', { isUnknown: () => true }, 65_534],
  ])('are refused: %s', async (_, options, uid) => {
    await expect(people(options).of(peer(uid))).rejects.toMatchObject({
      code: 'not-a-local-user',
    });
  });

  it('keep their session in a browser while they are what they were', async () => {
    const { subject, secret } = await people().of(peer(1001));
    expect(people().bySubject(subject)).toMatchObject({ secret, identity: { uid: 1001 } });
    expect(people({ token: 'another-token' }).bySubject(subject)?.secret).not.toBe(secret);
    expect(people({ forAll: false }).bySubject(subject)).toBeUndefined();
    expect(people({ serverUid: 999 }).bySubject(subject)).toBeUndefined();
    // Added meanwhile: another user, who logs in again.
    expect(people({ byAccount: () => ada }).bySubject(subject)).toBeUndefined();
    expect(people().bySubject('local:x')).toBeUndefined();
  });
});
