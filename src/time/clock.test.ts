import { describe, expect, it } from 'vitest';
import { systemClock } from './clock.js';

describe('systemClock', () => {
  it('waits until the time is reached, never less', async () => {
    const at = systemClock.seconds() + 0.03;
    await systemClock.waitUntil(at);
    expect(systemClock.seconds()).toBeGreaterThanOrEqual(at);
  });

  it('does not wait for what has passed', async () => {
    await systemClock.waitUntil(systemClock.seconds() - 1);
    expect(systemClock.epochMs()).toBeGreaterThan(0);
  });

  it('ends every wait when its signal aborts, and waits no more under it', async () => {
    const ending = new AbortController();
    const later = systemClock.seconds() + 3600;
    const waits = [1, 2, 3].map(() => systemClock.waitUntil(later, ending.signal));
    const other = systemClock.waitUntil(systemClock.seconds() + 0.01);
    ending.abort();
    await Promise.all([...waits, other, systemClock.waitUntil(later, ending.signal)]);
    expect(systemClock.seconds()).toBeLessThan(later);
  });
});
