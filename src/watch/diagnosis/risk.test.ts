import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Known } from '../../units/known.js';
import { type Risk, risks } from '../types.js';
import { type ExpectedEnd, isAtLeast, outlookOf, SteadyForecast } from './risk.js';

const end = (parts: Partial<ExpectedEnd> & { etaSeconds: number }): ExpectedEnd => ({
  lowSeconds: parts.etaSeconds / 2,
  highSeconds: parts.etaSeconds * 2,
  seenSeconds: 7200,
  fromStart: false,
  bend: 'straight',
  ...parts,
});
const riskOf = (parts: Partial<ExpectedEnd> & { etaSeconds: number }): Risk =>
  outlookOf(end(parts), 'room').risk;

describe('outlookOf', () => {
  it.each<[number, Risk]>([
    [15, 'critical'],
    [16, 'high'],
    [60, 'high'],
    [61, 'medium'],
    [300, 'medium'],
    [301, 'low'],
    [3601, 'low'],
    [Number.POSITIVE_INFINITY, 'none'],
  ])('takes an end in %d s for %s once it was seen long enough', (eta, risk) => {
    expect(riskOf({ etaSeconds: eta })).toBe(risk);
  });

  it('does not believe a growth further ahead than twice as long as it was seen', () => {
    expect(riskOf({ etaSeconds: 50, seenSeconds: 24 })).toBe('medium');
    expect(riskOf({ etaSeconds: 50, seenSeconds: 25 })).toBe('high');
    const curve = { bend: 'accelerates' as const, etaSeconds: 50 };
    expect(riskOf({ ...curve, seenSeconds: 49 })).toBe('medium');
    expect(riskOf({ ...curve, seenSeconds: 50 })).toBe('high');
  });

  it('tells no time that is further ahead, however calm: 15 % used, and 10 s of growth seen', () => {
    const doubted = { risk: 'low', etaSeconds: 'unknown' };
    expect(outlookOf(end({ etaSeconds: 230, seenSeconds: 10 }), 'room')).toMatchObject(doubted);
    expect(outlookOf(end({ etaSeconds: 4000, seenSeconds: 10 }), 'room')).toMatchObject(doubted);
    const seen = { risk: 'medium', etaSeconds: 230 };
    expect(outlookOf(end({ etaSeconds: 230, seenSeconds: 120 }), 'room')).toMatchObject(seen);
  });

  it('believes a growth that slows down least: it may stop before the limit', () => {
    const slows = { bend: 'slows' as const, etaSeconds: 35 };
    expect(riskOf({ ...slows, seenSeconds: 49 })).toBe('medium');
    expect(riskOf({ ...slows, seenSeconds: 50 })).toBe('high');
  });

  it('asks for more when the growth may be the start of the program', () => {
    const soon = { etaSeconds: 5, seenSeconds: 4 };
    expect(riskOf(soon)).toBe('critical');
    expect(riskOf({ ...soon, fromStart: true })).toBe('medium');
    expect(riskOf({ ...soon, fromStart: true, seenSeconds: 7 })).toBe('critical');
  });

  it('raises an alarm where staying silent would cost more than a false alarm', () => {
    const chances = { within15s: 0, within60s: 0.09, within5min: 0.9 };
    const soon = end({ etaSeconds: 12 });
    expect(outlookOf(soon, 'room', chances)).toMatchObject({
      risk: 'medium',
      etaSeconds: 'unknown',
    });
    expect(outlookOf(soon, 'room', { ...chances, within60s: 0.11 }).risk).toBe('critical');
    const costs = { missedEndCost: 1, falseAlarmCost: 1 };
    expect(outlookOf(soon, 'room', { ...chances, within60s: 0.49 }, costs).risk).toBe('medium');
    expect(outlookOf(soon, 'room', { ...chances, within60s: 0.51 }, costs).risk).toBe('critical');
  });

  it('says that a full device is full, whether or not it grows', () => {
    const full = { risk: 'critical', etaSeconds: 0, lowSeconds: 0, highSeconds: 0 };
    expect(outlookOf(undefined, 'full')).toEqual(full);
    expect(outlookOf(end({ etaSeconds: 100 }), 'full')).toEqual(full);
    expect(outlookOf(undefined, 'nearly-full')).toMatchObject({ risk: 'low', etaSeconds: 'never' });
    expect(outlookOf(undefined, 'room')).toMatchObject({ risk: 'none', etaSeconds: 'never' });
  });

  it('never tells a time that contradicts the risk', () => {
    const within = { critical: 15, high: 60, medium: 300, low: Number.POSITIVE_INFINITY, none: -1 };
    const times = fc.double({ min: 0, max: 1e5, noNaN: true });
    const bends = fc.constantFrom<ExpectedEnd['bend']>('accelerates', 'slows', 'straight');
    fc.assert(
      fc.property(times, times, fc.boolean(), bends, (eta, seen, fromStart, bend) => {
        const parts = { etaSeconds: eta, seenSeconds: seen, fromStart, bend };
        const { risk, etaSeconds } = outlookOf(end(parts), 'room');
        if (typeof etaSeconds !== 'number') {
          expect([risk, etaSeconds]).toEqual([eta <= 60 ? 'medium' : 'low', 'unknown']);
          return;
        }
        const least = risks.findLast((one) => Math.round(eta * 1000) / 1000 <= within[one]);
        expect(risk).toBe(least);
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
