import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { root } from '../../test/support/project-files.js';
import { GiB } from '../units/bytes.js';
import { decideSpill, type MeasuredStep, type SpillPlan } from './spill-decision.js';

/** The same file is read by the tests of the SDK. */
interface Case {
  readonly name: string;
  readonly measured: MeasuredStep;
  readonly limitBytes: number;
  readonly plan: SpillPlan;
}

const { cases }: { readonly cases: readonly Case[] } = JSON.parse(
  readFileSync(`${root}test/fixtures/spill-rules.json`, 'utf8'),
);

describe('the rule for memory that gives way', () => {
  it.each(cases.map((one) => [one.name, one] as const))(
    'is that of the SDK: %s',
    (_, { measured, limitBytes, plan }) => {
      const found = decideSpill(measured, limitBytes);
      expect(found).toEqual({ ...plan, stepSeconds: expect.closeTo(plan.stepSeconds, 9) });
    },
  );

  it('never gets faster with less memory, and fits with more', () => {
    const bytes = fc.integer({ min: 0, max: 4 * GiB });
    const step = fc.record({
      blocks: fc.array(
        fc.record({
          name: fc.string(),
          bytes,
          seconds: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
        { maxLength: 8 },
      ),
      otherBytes: bytes,
      fixedBytes: bytes,
      temporaryBytes: bytes,
    });
    fc.assert(
      fc.property(step, fc.double({ min: 0.05, max: 1, noNaN: true }), (parts, share) => {
        const measured: MeasuredStep = {
          ...parts,
          optimizerBytes: Math.floor(parts.fixedBytes / 2),
          lossBytes: Math.floor(parts.temporaryBytes / 2),
          outBytesPerSecond: 40e9,
          backBytesPerSecond: 40e9,
          stepSeconds: 1,
          hostBytes: 64 * GiB,
        };
        const limit = Math.floor(40 * GiB * share);
        const [less, more] = [decideSpill(measured, limit), decideSpill(measured, 2 * limit)];
        expect(more.fits || !less.fits).toBe(true);
        expect(less.stepSeconds >= more.stepSeconds || !less.fits).toBe(true);
      }),
    );
  });
});
