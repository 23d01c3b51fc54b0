import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { bearerToken, checkToken, isSameSecret, newToken } from './token.js';

function codeOf(host: string, token?: string): string | undefined {
  try {
    checkToken(host, token);
    return undefined;
  } catch (error) {
    return error instanceof Failure ? error.code : 'no failure';
  }
}

describe('the token', () => {
  it('is another each time, and fit for a header beyond this machine', () => {
    const token = newToken();
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(newToken()).not.toBe(token);
    expect(codeOf('0.0.0.0', token)).toBeUndefined();
  });

  it('is needed beyond this machine, and must not be short anywhere', () => {
    expect(codeOf('127.0.0.1')).toBeUndefined();
    expect(codeOf('localhost')).toBeUndefined();
    expect(codeOf('127.0.0.1', 'short')).toBe('weak-token');
    for (const host of ['0.0.0.0', '::', '', '192.168.0.7', 'gpu-box']) {
      expect(codeOf(host)).toBe('token-needed');
      expect(codeOf(host, 'x'.repeat(15))).toBe('weak-token');
      expect(codeOf(host, 'x'.repeat(16))).toBeUndefined();
    }
  });

  it('must be something that a header can carry', () => {
    for (const token of ['', 'two words', 'new\nline', 'schlüssel']) {
      expect(codeOf('127.0.0.1', token)).toBe('bad-token');
    }
  });

  it('is compared whole', () => {
    expect(isSameSecret('abc', 'abc')).toBe(true);
    expect(isSameSecret('abc', 'abcd')).toBe(false);
    expect(isSameSecret('', 'abc')).toBe(false);
  });

  it('stands behind Bearer, however that is written', () => {
    expect(bearerToken('Bearer abc')).toBe('abc');
    expect(bearerToken('bearer  abc ')).toBe('abc');
    for (const header of [undefined, '', 'Bearer', 'Bearer ', 'Basic abc', 'Bearer a b', 'abc']) {
      expect(bearerToken(header)).toBeUndefined();
    }
  });
});
