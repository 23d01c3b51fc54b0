import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isSupported, lacking, parsePins, stampOf } from '../scripts/python-pins.mjs';
import { root } from './support/project-files.js';

const requirements = readFileSync(join(root, 'python/requirements-test.txt'), 'utf8');
const pins = parsePins(requirements);

describe('what the tests in Python run on', () => {
  it('is pinned to the version, all of it', () => {
    expect(Object.keys(pins)).toEqual(
      expect.arrayContaining(['torch', 'torchvision', 'transformers', 'peft']),
    );
    for (const version of Object.values(pins)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('tells what another environment lacks; a build for another CUDA will do', () => {
    expect(lacking(pins, { ...pins, torch: `${pins['torch']}+cu128` })).toEqual([]);
    expect(lacking(pins, { ...pins, torch: '2.10.0', peft: undefined })).toEqual([
      `torch ${pins['torch']} (has 2.10.0)`,
      `peft ${pins['peft']} (has none)`,
    ]);
  });

  it.each([
    ['3.9.18', false],
    ['3.10.0', true],
    ['3.14.2', true],
    ['3.15.0a1', false],
    ['2.7.18', false],
  ])('with Python %s: %s', (version, expected) => {
    expect(isSupported(version)).toBe(expected);
  });

  it('is made anew for other pins, another Python or another machine, and for nothing else', () => {
    const made = stampOf(requirements, '3.11.7', 'linux-x64');
    expect(stampOf(requirements, '3.11.9', 'linux-x64')).toBe(made);
    const others = [
      stampOf(`${requirements}numpy==2.4.6\n`, '3.11.7', 'linux-x64'),
      stampOf(requirements, '3.12.7', 'linux-x64'),
      stampOf(requirements, '3.11.7', 'linux-arm64'),
    ];
    expect(new Set([made, ...others]).size).toBe(4);
  });
});
