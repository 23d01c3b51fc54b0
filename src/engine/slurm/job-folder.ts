import { join } from 'node:path';
import { makeFolder } from '../../files/folders.js';
import { readOwnDocument } from '../../files/own-file.js';
import { KiB } from '../../units/bytes.js';
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
  runningMs,
  startName,
  type Task,
  writeOnce,
} from '../job-folder.js';
import type { SlurmRequest } from './request.js';

export interface SlurmOrder extends KeptOrder {
  readonly sbatchOptions: readonly string[];
}

export interface SlurmAttempt extends KeptAttempt {
  readonly request: SlurmRequest;
  /** `unknown` between the decision and Slurm's answer. */
  readonly slurmId: Known<string>;
  /** Its ids before Slurm's controller lost it. */
  readonly formerIds?: readonly string[];
  /** When Slurm took it last; before that, when it was decided. Jobs of earlier versions have none. */
  readonly submittedAt?: string;
  /** Of the first one: what the person was told to call the job. It stays when Slurm's number changes. */
  readonly jobName?: string;
}

export interface SlurmEnd extends KeptEnd {
  /** In Slurm's word where it ended the job, such as TIMEOUT; else empty. */
  readonly slurmState: string;
  /** The start of the job that a node saw end; Slurm counts restarts. */
  readonly of?: { readonly slurmId: string; readonly restart: number };
}

/** The start of an attempt that may run; the others wait for its end. */
interface Turn {
  readonly number: number;
  readonly start: string;
}

/** A turn is one short name. */
const maxBytes = 4 * KiB;

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

  /** Whose turn it is, of all starts of an attempt. */
  lastTurn(task: Task, number: number): Turn | undefined {
    return this.turns(task, number).at(-1);
  }

  turns(task: Task, number: number): readonly Turn[] {
    const found: Turn[] = [];
    for (let turn = 1; ; turn++) {
      const document = readOwnDocument(this.#turnFile(task, number, turn), { schema: 1, maxBytes });
      const start = document?.['start'];
      if (typeof start !== 'string') return found;
      found.push({ number: turn, start });
    }
  }

  /** Whether this call took the turn: of several starts one does. */
  takeTurn(task: Task, number: number, turn: Turn): boolean {
    makeFolder(join(this.path, 'turns'), 0o700);
    return writeOnce(this.#turnFile(task, number, turn.number), { schema: 1, start: turn.start });
  }

  /** A node runs this attempt, or did so a moment ago. */
  mayBeRunning(task: Task, number: number, withinMs: number): boolean {
    const last = this.lastTurn(task, number);
    return last !== undefined && this.mayRun(withinMs, (start) => start === last.start);
  }

  #turnFile(task: Task, number: number, turn: number): string {
    return join(this.path, 'turns', `${task}.${number}.${turn}.json`);
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

/** A node that was silent for so long runs it no more. */
export const silentMs = 12 * runningMs;
/** How often a start that waits looks again. */
const lookMs = 1000;

/** One start of an attempt by a node. */
interface Start {
  readonly folder: SlurmJobFolder;
  readonly task: Task;
  readonly number: number;
  /** Names this start and no other, together with how often Slurm restarted the job. */
  readonly clusterId: string;
  readonly restart: number;
  readonly isAskedToEnd: () => boolean;
  readonly wait?: (ms: number) => Promise<void>;
}

/**
 * Waits until no other start of this attempt runs. A controller that was killed and comes back with
 * an older state starts a job again that another node is running: one of them waits here. Answers
 * whether it is the turn of this start; not so where the job is ended before.
 */
export async function awaitTurn(parts: Start): Promise<boolean> {
  const { folder, task, number, clusterId, restart, isAskedToEnd, wait = sleep } = parts;
  const start = startName(clusterId, restart);
  for (;;) {
    // Before it has the turn: another start that sees the turn must see that its holder runs.
    folder.markRunning(clusterId, restart);
    const last = folder.lastTurn(task, number);
    if (last?.start === start) return true;
    if (folder.mayBeRunning(task, number, silentMs)) {
      if (isAskedToEnd()) return false;
      await wait(lookMs);
    } else {
      folder.takeTurn(task, number, { number: (last?.number ?? 0) + 1, start });
    }
  }
}

/**
 * Whether a start has nothing to do: a node saw the attempt end already. Slurm starts such a job again
 * when its controller comes back with an older state, or when a node vanished that had just ended it.
 * A failed job that somebody requeued runs again: Slurm counts that as a restart.
 */
export function isOver(
  end: SlurmEnd | undefined,
  now: { readonly slurmId: string; readonly restart: number },
): boolean {
  if (end === undefined || end.slurmState !== '') return false;
  if (end.outcome === 'succeeded' || end.of === undefined) return end.outcome === 'succeeded';
  return end.of.slurmId !== now.slurmId || now.restart <= end.of.restart;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
