import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Known } from '../../units/known.js';
import { type Risk, risks } from '../types.js';
import type { Probability } from './probability.js';
import { type ExpectedEnd, isAtLeast, outlookOf, SteadyForecast } from './risk.js';

const end = (etaSeconds: number): ExpectedEnd => ({
  etaSeconds,
  lowSeconds: etaSeconds / 2,
  highSeconds: etaSeconds * 2,
});
const chances = (within15s: number, within60s = within15s, within5min = within60s) => ({
  within15s,
  within60s,
  within5min,
});
const riskOf = (eta: number, probability: Probability): Risk =>
  outlookOf(end(eta), 'room', probability).risk;

describe('outlookOf', () => {
  it.each<[number, Risk]>([
    [15, 'critical'],
    [16, 'high'],
    [60, 'high'],
    [61, 'medium'],
    [300, 'medium'],
    [301, 'low'],
    [3601, 'low'],
  ])('takes an end in %d s that is certain for %s', (eta, risk) => {
    expect(riskOf(eta, chances(1))).toBe(risk);
  });

  it('sees no end where growth levels off and the table expects none', () => {
    expect(riskOf(Number.POSITIVE_INFINITY, chances(0))).toBe('none');
  });

  it('raises an alarm where a missed end would cost more: from 1 of 3 near the end, surer further ahead', () => {
    expect(riskOf(12, chances(0.3))).toBe('low');
    expect(riskOf(12, chances(0.34))).toBe('critical');
    expect(riskOf(50, chances(0.1, 0.8))).toBe('medium');
    expect(riskOf(50, chances(0.1, 0.84))).toBe('high');
  });

  it('raises fewer alarms where a false alarm costs more', () => {
    const costs = { missedEndCost: 1, falseAlarmCost: 3 };
    expect(outlookOf(end(12), 'room', chances(0.7), costs).risk).toBe('low');
    expect(outlookOf(end(12), 'room', chances(0.76), costs).risk).toBe('critical');
  });

  it('tells no time that is not likely enough', () => {
    expect(outlookOf(end(12), 'room', chances(0.1))).toMatchObject({
      risk: 'low',
      etaSeconds: 'unknown',
    });
    expect(outlookOf(end(4000), 'room', chances(0))).toMatchObject({ etaSeconds: 'unknown' });
    expect(outlookOf(end(230), 'room', chances(0, 0.1, 0.5))).toMatchObject({
      risk: 'medium',
      etaSeconds: 230,
    });
  });

  it('says that a full device is full, whether or not it grows', () => {
    const full = { risk: 'critical', etaSeconds: 0, lowSeconds: 0, highSeconds: 0 };
    expect(outlookOf(undefined, 'full', chances(0))).toEqual(full);
    expect(outlookOf(end(100), 'full', chances(0))).toEqual(full);
    const none = chances(0);
    const low = { risk: 'low', etaSeconds: 'never' };
    expect(outlookOf(undefined, 'nearly-full', none)).toMatchObject(low);
    expect(outlookOf(undefined, 'room', none)).toMatchObject({ risk: 'none', etaSeconds: 'never' });
  });

  it('never tells a time that contradicts the risk', () => {
    const within = { critical: 15, high: 60, medium: 300, low: Number.POSITIVE_INFINITY, none: -1 };
    const times = fc.double({ min: 0, max: 1e5, noNaN: true });
    const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), {
      minLength: 3,
      maxLength: 3,
    });
    fc.assert(
      fc.property(times, shares, (eta, given) => {
        const [a = 0, b = 0, c = 0] = given.toSorted((x, y) => x - y);
        const { risk, etaSeconds } = outlookOf(end(eta), 'room', chances(a, b, c));
        const least = risks.findLast((one) => Math.round(eta * 1000) / 1000 <= within[one]);
        if (typeof etaSeconds === 'number') expect(risk).toBe(least);
        else expect(isAtLeast(risk, 'high')).toBe(false);
      }),
    );
  });
});

describe('SteadyForecast', () => {
  const as = (risk: Risk) => ({ risk });

  it('rises when confirmed and falls when the calm has lasted', () => {
    const steady = new SteadyForecast();
    expect(steady.update(as('none'), -1).risk).toBe('none');
    expect(steady.update(as('high'), 0).risk).toBe('none');
    expect(steady.update(as('high'), 0.5).risk).toBe('high');
    expect(steady.update(as('none'), 1).risk).toBe('high');
    expect(steady.update(as('high'), 2).risk).toBe('high');
    expect(steady.update(as('none'), 3).risk).toBe('high');
    expect(steady.update(as('none'), 6).risk).toBe('none');
  });

  it('shows a forecast whole: its time with its risk', () => {
    const steady = new SteadyForecast<{ risk: Risk; etaSeconds: number | 'never' }>();
    steady.update({ risk: 'none', etaSeconds: 'never' }, 0);
    expect(steady.update({ risk: 'medium', etaSeconds: 153 }, 1)).toEqual({
      risk: 'none',
      etaSeconds: 'never',
    });
    expect(steady.update({ risk: 'medium', etaSeconds: 152 }, 1.5).etaSeconds).toBe(152);
  });

  it('never shows a risk that was not seen, nor changes twice within half a second', () => {
    const steps = fc.array(
      fc.record({
        risk: fc.constantFrom(...risks),
        after: fc.double({ min: 0.01, max: 2, noNaN: true }),
      }),
    );
    fc.assert(
      fc.property(steps, (given) => {
        const steady = new SteadyForecast();
        const seen = new Set<Known<Risk>>();
        let seconds = 0;
        let changed = Number.NEGATIVE_INFINITY;
        let shown: Known<Risk> | undefined;
        for (const { risk, after } of given) {
          seconds += after;
          seen.add(risk);
          const now = steady.update(as(risk), seconds).risk;
          expect(seen.has(now)).toBe(true);
          if (now !== shown) {
            expect(seconds - changed).toBeGreaterThanOrEqual(0.5 - 1e-9);
            changed = seconds;
            shown = now;
          }
        }
      }),
    );
  });
});

describe('isAtLeast', () => {
  it('never takes the unknown for a risk', () => {
    expect(isAtLeast('unknown', 'none')).toBe(false);
    expect(isAtLeast('high', 'medium')).toBe(true);
    expect(isAtLeast('low', 'medium')).toBe(false);
  });
});
