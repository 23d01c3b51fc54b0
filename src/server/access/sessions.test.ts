import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/virtual-clock.js';
import { Sessions } from './sessions.js';
import { WrongTokens } from './wrong-tokens.js';

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
    expect(open('secret').isOpen(cookie)).toBe(true);
    expect(open('secret').isOpen(`other=1; ${cookie}; more=2`)).toBe(true);
    const value = cookie.split('=')[1] ?? '';
    const other = open('changed');
    expect(other.isOpen(`${other.cookieName}=${value}`)).toBe(false);
  });

  it('end after a week', async () => {
    const clock = createVirtualClock();
    const sessions = open('secret', clock);
    const cookie = cookieOf(sessions.open(false));
    await clock.advance(7 * 24 * 3600 - 2);
    expect(sessions.isOpen(cookie)).toBe(true);
    await clock.advance(3);
    expect(sessions.isOpen(cookie)).toBe(false);
  });

  it('end when somebody logs out, and only that one', () => {
    const sessions = open();
    const [mine, other] = [cookieOf(sessions.open(false)), cookieOf(sessions.open(false))];
    expect(sessions.end(mine)).toMatch(/=; Path=.*Max-Age=0$/);
    expect(sessions.isOpen(mine)).toBe(false);
    expect(sessions.isOpen(other)).toBe(true);
  });

  it('cannot be made up', () => {
    const sessions = open();
    const value = cookieOf(sessions.open(false)).split('=')[1] ?? '';
    expect(sessions.isOpen(undefined)).toBe(false);
    expect(sessions.isOpen(`${sessions.cookieName}=secret`)).toBe(false);
    const [until = '', nonce = '', signature = ''] = value.split('.');
    const later = `${Number(until) + 1}.${nonce}.${signature}`;
    expect(sessions.isOpen(`${sessions.cookieName}=${later}`)).toBe(false);
    fc.assert(
      fc.property(fc.string(), (text) => !sessions.isOpen(`${sessions.cookieName}=${text}`)),
    );
  });
});

describe('wrong tokens', () => {
  it('make an address wait, that one only, and for a minute', async () => {
    const clock = createVirtualClock();
    const wrong = new WrongTokens({ most: 3, seconds: () => clock.seconds() });
    for (let tries = 0; tries < 3; tries++) {
      expect(wrong.mustWait('a')).toBe(false);
      wrong.add('a');
    }
    expect(wrong.mustWait('a')).toBe(true);
    expect(wrong.mustWait('b')).toBe(false);
    await clock.advance(59);
    expect(wrong.mustWait('a')).toBe(true);
    await clock.advance(1);
    expect(wrong.mustWait('a')).toBe(false);
  });
});
