import { describe, expect, it } from 'vitest';
import type { EnvironmentContext } from '../../plan/environment/types.js';
import { findingsText, settingsText } from './env.js';

const context: EnvironmentContext = { mode: 'production', vendor: 'nvidia', cores: 8, gpus: 2 };
const options = { columns: 40, style: { colour: false, unicode: true } };

describe('settingsText', () => {
  it('shows what to set, what not, what else, each with its reason', () => {
    const text = settingsText(
      [
        { name: 'ONE', action: 'set', value: '1', reason: 'Because one is more than none is.' },
        { name: 'LONGER', action: 'unset', reason: 'No.' },
        { name: 'C', action: 'consider', value: 'x', reason: 'May be.' },
      ],
      context,
      options,
    );
    expect(text).toBe(
      [
        'For production (2 GPUs of NVIDIA; 8 cores).',
        '',
        'Set:',
        '  ONE     1',
        '    Because one is more than none is.',
        '',
        'Not to be set:',
        '  LONGER',
        '    No.',
        '',
        'Worth a thought:',
        '  C       x',
        '    May be.',
      ].join('\n'),
    );
  });

  it('breaks a long reason between words', () => {
    const reason = 'word '.repeat(30).trim();
    const lines = settingsText(
      [{ name: 'A', action: 'set', value: '1', reason }],
      { ...context, gpus: 0, cores: 1 },
      options,
    ).split('\n');
    expect(lines[0]).toBe('For production (one GPU of NVIDIA is assumed; 1 core).');
    expect(lines.slice(4).every((line) => line.length <= 40)).toBe(true);
    expect(lines.slice(4).join(' ').split(/\s+/).filter(Boolean)).toHaveLength(30);
  });
});

describe('findingsText', () => {
  it('says so when all is well', () => {
    expect(findingsText([], context, options)).toBe(
      'The environment is fit for production: nothing must change.',
    );
  });

  it('keeps what an environment holds from acting on the terminal', () => {
    const value = `\u001B[2J\u0007\u009B31m\u202Eevil${'x'.repeat(200)}\nexport PATH=`;
    const text = findingsText(
      [
        {
          name: 'A',
          kind: 'debug-setting',
          severity: 'required',
          value,
          reason: `it says ${value}`,
          fix: `export A='${value}'`,
        },
      ],
      context,
      options,
    );
    expect(text).toContain('must change  A  is "[2J31mevil');
    expect(text).toContain('1 variable must change.');
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(text).not.toMatch(/^export PATH/m);
  });

  it('tells what is not set', () => {
    const fix = "export A='1'";
    const finding = {
      name: 'A',
      kind: 'missing',
      severity: 'advice',
      reason: 'Why.',
      fix,
    } as const;
    expect(findingsText([finding], context, options)).toMatch(
      /nothing must change\.\n\ncould change A {2}is not set \(missing\)\n {4}Why\.\n {4}export A='1'$/,
    );
  });
});
