import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lookAlikes, specimens } from './corpus/messages-for-tests.js';
import { recogniseLine } from './recognise.js';
import { createScanner } from './scanner.js';

describe('the recogniser', () => {
  it.each(specimens)('knows the words of $from', (specimen) => {
    expect(recogniseLine(specimen.text)).toMatchObject({
      kind: specimen.kind,
      askedBytes: specimen.askedBytes ?? 'unknown',
      freeBytes: specimen.freeBytes ?? 'unknown',
      totalBytes: specimen.totalBytes ?? 'unknown',
    });
  });

  it.each(lookAlikes)('takes this for no out-of-memory: %s', (line) => {
    expect(recogniseLine(line)).toBeUndefined();
  });

  it('takes any line, and keeps little of a long one', () => {
    fc.assert(
      fc.property(
        fc.string({ maxLength: 300 }),
        fc.constantFrom(...specimens),
        (noise, { text }) => {
          const found = recogniseLine(`${text} ${noise.repeat(50)}`);
          expect(found?.message.length ?? 0).toBeLessThanOrEqual(600);
          recogniseLine(noise);
        },
      ),
    );
  });

  it('does not hang on a line made to be slow', () => {
    for (const hard of [
      `[${'a'.repeat(100_000)}`,
      'allocat'.repeat(10_000),
      `RESOURCE_EXHAUSTED ${'allocat '.repeat(5000)}`,
      `CUDA out of memory. Tried to allocate ${'1'.repeat(100_000)} MiB`,
    ]) {
      expect(recogniseLine(hard)?.askedBytes ?? 'unknown').toBe('unknown');
    }
  });
});

describe('the scanner', () => {
  const bytes = (text: string) => Buffer.from(text, 'utf8');

  it('finds a message wherever the output is cut', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...specimens),
        fc.array(fc.nat(40), { maxLength: 40 }),
        (specimen, steps) => {
          const whole = bytes(`é start ✓\r 3%\r 4%\n${specimen.text}\nbye\n`);
          const scanner = createScanner();
          let at = 0;
          for (const step of steps) {
            scanner.take(whole.subarray(at, at + step));
            at += step;
          }
          scanner.take(whole.subarray(at));
          expect(scanner.found()?.outOfMemory.kind).toBe(specimen.kind);
        },
      ),
    );
  });

  it('finds one that no end of line follows', () => {
    const scanner = createScanner();
    scanner.take(bytes('MemoryError'));
    expect(scanner.found()?.outOfMemory.kind).toBe('python');
  });

  it('forgets a message that much output followed: the program went on', () => {
    const scanner = createScanner();
    scanner.take(bytes('RuntimeError: CUDA error: out of memory\n'));
    scanner.take(bytes('step ok\n'.repeat(20_000)));
    expect(scanner.found()).toBeUndefined();
  });

  it('keeps the figures when the program repeats itself without them', () => {
    const scanner = createScanner();
    scanner.take(
      bytes(
        'ggml_gallocr_reserve_n: failed to allocate CUDA4 buffer of size 150995968\nllama_new_context_with_model: failed to allocate compute buffers\n',
      ),
    );
    expect(scanner.found()?.outOfMemory.askedBytes).toBe(150_995_968);
  });

  it('holds no more for endless output without an end of line', () => {
    const scanner = createScanner();
    const piece = Buffer.alloc(64 * 1024, 'x');
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 2000; index++) scanner.take(piece);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * 1024 * 1024);
    expect(scanner.found()).toBeUndefined();
  });
});
