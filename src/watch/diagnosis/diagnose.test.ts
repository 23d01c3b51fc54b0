import { describe, expect, it } from 'vitest';
import { type ScenarioName, simulateInstant } from '../../device/simulated/scenarios.js';
import type { ProcessReading } from '../../device/types.js';
import { createDiagnosis } from './diagnose.js';
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
