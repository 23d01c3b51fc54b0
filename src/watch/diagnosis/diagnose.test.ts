import { describe, expect, it } from 'vitest';
import type { ProcessReading } from '../../device/contract.js';
import { createDiagnosis } from './diagnose.js';
import { GiB, pointsOf } from './series.fake.js';

function diagnose(
  processesAt: (seconds: number) => ProcessReading[],
  seconds: number,
): ReturnType<typeof createDiagnosis> {
  const diagnosis = createDiagnosis();
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
