import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../test/fake-tree.js';
import { Failure } from '../failure.js';
import { GiB, MiB } from '../units/bytes.js';
import { parseRecordedTrace, readRecordedTrace } from './recorded-trace.js';

const columns = ['seconds', 'allocated', 'reserved', 'device_used'];

function trace(parts: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ capacity: 4096, columns, rows: [[0, 1, 2, 3]], ...parts });
}

function failureOf(text: string): Failure {
  try {
    parseRecordedTrace(text, 'trace.json');
  } catch (error) {
    if (error instanceof Failure) return error;
  }
  throw new Error('no Failure was thrown');
}

describe('parseRecordedTrace', () => {
  it('finds columns by name, in any order, among others', () => {
    const text = trace({
      columns: ['device_used', 'note', 'seconds'],
      rows: [
        [10, 'x', 0.5],
        [20, null, 0.75],
      ],
    });
    expect(parseRecordedTrace(text, 'trace.json')).toEqual({
      capacityBytes: 4096,
      rows: [
        { seconds: 0.5, allocatedBytes: 'unknown', reservedBytes: 'unknown', deviceUsedBytes: 10 },
        { seconds: 0.75, allocatedBytes: 'unknown', reservedBytes: 'unknown', deviceUsedBytes: 20 },
      ],
    });
  });

  it('rounds to whole bytes', () => {
    const { rows } = parseRecordedTrace(trace({ rows: [[0, 1.4, 1.6, 2]] }), 'trace.json');
    expect(rows[0]).toMatchObject({ allocatedBytes: 1, reservedBytes: 2 });
  });

  it.each([
    ['no JSON', '{"capacity":', 'not JSON'],
    ['nothing', '', 'not JSON'],
    ['a list', '[]', 'not an object'],
    ['no capacity', trace({ capacity: undefined }), '"capacity"'],
    ['a capacity of 0', trace({ capacity: 0 }), '"capacity"'],
    ['no columns', trace({ columns: undefined }), '"columns" is not a list'],
    ['a column without a name', trace({ columns: ['seconds', 5] }), 'column 2 has no name'],
    ['a column twice', trace({ columns: ['seconds', 'seconds'] }), 'two columns "seconds"'],
    ['no time', trace({ columns: ['allocated'] }), 'no column "seconds"'],
    ['no memory', trace({ columns: ['seconds'] }), 'none of the columns'],
    ['no rows', trace({ rows: undefined }), '"rows" is not a list'],
    ['empty rows', trace({ rows: [] }), '"rows" is empty'],
    ['a row that is none', trace({ rows: [[0, 1, 2, 3], 5] }), 'row 2'],
    ['a short row', trace({ rows: [[0, 1, 2]] }), 'row 1, column "device_used"'],
    ['a word', trace({ rows: [[0, 'much', 2, 3]] }), 'row 1, column "allocated"'],
    ['a negative number', trace({ rows: [[0, 1, -2, 3]] }), 'row 1, column "reserved"'],
    ['a number without end', trace().replace('[0,1', '[0,1e999'), 'row 1, column "allocated"'],
    ['too large a number', trace({ rows: [[0, 1, 2, 1e300]] }), 'row 1, column "device_used"'],
    [
      'a time that stands',
      trace({
        rows: [
          [1, 1, 1, 1],
          [1, 1, 1, 1],
        ],
      }),
      'row 2',
    ],
    [
      'a time that goes back',
      trace({
        rows: [
          [1, 1, 1, 1],
          [0, 1, 1, 1],
        ],
      }),
      'row 2',
    ],
  ])('names the place of %s', (_, text, place) => {
    const failure = failureOf(text);
    expect(failure).toMatchObject({ kind: 'input', code: 'bad-trace' });
    expect(failure.fact).toContain(place);
    expect(failure.fact).toContain('trace.json');
  });

  it('reads a trace or throws one Failure, whatever it is fed', () => {
    const value = fc.oneof(fc.jsonValue(), fc.double(), fc.nat());
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc
        .record(
          {
            capacity: value,
            columns: fc.oneof(value, fc.constant(columns)),
            rows: fc.array(fc.oneof(value, fc.array(value))),
          },
          { requiredKeys: [] },
        )
        .map((parts) => JSON.stringify(parts)),
    );
    fc.assert(
      fc.property(text, (odd) => {
        const answer = ((): unknown => {
          try {
            return parseRecordedTrace(odd, 'fuzz');
          } catch (error) {
            return error;
          }
        })();
        const isGood =
          answer instanceof Failure ? answer.code === 'bad-trace' : !(answer instanceof Error);
        expect(isGood).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe('readRecordedTrace', () => {
  it('reads a file, with or without a byte order mark', async () => {
    await using tree = await makeFakeTree({ 'a.json': trace(), 'b.json': `\u{feff}${trace()}` });
    const plain = await readRecordedTrace(join(tree.folder, 'a.json'));
    expect(plain.rows).toHaveLength(1);
    expect(await readRecordedTrace(join(tree.folder, 'b.json'))).toEqual(plain);
  });

  it('tells a file that cannot be read from one that is no trace', async () => {
    await using tree = await makeFakeTree({ 'bad.json': '{' });
    await mkdir(join(tree.folder, 'folder'));
    const codes = [];
    for (const name of ['missing.json', 'folder', 'bad.json']) {
      const error: unknown = await readRecordedTrace(join(tree.folder, name)).catch(
        (reason: unknown) => reason,
      );
      codes.push(error instanceof Failure ? error.code : error);
    }
    expect(codes).toEqual(['no-file', 'no-file', 'bad-trace']);
  });

  it('gives up on a file without end', async () => {
    const path = process.platform === 'win32' ? 'missing' : '/dev/zero';
    await expect(readRecordedTrace(path)).rejects.toThrow(Failure);
  });
});

const flat = (values: readonly (number | 'unknown')[]) => ({
  min: values,
  mean: values,
  max: values,
});

function device(more: Readonly<Record<string, unknown>> = {}) {
  return {
    kind: 'gpu',
    limit: { bytes: 24 * GiB, of: 'capacity' },
    series: { seconds: [0, 0.1, 0.2], usedBytes: flat([0, GiB, 2 * GiB]) },
    ...more,
  };
}

function read(devices: Readonly<Record<string, unknown>>, wanted?: string) {
  return parseRecordedTrace(JSON.stringify({ schema: 1, devices }), 'profile.json', wanted);
}

describe('the trace in the report of a profile', () => {
  it('is every sample of the only GPU, counted against its capacity', () => {
    const { capacityBytes, rows, origin } = read({
      'gpu:0': device(),
      host: device({ kind: 'host' }),
    });
    expect(capacityBytes).toBe(24 * GiB);
    expect(origin).toBe('gpu:0 of the profile profile.json');
    const unknown = { allocatedBytes: 'unknown', reservedBytes: 'unknown' };
    expect(rows).toEqual([
      { seconds: 0, deviceUsedBytes: 0, ...unknown },
      { seconds: 0.1, deviceUsedBytes: GiB, ...unknown },
      { seconds: 0.2, deviceUsedBytes: 2 * GiB, ...unknown },
    ]);
  });

  it('has what an allocator said where its cap is the limit', () => {
    const series = {
      seconds: [0, 1],
      usedBytes: flat([GiB, GiB]),
      allocatedBytes: flat([0, 5 * MiB]),
      reservedBytes: flat([10 * MiB, 20 * MiB]),
    };
    const limit = { bytes: 4 * GiB, of: 'allocator' };
    expect(read({ 'gpu:0': device({ limit, series }) })).toMatchObject({
      capacityBytes: 4 * GiB,
      rows: [
        { allocatedBytes: 0, reservedBytes: 10 * MiB, deviceUsedBytes: GiB },
        { allocatedBytes: 5 * MiB, reservedBytes: 20 * MiB },
      ],
    });
  });

  it('keeps floor and peak of a bucket that stands for several samples, and says so', () => {
    const usedBytes = { min: [1, 3, 4], mean: [1, 3, 4], max: [2, 3, 9] };
    const { rows, origin } = read({ host: device({ series: { seconds: [0, 4, 8], usedBytes } }) });
    expect(rows.map(({ seconds, deviceUsedBytes }) => [seconds, deviceUsedBytes])).toEqual([
      [0, 1],
      [2, 2],
      [4, 3],
      [8, 4],
      [10, 9],
    ]);
    expect(origin).toContain('each 4 s of it are one minimum and one maximum');
  });

  it('leaves out what could not be read', () => {
    const series = { seconds: [0, 1, 2], usedBytes: flat([1, 'unknown', 3]) };
    expect(read({ host: device({ series }) }).rows.map(({ seconds }) => seconds)).toEqual([0, 2]);
  });

  it('is of the device that is named', () => {
    const devices = {
      'gpu:0': device(),
      'gpu:1': device({ limit: { bytes: GiB, of: 'capacity' } }),
    };
    expect(read(devices, 'gpu:1').capacityBytes).toBe(GiB);
    expect(read(devices, '1').capacityBytes).toBe(GiB);
  });

  it.each([
    [
      'several devices',
      { 'gpu:0': device(), 'gpu:1': device() },
      undefined,
      /several devices \(gpu:0, gpu:1\)/,
    ],
    ['another device', { 'gpu:0': device() }, 'gpu:7', /without a device gpu:7; it has gpu:0/],
    ['no device', {}, undefined, /a profile of no device/],
    [
      'no capacity',
      { host: device({ limit: { bytes: 'unknown' } }) },
      undefined,
      /limit is not known/,
    ],
    ['no series', { host: device({ series: {} }) }, undefined, /series cannot be read/],
    [
      'no samples',
      { host: device({ series: { seconds: [0], usedBytes: flat(['unknown']) } }) },
      undefined,
      /no samples/,
    ],
    [
      'times that fall',
      { host: device({ series: { seconds: [1, 0], usedBytes: flat([1, 2]) } }) },
      undefined,
      /do not rise/,
    ],
  ])('is refused with one clear error: %s', (_, devices, wanted, words) => {
    expect(() => read(devices, wanted)).toThrow(Failure);
    expect(() => read(devices, wanted)).toThrow(words);
  });

  it('does not take a name for a plain trace', () => {
    const plain = '{"capacity":9,"columns":["seconds","reserved"],"rows":[[0,1]]}';
    expect(() => parseRecordedTrace(plain, 'trace.json', 'gpu:0')).toThrow(/a trace of one device/);
  });
});
