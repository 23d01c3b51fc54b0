import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import type { QuantizationPreset } from '../../estimate/types.js';
import { choosePreset } from './choose.js';
import { presetFacts, weightBytes } from './presets.js';

/** The same file is read by python/tests/sdk/test_common_rules.py: both must answer alike. */
interface Rules {
  readonly workingShare: number;
  readonly choices: readonly {
    parameters: number;
    freeBytes: number;
    preset: QuantizationPreset;
  }[];
  readonly weights: readonly {
    preset: QuantizationPreset;
    parameters: number;
    bytes: number;
  }[];
}
const rules: Rules = JSON.parse(readFileSync(`${root}test/fixtures/preset-rules.json`, 'utf8'));

describe('presets, as the SDK chooses them too', () => {
  it.each(rules.choices)('$parameters parameters in $freeBytes bytes: $preset', (one) => {
    const { parameters, freeBytes, preset } = one;
    const choice = choosePreset({
      parameters,
      freeBytes,
      hostFreeBytes: 2 ** 45,
      forTraining: false,
      // The SDK sees what is free after its context was made.
      workingBytes: Math.ceil(2 * parameters * rules.workingShare),
    });
    expect(choice.preset).toBe(preset);
  });

  it.each(rules.weights)('$parameters parameters as $preset', ({ preset, parameters, bytes }) => {
    expect(weightBytes(preset, { parameters })).toBe(bytes);
  });

  it('knows each preset in these cases', () => {
    const all = Object.keys(presetFacts).toSorted();
    expect([...new Set(rules.choices.map(({ preset }) => preset))].toSorted()).toEqual(all);
    expect([...new Set(rules.weights.map(({ preset }) => preset))].toSorted()).toEqual(all);
  });
});
