import { describe, expect, it } from 'vitest';
import { maxTries, nextStep, type Standing } from './next-step.js';

const at = (parts: Partial<Standing>): Standing => ({
  nowSeconds: 100,
  supervisor: undefined,
  isStarting: false,
  tries: 0,
  triedAt: Number.NEGATIVE_INFINITY,
  stop: undefined,
  ...parts,
});

describe('nextStep', () => {
  it('finds a supervisor for a run that has none, and leaves alone one that has', () => {
    expect(nextStep(at({}))).toEqual({ step: 'attach' });
    expect(nextStep(at({ supervisor: 7 }))).toEqual({ step: 'wait' });
    expect(nextStep(at({ isStarting: true }))).toEqual({ step: 'wait' });
  });

  it('pauses longer each time a supervisor ended at once, and gives up in the end', () => {
    const pauses: number[] = [];
    for (let tries = 1; tries < maxTries; tries++) {
      let nowSeconds = 100;
      while (nextStep(at({ tries, triedAt: 100, nowSeconds })).step === 'wait') nowSeconds += 0.5;
      pauses.push(nowSeconds - 100);
    }
    expect(pauses).toEqual([1, 2, 4, 8]);
    expect(nextStep(at({ tries: maxTries, triedAt: 100 }))).toEqual({ step: 'give-up' });
  });

  it('asks a program to end, lets it have its time, then asks until it is killed', () => {
    const ask = { step: 'ask', pid: 7 };
    const stopped = (asked: number, askedAt: number) =>
      nextStep(at({ supervisor: 7, stop: { asked, askedAt } }));
    expect(stopped(0, Number.NEGATIVE_INFINITY)).toEqual(ask);
    expect(stopped(1, 91)).toEqual({ step: 'wait' });
    expect(stopped(1, 90)).toEqual(ask);
    expect(stopped(2, 99)).toEqual(ask);
    expect(stopped(5, 99.5)).toEqual({ step: 'wait' });
  });

  it('looks for a supervisor first where there is none to hear it', () => {
    expect(nextStep(at({ stop: { asked: 0, askedAt: 0 } }))).toEqual({ step: 'attach' });
  });
});
