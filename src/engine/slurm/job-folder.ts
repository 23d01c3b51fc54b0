import { join } from 'node:path';
import type { Known } from '../../units/known.js';
import {
  isKeptEnd,
  isKeptOrder,
  isTexts,
  JobFolder,
  jobPaths,
  type KeptAttempt,
  type KeptEnd,
  type KeptForms,
  type KeptOrder,
  newJobPath,
} from '../job-folder.js';
import type { SlurmRequest } from './request.js';

export interface SlurmOrder extends KeptOrder {
  readonly sbatchOptions: readonly string[];
}

export interface SlurmAttempt extends KeptAttempt {
  readonly request: SlurmRequest;
  /** `unknown` between the decision and Slurm's answer. */
  readonly slurmId: Known<string>;
  /** What it was called before Slurm's controller lost it. */
  readonly formerIds?: readonly string[];
}

export interface SlurmEnd extends KeptEnd {
  /** In Slurm's word where it ended the job, such as TIMEOUT; else empty. */
  readonly slurmState: string;
}

type Document = Readonly<Record<string, unknown>>;

const forms: KeptForms<SlurmOrder, SlurmAttempt, SlurmEnd> = {
  isOrder: (order): order is Document & SlurmOrder =>
    isKeptOrder(order) && isTexts(order['sbatchOptions']),
  isAttempt: (attempt): attempt is Document & SlurmAttempt => {
    const { number, slurmId, request } = attempt;
    return (
      Number.isSafeInteger(number) &&
      typeof slurmId === 'string' &&
      typeof request === 'object' &&
      request !== null &&
      'gres' in request
    );
  },
  isEnd: (end): end is Document & SlurmEnd => isKeptEnd(end),
};

/** The files of one job of Slurm. */
export class SlurmJobFolder extends JobFolder<SlurmOrder, SlurmAttempt, SlurmEnd> {
  constructor(path: string) {
    super(path, forms);
  }

  logFile(slurmId: string): string {
    return join(this.path, `log-${slurmId}.txt`);
  }
}

export function newJobFolder(home: string, atMs: number): SlurmJobFolder {
  return new SlurmJobFolder(newJobPath(join(home, 'slurm'), atMs));
}

/** The newest first. */
export function jobFolders(home: string): readonly SlurmJobFolder[] {
  return jobPaths(join(home, 'slurm')).map((path) => new SlurmJobFolder(path));
}
