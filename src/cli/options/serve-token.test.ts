import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { serveToken, type TokenSource, tokenOfHome } from './serve-token.js';

function source(given: Partial<TokenSource> = {}): TokenSource {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-test-'));
  onTestFinished(() => rmSync(home, { recursive: true }));
  return { none: false, environment: {}, folder: home, home, ...given };
}

describe('the token of a server', () => {
  it('is made once, in its home, for its owner alone', () => {
    const own = source();
    expect(tokenOfHome(own.home)).toBeUndefined();
    const token = serveToken(own);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(serveToken(own)).toBe(token);
    expect(tokenOfHome(own.home)).toBe(token);
    expect(readdirSync(own.home)).toEqual(['token']);
    expect(statSync(join(own.home, 'token')).mode & 0o777).toBe(0o600);
  });

  it('is that of the file that was named, else of the variable', () => {
    const environment = { PLIMSOLL_TOKEN: 'from-the-variable' };
    const own = source({ environment, file: 'mine' });
    writeFileSync(join(own.home, 'mine'), 'from-the-file\n', { mode: 0o600 });
    expect(serveToken(own)).toBe('from-the-file');
    expect(serveToken({ ...own, file: undefined })).toBe('from-the-variable');
    expect(readdirSync(own.home)).toEqual(['mine']);
  });

  it('is left out only when that was asked for', () => {
    const own = source({ none: true, environment: { PLIMSOLL_TOKEN: 'set' } });
    expect(serveToken(own)).toBeUndefined();
    expect(() => serveToken({ ...own, file: 'mine' })).toThrow(/contradict/);
  });

  it.each([0o644, 0o604, 0o666])('is refused where others can read its file (%o)', (mode) => {
    const own = source();
    const path = join(own.home, 'token');
    writeFileSync(path, 'a-token-for-everyone\n');
    chmodSync(path, mode);
    const refusal = expect.objectContaining({ code: 'token-file-readable', exitCode: 2 });
    expect(() => serveToken(own)).toThrow(refusal);
    expect(() => serveToken({ ...own, file: 'token' })).toThrow(refusal);
    expect(tokenOfHome(own.home)).toBeUndefined();
    expect(readFileSync(path, 'utf8')).toBe('a-token-for-everyone\n');
  });

  it('may be read by the group of its file where that file is of root, and only there', () => {
    const own = source();
    const path = join(own.home, 'token');
    writeFileSync(path, 'a-secret-of-the-service\n');
    chmodSync(path, 0o640);
    const refusal = expect.objectContaining({ code: 'token-file-readable' });
    if (process.getuid?.() === 0) {
      expect(serveToken(own)).toBe('a-secret-of-the-service');
      chownSync(path, 4711, 4711);
    }
    expect(() => serveToken(own)).toThrow(refusal);
  });

  it.each([
    ['empty', ''],
    ['too long', 'x'.repeat(5000)],
  ])('is refused where its file is %s', (_, content) => {
    const own = source();
    writeFileSync(join(own.home, 'token'), content, { mode: 0o600 });
    expect(() => serveToken(own)).toThrow(expect.objectContaining({ code: 'bad-token-file' }));
  });
});
