import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readMessage } from './read-message.js';
import { createJsonLines } from './unix-socket.js';

describe('JSON lines', () => {
  it('come out whole wherever they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue(), { maxLength: 8 }),
        fc.infiniteStream(fc.integer({ min: 1, max: 30 })),
        (values, steps) => {
          const text = values.map((value) => `${JSON.stringify(value)}\n`).join('');
          const lines = createJsonLines();
          const found: unknown[] = [];
          for (let at = 0; at < text.length; ) {
            const step = steps.next().value;
            const documents = lines.take(text.slice(at, at + step));
            if (documents === 'broken') throw new Error('broken');
            found.push(...documents);
            at += step;
          }
          expect(found).toEqual(JSON.parse(JSON.stringify(values)));
        },
      ),
    );
  });

  it('are refused when they are none, or have no end', () => {
    expect(createJsonLines().take('{"a":\n')).toBe('broken');
    const lines = createJsonLines();
    let answer: unknown = [];
    for (let i = 0; i < 10 && answer !== 'broken'; i++) answer = lines.take('x'.repeat(64 * 1024));
    expect(answer).toBe('broken');
  });
});

describe('readMessage', () => {
  it('takes any document, and answers only what it knows', () => {
    const types = fc.constantFrom('hello', 'figures', 'oom', 'step', 'barrier', 'bye', 'other');
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), types, (document, type) => {
        const message = readMessage({ ...document, type });
        expect(message === undefined || message.type === type).toBe(true);
      }),
    );
    fc.assert(fc.property(fc.jsonValue(), (document) => void readMessage(document)));
  });

  it('calls unknown what the SDK does not know', () => {
    expect(
      readMessage({ type: 'oom', id: 'a', askedBytes: null, microbatch: 4, peakBytes: null }),
    ).toMatchObject({
      askedBytes: 'unknown',
      peakBytes: 'unknown',
      batch: 4,
    });
    expect(
      readMessage({ type: 'hello', rank: 3, world: 2, hooks: ['microbatch', 'x'] }),
    ).toMatchObject({
      world: 4,
      hooks: ['microbatch'],
    });
  });
});
