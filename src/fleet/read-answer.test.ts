import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { prometheusLimits, readError, readLines, readPoints } from './read-answer.js';

function vector(result: readonly unknown[]): string {
  return JSON.stringify({ status: 'success', data: { resultType: 'vector', result } });
}

function matrix(result: readonly unknown[]): string {
  return JSON.stringify({ status: 'success', data: { resultType: 'matrix', result } });
}

/** Returns the answer, or the code of the refusal; any other error is a fault. */
function tried(read: (text: string) => unknown, text: string): unknown {
  try {
    return read(text);
  } catch (error) {
    if (error instanceof Failure) return error.code;
    throw error;
  }
}

describe('answers of Prometheus', () => {
  it('are points with their labels; values that are no number are left out', () => {
    const text = vector([
      { metric: { instance: 'n1', device: 'gpu:0' }, value: [1767225600.5, '85899345920'] },
      { metric: { instance: 'n2' }, value: [1767225600.5, 'NaN'] },
      { metric: { instance: 'n3' }, value: [1767225600.5, '+Inf'] },
      { metric: { instance: 'n4' }, value: [1767225600.5, '1e+09'] },
    ]);
    expect(readPoints(text).map(({ labels, value }) => [{ ...labels }, value])).toEqual([
      [{ instance: 'n1', device: 'gpu:0' }, 85_899_345_920],
      [{ instance: 'n4' }, 1e9],
    ]);
  });

  it('are lines over time', () => {
    const values = [
      [1, '10'],
      [2, 'NaN'],
      [3, '30'],
    ];
    const [line] = readLines(matrix([{ metric: {}, values }]));
    expect(line?.points).toEqual([
      [1, 10],
      [3, 30],
    ]);
  });

  it('say what Prometheus said of a query that failed', () => {
    const error = { status: 'error', errorType: 'bad_data', error: 'parse error at char 5' };
    expect(readError(JSON.stringify(error))).toBe('bad_data: parse error at char 5');
    expect(readError('<html>')).toBeUndefined();
    expect(readError('{"status":"success"}')).toBeUndefined();
  });

  it('of another program, or of the other kind, are refused', () => {
    for (const text of ['', '<html>', '[]', 'null', '{}', matrix([]), '{"status":"success"}']) {
      expect(tried(readPoints, text)).toBe('no-prometheus');
    }
    expect(tried(readLines, vector([]))).toBe('no-prometheus');
  });

  it('beyond the limits are refused', () => {
    const labels = Object.fromEntries(
      Array.from({ length: prometheusLimits.labels + 1 }, (_, at) => [`l${at}`, '']),
    );
    expect(tried(readPoints, vector([{ metric: labels, value: [1, '1'] }]))).toBe(
      'fleet-too-large',
    );
    const many = Array.from({ length: prometheusLimits.series + 1 }, () => 0);
    expect(tried(readPoints, vector(many))).toBe('fleet-too-large');
    const values = Array.from({ length: prometheusLimits.points + 1 }, () => [1, '1']);
    expect(tried(readLines, matrix([{ metric: {}, values }]))).toBe('no-prometheus');
  });

  it('keep labels that have the names of methods', () => {
    const text = vector([{ metric: { constructor: 'a', device: 'gpu:0' }, value: [1, '2'] }]);
    const [point] = readPoints(text.replace('"device"', '"__proto__"'));
    expect(point?.labels['constructor']).toBe('a');
    expect(point?.labels['toString']).toBeUndefined();
  });

  it('are read or refused with a reason, whatever they hold', () => {
    const odd = fc.anything({ maxDepth: 3 });
    const entry = fc.oneof(
      odd,
      fc.record({ metric: odd, value: odd, values: odd }),
      fc.record({
        metric: fc.dictionary(fc.string(), fc.oneof(fc.string(), odd)),
        value: fc.tuple(fc.oneof(fc.double(), odd), fc.oneof(fc.string(), odd)),
        values: fc.array(fc.oneof(odd, fc.tuple(fc.double(), fc.string()))),
      }),
    );
    const result = fc.oneof(odd, fc.array(entry, { maxLength: 5 }));
    const document = fc.oneof(
      odd,
      fc.record({
        status: fc.oneof(fc.constant('success'), odd),
        data: fc.oneof(odd, fc.record({ resultType: fc.constantFrom('vector', 'matrix'), result })),
      }),
    );
    fc.assert(
      fc.property(document, fc.nat(200), (made, cut) => {
        const list = JSON.stringify([made], (_, one) => (typeof one === 'bigint' ? 0 : one));
        const text = list.slice(1, -1);
        for (const one of [text, text.slice(0, cut)]) {
          for (const read of [readPoints, readLines]) {
            const answer = tried(read, one);
            if (typeof answer === 'string') {
              expect(['no-prometheus', 'fleet-too-large']).toContain(answer);
            } else expect(Array.isArray(answer)).toBe(true);
          }
          expect(['string', 'undefined']).toContain(typeof readError(one));
        }
      }),
    );
  });
});
