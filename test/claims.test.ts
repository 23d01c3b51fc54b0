import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { claims, differences, rewritten, rowsNamed, sentences } from '../bench/claims/figures.mjs';
import { keptClaims } from '../bench/claims/measured.mjs';
import { reached, recordedClaims } from '../bench/claims/recorded.mjs';
import { root } from './support/project-files.js';

const page = (file: string): string => readFileSync(`${root}${file}`, 'utf8');

function otherDigit(text: string): string {
  return text.replace(/\d/, (digit) => String((Number(digit) + 1) % 10));
}

describe('the figures of README and docs', () => {
  it('are those of the kept rows', () => {
    expect(differences()).toEqual([]);
  });

  it('have rows that say when and how they were made', () => {
    for (const { id, rows } of claims) {
      const { date, command, tables } = rowsNamed(rows);
      for (const one of Object.values(tables ?? {})) {
        expect(one.date, `${rows}: date`).toMatch(/^2026-\d\d-\d\d$/);
        expect(page(`bench/results/${one.page}`)).toMatch(/^# /);
      }
      if (tables === undefined) {
        expect(date, `${id}: date`).toMatch(/^2026-\d\d-\d\d/);
        expect(command, `${id}: command`).toMatch(/^\S+ \S+/);
      }
    }
    expect(new Set(claims.map(({ id }) => id)).size).toBe(claims.length);
  });

  it('are found where one digit is another, and written again', () => {
    const files = [...new Set(claims.flatMap(({ stated }) => stated.map((one) => one.in)))];
    expect(files).toContain('README.md');
    for (const claim of claims) {
      for (const { file, text, parts } of sentences(claim)) {
        const first = parts.find(({ isFigure }) => isFigure);
        const changed = parts.map((part) => (part === first ? otherDigit(part.text) : part.text));
        const right = page(file);
        const wrong = right.replaceAll(text, changed.join(''));
        const found = differences([claim], (path) => (path === file ? wrong : page(path)));
        expect(found.length, `${claim.id}: ${text}`).toBeGreaterThan(0);
        expect(rewritten(file, wrong, [claim]) === right, `${claim.id}: ${text}`).toBe(true);
      }
    }
  });
});

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
      ['Tactical Embedder -45 %', 'not shown'],
      ['Structure Embedder -35 %', 'not shown'],
      ['overall system -49 %', 'not shown'],
      ['memory efficiency +25 %', 'reached'],
      ['memory use -20 to -30 %', 'reached'],
      ['training throughput +20 %', 'in part (2 of 3)'],
      ['inference latency -16 %', 'in part (2 of 6)'],
      ['out-of-memory eliminated', 'reached'],
      ['out-of-memory errors -50 %', 'reached'],
      ['out-of-memory errors -90 %', 'reached'],
      ['memory below 90 % while it works', 'reached'],
      ['parallel execution (production against debug environment) 2 to 3 x', 'in part (1 of 3)'],
    ]);
    for (const { on, command, ours } of rows) {
      expect(on).toMatch(/^NVIDIA H200, torch 2\.11\.0\+cu130, 2026-11-1[56]$/);
      expect(command).toMatch(/^(python3? bench\/gpu\/|npm run bench mix$)/);
      expect(ours).not.toMatch(/NaN|undefined/);
    }
  });

  it('stands in docs/coming-from.md as it was measured, reached or not', () => {
    const cells = (line: string) => line.split('|').map((cell) => cell.trim());
    const measured = [...recordedClaims(), ...keptClaims()].map(({ claim, ours, verdict }) => [
      claim,
      ours,
      verdict,
    ]);
    const [, shown = ''] = page('docs/coming-from.md').split('## Their figures, measured');
    const rows = shown
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(2);
    expect(measured.length).toBe(17);
    expect(rows.map((line) => cells(line).slice(1, 4))).toEqual(measured);
  });
});
