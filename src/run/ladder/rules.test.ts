import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { nextSize } from '../../batches/adaptive-batches.js';
import { recoveringStep } from '../../batches/recovering-step.js';
import {
  evenPart,
  growBack,
  keepBelow,
  type Observation,
  smallerMicrobatch,
} from '../../batches/sizes.js';
import { defaultLoadLine } from '../../device/load-line.js';
import type { Known } from '../../units/known.js';
import { decideStep, type Hook } from './in-process.js';

/** The same file is read by python/tests/sdk/test_rules.py: both must answer alike. */
interface Case {
  readonly name: string;
  readonly fitted?: readonly (readonly [number, number])[];
  readonly limitBytes?: number | null;
  readonly baseBytes?: number;
  readonly peakBytes?: number;
  readonly askedBytes?: number;
  readonly cachedBytes?: number;
  readonly answer: number | null;
}
interface Rules {
  readonly loadLine: number;
  readonly parts: readonly { name: string; batch: number; most: number; parts: number[] }[];
  readonly smaller: readonly (Case & { failed: number })[];
  readonly grow: readonly (Case & {
    microbatch: number;
    batch: number;
    cleanSteps: number;
    failedGrowths?: number;
    smallestFailed?: number;
    growAfter?: number;
    mayGuess?: boolean;
  })[];
  readonly step: readonly (Case & {
    microbatch: number;
    attempt: number;
    failures?: number;
    othersHold?: boolean;
    hooks?: Hook[];
    action: string;
    rung: string | null;
  })[];
  readonly follow: readonly {
    name: string;
    size: number;
    smallest?: number;
    usedPercents: number[];
    restingPercent?: number;
    answer: number;
  }[];
  readonly ahead: readonly (Case & {
    step: number;
    microbatch: number;
    baseBytes: number;
    readings: readonly (readonly [number, number, number, number])[];
  })[];
}
const rules: Rules = JSON.parse(readFileSync(`${root}test/fixtures/recovery-rules.json`, 'utf8'));

const known = (bytes: number | null | undefined): Known<number> => bytes ?? 'unknown';
const observed = ({ fitted = [] }: Case): readonly Observation[] =>
  fitted.map(([batch, peakBytes]) => ({ batch, peakBytes, isAtLeast: false }));

describe('the rules that the SDK shares', () => {
  it('have one load line', () => {
    expect(defaultLoadLine).toBe(rules.loadLine);
  });

  it.each(rules.parts)('cuts a batch: $name', async ({ batch, most, parts }) => {
    expect(evenPart(batch, most)).toBe(parts[0]);
    const step = recoveringStep<number, void>(() => undefined, { microbatch: most });
    const done = await step(Array.from({ length: batch }, (_, i) => i));
    expect(done.parts.map(({ samples }) => samples)).toEqual(parts);
  });

  it.each(rules.smaller)('after a failure: $name', (one) => {
    const answer = smallerMicrobatch({
      microbatch: one.failed,
      peakBytes: known(one.peakBytes),
      askedBytes: known(one.askedBytes),
      limitBytes: known(one.limitBytes),
      baseBytes: known(one.baseBytes),
      earlier: observed(one),
    });
    expect(answer?.most).toBe(one.answer);
  });

  it.each(rules.grow)('grows back: $name', (one) => {
    const answer = growBack({
      ...one,
      failedGrowths: one.failedGrowths ?? 0,
      smallestFailed: known(one.smallestFailed),
      limitBytes: known(one.limitBytes),
      baseBytes: known(one.baseBytes),
      observations: observed(one),
    });
    expect(answer?.microbatch ?? null).toBe(one.answer);
  });

  it.each(rules.step)('in a step: $name', (one) => {
    const decision = decideStep({
      microbatch: one.microbatch,
      attempt: one.attempt,
      gaveBackCache: (one.failures ?? 1) > 1,
      othersHold: one.othersHold ?? false,
      peakBytes: known(one.peakBytes),
      askedBytes: known(one.askedBytes),
      cachedBytes: known(one.cachedBytes),
      limitBytes: known(one.limitBytes),
      baseBytes: known(one.baseBytes),
      hooks: new Set<Hook>(['microbatch', ...(one.hooks ?? [])]),
      climbed: new Set(),
      observations: observed(one),
    });
    expect(decision).toMatchObject({ action: one.action, microbatch: one.answer });
    expect(decision.rung ?? null).toBe(one.rung);
  });

  it.each(rules.ahead)('before a step: $name', (one) => {
    const answer = keepBelow({
      step: one.step,
      microbatch: one.microbatch,
      baseBytes: one.baseBytes,
      limitBytes: known(one.limitBytes),
      readings: one.readings.map(([step, microbatch, baseBytes, peakBytes]) => ({
        step,
        microbatch,
        baseBytes,
        peakBytes,
      })),
      observations: observed(one),
    });
    expect(answer?.microbatch ?? null).toBe(one.answer);
  });

  it.each(rules.follow)('follows the memory: $name', (one) => {
    const marks = {
      largest: 32,
      smallest: one.smallest ?? 1,
      shrinkAbovePercent: 85,
      growBelowPercent: 50,
    };
    expect(nextSize(one.size, one.usedPercents, marks, one.restingPercent)).toBe(one.answer);
  });
});
