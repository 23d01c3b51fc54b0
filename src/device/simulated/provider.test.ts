import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { createVirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import { describeConformance } from '../conformance.suite.js';
import type { Device, MemoryReading } from '../device.js';
import {
  parseScenario,
  type ScenarioName,
  type SimulatedOptions,
  scenarioNames,
  simulatedProvider,
  simulateInstant,
} from '../discover.js';
import { parseRecordedTrace, type RecordedTrace } from '../recorded-trace.js';

const recorded: RecordedTrace = {
  capacityBytes: 1000,
  rows: [
    { seconds: 0.5, allocatedBytes: 100, reservedBytes: 200, deviceUsedBytes: 300 },
    { seconds: 2, allocatedBytes: 700, reservedBytes: 900, deviceUsedBytes: 1100 },
  ],
};

async function devicesOf(options: SimulatedOptions): Promise<readonly Device[]> {
  return (await simulatedProvider(options).list()).devices;
}

for (const scenario of scenarioNames) {
  describeConformance(`simulated, ${scenario}`, () =>
    Promise.resolve({ provider: simulatedProvider({ play: scenario, gpus: 2 }) }),
  );
}
describeConformance('simulated, a recorded trace', () =>
  Promise.resolve({ provider: simulatedProvider({ play: recorded }) }),
);

describe('a simulated scenario', () => {
  it('is the same each time for the same seed, and different for another', async () => {
    const readings: MemoryReading[] = [];
    for (const seed of [5, 5, 6]) {
      const clock = createVirtualClock();
      const [device] = await devicesOf({ play: 'steady', seed, clock });
      await clock.advance(12.3);
      if (device !== undefined) readings.push(await device.read());
    }
    expect(readings[1]).toEqual(readings[0]);
    expect(readings[2]).not.toEqual(readings[0]);
  });

  it('has as many GPUs as asked for, of the size asked for, that are not in step', async () => {
    const devices = await devicesOf({ play: 'steady', gpus: 3, totalBytes: 8 * GiB });
    expect(devices.map(({ info }) => info.id)).toEqual(['gpu:0', 'gpu:1', 'gpu:2']);
    expect(await devices[2]?.read()).toMatchObject({ totalBytes: 8 * GiB });
    const [first, second] = [await devices[0]?.read(), await devices[1]?.read()];
    expect(first?.allocator).not.toEqual(second?.allocator);
  });

  it('starts when the provider is made', async () => {
    const clock = createVirtualClock();
    await clock.advance(1000);
    const [device] = await devicesOf({ play: 'leak', clock });
    const start = await device?.read();
    await clock.advance(300);
    const end = await device?.read();
    expect(Number(start?.usedBytes)).toBeLessThan(12 * GiB);
    expect(end?.usedBytes).toBe(24 * GiB);
  });

  it('shows the process that holds the memory, under an id that no real one has', async () => {
    const [device] = await devicesOf({ play: 'full' });
    const reading = await device?.read();
    expect(await device?.processes()).toEqual([
      { pid: 4_194_305, name: 'simulated', usedBytes: reading?.allocator?.reservedBytes },
    ]);
  });

  it('never holds less than is live, nor more than there is', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...scenarioNames),
        fc.double({ min: 0, max: 1e6, noNaN: true }),
        fc.integer({ min: 1, max: 512 * GiB }),
        fc.integer(),
        (scenario, seconds, totalBytes, seed) => {
          const instant = simulateInstant(scenario, { seconds, totalBytes, seed });
          const { allocatedBytes, reservedBytes, usedBytes, limitBytes } = instant;
          expect(allocatedBytes).toBeGreaterThanOrEqual(0);
          expect(reservedBytes).toBeGreaterThanOrEqual(allocatedBytes);
          expect(limitBytes).toBeGreaterThanOrEqual(reservedBytes);
          expect(usedBytes).toBeGreaterThanOrEqual(reservedBytes);
          expect(totalBytes).toBeGreaterThanOrEqual(usedBytes);
          expect(Object.values(instant).every(Number.isSafeInteger)).toBe(true);
        },
      ),
    );
  });

  it.each<[ScenarioName, boolean]>([
    ['steady', false],
    ['leak', true],
    ['late-leak', true],
    ['sawtooth', false],
    ['warmup', false],
    ['spikes', false],
    ['growth', true],
    ['exponential', true],
    ['full', true],
  ])('%s runs out within five minutes: %s', (scenario, runsOut) => {
    const at = { seconds: 300, totalBytes: 24 * GiB, seed: 1 };
    const { allocatedBytes, limitBytes } = simulateInstant(scenario, at);
    expect(allocatedBytes > limitBytes * 0.98).toBe(runsOut);
  });

  it('knows its scenarios by name only', () => {
    expect(scenarioNames.map(parseScenario)).toEqual(scenarioNames);
    expect(() => parseScenario('storm')).toThrow(Failure);
    expect(() => parseScenario('toString')).toThrow(/steady, leak/);
  });
});

describe('a recorded trace played back', () => {
  it('shows the last row that was recorded by then', async () => {
    const clock = createVirtualClock();
    const [device] = await devicesOf({ play: recorded, clock });
    const used: unknown[] = [];
    for (const step of [0, 0.6, 1.3, 0.1, 1000]) {
      await clock.advance(step);
      used.push((await device?.read())?.usedBytes);
    }
    expect(used).toEqual([300, 300, 300, 1100, 1100]);
  });

  it('has the allocator under its own cap, on a device that holds the rest too', async () => {
    const [device] = await devicesOf({ play: recorded });
    expect(await device?.read()).toEqual({
      totalBytes: 1100,
      usedBytes: 300,
      freeBytes: 800,
      utilizationPercent: 'unknown',
      allocator: { allocatedBytes: 100, reservedBytes: 200, limitBytes: 1000 },
    });
  });

  it('has no allocator where none was recorded', async () => {
    const text = '{"capacity":2000,"columns":["seconds","device_used"],"rows":[[0,300],[1,400]]}';
    const [device] = await devicesOf({ play: parseRecordedTrace(text, 'text') });
    const reading = await device?.read();
    expect(reading).toMatchObject({ totalBytes: 2000, usedBytes: 300 });
    expect(reading).not.toHaveProperty('allocator');
    expect(await device?.processes()).toMatchObject([{ usedBytes: 300 }]);
  });
});
