import { describe, expect, it } from 'vitest';
import { createVirtualClock, type VirtualClock } from '../../time/clock.js';
import { networkOf, WrongTokens } from './token.js';

function counting(clock: VirtualClock, maxDelayed = 100): WrongTokens {
  return new WrongTokens({ most: 3, delaySeconds: 1, maxDelayed, clock });
}

describe('wrong tokens', () => {
  it('beyond a few from one address are answered slowly, those only, and for a minute', async () => {
    const clock = createVirtualClock();
    const wrong = counting(clock);
    for (let tries = 0; tries < 3; tries++) expect(await wrong.add('192.0.2.1')).toBe(false);
    const answers: boolean[] = [];
    const fourth = (async () => answers.push(await wrong.add('192.0.2.1')))();
    expect(await wrong.add('192.0.2.2')).toBe(false);
    await clock.advance(0.9);
    expect(answers).toEqual([]);
    await clock.advance(0.1);
    await fourth;
    expect(answers).toEqual([true]);
    await clock.advance(59);
    expect(await wrong.add('192.0.2.1')).toBe(false);
    expect(clock.waiting).toBe(0);
  });

  it('are not held back in any number', async () => {
    const clock = createVirtualClock();
    const wrong = counting(clock, 2);
    for (let tries = 0; tries < 3; tries++) await wrong.add('a');
    const held = [wrong.add('a'), wrong.add('a')];
    expect(await wrong.add('a')).toBe(true);
    expect(clock.waiting).toBe(2);
    await clock.advance(1);
    expect(await Promise.all(held)).toEqual([true, true]);
    // Those that were answered leave their places to the next.
    const next = [wrong.add('a'), wrong.add('a')];
    expect(clock.waiting).toBe(2);
    await clock.advance(1);
    expect(await Promise.all(next)).toEqual([true, true]);
  });

  it('are remembered of so many addresses, and the table does not grow for ever', async () => {
    for (const [others, isRemembered] of [
      [9999, true],
      [10_000, false],
    ] as const) {
      const wrong = counting(createVirtualClock(), 0);
      for (let tries = 0; tries < 3; tries++) await wrong.add('first');
      for (let other = 0; other < others; other++) await wrong.add(`other ${other}`);
      expect(await wrong.add('first')).toBe(isRemembered);
    }
  });
});

describe('the network of an address', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8::7', '2001:db8:0:0'],
    ['2001:DB8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8::1:2:3:4:5', '2001:db8:0:1'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['', ''],
    ['x::ffff:192.0.2.7', 'x::ffff:192.0.2.7'],
    ['::ffff:192.0.2.7x', '::ffff:192.0.2.7x'],
  ])('%s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
