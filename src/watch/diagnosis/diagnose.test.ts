import { describe, expect, it } from 'vitest';
import type { ProcessReading } from '../../device/device.js';
import { type ScenarioName, simulateInstant } from '../../device/discover.js';
import type { Cause, Leak } from '../types.js';
import { type Cell, Cells } from './cells.js';
import {
  type CauseFacts,
  causeOf,
  createDiagnosis,
  hasSpikes,
  isGrowing,
  jumpsUp,
  ProcessGrowth,
} from './diagnose.js';
import { createLeakDetector } from './leak.js';
import { GiB, pointsOf } from './series-for-tests.js';

function diagnose(
  processesAt: (seconds: number) => ProcessReading[],
  seconds: number,
  options: Parameters<typeof createDiagnosis>[0] = {},
): ReturnType<typeof createDiagnosis> {
  const diagnosis = createDiagnosis(options);
  const held = (t: number) =>
    processesAt(t).reduce(
      (sum, { usedBytes }) => sum + (usedBytes === 'unknown' ? 0 : usedBytes),
      0,
    );
  for (const point of pointsOf({ seconds, held })) {
    diagnosis.add(point);
    if (Number.isInteger(Math.round(point.seconds * 10) / 10)) {
      diagnosis.addProcesses(point.seconds, processesAt(point.seconds));
    }
  }
  return diagnosis;
}

const own: ProcessReading = { pid: 10, name: 'train', usedBytes: 10 * GiB };

describe('createDiagnosis', () => {
  it('knows nothing before the first point', () => {
    const diagnosis = createDiagnosis();
    expect(diagnosis.cause()).toBe('unknown');
    expect(diagnosis.forecast().risk).toBe('unknown');
    expect(diagnosis.leak().found).toBe('unknown');
  });

  it('does not follow the process that watches', () => {
    const growing = (t: number) => [{ ...own, usedBytes: Math.round((10 + t * 0.05) * GiB) }];
    expect([...diagnose(growing, 40).processLeaks().keys()]).toEqual([own.pid]);
    const watcher = diagnose(growing, 40, { exceptPid: own.pid });
    expect([...watcher.processLeaks().keys()]).toEqual([]);
  });

  it('names the process that leaks', () => {
    const diagnosis = diagnose(
      (t) => [
        { ...own, usedBytes: Math.round((10 + t * 0.05) * GiB) },
        { pid: 11, name: 'other', usedBytes: GiB },
      ],
      60,
    );
    expect([...diagnosis.processLeaks().keys()]).toEqual([10]);
    expect(diagnosis.cause()).toBe('leak');
  });

  it('tells a neighbour that moves in from a leak of the job that was there first', () => {
    const diagnosis = diagnose(
      (t) => [own, { pid: 99, name: 'neighbour', usedBytes: Math.round((1 + t * 0.1) * GiB) }],
      60,
    );
    expect(diagnosis.cause()).toBe('neighbour');
  });

  it('follows a process that is unknown or gone without a word', () => {
    const diagnosis = diagnose(
      (t) => (t < 5 ? [own, { pid: 12, name: 'unknown', usedBytes: 'unknown' }] : []),
      20,
    );
    expect(diagnosis.processLeaks().size).toBe(0);
  });
});

/** What `--simulate` shows of a device and its process, read at 10 Hz and once a second. */
function simulated(scenario: ScenarioName, seconds: number, seed: number) {
  const diagnosis = createDiagnosis();
  for (let i = 0; i < seconds * 10; i++) {
    const at = { seconds: i / 10, totalBytes: 24 * GiB, seed };
    const { limitBytes, reservedBytes, allocatedBytes } = simulateInstant(scenario, at);
    const heldBytes = reservedBytes;
    diagnosis.add({ seconds: at.seconds, limitBytes, heldBytes, liveBytes: allocatedBytes });
    if (i % 10 === 0) {
      diagnosis.addProcesses(at.seconds, [{ pid: 7, name: 'simulated', usedBytes: heldBytes }]);
    }
  }
  const verdicts = [diagnosis.leak(), ...diagnosis.processLeaks().values()];
  return { found: verdicts.map(({ found }) => found), forecast: diagnosis.forecast() };
}

describe('the same rule for devices and processes', () => {
  const seeds = [1, 2, 3];

  it.each<ScenarioName>(['warmup', 'sawtooth', 'steady', 'spikes'])(
    'finds no leak in %s',
    (name) => {
      for (const seed of seeds) {
        for (const seconds of [15, 20, 25, 30, 45]) {
          expect(simulated(name, seconds, seed).found).not.toContain(true);
        }
      }
    },
  );

  it('does not say none while a warm-up grows', () => {
    for (const seed of seeds) expect(simulated('warmup', 30, seed).found[0]).toBe('unknown');
  });

  it('finds a leak after half a minute', () => {
    for (const seed of seeds) expect(simulated('leak', 30, seed).found[0]).toBe(true);
  });

  it('says that a full device is full', () => {
    const { risk, etaSeconds, reason } = simulated('full', 10, 1).forecast;
    expect({ risk, etaSeconds }).toEqual({ risk: 'critical', etaSeconds: 0 });
    expect(reason).toMatch(/^Memory is full: /);
  });
});

function cellsOf(bytes: readonly number[]): Cell[] {
  const cells = new Cells();
  for (const [i, value] of bytes.entries()) cells.add(i * 0.25, value);
  return cells.level(0);
}

const fill = (n: number, value: number): number[] => Array.from({ length: n }, () => value);

describe('jumpsUp', () => {
  it('counts levels that were reached at once and kept', () => {
    expect(jumpsUp(cellsOf([...fill(8, 100), ...fill(8, 200), ...fill(8, 400)]), 1000)).toBe(2);
  });

  it.each([
    [3, 0],
    [4, 1],
  ])('takes a level that lasts for %i cells for %i jumps', (cells, jumps) => {
    const bytes = [...fill(8, 100), ...fill(cells, 200), ...fill(8, 100)];
    expect(jumpsUp(cellsOf(bytes), 1000)).toBe(jumps);
  });

  it('counts neither growth, nor a spike, nor a return to a known level', () => {
    const growth = Array.from({ length: 30 }, (_, i) => 100 + 20 * i);
    expect(jumpsUp(cellsOf(growth), 1000)).toBe(0);
    expect(jumpsUp(cellsOf([...fill(10, 100), 900, ...fill(10, 100)]), 1000)).toBe(0);
    expect(jumpsUp(cellsOf([...fill(8, 400), ...fill(8, 100), ...fill(8, 400)]), 1000)).toBe(0);
  });
});

describe('hasSpikes', () => {
  it('needs few cells far above the rest', () => {
    expect(hasSpikes(cellsOf([...fill(20, 100), 300, ...fill(5, 100)]))).toBe(true);
    expect(hasSpikes(cellsOf(fill(30, 100)))).toBe(false);
    expect(hasSpikes(cellsOf([...fill(10, 100), ...fill(10, 300)]))).toBe(false);
    expect(hasSpikes(cellsOf([...fill(5, 100), 300]))).toBe(false);
  });
});

const noLeak: Leak = {
  found: false,
  bytesPerSecond: 0,
  confidence: 0.5,
  grownBytes: 0,
  sinceSeconds: 'unknown',
  watchSeconds: 0,
  reason: '',
};
const quiet: CauseFacts = {
  seenSeconds: 60,
  leak: noLeak,
  growthRatio: undefined,
  byNeighbour: false,
  jumps: 0,
  spikes: false,
  heldPeakShare: 0.5,
  livePeakShare: 0.9,
};

describe('causeOf', () => {
  it.each<[string, Partial<CauseFacts>, Cause]>([
    ['nothing', {}, 'none'],
    ['too little to go by', { seenSeconds: 2, spikes: true }, 'unknown'],
    ['a leak', { leak: { ...noLeak, found: true }, growthRatio: 1 }, 'leak'],
    ['growth that speeds up', { leak: { ...noLeak, found: true }, growthRatio: 2.5 }, 'growth'],
    ['growth not yet known for a leak', { growthRatio: 1 }, 'growth'],
    ['a batch that doubles', { jumps: 3 }, 'growth'],
    ['another process', { growthRatio: 1, byNeighbour: true }, 'neighbour'],
    [
      'a full cache that is half empty',
      { heldPeakShare: 0.99, livePeakShare: 0.6 },
      'fragmentation',
    ],
    ['a full cache in use', { heldPeakShare: 0.99, livePeakShare: 0.97 }, 'none'],
    ['full, and live bytes are unknown', { heldPeakShare: 0.99, livePeakShare: undefined }, 'none'],
    ['spikes', { spikes: true }, 'spike'],
  ])('%s', (_, facts, cause) => {
    expect(causeOf({ ...quiet, ...facts })).toBe(cause);
  });
});

const limitBytes = 80 * GiB;

/** Held as it is, then growing by 64 MiB each second. */
function restThenGrowth(restSeconds: number): (second: number) => number {
  return (second) => 4 * GiB + Math.max(0, second - restSeconds) * (GiB / 16);
}

describe('ProcessGrowth', () => {
  it.each([0, 5, 30, 300])(
    'concludes after a rest of %i s what a detector fed from the start does',
    (restSeconds) => {
      const bytesAt = restThenGrowth(restSeconds);
      const growth = new ProcessGrowth();
      const detector = createLeakDetector();
      for (let second = 0; second <= restSeconds + 90; second++) {
        const usedBytes = bytesAt(second);
        growth.add(second, [{ pid: 7, name: 'train', usedBytes }], limitBytes);
        detector.add(second, usedBytes, limitBytes);
        const leak = detector.leak();
        expect(growth.leaks().get(7)).toEqual(isGrowing(leak) ? leak : undefined);
      }
      expect(growth.leaks().get(7)?.found).toBe(true);
    },
  );

  it('finds growth after a rest that is longer than the times that it keeps', () => {
    const growth = new ProcessGrowth();
    const bytesAt = restThenGrowth(5000);
    for (let second = 0; second <= 5060; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: bytesAt(second) }], limitBytes);
    }
    expect(growth.leaks().get(7)?.found).toBe(true);
  });

  it('forgets what it saw of a process that ended and whose pid came back', () => {
    const growth = new ProcessGrowth();
    for (let second = 0; second <= 60; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: 4 * GiB }], limitBytes);
    }
    growth.add(61, [], limitBytes);
    for (let second = 62; second <= 70; second++) {
      growth.add(second, [{ pid: 7, name: 'train', usedBytes: 9 * GiB }], limitBytes);
    }
    expect(growth.leaks().size).toBe(0);
  });
});
