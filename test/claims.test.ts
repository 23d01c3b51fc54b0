import { describe, expect, it } from 'vitest';
import { reached, recordedClaims } from '../bench/claims/recorded.mjs';

describe('bench/claims', () => {
  it('says reached only where every case reaches the claim', () => {
    const above = (value: number): boolean => value > 1;
    expect(reached([2, 3], above)).toBe('reached');
    expect(reached([2, 0], above)).toBe('in part (1 of 2)');
    expect(reached([0, 0], above)).toBe('not reached');
    expect(reached([], above)).toBe('not reached');
  });

  it('reads each recorded claim with its device, date and command', () => {
    const rows = recordedClaims();
    expect(rows.map(({ claim, verdict }) => [claim, verdict])).toEqual([
      ['training memory -50 %', 'reached'],
      ['training throughput +20 %', 'in part (2 of 3)'],
      ['inference latency -16 %', 'in part (2 of 6)'],
      ['out-of-memory eliminated', 'reached'],
      ['out-of-memory errors -50 %', 'reached'],
      ['out-of-memory errors -90 %', 'reached'],
      ['production against debug environment 2 to 3 x', 'in part (1 of 3)'],
    ]);
    for (const { on, command, ours } of rows) {
      expect(on).toMatch(/^NVIDIA H200, torch 2\.11\.0\+cu130, 2026-11-16$/);
      expect(command).toMatch(/^python3? bench\/gpu\//);
      expect(ours).not.toMatch(/NaN|undefined/);
    }
  });
});
