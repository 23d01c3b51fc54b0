import { join } from 'node:path';
import { type SlurmAttempt, type SlurmEnd, SlurmJobFolder, type SlurmOrder } from './job-folder.js';
import type { SlurmJob } from './job-states.js';

/** A job of Slurm in a folder, as `submit` leaves it there: Slurm called it 17. */
export function jobInFolder(
  home: string,
  submittedAt: string,
  change: { readonly order?: Partial<SlurmOrder>; readonly attempt?: Partial<SlurmAttempt> } = {},
): { readonly folder: SlurmJobFolder; readonly order: SlurmOrder } {
  const folder = new SlurmJobFolder(join(home, 'slurm/jobs/20261116T000000000Z-00000000'));
  const order: SlurmOrder = {
    schema: 1,
    key: folder.key,
    name: 'train',
    command: ['sh', '-c', 'exit 0'],
    cwd: home,
    gpus: 0,
    needBytes: 'unknown',
    basis: 'unknown',
    estimatedBytes: 'unknown',
    workloadKey: 'w',
    batch: 'unknown',
    maxAttempts: 3,
    submittedAt,
    plimsoll: [],
    measured: home,
    sbatchOptions: [],
    ...change.order,
  };
  folder.create(order);
  folder.writeAttempt('all', attemptForTests({ slurmId: '17', submittedAt, ...change.attempt }));
  return { folder, order };
}

export function attemptForTests(change: Partial<SlurmAttempt>): SlurmAttempt {
  return {
    schema: 1,
    number: 1,
    slurmId: 'unknown',
    request: {
      gres: 'none',
      partition: 'default',
      memoryMebibytes: 'default',
      limitBytes: 'none',
      contextBytes: 0,
      why: 'host memory',
      notes: [],
    },
    ...change,
  };
}

export const endForTests: SlurmEnd = {
  schema: 1,
  outcome: 'succeeded',
  exitCode: 0,
  outOfMemory: false,
  peakBytes: 'unknown',
  node: 'n1',
  endedAt: '2026-11-16T00:00:00.000Z',
  slurmState: '',
};

/** A job that waits, as Slurm has it. */
export const rowForTests: SlurmJob = {
  id: '17',
  arrayJob: 'none',
  arrayTask: 'none',
  state: 'waiting',
  slurmState: 'PENDING',
  slurmReason: '',
  isHeldAfterLaunch: false,
  nodes: '',
  comment: '',
  restarts: 0,
  exitCode: 'unknown',
};
