import type { Attempt } from '../../run/types.js';
import { madeAttempt } from '../daemon/made-for-tests.js';

/** An attempt that took 90 seconds. */
export function attemptForTests(parts: Partial<Attempt> = {}): Attempt {
  const made = madeAttempt();
  return {
    ...made,
    settings: { ...made.settings, batch_size: 8 },
    command: ['train'],
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: '2026-01-01T00:01:30.000Z',
    peakBytes: 1000,
    peakFrom: 'nvml',
    limit: { bytes: 'none', by: 'none', why: '' },
    ...parts,
  };
}
