import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { callWording } from '../wording.js';
import { pythonNextStep } from './python-next-step.js';

/** Failures of the Python part: the code, and whatever texts come with it. */
const failures = readdirSync(join(root, 'python/plimsoll/tracing'), {
  recursive: true,
  encoding: 'utf8',
})
  .filter((file) => file.endsWith('.py'))
  .map((file) => readFileSync(join(root, 'python/plimsoll/tracing', file), 'utf8'))
  .concat(readFileSync(join(root, 'python/plimsoll/trace.py'), 'utf8'))
  .flatMap((text) => text.split('Failure(').slice(1))
  .map((text) => /^\s*"([a-z-]+)",([\s\S]*?)\n?\s*\)(?: from|\n)/.exec(text))
  .flatMap((found) => (found === null ? [] : [{ code: found[1] ?? '', texts: found[2] ?? '' }]));

/** Arguments that TypeScript wrote wrongly: no reader can help it. */
const ours = new Set(['bad-arguments', 'bad-argument']);

describe('pythonNextStep', () => {
  it('stands in for every next step of the Python part that names an argument', () => {
    const naming = failures.filter(({ texts }) => /--[a-z]/.test(texts)).map(({ code }) => code);
    expect(naming.length).toBeGreaterThan(8);
    const missing = naming.filter((code) => pythonNextStep(code, callWording) === undefined);
    expect(missing.filter((code) => !ours.has(code))).toEqual([]);
  });

  it('is for codes that the Python part has', () => {
    const codes = failures.map(({ code }) => code);
    expect(codes).toContain('no-checkpointing');
    expect(pythonNextStep('no-checkpointing', callWording)).toBe('Leave checkpointing out.');
    expect(pythonNextStep('constructor', callWording)).toBeUndefined();
  });
});
