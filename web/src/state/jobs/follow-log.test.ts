import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noLines, openLine, withText } from './follow-log.js';

describe('a log', () => {
  it('is the same whatever pieces it comes in', () => {
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a\r\n]{0,6}$/)), (pieces) => {
        const whole = withText(noLines, pieces.join(''));
        const parts = pieces.reduce(withText, noLines);
        expect(parts).toEqual(whole);
      }),
    );
  });

  it('shows a progress bar as it was written last', () => {
    const log = withText(noLines, 'start\r\n10 %\r20 %\r30 %');
    expect(log.lines).toEqual(['start']);
    expect(openLine(log)).toBe('30 %');
    expect(withText(log, '\r40 %\nend\n').lines).toEqual(['start', '40 %', 'end']);
  });

  it('keeps the last lines only, and counts the others', () => {
    const log = withText(noLines, Array.from({ length: 5000 }, (_, line) => `${line}\n`).join(''));
    expect([log.lines.length, log.dropped, log.lines.at(-1)]).toEqual([4000, 1000, '4999']);
  });

  it('is not filled by a line without end', () => {
    let log = noLines;
    for (let piece = 0; piece < 100; piece++) log = withText(log, 'x'.repeat(1000));
    expect(log.open.length).toBe(4000);
  });
});
