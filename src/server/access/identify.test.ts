import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import {
  type Gate,
  LoginLinks,
  loginLink,
  openSession,
  requireIdentity,
  serverProof,
} from './identify.js';
import type { Person } from './people.js';
import { owner } from './permissions.js';
import { Sessions } from './sessions.js';
import { isProof, proofOf, WrongTokens } from './token.js';

const token = 'a-long-and-secret-token';
const ada: Person = {
  subject: 'user:ada',
  secret: 'hash',
  identity: { ...owner, name: 'ada', role: 'user' },
};

/** A server that knows Ada, by `known`, until it is told otherwise. */
function gateOf(local?: Gate['local']) {
  const clock = createVirtualClock();
  const world: { person: Person | undefined } = { person: ada };
  const now = (isMeant: boolean) => (isMeant ? world.person : undefined);
  const gate: Gate = {
    token,
    people: {
      byToken: (given) => now(given === 'known'),
      byTokenId: (id) => now(id === 'id'),
      bySubject: (subject) => now(subject === ada.subject),
      byAccount: () => undefined,
    },
    local,
    sessions: new Sessions({ token, epochMs: () => 0, secretOf: () => world.person?.secret }),
    links: new LoginLinks(() => clock.seconds()),
    wrongTokens: new WrongTokens({ most: 1, delaySeconds: 1, maxDelayed: 0, clock }),
  };
  return { gate, world };
}

const cookieOf = (setCookie: string) => setCookie.split(';')[0];
const codeOf = (code: string) => expect.objectContaining({ code });
const peer = { uid: 1000, gid: 1000, pid: 7 };

describe('who a client is', () => {
  it('is the owner where no token is needed', async () => {
    const found = await requireIdentity(undefined, { address: '' });
    expect(found).toMatchObject({ identity: owner, via: 'none', subject: '' });
    expect(found.mayStay()).toBe(true);
  });

  it('is told by the session, else by the token, else by the socket', async () => {
    const local = { of: () => Promise.resolve(ada), bySubject: () => ada };
    const { gate } = gateOf(local);
    const cookie = cookieOf(gate.sessions.open(false, ada.subject));
    const via = async (shown: object) =>
      (await requireIdentity(gate, { address: '', ...shown })).via;
    const authorization = 'Bearer known';
    expect(await via({ cookie, authorization, peer })).toBe('session');
    expect(await via({ cookie: 'other=1', authorization, peer })).toBe('token');
    expect(await via({ peer })).toBe('socket');
    await expect(via({})).rejects.toEqual(codeOf('no-token'));
    await expect(via({ authorization: 'Bearer wrong', peer })).rejects.toEqual(
      codeOf('wrong-token'),
    );
    await expect(via({ authorization: 'Bearer wrong' })).rejects.toEqual(
      codeOf('too-many-wrong-tokens'),
    );
    await expect(requireIdentity(gateOf().gate, { address: '', peer })).rejects.toEqual(
      codeOf('no-token'),
    );
  });

  it.each([
    ['while nothing changes', ada, true],
    ['not with another token', { ...ada, secret: 'other hash' }, false],
    ['not in another role', { ...ada, identity: { ...ada.identity, role: 'viewer' } }, false],
    ['not once the user is gone', undefined, false],
  ] as const)('may stay %s', async (_, later, mayStay) => {
    const { gate, world } = gateOf();
    const cookie = cookieOf(gate.sessions.open(false, ada.subject));
    const admitted = await Promise.all([
      requireIdentity(gate, { address: '', authorization: 'Bearer known' }),
      requireIdentity(gate, { address: '', cookie }),
    ]);
    expect(admitted.map(({ via, subject }) => [via, subject])).toEqual([
      ['token', ada.subject],
      ['session', ada.subject],
    ]);
    world.person = later;
    expect(admitted.map((one) => one.mayStay())).toEqual([mayStay, mayStay]);
  });

  it('may not stay once the session was ended', async () => {
    const { gate } = gateOf();
    const cookie = cookieOf(gate.sessions.open(false, ada.subject));
    const admitted = await requireIdentity(gate, { address: '', cookie });
    gate.sessions.end(cookie);
    expect(admitted.mayStay()).toBe(false);
  });
});

describe('a session', () => {
  const from = { address: '', overTls: false };

  it('is opened with a token, or with a link, once', async () => {
    const { gate } = gateOf();
    const byToken = await openSession(gate, { token: 'known' }, from);
    expect(byToken).toMatchObject({ name: 'ada', via: 'token' });
    const code = loginLink(gate, ada.subject).replace('/#login=', '');
    const byLink = await openSession(gate, { code }, { ...from, overTls: true });
    expect(byLink).toMatchObject({ name: 'ada', via: 'link' });
    expect(byLink.cookie).toMatch(/; Secure$/);
    for (const { cookie } of [byToken, byLink]) {
      expect(gate.sessions.find(cookieOf(cookie))?.subject).toBe(ada.subject);
    }
    for (const given of [{ code }, { code: 'made up' }, { code, token: 'known' }]) {
      await expect(openSession(gate, given, from)).rejects.toEqual(codeOf('used-link'));
    }
    await expect(openSession(gate, {}, from)).rejects.toEqual(codeOf('wrong-token'));
  });

  it('is not opened by the link of a user who is gone, nor where there is no token', async () => {
    const { gate, world } = gateOf();
    const code = loginLink(gate, ada.subject).replace('/#login=', '');
    world.person = undefined;
    await expect(openSession(gate, { code }, from)).rejects.toEqual(codeOf('used-link'));
    await expect(openSession(undefined, { code }, from)).rejects.toEqual(codeOf('no-token-set'));
    expect(() => loginLink(undefined)).toThrow(codeOf('no-token-set'));
  });
});

describe('what a server proves', () => {
  it('is that it knows its token, or the hash of that of a user', () => {
    const { gate } = gateOf();
    expect(isProof(serverProof(gate, 'nonce'), token, 'nonce')).toBe(true);
    expect(serverProof(gate, 'nonce', 'id')).toBe(proofOf('hash', 'nonce'));
    expect(() => serverProof(gate, 'nonce', 'other')).toThrow(codeOf('wrong-token'));
    expect(() => serverProof(undefined, 'nonce')).toThrow(codeOf('no-token-set'));
  });
});

const loginLinksCodeOf = (link: string): string => /^\/#login=([\w-]{43})$/.exec(link)?.[1] ?? '';

describe('login links', () => {
  it('opens once', () => {
    const links = new LoginLinks(() => 0);
    const code = loginLinksCodeOf(links.make('user:ada'));
    expect([links.use('made-up'), links.use(code), links.use(code)]).toEqual([
      undefined,
      'user:ada',
      undefined,
    ]);
  });

  it('ends after an hour', () => {
    let now = 0;
    const links = new LoginLinks(() => now);
    const [one, other] = [loginLinksCodeOf(links.make()), loginLinksCodeOf(links.make())];
    now = 3599;
    expect(links.use(one)).toBe('');
    now = 3600;
    expect(links.use(other)).toBeUndefined();
  });

  it('keeps the newest hundred', () => {
    const links = new LoginLinks(() => 0);
    const codes = Array.from({ length: 101 }, () => loginLinksCodeOf(links.make()));
    expect([links.use(codes[0] ?? ''), links.use(codes[1] ?? '')]).toEqual([undefined, '']);
  });
});
