import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../units/bytes.js';
import { fakeForecast, fakeLeak } from './state-for-tests.js';
import {
  etaWords,
  forecastWords,
  intervalWords,
  leakWords,
  percentOf,
  rateWords,
  usedOfTotal,
} from './words.js';

describe('intervalWords', () => {
  it.each([
    [3.2, 8.1, '3.2 to 8.1 s'],
    [30, 70, '30 to 70 s'],
    [200, 480, '3 to 8 min'],
    [90, 200, '1 min 30 s to 3 min 20 s'],
    [4 * 3600, 9 * 3600, '4 to 9 h'],
    [30, 'never', '30 s or later'],
    ['unknown', 70, 'within 1 min 10 s'],
    ['unknown', 'unknown', ''],
  ] as const)('%s and %s: %s', (low, high, words) => {
    expect(intervalWords(low, high)).toBe(words);
  });

  it('never says two equal figures for bounds that differ by a third', () => {
    for (let low = 1; low < 40 * 86_400; low *= 1.37) {
      const [from, to] = intervalWords(low, low * 1.34).split(' to ');
      expect(from).not.toBe(to?.replace(/ (s|min|h|d)$/, ''));
    }
  });
});

describe('forecastWords', () => {
  it('says that a full device is full', () => {
    const full = fakeForecast({ risk: 'critical', etaSeconds: 0, lowSeconds: 0, highSeconds: 0 });
    expect(forecastWords(full)).toBe('full now, risk critical, estimated');
  });

  it('gives the time, its bounds and the risk, and calls it estimated', () => {
    const forecast = fakeForecast({
      risk: 'high',
      etaSeconds: 45,
      lowSeconds: 30,
      highSeconds: 70,
    });
    expect(forecastWords(forecast)).toBe('full in 45 s (30 to 70 s), risk high, estimated');
  });

  it('leaves out unknown bounds', () => {
    const forecast = fakeForecast({
      etaSeconds: 45,
      lowSeconds: 'unknown',
      highSeconds: 'unknown',
    });
    expect(etaWords({ ...forecast, etaSeconds: 0 })).toBe('less than a second');
    expect(etaWords(forecast)).toBe('45 s');
  });

  it('says why it knows nothing', () => {
    const forecast = fakeForecast({
      risk: 'unknown',
      etaSeconds: 'unknown',
      reason: 'Only 3 samples so far.',
    });
    expect(forecastWords(forecast)).toBe('unknown: Only 3 samples so far');
  });

  it('tells "never" from "unknown"', () => {
    expect(forecastWords(fakeForecast())).toContain('no out-of-memory expected');
    expect(forecastWords(fakeForecast({ etaSeconds: 'unknown' }))).toContain('time not known yet');
  });
});

describe('leakWords', () => {
  it('gives rate, size and confidence', () => {
    const leak = fakeLeak({
      found: true,
      bytesPerSecond: 12.3 * MiB,
      grownBytes: 1.25 * GiB,
      confidence: 0.93,
    });
    expect(leakWords(leak)).toBe('grows by 12.3 MiB a second, 1.3 GiB so far, confidence 93 %');
  });

  it('tells "none" from "unknown"', () => {
    expect(leakWords(fakeLeak())).toBe('none found');
    expect(leakWords(fakeLeak({ found: 'unknown', reason: 'Too short.' }))).toBe(
      'unknown: Too short',
    );
  });
});

describe('figures', () => {
  it('states slow rates by the minute or the hour', () => {
    expect(rateWords(2 * MiB)).toBe('2.0 MiB a second');
    expect(rateWords(20 * 1024)).toBe('1.2 MiB a minute');
    expect(rateWords(100)).toBe('352 KiB an hour');
    expect(rateWords('unknown')).toBe('an unknown rate');
  });

  it('puts used and total in one unit', () => {
    expect(usedOfTotal(85.6 * GiB, 139.8 * GiB)).toBe('85.6 of 139.8 GiB');
    expect(usedOfTotal('unknown', 8 * GiB)).toBe('unknown of 8.0 GiB');
  });

  it('has no share of an unknown or empty total', () => {
    expect(percentOf(1, 'unknown')).toBe('unknown');
    expect(percentOf(1, 0)).toBe('unknown');
    expect(percentOf(1, 4)).toBe(25);
  });
});
