import { isKnown, type Known } from '../../units/known.js';
import type { SlurmCommand } from './commands.js';

/** What a controller says of itself. */
export interface SlurmController {
  readonly bootMs: Known<number>;
  /** How long it keeps a job after its end. */
  readonly minJobAgeMs: number;
}

/** A controller writes its state every few seconds; what it accepted since is lost when it is killed. */
const unsavedMs = 60_000;
/** Clocks of a cluster differ a little. */
const clockMs = 5000;
/** Slurm's own default. */
const usualAgeSeconds = 300;

export async function readController(run: SlurmCommand): Promise<SlurmController> {
  const text = await run('scontrol', ['show', 'config']);
  const bootMs = Date.parse(/^BOOT_TIME\s*=\s*(\S+)/m.exec(text)?.[1] ?? '');
  const seconds = Number(/^MinJobAge\s*=\s*(\d+)/m.exec(text)?.[1] ?? usualAgeSeconds);
  return {
    bootMs: Number.isNaN(bootMs) ? 'unknown' : bootMs,
    // With 0 it keeps all of them, and only as long as its state is not removed.
    minJobAgeMs: (seconds === 0 ? usualAgeSeconds : seconds) * 1000,
  };
}

/**
 * Whether a controller lost a job that it does not know: it keeps each one for a while after its end, so
 * that one that is younger cannot be gone otherwise; and it was started right after it took the job. One
 * that somebody cancelled, or that ended long ago, is none of these.
 */
export function wasLost(
  { bootMs, minJobAgeMs }: SlurmController,
  submittedMs: number,
  nowMs: number,
): boolean {
  if (nowMs - submittedMs < minJobAgeMs - clockMs) return true;
  return isKnown(bootMs) && bootMs >= submittedMs - clockMs && bootMs <= submittedMs + unsavedMs;
}
