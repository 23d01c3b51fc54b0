import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { replay } from './event-replay.js';
import { parseRecordedRun } from './recorded-events.js';

function recording(events: unknown): string {
  return JSON.stringify({ id: 'x', peak_allocated: 1, peak_reserved: 2, events });
}

describe('parseRecordedRun', () => {
  it('empties the cache and forgets the peaks at the mark "ready"', () => {
    const { stream, segments, id } = parseRecordedRun(
      recording([
        ['segment_alloc', 50 * MiB],
        ['alloc', 1, 50 * MiB, 0],
        ['free', 1],
        ['free', 0],
        ['mark', 'built'],
        ['segment_free', 50 * MiB],
        ['mark', 'ready'],
        ['alloc', 2, 30 * MiB, 0],
      ]),
    );
    expect(id).toBe('x');
    expect(segments).toEqual([50 * MiB, -50 * MiB]);
    expect(stream.marks.map(({ name }) => name)).toEqual(['built', 'ready']);
    expect(replay(stream).peakReservedBytes).toBe(30 * MiB);
  });

  it.each([
    'not json',
    '[]',
    'null',
    '{}',
    recording({}),
    recording([1]),
    recording([['alloc', 1, -5]]),
    recording([['alloc', 1, 1.5]]),
    recording([['alloc', 1, '5']]),
    recording([['alloc', 1, 2 ** 52]]),
    recording([['free', 3]]),
    recording([['jump', 3]]),
    '{"events":[]}',
  ])('refuses %s', (text) => {
    expect(() => parseRecordedRun(text)).toThrow(Failure);
  });

  it('answers any list of events with a stream that replays, or with one clear error', () => {
    const word = fc.constantFrom(
      'alloc',
      'free',
      'segment_alloc',
      'segment_free',
      'mark',
      'oom',
      'x',
    );
    const value = fc.oneof(fc.nat(6), fc.constant('ready'), fc.jsonValue());
    const event = fc.oneof(
      fc.tuple(word, value, fc.oneof(fc.nat(), fc.jsonValue())),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 30, size: 'max' }), (events) => {
        try {
          replay(parseRecordedRun(recording(events)).stream);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
