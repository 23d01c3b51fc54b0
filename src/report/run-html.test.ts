import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { runReport } from './job-for-tests.js';
import { progressLines, reachedWords } from './progress-lines.js';
import { renderRunHtml } from './run-html.js';
import { runSummary } from './text/run-ending.js';

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

  it('says that a GPU is simulated, everywhere it names it', () => {
    const simulated = renderRunHtml({
      ...runReport,
      attempts: runReport.attempts.map((attempt) => ({
        ...attempt,
        settings: { ...attempt.settings, device: 'gpu:0', simulated_device: true },
      })),
    });
    const named = simulated.match(/gpu:0( \(simulated\))?/g) ?? [];
    expect(named.length).toBeGreaterThan(2);
    expect(new Set(named)).toEqual(new Set(['gpu:0 (simulated)']));
    expect(page).not.toContain('(simulated)');
  });

  it('lists what was changed in the environment, and nothing where nothing was', () => {
    const change = { name: '<i>A</i>', from: '1', to: null, by: 'run', reason: 'slow' } as const;
    const changed = renderRunHtml({ ...runReport, environmentChanges: [change] });
    expect(changed).toContain('Changes of the environment');
    expect(changed).toContain('&lt;i&gt;A&lt;/i&gt;');
    expect(changed).toContain('removed');
    expect(page).not.toContain('Changes of the environment');
  });

  it('draws throughput, memory and loss over the steps, with each recovery marked', () => {
    const [first] = runReport.attempts;
    if (first === undefined) throw new Error('the report has attempts');
    const progress = [1, 20, 40].map((atSeconds) => ({
      atSeconds,
      step: atSeconds,
      samplesPerSecond: atSeconds === 1 ? ('unknown' as const) : 16,
      loss: 1 / atSeconds,
      microbatch: 4,
      peakBytes: 6 * GiB,
    }));
    const drawn = renderRunHtml({ ...runReport, attempts: [{ ...first, progress }] });
    for (const text of [
      'Samples a second, at the end 16',
      'Peak memory',
      'Loss, at the end 0.025',
    ]) {
      expect(drawn.replaceAll('\u00A0', ' ')).toContain(text);
    }
    const axes = [
      ...drawn.replaceAll('\u00A0', ' ').matchAll(/<(?:div class="(?:values|times)".*?)<\/div>/g),
    ].map(([axis]) =>
      axis
        .replaceAll(/<[^>]+>/g, ' ')
        .trim()
        .replaceAll(/ {2,}/g, '|'),
    );
    expect(axes).toEqual([
      '20|10|0',
      '1.0 s|21 s|40 s',
      '6.0 GiB|3.0 GiB|0 B',
      '1.0 s|21 s|40 s',
      '1|0.5|0',
      '1.0 s|21 s|40 s',
    ]);
    expect(drawn).toContain('<title>smaller-microbatch</title>');
    expect(page).not.toContain('Over its steps');
  });

  it('marks recoveries before the first step that was told, and after the last', () => {
    const progress = [10, 20].map((atSeconds) => ({
      atSeconds,
      step: atSeconds,
      stepsPerSecond: 1,
      samplesPerSecond: 'unknown' as const,
      loss: 'unknown' as const,
      microbatch: 'unknown' as const,
      peakBytes: GiB,
    }));
    const rungs = [5, 15, 25].map((atSeconds) => ({
      rung: 'smaller-microbatch' as const,
      why: '',
      atSeconds,
    }));
    const found = progressLines({ progress, rungs });
    expect(found?.marks.map(({ x }) => x)).toEqual([1, 480, 959]);
    expect(found?.lines.map(({ name }) => name)).toEqual(['Steps a second', 'Peak memory']);
    expect(found?.lines[1]?.path).toBe('240,4 720,4');
    expect(found?.summary).toContain('20 steps in 20 s');
    expect(reachedWords(progress)).toBe('step 20, 1 steps a second, peak 1.0 GiB');
    expect(reachedWords()).toBeUndefined();
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
    const [first] = runReport.attempts;
    if (first === undefined) throw new Error('the report has attempts');
    const point = { atSeconds: 9, step: 7, samplesPerSecond: 16, loss: 0.25, microbatch: 4 };
    const progress = [{ ...point, peakBytes: 6 * GiB }];
    expect(runSummary({ ...runReport, attempts: [{ ...first, progress }] })).toContain(
      'Last report (measured): step 7, 16 samples a second, peak 6.0 GiB, loss 0.2500.',
    );
  });
});
