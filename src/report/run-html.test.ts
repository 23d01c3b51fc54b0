import { describe, expect, it } from 'vitest';
import { runReport } from './run-for-tests.js';
import { renderRunHtml } from './run-html.js';
import { runSummary } from './text/run-text.js';

describe('the page of a run', () => {
  const page = renderRunHtml(runReport);

  it('tells what happened, and what it does not know', () => {
    for (const text of [
      'Memory ran out once; it was recovered',
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
    const quiet = { ...runReport, attempts: runReport.attempts.slice(1) };
    expect(runSummary(quiet)).toBeUndefined();
    expect(runSummary(runReport)).toBe(
      'succeeded after 2 attempts (out of memory 1 x); at the end batch 16 x 2, checkpointing, bf16, on gpu:0.',
    );
    expect(runSummary({ ...runReport, outcome: 'failed' })).toContain('a note');
  });
});
