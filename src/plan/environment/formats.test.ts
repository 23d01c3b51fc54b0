import { execFileSync } from 'node:child_process';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dotenvLines, exportCommand, shellLines } from './formats.js';
import type { EnvironmentSetting } from './types.js';

const settings: readonly EnvironmentSetting[] = [
  { name: 'A', action: 'set', value: 'x:True,y:0.5', reason: 'Why it is so.' },
  { name: 'B', action: 'unset', reason: 'Not here.' },
  { name: 'C', action: 'consider', value: ':4096:8', reason: 'Perhaps.' },
];

describe('shellLines', () => {
  it('sets, unsets, and leaves the rest to a person', () => {
    expect(shellLines(settings)).toBe(
      "export A='x:True,y:0.5'  # Why it is so.\nunset B  # Not here.\n# export C=':4096:8'  # Perhaps.\n",
    );
  });

  it('is understood by a shell', () => {
    const script = `${shellLines(settings)}printf '%s|%s|%s' "$A" "\${B-gone}" "\${C-none}"`;
    const env = { B: 'still here' };
    expect(execFileSync('/bin/sh', ['-c', script], { env, encoding: 'utf8' })).toBe(
      'x:True,y:0.5|gone|none',
    );
  });

  it('quotes any value so that a shell reads it back', () => {
    const special = fc.constantFrom("'", '"', '$', '`', '\\', '\n', ' ', '#', '$(id)', ';', '!');
    const values = fc.array(fc.oneof(special, fc.string()), { maxLength: 8 });
    fc.assert(
      fc.property(values, (parts) => {
        const value = parts.join('').replaceAll('\0', '');
        const script = `${exportCommand('A', value)}\nprintf '%s' "$A"`;
        expect(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' })).toBe(value);
      }),
      { numRuns: 30 },
    );
  });
});

describe('dotenvLines', () => {
  it('keeps comments on lines of their own, and plain values without quotes', () => {
    expect(dotenvLines(settings)).toBe(
      '# Why it is so.\nA=x:True,y:0.5\n# Not here.\n# B must not be set.\n# Perhaps.\n# C=:4096:8\n',
    );
  });

  it('quotes what needs it', () => {
    const value = 'a "b" $c\n#';
    expect(dotenvLines([{ name: 'A', action: 'set', value, reason: 'W.' }])).toBe(
      '# W.\nA="a \\"b\\" \\$c\\n#"\n',
    );
  });
});
