import { describe, expect, it } from 'vitest';
import { libraryCandidates, loadNvml } from './library.js';

describe('libraryCandidates', () => {
  it('starts with the plain name on Linux, then goes through the usual folders', () => {
    const [first, ...others] = libraryCandidates('linux', {});
    expect(first).toBe('libnvidia-ml.so.1');
    expect(others).toContain('/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1');
    expect(others).toContain('/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1');
    expect(others).toContain('/usr/lib/wsl/lib/libnvidia-ml.so.1');
    expect(others.every((path) => path.startsWith('/'))).toBe(true);
  });

  it('knows nvml.dll on Windows, and nothing on a Mac', () => {
    const [first, second] = libraryCandidates('win32', { SystemRoot: 'D:\\Win' });
    expect(first).toBe('nvml.dll');
    expect(second).toBe('D:\\Win\\System32\\nvml.dll');
    expect(libraryCandidates('darwin', {})).toEqual([]);
  });
});

describe('loadNvml', () => {
  it('tells of the first place when none works', async () => {
    const loaded = await loadNvml(['/nowhere/first.so', '/nowhere/second.so']);
    expect(loaded).toMatchObject({ why: expect.stringContaining('/nowhere/first.so') });
  });

  it('says so when there is no place to look', async () => {
    expect(await loadNvml([])).toEqual({ why: 'there is no NVML for this system' });
  });
});
