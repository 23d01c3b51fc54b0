import { expect, test } from 'vitest';
import { withoutPythonNumbers } from './python-json.js';

test('numbers that only Python writes become null', () => {
  const text = '{"time_step_limit": [0.0, Infinity], "low": -Infinity, "scale": NaN, "layers": -2}';
  expect(JSON.parse(withoutPythonNumbers(text))).toEqual({
    time_step_limit: [0, null],
    low: null,
    scale: null,
    layers: -2,
  });
});

test('texts that name them stay as they are', () => {
  const text = JSON.stringify({ NaN: 'Infinity', quoted: 'a "NaN" and \\', after: '-Infinity' });
  expect(withoutPythonNumbers(text)).toBe(text);
});

test('what is no JSON without them stays no JSON', () => {
  for (const text of ['{"a": Infinityx}', '{"a": xNaN}', 'Infinity Infinity', '{"a": "NaN}']) {
    expect(() => JSON.parse(withoutPythonNumbers(text))).toThrow(SyntaxError);
  }
});
