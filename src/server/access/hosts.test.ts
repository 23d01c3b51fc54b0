import { describe, expect, it } from 'vitest';
import { checkAllowedHosts, isLoopback, isOwnHost, readHost } from './hosts.js';

function isOwn(text: string, listening = '127.0.0.1', allowed: string[] = []): boolean {
  const host = readHost(text);
  return host !== undefined && isOwnHost(host, { listening, allowed });
}

describe('the host of a request', () => {
  it.each([
    'localhost',
    'LOCALHOST:9',
    'localhost.:8000',
    '127.0.0.1',
    '127.0.0.1:1',
    '[::1]:8000',
  ])('takes %s for this machine', (text) => expect(isOwn(text)).toBe(true));

  it.each([
    'evil.example',
    'localhost.evil.example',
    'evil.example:8000',
    '127.0.0.1.evil.example',
    '127.0.0.2',
    '192.168.0.7',
    '',
    'local host',
    'user@localhost',
    'localhost:port',
    'localhost:8000:8000',
    '[::1',
    '[::1]x',
  ])('takes %j for foreign', (text) => expect(isOwn(text)).toBe(false));

  it('knows the address it listens on', () => {
    expect(isOwn('192.168.0.7:8000', '192.168.0.7')).toBe(true);
    expect(isOwn('[fd00::7]', 'fd00::7')).toBe(true);
    expect(isOwn('gpu-box', 'gpu-box')).toBe(true);
    expect(isOwn('192.168.0.8', '192.168.0.7')).toBe(false);
  });

  it('takes any address where it listens on all, for an address cannot be rebound; names it does not', () => {
    expect(isOwn('10.1.2.3:8000', '0.0.0.0')).toBe(true);
    expect(isOwn('[fd00::1]', '::')).toBe(true);
    expect(isOwn('evil.example', '0.0.0.0')).toBe(false);
  });

  it('takes what was allowed: with a port only that one', () => {
    expect(isOwn('gpu.example', undefined, ['gpu.example'])).toBe(true);
    expect(isOwn('GPU.example:1', undefined, ['gpu.example'])).toBe(true);
    expect(isOwn('gpu.example:1', undefined, ['gpu.example:2'])).toBe(false);
    expect(isOwn('gpu.example:2', undefined, ['gpu.example:2'])).toBe(true);
    expect(isOwn('[fd00::1]:3', undefined, ['fd00::1'])).toBe(true);
  });
});

it('refuses allowed hosts that could never be met', () => {
  expect(() => checkAllowedHosts(['gpu.example', '10.0.0.1:80', 'fd00::1'])).not.toThrow();
  for (const wrong of ['https://gpu.example', 'gpu.example/', '', '*.example', 'a b']) {
    expect(() => checkAllowedHosts(['fine', wrong])).toThrow(/is not a valid host name/);
  }
});

describe('loopback', () => {
  it.each(['localhost', '127.0.0.1', '127.1.2.3', '::1', '[::1]', '::ffff:127.0.0.1'])(
    '%s is',
    (host) => expect(isLoopback(host)).toBe(true),
  );
  it.each([
    '0.0.0.0',
    '::',
    '',
    '10.0.0.1',
    '127.0.0.1.evil.example',
    'localhost.evil',
    '1127.0.0.1',
    '[127.0.0].1',
    'x[127.0.0.1]',
  ])('%j is not', (host) => expect(isLoopback(host)).toBe(false));
});
