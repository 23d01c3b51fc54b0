import { describe, expect, it } from 'vitest';
import { parseAllocConf } from './alloc-conf.js';
import { createAllocator } from './caching-allocator.js';
import { type RecordedSequence, recordedSequences } from './recorded-sequences-for-tests.js';
import { type AddressOrder, allowedBytesOf } from './settings.js';

interface Held {
  readonly step: number;
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  /** Of the block just allocated, counted from the first one; -1 for a free or a refusal. */
  readonly address: number;
  readonly ranOut: boolean;
}

function recorded({ steps }: RecordedSequence): Held[] {
  const origin = steps.find(([what]) => what === 1)?.[5] ?? 0;
  return steps.map(([what, , , allocatedBytes, reservedBytes, address], at) => ({
    step: at,
    allocatedBytes,
    reservedBytes,
    address: what === 1 ? address - origin : -1,
    ranOut: what === 2,
  }));
}

function simulated(sequence: RecordedSequence, addresses: AddressOrder): Held[] {
  const { conf, capFraction, totalBytes, steps } = sequence;
  const allocator = createAllocator({
    ...parseAllocConf(conf).settings,
    addresses,
    allowedBytes: capFraction === null ? 'unlimited' : allowedBytesOf(capFraction, totalBytes),
    deviceTotalBytes: totalBytes,
  });
  const live = new Map<number, number>();
  let origin: number | undefined;
  return steps.map(([what, id, bytes], at) => {
    let address = -1;
    let ranOut = false;
    if (what === 0) {
      const handle = live.get(id);
      // A sequence that went another way may have no such block.
      if (handle !== undefined) allocator.free(handle);
      live.delete(id);
    } else {
      const answer = allocator.malloc(bytes);
      ranOut = typeof answer !== 'number';
      if (typeof answer === 'number') {
        live.set(id, answer);
        origin ??= allocator.addressOf(answer);
        address = allocator.addressOf(answer) - origin;
      }
    }
    const { allocatedBytes, reservedBytes } = allocator.stats();
    return { step: at, allocatedBytes, reservedBytes, address, ranOut };
  });
}

describe('random requests to a real allocator', () => {
  const sequences = recordedSequences();

  it('are of six settings, each without a cap and under two', () => {
    expect(sequences).toHaveLength(18);
    expect(new Set(sequences.map(({ conf }) => conf)).size).toBe(6);
    const refused = sequences.flatMap(({ steps }) => steps.filter(([what]) => what === 2));
    expect(refused).toHaveLength(85);
  });

  it.each(sequences)(
    'conf "$conf", cap $capBytes: the same bytes at the same address after every step',
    (sequence) => {
      const real = recorded(sequence);
      const ours = simulated(sequence, 'fresh-driver');
      expect(ours).toHaveLength(1500);
      const unlike = ours.filter((held, at) => JSON.stringify(held) !== JSON.stringify(real[at]));
      expect(unlike.slice(0, 3)).toEqual([]);
    },
  );

  it('need the addresses of the driver: where they only fall or rise, bytes differ', () => {
    const bytes = ({ step, allocatedBytes, reservedBytes, ranOut }: Held) =>
      `${step} ${allocatedBytes} ${reservedBytes} ${ranOut}`;
    const unlike = (addresses: AddressOrder) =>
      sequences.filter((sequence) => {
        const real = recorded(sequence).map(bytes);
        return simulated(sequence, addresses).some((held, at) => bytes(held) !== real[at]);
      });
    expect([unlike('falling').length, unlike('rising').length]).toEqual([3, 12]);
  });
});
