import * as fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { failureOf, memorySource, outcomeOf } from '../files-for-tests.js';
import { limits } from '../limits.js';
import { withoutPythonNumbers } from './config-fields.js';
import { readConfigValues, readModelConfig } from './read-config.js';

function read(text: string | Buffer): unknown {
  return readConfigValues(memorySource(Buffer.from(text)), 'config.json');
}

describe('readModelConfig', () => {
  it('takes the file, or the folder it lies in', async () => {
    await using tree = await makeFakeTree({ 'gpt2/config.json': '{"model_type":"gpt2"}' });
    const folder = `${tree.folder}/gpt2`;
    expect(readModelConfig(folder).parameters).toBe(124_439_808);
    expect(readModelConfig(`${folder}/config.json`).parameters).toBe(124_439_808);
  });

  it('says so when there is none', async () => {
    await using tree = await makeFakeTree({ 'empty/note.txt': '' });
    expect(failureOf(() => readModelConfig(`${tree.folder}/empty`)).code).toBe('no-file');
    expect(failureOf(() => readModelConfig(`${tree.folder}/nowhere`)).code).toBe('no-file');
  });
});

describe('readConfigValues', () => {
  it('passes over a byte order mark', () => {
    expect(read('\u{feff}{"a":1}')).toEqual({ a: 1 });
  });

  it.each([
    ['nothing', '', 'not JSON'],
    ['half a file', '{"model_type":"ll', 'not JSON'],
    ['a list', '[]', 'not an object'],
    ['bytes that are no text', Buffer.from([0x7b, 0xff, 0x7d]), 'not UTF-8'],
    ['brackets without end', '['.repeat(100), 'nests deeper'],
    ['values without end', `{"a":[${'1,'.repeat(limits.configValues)}`, 'values'],
    ['a file that is too large', ' '.repeat(limits.configBytes + 1), 'at most'],
  ])('refuses %s', (_, text, words) => {
    const failure = failureOf(() => read(text));
    expect(failure).toMatchObject({ kind: 'input', code: 'bad-config' });
    expect(failure.fact).toContain(words);
  });

  it('does not count what stands in texts', () => {
    const text = `[[[{{{,,,"\\`.repeat(20_000);
    expect(read(JSON.stringify({ text }))).toEqual({ text });
  });

  it('reads or refuses any bytes', () => {
    const whole = Buffer.from(JSON.stringify({ model_type: 'bert', id2label: { 0: 'a"b' } }));
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array().map((bytes) => Buffer.from(bytes)),
          fc.nat(whole.length).map((length) => whole.subarray(0, length)),
          fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
            const changed = Buffer.from(whole);
            changed[at] = byte;
            return changed;
          }),
        ),
        (bytes) => {
          expect(['read', 'bad-config']).toContain(outcomeOf(() => read(bytes)));
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('python json', () => {
  test('numbers that only Python writes become null', () => {
    const text =
      '{"time_step_limit": [0.0, Infinity], "low": -Infinity, "scale": NaN, "layers": -2}';
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
});
