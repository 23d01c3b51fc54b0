import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryBar, resample, sparkRows } from './charts.js';
import { brailleChart } from './replay-chart.js';
import { paintLine, type Span, span, spansWidth, spread, type TextStyle } from './spans.js';

const unicode: TextStyle = { colour: false, unicode: true };
const ascii: TextStyle = { colour: false, unicode: false };
const plain = (spans: readonly Span[]) => spans.map(({ text }) => text).join('');

describe('memoryBar', () => {
  it('marks the load line on the hull', () => {
    expect(plain(memoryBar(20, 50, 90, unicode))).toBe('██████████·······┃··');
    expect(plain(memoryBar(20, 100, 90, unicode))).toBe('█████████████████┃██');
    expect(plain(memoryBar(10, 50, 90, ascii))).toBe('#####---|-');
  });

  it('paints what lies beyond the load line as danger', () => {
    expect(memoryBar(20, 97, 90, unicode).at(-1)?.paint).toBe('red');
    expect(memoryBar(20, 50, 90, unicode)[0]?.paint).toBe('cyan');
  });

  it('shows an unknown share as neither empty nor full', () => {
    expect(memoryBar(5, 'unknown', 90, unicode)).toEqual([span('·····', 'dim')]);
  });

  it('is exactly as wide as asked', () => {
    fc.assert(
      fc.property(
        fc.nat(200),
        fc.double({ min: -50, max: 500, noNaN: true }),
        fc.double({ min: 0, max: 100, noNaN: true }),
        fc.boolean(),
        (width, percent, load, wide) => {
          const bar = memoryBar(width, percent, load, wide ? unicode : ascii);
          expect(spansWidth(bar)).toBe(width);
        },
      ),
    );
  });
});

describe('sparkRows', () => {
  const options = { width: 4, height: 1, top: 8, line: 7, style: unicode };

  it('goes from empty to full', () => {
    expect(sparkRows([1, 3, 6, 8], options).map(plain)).toEqual(['▁▃▆█']);
    expect(sparkRows([8], options).map(plain)).toEqual(['   █']);
  });

  it('draws the load line behind two rows or more', () => {
    expect(sparkRows([2, 4, 8, 2], { ...options, height: 2 }).map(plain)).toEqual(['╌╌█╌', '▄██▄']);
  });

  it('shows little as little, not as nothing', () => {
    expect(sparkRows([0.01, 0, Number.NaN, 1], options).map(plain)).toEqual(['▁  ▁']);
  });

  it('paints values over the load line', () => {
    expect(sparkRows([1, 1, 1, 8], options)[0]?.at(-1)).toEqual(span('█', 'red'));
  });
});

describe('resample', () => {
  it('never loses the peak', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(1000), { minLength: 1, maxLength: 300 }),
        fc.integer({ min: 1, max: 50 }),
        (values, width) => {
          const cells = resample(values, width);
          expect(cells).toHaveLength(width);
          const drawn = cells.filter((value) => !Number.isNaN(value));
          expect(Math.max(...drawn)).toBe(Math.max(...values));
        },
      ),
    );
  });
});

describe('brailleChart', () => {
  const options = {
    seconds: [0, 1, 2, 3],
    fromSeconds: 0,
    toSeconds: 3,
    top: 7,
    width: 2,
    height: 2,
    levels: [],
    style: unicode,
  };

  it('draws a rise from the lower left to the upper right', () => {
    const rows = brailleChart([{ values: [0, 2, 5, 7], paint: 'cyan' }], options).map(plain);
    expect(rows[0]?.[0]).toBe(' ');
    expect(rows[0]?.[1]).not.toBe(' ');
    expect(rows[1]?.[0]).not.toBe(' ');
  });

  it('keeps a peak of a single sample among many', () => {
    const seconds = Array.from({ length: 1000 }, (_, index) => index);
    const values = seconds.map((second) => (second === 500 ? 7 : 0));
    const rows = brailleChart([{ values, paint: 'cyan' }], {
      ...options,
      seconds,
      toSeconds: 999,
      width: 20,
    });
    expect(plain(rows[0] ?? []).trim()).not.toBe('');
  });

  it('draws a level where no data cover it', () => {
    const levels = [{ value: 7, mark: '─', paint: 'white' as const }];
    const rows = brailleChart([{ values: [0, 0, 0, 0], paint: 'cyan' }], { ...options, levels });
    expect(plain(rows[0] ?? [])).toBe('──');
  });
});

describe('lines of spans', () => {
  it('cuts a line where the columns end', () => {
    expect(paintLine([span('abc'), span('def'), span('ghi')], 5, unicode)).toBe('abcd…');
    expect(paintLine([span('abc'), span('def')], 5, ascii)).toBe('abcd~');
    expect(paintLine([span('abc'), span('def')], 6, unicode)).toBe('abcdef');
  });

  it('paints only when asked', () => {
    expect(paintLine([span('a', 'red')], 5, { colour: true, unicode: true })).toBe(
      '\u001B[31ma\u001B[39m',
    );
    expect(paintLine([span('a', 'red')], 5, unicode)).toBe('a');
  });

  it('gives up the right end rather than the left', () => {
    expect(plain(spread([span('left')], [span('right')], 12))).toBe('left   right');
    expect(plain(spread([span('left')], [span('right')], 10))).toBe('left');
  });
});
