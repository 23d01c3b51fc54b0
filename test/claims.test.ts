import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { reached, recordedClaims } from '../bench/claims/recorded.mjs';
import { root } from './support/project-files.js';

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

  it('stands in docs/coming-from.md as it was measured, reached or not', () => {
    const cells = (line: string) => line.split('|').map((cell) => cell.trim());
    const measured = readFileSync(`${root}bench/results/claims.md`, 'utf8')
      .split('\n')
      .map(cells)
      .filter(([, , , verdict = '']) => /^(reached|in part|not reached)/.test(verdict))
      .map((row) => row.slice(1, 4));
    const [, shown = ''] = readFileSync(`${root}docs/coming-from.md`, 'utf8').split(
      '## Their figures, measured',
    );
    const rows = shown
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(2);
    expect(measured.length).toBe(10);
    expect(rows.map((line) => cells(line).slice(1, 4))).toEqual(measured);
  });
});
