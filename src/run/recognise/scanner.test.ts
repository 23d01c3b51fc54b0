import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lookAlikes, specimens } from './corpus/messages-for-tests.js';
import { amount, tensorBytes } from './patterns.js';
import { createScanner, recogniseLine } from './scanner.js';

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

  it.each([
    ['RESOURCE_EXHAUSTED: failed to allocate 5GB of memory', 'jax', 5 * 1024 ** 3],
    ['RESOURCE_EXHAUSTED: Out of memory allocating 3.5 GiB', 'jax', 3.5 * 1024 ** 3],
    ['RESOURCE_EXHAUSTED: out of memory', 'jax', 'unknown'],
    ['cupy.cuda.OutOfMemoryError: Out of memory allocating', 'cupy', 'unknown'],
    ['\u001B[1;31mMemoryError\u001B[0m', 'python', 'unknown'],
    ['[rank0]: MemoryError: Unable to allocate 7. MiB', 'python', 7 * 1024 ** 2],
  ] as const)('reads what there is of %s', (line, kind, askedBytes) => {
    expect(recogniseLine(line)).toMatchObject({ kind, askedBytes });
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

  it.each([
    [64 * 1024, 64 * 1024],
    [64 * 1024 + 1, undefined],
  ])('finds one that %i bytes follow with %s bytes after it', (after, bytesAfter) => {
    for (const [line, look] of [
      ['MemoryError\r', 'found'],
      ['RuntimeError: could not create a primitive\n', 'suspected'],
    ] as const) {
      const scanner = createScanner();
      scanner.take(bytes(line));
      scanner.take(Buffer.alloc(after, ' ok\n'));
      expect(scanner[look]()?.bytesAfter).toBe(bytesAfter);
      expect(scanner[look === 'found' ? 'suspected' : 'found']()).toBeUndefined();
    }
  });

  it.each([
    ['RuntimeError: could not create a primitive', 'onednn', 'suspected'],
    ['MemoryError', 'python', 'found'],
  ] as const)('takes the last line without its end: %s', (line, kind, look) => {
    const scanner = createScanner();
    scanner.take(bytes(`ok\n${line}`));
    expect(scanner[look]()).toMatchObject({ outOfMemory: { kind }, bytesAfter: 0 });
  });

  it('cuts a line where it tells no more', () => {
    const scanner = createScanner();
    scanner.take(bytes(`${' '.repeat(4096)}MemoryError`));
    scanner.take(bytes(` CUDA error: out of memory`));
    expect(scanner.found()).toBeUndefined();
    expect(recogniseLine(`${'x'.repeat(4096)} CUDA error: out of memory`)).toBeUndefined();
    expect(recogniseLine(`${'x'.repeat(4000)} CUDA error: out of memory`)?.message).toBe(
      'x'.repeat(600),
    );
  });

  it.each([
    [8 * 1024, 3, 'unknown', 3],
    [8 * 1024 + 1, 3, 'unknown', 'unknown'],
    [100, 'unknown', 5, 5],
    [100, 3, 5, 5],
  ] as const)(
    'of two messages %i bytes apart with %s and %s takes %s',
    (apart, first, second, bytesAsked) => {
      const line = (asked: number | 'unknown') =>
        asked === 'unknown' ? 'MemoryError\n' : `MemoryError: Unable to allocate ${asked}.00 KiB\n`;
      const scanner = createScanner();
      scanner.take(bytes(line(first)));
      const last = line(second);
      scanner.take(bytes(`${'\n'.repeat(apart - last.length)}${last}`));
      const asked = bytesAsked === 'unknown' ? bytesAsked : bytesAsked * 1024;
      expect(scanner.found()?.outOfMemory.askedBytes).toBe(asked);
    },
  );

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

describe('amounts', () => {
  it.each([
    ['96.00 MiB', 96 * 1024 ** 2],
    ['512. MiB', 512 * 1024 ** 2],
    [' 3 gb ', 3 * 1024 ** 3],
    ['7 bytes', 7],
    ['1 byte', 1],
    ['8589934592', 8_589_934_592],
    ['x 5 MiB', 'unknown'],
    ['5 MiB x', 'unknown'],
    ['5 PiB', 'unknown'],
    ['', 'unknown'],
    [undefined, 'unknown'],
  ] as const)('%j is %s', (text, bytesOf) => {
    expect(amount(text)).toBe(bytesOf);
  });

  it.each([
    ['2,3', 'float', 24],
    ['10', 'bool', 10],
    ['9', 'complex64', 72],
    ['2,3', 'quint9', 'unknown'],
    ['2,3', undefined, 'unknown'],
    [undefined, 'half', 'unknown'],
    ['99999999,99999999', 'half', 'unknown'],
  ] as const)('a tensor of %s %s has %s bytes', (shape, type, bytesOf) => {
    expect(tensorBytes(shape, type)).toBe(bytesOf);
  });
});
