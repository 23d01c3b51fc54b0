import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import { gpuFields, parseGpuRows, parseProcessRows, processFields } from './provider.js';

describe('parseGpuRows', () => {
  it('reads rows as nvidia-smi writes them', () => {
    const text = [
      '0, GPU-5ebe9f43, NVIDIA H200, 580.65.06, 143771, 4, 143156, 0',
      '1, GPU-8a2d2b10, NVIDIA H200, 580.65.06, 143771, 81920, 61851, 97',
      '',
    ].join('\n');
    expect(parseGpuRows(text)).toEqual([
      {
        index: 0,
        uuid: 'GPU-5ebe9f43',
        name: 'NVIDIA H200',
        driver: '580.65.06',
        totalBytes: 143_771 * MiB,
        usedBytes: 4 * MiB,
        freeBytes: 143_156 * MiB,
        utilizationPercent: 0,
      },
      expect.objectContaining({ index: 1, usedBytes: 81_920 * MiB, utilizationPercent: 97 }),
    ]);
  });

  it.each(['[N/A]', '[Not Supported]', '[Insufficient Permissions]', '[Unknown Error]', 'N/A', ''])(
    'calls %s unknown',
    (cell) => {
      expect(
        parseGpuRows(`0, ${cell}, ${cell}, ${cell}, ${cell}, ${cell}, ${cell}, ${cell}`),
      ).toEqual([
        {
          index: 0,
          uuid: 'unknown',
          name: 'unknown',
          driver: 'unknown',
          totalBytes: 'unknown',
          usedBytes: 'unknown',
          freeBytes: 'unknown',
          utilizationPercent: 'unknown',
        },
      ]);
    },
  );

  it('keeps a comma in a name', () => {
    expect(parseGpuRows('0, GPU-1, Odd, Card, 1.0, 10, 4, 6, 0')[0]).toMatchObject({
      name: 'Odd, Card',
      driver: '1.0',
      usedBytes: 4 * MiB,
    });
  });

  it('leaves out what is no row', () => {
    const text = 'Unable to determine the device handle for GPU0: GPU is lost\n, , , , , , ,\n';
    expect(parseGpuRows(text)).toEqual([]);
  });
});

describe('parseProcessRows', () => {
  it('reads rows, with the program of a path', () => {
    const text = [
      'GPU-1, 4242, /usr/bin/python3, 1024',
      'GPU-1, 4243, C:\\tools\\trainer.exe, [N/A]',
      'GPU-2, 99, [Not Found], 3',
    ].join('\r\n');
    expect(parseProcessRows(text)).toEqual([
      { gpuUuid: 'GPU-1', pid: 4242, name: 'python3', usedBytes: 1024 * MiB },
      { gpuUuid: 'GPU-1', pid: 4243, name: 'trainer.exe', usedBytes: 'unknown' },
      { gpuUuid: 'GPU-2', pid: 99, name: 'unknown', usedBytes: 3 * MiB },
    ]);
  });
});

describe('both parsers', () => {
  const cell = fc.oneof(
    fc.string({ maxLength: 12 }),
    fc.constantFrom('[N/A]', '0', '-1', '1e9', '99999999999999999999', ' 5 ', 'NaN', '0x10'),
    fc.nat().map(String),
  );
  const table = fc
    .array(fc.array(cell, { maxLength: 12 }).map((cells) => cells.join(', ')))
    .map((lines) => lines.join('\n'));

  it('never throw, and give whole numbers or unknown, whatever they are fed', () => {
    fc.assert(
      fc.property(fc.oneof(table, fc.string()), (text) => {
        const numbers = [
          ...parseGpuRows(text).flatMap((row) => [
            row.index,
            row.totalBytes,
            row.usedBytes,
            row.freeBytes,
            row.utilizationPercent,
          ]),
          ...parseProcessRows(text).flatMap((row) => [row.pid, row.usedBytes]),
        ];
        const bad = numbers.filter(
          (value) => value !== 'unknown' && !(Number.isSafeInteger(value) && value >= 0),
        );
        expect(bad).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it('read back every row that nvidia-smi could write', () => {
    fc.assert(
      fc.property(fc.nat(99), fc.nat(1e6), fc.nat(1e6), fc.nat(100), (index, used, free, busy) => {
        const row = [index, 'GPU-x', 'Card', '580.1', used + free, used, free, busy];
        expect(row).toHaveLength(gpuFields.length);
        expect(parseGpuRows(row.join(', '))[0]).toMatchObject({
          index,
          usedBytes: used * MiB,
          freeBytes: free * MiB,
          utilizationPercent: busy,
        });
        const process = ['GPU-x', index + 1, 'python', used];
        expect(process).toHaveLength(processFields.length);
        expect(parseProcessRows(process.join(', '))[0]).toMatchObject({ usedBytes: used * MiB });
      }),
    );
  });
});
