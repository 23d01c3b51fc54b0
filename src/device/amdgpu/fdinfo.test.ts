import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDrmClient } from './provider.js';

const text = [
  'pos:\t0',
  'flags:\t02100002',
  'drm-driver:\tamdgpu',
  'drm-client-id:\t42',
  'drm-pdev:\t0000:03:00.0',
  'drm-memory-vram:\t2048 KiB',
  'drm-engine-gfx:\t123 ns',
  '',
].join('\n');

describe('parseDrmClient', () => {
  it('reads what amdgpu writes', () => {
    expect(parseDrmClient(text)).toEqual({
      clientId: '42',
      pciAddress: '0000:03:00.0',
      vramBytes: 2048 * 1024,
    });
  });

  it('takes the newer key where the older is not there', () => {
    const newer = text.replace('drm-memory-vram:\t2048 KiB', 'drm-total-vram:\t3 MiB');
    expect(parseDrmClient(newer)?.vramBytes).toBe(3 * 1024 ** 2);
  });

  it.each([
    ['another driver', text.replace('amdgpu', 'i915')],
    ['no memory', text.replace(/drm-memory.*\n/, '')],
    ['memory that is no number', text.replace('2048 KiB', 'many KiB')],
    ['no client', text.replace(/drm-client.*\n/, '')],
    ['no address', text.replace(/drm-pdev.*\n/, '')],
    ['nothing', ''],
  ])('has no answer for %s', (_, odd) => {
    expect(parseDrmClient(odd)).toBeUndefined();
  });

  it('gives whole bytes or nothing, whatever it is fed', () => {
    const value = fc.oneof(
      fc.string(),
      fc.nat().map(String),
      fc.constantFrom('5 KiB', '-1', '1e9'),
    );
    fc.assert(
      fc.property(value, value, (size, client) => {
        const odd = text.replace('2048 KiB', () => size).replace('42', () => client);
        const bytes = parseDrmClient(odd)?.vramBytes ?? 0;
        expect(Number.isSafeInteger(bytes) && bytes >= 0).toBe(true);
      }),
    );
  });
});
