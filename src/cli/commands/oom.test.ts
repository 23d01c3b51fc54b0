import { describe, expect, it } from 'vitest';
import type { Risk } from '../../watch/types.js';
import { OomAlarm, type OomReading } from './oom.js';

const reading = (part: Partial<OomReading>): OomReading => ({
  atSeconds: 0,
  usedPercent: 10,
  risk: 'none',
  ...part,
});

describe('OomAlarm', () => {
  it('speaks once when use passes the threshold, and again only after it fell well below', () => {
    const alarm = new OomAlarm(85, 5);
    const spoke = [84, 86, 84, 86, 81, 90, 79, 86].map((usedPercent) =>
      alarm.take(reading({ usedPercent })),
    );
    expect(spoke.map((reason) => reason !== undefined)).toEqual([
      false,
      true,
      false,
      false,
      false,
      false,
      false,
      true,
    ]);
  });

  it('speaks each time the risk rises from medium on', () => {
    const alarm = new OomAlarm(85, 5);
    const course: Risk[] = ['none', 'low', 'medium', 'medium', 'high', 'critical'];
    const spoke = course.map((risk, atSeconds) => alarm.take(reading({ risk, atSeconds })));
    expect(spoke).toEqual([undefined, undefined, 'risk-rose', undefined, 'risk-rose', 'risk-rose']);
  });

  it('does not repeat a risk that only wavered', () => {
    const alarm = new OomAlarm(85, 5);
    expect(alarm.take(reading({ risk: 'high', atSeconds: 0 }))).toBe('risk-rose');
    expect(alarm.take(reading({ risk: 'low', atSeconds: 1 }))).toBeUndefined();
    expect(alarm.take(reading({ risk: 'high', atSeconds: 2 }))).toBeUndefined();
    expect(alarm.take(reading({ risk: 'low', atSeconds: 3 }))).toBeUndefined();
    expect(alarm.take(reading({ risk: 'low', atSeconds: 18 }))).toBeUndefined();
    expect(alarm.take(reading({ risk: 'high', atSeconds: 19 }))).toBe('risk-rose');
  });

  it('takes what is unknown for no news', () => {
    const alarm = new OomAlarm(85, 5);
    alarm.take(reading({ usedPercent: 90 }));
    expect(alarm.take(reading({ usedPercent: 'unknown', risk: 'unknown' }))).toBeUndefined();
    expect(alarm.take(reading({ usedPercent: 90 }))).toBeUndefined();
  });
});
