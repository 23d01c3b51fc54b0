import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { GiB, MiB } from '../units/bytes.js';
import { parseRecordedTrace } from './recorded-trace.js';

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
    const trace = '{"capacity":9,"columns":["seconds","reserved"],"rows":[[0,1]]}';
    expect(() => parseRecordedTrace(trace, 'trace.json', 'gpu:0')).toThrow(/a trace of one device/);
  });
});
