import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { progressOf, splitProgress } from './trace-progress.js';

const progressLine = (progress: object) => JSON.stringify({ progress });

describe('progressOf', () => {
  it.each([
    [progressLine({ phase: 'import' }), { words: 'Loading PyTorch' }],
    [progressLine({ phase: 'build' }), { words: 'Building the model without its weights' }],
    [
      progressLine({ phase: 'step', step: 2, of: 3 }),
      { words: 'Tracing step 2 of 3', share: 1 / 3 },
    ],
    [progressLine({ phase: 'step', step: '\u001b[2J', of: 3 }), { words: 'Tracing' }],
    [
      progressLine({ phase: 'files', step: 21, of: 40 }),
      { words: 'Reading file 21 of 40', share: 0.5 },
    ],
    [progressLine({ phase: 'something new' }), { words: 'Tracing' }],
    [progressLine({ phase: 'program', doing: 'saving' }), { words: 'The program saves' }],
    [progressLine({ phase: 'program', doing: 'new' }), { words: 'The program runs' }],
    ['{"progress":', undefined],
    ['Downloading 7%', undefined],
    [progressLine({ phase: 'x'.repeat(2000) }), undefined],
  ])('%s', (line, found) => {
    expect(progressOf(line)).toEqual(found);
  });
});

describe('splitProgress', () => {
  it('parts the lines of progress from all others, however they are cut', () => {
    const line = fc.oneof(
      fc.constant(progressLine({ phase: 'step', step: 1, of: 3 })),
      fc.stringMatching(/^[ -~]{0,30}$/).filter((text) => !text.startsWith('{"progress":')),
    );
    fc.assert(
      fc.property(fc.array(line), fc.integer({ min: 1, max: 40 }), (lines, size) => {
        const progress: string[] = [];
        let other = '';
        const take = splitProgress(
          (words) => progress.push(words),
          (text) => {
            other += text;
          },
        );
        const text = lines.map((one) => `${one}\n`).join('');
        for (let at = 0; at < text.length; at += size) take(text.slice(at, at + size));
        const rest = lines.filter((one) => progressOf(one) === undefined);
        expect(other).toBe(rest.map((one) => `${one}\n`).join(''));
        expect(progress).toHaveLength(lines.length - rest.length);
      }),
    );
  });
});
