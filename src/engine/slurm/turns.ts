import { runningMs, startName, type Task } from '../job-folder.js';
import type { SlurmEnd, SlurmJobFolder } from './job-folder.js';

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
