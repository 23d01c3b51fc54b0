import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Risk, risks } from '../types.js';
import { isAtLeast, riskOf, SteadyRisk } from './risk.js';

const calm = { fromStart: false, accelerates: false };

describe('riskOf', () => {
  it.each<[number, Risk]>([
    [15, 'critical'],
    [16, 'high'],
    [60, 'high'],
    [61, 'medium'],
    [300, 'medium'],
    [301, 'low'],
    [3601, 'none'],
    [Number.POSITIVE_INFINITY, 'none'],
  ])('takes an end in %d s for %s once it was seen long enough', (eta, risk) => {
    expect(riskOf({ ...calm, etaSeconds: eta, seenSeconds: 600 })).toBe(risk);
  });

  it('does not believe a growth further ahead than twice as long as it was seen', () => {
    expect(riskOf({ ...calm, etaSeconds: 50, seenSeconds: 24 })).toBe('medium');
    expect(riskOf({ ...calm, etaSeconds: 50, seenSeconds: 25 })).toBe('high');
    const curve = { ...calm, accelerates: true, etaSeconds: 50 };
    expect(riskOf({ ...curve, seenSeconds: 49 })).toBe('medium');
    expect(riskOf({ ...curve, seenSeconds: 50 })).toBe('high');
  });

  it('asks for more when the growth may be the start of the program', () => {
    const soon = { ...calm, etaSeconds: 5, seenSeconds: 4 };
    expect(riskOf(soon)).toBe('critical');
    expect(riskOf({ ...soon, fromStart: true })).toBe('medium');
    expect(riskOf({ ...soon, fromStart: true, seenSeconds: 7 })).toBe('critical');
  });
});

describe('SteadyRisk', () => {
  it('rises when confirmed and falls when the calm has lasted', () => {
    const steady = new SteadyRisk();
    expect(steady.update('high', 0)).toBe('none');
    expect(steady.update('high', 0.5)).toBe('high');
    expect(steady.update('none', 1)).toBe('high');
    expect(steady.update('high', 2)).toBe('high');
    expect(steady.update('none', 3)).toBe('high');
    expect(steady.update('none', 6)).toBe('none');
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
        const steady = new SteadyRisk();
        const seen = new Set<Risk>(['none']);
        let seconds = 0;
        let changed = Number.NEGATIVE_INFINITY;
        let shown: Risk = 'none';
        for (const { risk, after } of given) {
          seconds += after;
          seen.add(risk);
          const now = steady.update(risk, seconds);
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
