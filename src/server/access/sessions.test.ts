import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { Sessions } from './sessions.js';

function open(token = 'secret', clock = createVirtualClock()): Sessions {
  return new Sessions({ token, epochMs: () => clock.epochMs() });
}

function cookieOf(setCookie: string): string {
  return setCookie.split(';')[0] ?? '';
}

describe('sessions', () => {
  it('are a cookie that scripts and other sites do not get', () => {
    expect(open().open(false)).toMatch(/; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604800$/);
    expect(open().open(true)).toMatch(/; Secure$/);
  });

  it('outlive the server, not the token', () => {
    const cookie = cookieOf(open('secret').open(false));
    expect(open('secret').find(cookie)).toBeDefined();
    expect(open('secret').find(`other=1; ${cookie}; more=2`)).toBeDefined();
    const value = cookie.split('=')[1] ?? '';
    const other = open('changed');
    expect(other.find(`${other.cookieName}=${value}`)).toBeUndefined();
  });

  it('end after a week', async () => {
    const clock = createVirtualClock();
    const sessions = open('secret', clock);
    const cookie = cookieOf(sessions.open(false));
    await clock.advance(7 * 24 * 3600 - 2);
    expect(sessions.find(cookie)).toBeDefined();
    await clock.advance(3);
    expect(sessions.find(cookie)).toBeUndefined();
  });

  it('end when somebody logs out, and only that one', () => {
    const sessions = open();
    const [mine, other] = [cookieOf(sessions.open(false)), cookieOf(sessions.open(false))];
    expect(sessions.end(mine)).toMatch(/=; Path=.*Max-Age=0$/);
    expect(sessions.find(mine)).toBeUndefined();
    expect(sessions.find(other)).toBeDefined();
  });

  it('cannot be made up', () => {
    const sessions = open();
    const value = cookieOf(sessions.open(false)).split('=')[1] ?? '';
    expect(sessions.find(undefined)).toBeUndefined();
    expect(sessions.find(`${sessions.cookieName}=secret`)).toBeUndefined();
    const [until = '', nonce = '', signature = ''] = value.split('.');
    const later = `${Number(until) + 1}.${nonce}.${signature}`;
    expect(sessions.find(`${sessions.cookieName}=${later}`)).toBeUndefined();
    fc.assert(
      fc.property(
        fc.string(),
        (text) => sessions.find(`${sessions.cookieName}=${text}`) === undefined,
      ),
    );
  });
});

describe('a session that was found', () => {
  it('is looked at again without its cookie: it ends with the week, or when somebody logs out', async () => {
    const clock = createVirtualClock();
    const sessions = open('secret', clock);
    const [first, second] = [cookieOf(sessions.open(false)), cookieOf(sessions.open(false))];
    const [mine, other] = [sessions.find(first), sessions.find(second)];
    if (mine === undefined || other === undefined) throw new Error('not found');
    sessions.end(first);
    expect([sessions.isOpen(mine), sessions.isOpen(other)]).toEqual([false, true]);
    await clock.advance(7 * 24 * 3600 + 1);
    expect(sessions.isOpen(other)).toBe(false);
  });
});
