import type { Attempt } from '../../run/types.js';

/** An attempt that took 90 seconds. */
export function attemptForTests(parts: Partial<Attempt> = {}): Attempt {
  return {
    number: 1,
    settings: {
      batch_size: 8,
      accumulation: 1,
      checkpointing: false,
      precision: 'fp32',
      offload: false,
      device: 'gpu:0',
    },
    command: ['train'],
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:01:30.000Z',
    exitCode: 0,
    outOfMemory: null,
    rungs: [],
    peakBytes: 1000,
    source: 'measured',
    peakFrom: 'nvml',
    limit: { bytes: 'none', by: 'none', why: '' },
    snapshot: null,
    ...parts,
  };
}
