import { isKnown, type Known } from '../../units/known.js';
import type { MetricFamily } from '../metrics/metric-text.js';
import type { OwnedProcess } from './node-jobs.js';

/** A process that has series of its own. */
export interface ProcessFigures extends OwnedProcess {
  readonly user: Known<string>;
  /** Only where it leaks. */
  readonly leakBytesPerSecond: Known<number>;
}

/** Figures of processes on the devices of a node. */
export function processFamilies(
  processes: readonly ProcessFigures[],
  counts: ReadonlyMap<string, number>,
): readonly MetricFamily[] {
  return [
    {
      name: 'plimsoll_processes',
      help: 'Processes that hold memory of the device.',
      type: 'gauge',
      samples: Array.from(counts, ([device, value]) => ({ labels: { device }, value })),
    },
    family('used_bytes', 'What a process holds of the device.', processes, (one) => one.usedBytes),
    family(
      'leak_bytes_per_second',
      'How fast a process grows that leaks (estimated).',
      processes,
      (one) => one.leakBytesPerSecond,
    ),
  ];
}

function family(
  name: string,
  help: string,
  processes: readonly ProcessFigures[],
  of: (one: ProcessFigures) => Known<number>,
): MetricFamily {
  return {
    name: `plimsoll_process_${name}`,
    help,
    type: 'gauge',
    samples: processes.flatMap((one) => {
      const value = of(one);
      return isKnown(value) ? [{ labels: labelsOf(one), value }] : [];
    }),
  };
}

function labelsOf({ device, pid, name, user, job }: ProcessFigures) {
  return {
    device,
    pid: String(pid),
    process: known(name),
    user: known(user),
    engine: job?.engine,
    job_id: job?.id,
    rank: known(job?.rank),
    world_size: known(job?.worldSize),
  };
}

function known(text: string | undefined): string | undefined {
  return text === 'unknown' || text === 'none' ? undefined : text;
}
