import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { inFields, withFields } from './as-fields.js';

describe('options named to those who sent JSON', () => {
  it.each([
    [
      'Add --seq with the tokens, such as --seq 1024.',
      'Add "seq" with the tokens, such as "seq": 1024.',
    ],
    ['Leave --method out.', 'Leave "method" out.'],
    ['Trace it: --method trace, where torch is.', 'Trace it: "method": "trace", where torch is.'],
    ['No --memory and no --max-batch.', 'No "memoryBytes" and no "maxBatch".'],
    ['Nothing -- to see here - at all.', 'Nothing -- to see here - at all.'],
  ])('%s', (text, wanted) => {
    expect(inFields(text)).toBe(wanted);
  });

  it('changes the words of a failure and of notes, and nothing else', async () => {
    const failure = new Failure({ kind: 'input', code: 'x', fact: '--seq.', next: '--image.' });
    await expect(withFields(() => Promise.reject(failure))).rejects.toMatchObject({
      kind: 'input',
      code: 'x',
      fact: '"seq".',
      next: '"image".',
    });
    const answer = await withFields(() => Promise.resolve({ bytes: 1, notes: ['--seq'] }));
    expect(answer).toEqual({ bytes: 1, notes: ['"seq"'] });
  });
});
