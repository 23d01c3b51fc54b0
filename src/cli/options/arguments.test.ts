import { describe, expect, it } from 'vitest';
import { MiB } from '../../units/bytes.js';
import {
  countArgument,
  devicesArgument,
  durationArgument,
  gpusArgument,
  idArgument,
  intervalArgument,
  mebibytesArgument,
  percentArgument,
  pidArgument,
  priorityArgument,
  statesArgument,
  tailArgument,
  traceArgument,
  waitArgument,
} from './arguments.js';

describe('arguments', () => {
  it.each([
    [intervalArgument, '0.1', 0.1],
    [intervalArgument, '10ms', 0.01],
    [durationArgument, '0', 0],
    [durationArgument, '5m', 300],
    [percentArgument, '85', 85],
    [percentArgument, '87.5%', 87.5],
    [mebibytesArgument, '100', 100 * MiB],
    [mebibytesArgument, '1.5GiB', 1536 * MiB],
    [pidArgument, '4711', 4711],
    [countArgument, '16777216', 16_777_216],
  ])('%o reads %s', (argument, text, value) => {
    expect(argument('--x')(text)).toBe(value);
  });

  it.each([
    [intervalArgument, '-1'],
    [intervalArgument, '0'],
    [intervalArgument, '0.009'],
    [intervalArgument, 'Infinity'],
    [intervalArgument, ''],
    [durationArgument, '-5'],
    [durationArgument, `1${'0'.repeat(400)}`],
    [percentArgument, '0'],
    [percentArgument, '101'],
    [percentArgument, '8O'],
    [mebibytesArgument, '1.2.3'],
    [mebibytesArgument, '-3'],
    [pidArgument, '0'],
    [countArgument, '0'],
    [countArgument, '1.5'],
    [countArgument, '16777217'],
    [pidArgument, '12x'],
  ])('%o refuses %j and names the option', (argument, text) => {
    expect(() => argument('--x')(text)).toThrow(
      expect.objectContaining({ code: 'bad-option', fact: `--x cannot be "${text}".` }),
    );
  });

  it('takes devices in a list, with commas, or one by one', () => {
    expect(devicesArgument('1', ['0'])).toEqual(['0', '1']);
    expect(devicesArgument('gpu:0,host')).toEqual(['gpu:0', 'host']);
  });
});

describe('arguments of jobs', () => {
  it.each([
    [priorityArgument, '-1000000', '+1000000', '1000001'],
    [gpusArgument, '0', '1024', '1025'],
    [waitArgument, '1', '366d', '31622401'],
    [waitArgument, '1', '1', '0'],
    [traceArgument, '0', '1h', '3601'],
    [tailArgument, '0', '999999999', '1000000000'],
    [idArgument, '1', 'x'.repeat(100), 'x'.repeat(101)],
  ])('%o takes %s to %s, and not %s', (read, lowest, highest, beyond) => {
    for (const text of [lowest, highest]) {
      const [value] = [read(text)].flat();
      expect(String(value)).toMatch(/^(-?\d+|x+)$/);
    }
    expect(() => read(beyond)).toThrow(expect.objectContaining({ code: 'bad-option' }));
  });

  it('takes states in a list, or one by one', () => {
    expect(statesArgument('failed, expired', ['running'])).toEqual([
      'running',
      'failed',
      'expired',
    ]);
    expect(() => statesArgument('lost')).toThrow(expect.objectContaining({ code: 'bad-option' }));
  });
});
