import { describe, expect, it } from 'vitest';
import { readController, wasLost } from './resubmit-lost.js';

describe('readController', () => {
  const of = (text: string) => readController(async () => text);

  it('reads when it was started and how long it keeps a job', async () => {
    const text =
      'BOOT_TIME               = 2026-11-16T18:00:00\nMinJobAge               = 600 sec\n';
    expect(await of(text)).toEqual({
      bootMs: Date.parse('2026-11-16T18:00:00'),
      minJobAgeMs: 600_000,
    });
  });

  it('takes the default of Slurm where it keeps all jobs, or does not say', async () => {
    expect(await of('MinJobAge = 0 sec\n')).toEqual({ bootMs: 'unknown', minJobAgeMs: 300_000 });
    expect(await of('')).toEqual({ bootMs: 'unknown', minJobAgeMs: 300_000 });
  });
});

describe('wasLost', () => {
  const minute = 60_000;
  const at = (bootMs: number | 'unknown', nowMs: number) =>
    wasLost({ bootMs, minJobAgeMs: 5 * minute }, 0, nowMs);

  it('is so of a job that is younger than what Slurm keeps, however often it was started since', () => {
    expect(at(4 * minute, 4.5 * minute)).toBe(true);
    expect(at('unknown', minute)).toBe(true);
  });

  it('is so of an older one where the controller was started right after it took it', () => {
    expect(at(3000, 60 * minute)).toBe(true);
    expect(at(2 * minute, 60 * minute)).toBe(false);
    expect(at(-minute, 60 * minute)).toBe(false);
    expect(at('unknown', 60 * minute)).toBe(false);
  });
});
