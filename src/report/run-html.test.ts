import { describe, expect, it } from 'vitest';
import type { RunReport } from '../run/contract.js';
import { GiB } from '../units/bytes.js';
import { renderRunHtml } from './run-html.js';
import { runSummary } from './text/run-text.js';

const report: RunReport = {
  schema: 1,
  tool: { name: 'plimsoll', version: '0.1.0' },
  id: '20261115-055812345-8000',
  command: ['python', '<script>alert(1)</script>', '{batch_size}'],
  outcome: 'succeeded',
  exitCode: 0,
  startedAt: '2026-11-15T05:58:12.000Z',
  endedAt: '2026-11-15T05:59:12.000Z',
  attempts: [
    {
      number: 1,
      settings: {
        batch_size: 32,
        accumulation: 1,
        checkpointing: false,
        precision: 'fp32',
        offload: false,
        device: 'gpu:0',
      },
      command: ['python'],
      startedAt: '2026-11-15T05:58:12.000Z',
      endedAt: '2026-11-15T05:58:42.000Z',
      exitCode: 1,
      outOfMemory: {
        kind: 'cuda',
        askedBytes: GiB,
        freeBytes: 0,
        totalBytes: 8 * GiB,
        message: '<b>full</b>',
      },
      rungs: [{ rung: 'smaller-microbatch', why: 'it did not fit', atSeconds: 30 }],
      peakBytes: 8 * GiB,
      source: 'measured',
      peakFrom: 'sdk',
      snapshot: null,
      limit: { bytes: 8 * GiB, by: 'sdk', why: 'by the SDK' },
    },
    {
      number: 2,
      settings: {
        batch_size: 16,
        accumulation: 2,
        checkpointing: true,
        precision: 'bf16',
        offload: false,
        device: 'gpu:0',
      },
      command: ['python'],
      startedAt: '2026-11-15T05:58:42.000Z',
      endedAt: '2026-11-15T05:59:12.000Z',
      exitCode: 0,
      outOfMemory: null,
      rungs: [],
      peakBytes: 'unknown',
      source: 'measured',
      peakFrom: 'unknown',
      snapshot: null,
      limit: { bytes: 'none', by: 'none', why: '' },
    },
  ],
  notes: ['a note'],
};

describe('the page of a run', () => {
  const page = renderRunHtml(report);

  it('tells what happened, and what it does not know', () => {
    for (const text of [
      'Memory ran out once; it was brought back',
      'smaller-microbatch',
      'out of memory (cuda)',
      'batch 16 x 2, checkpointing, bf16',
      'asked for 1.0',
      'unknown',
      'a note',
    ]) {
      expect(page.replaceAll('\u00A0', ' ')).toContain(text);
    }
  });

  it('runs and loads nothing, whatever stands in the data', () => {
    expect(page).not.toContain('<script');
    expect(page).not.toContain('<b>full');
    expect(page).toContain('default-src &#39;none&#39;');
  });
});

describe('runSummary', () => {
  it('is silent where nothing happened', () => {
    const quiet = { ...report, attempts: report.attempts.slice(1) };
    expect(runSummary(quiet)).toBeUndefined();
    expect(runSummary(report)).toBe(
      'succeeded after 2 attempts (out of memory 1 x); at the end batch 16 x 2, checkpointing, bf16, on gpu:0.',
    );
    expect(runSummary({ ...report, outcome: 'failed' })).toContain('a note');
  });
});
