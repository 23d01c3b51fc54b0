import { programCommand } from '../../../estimate/trace/program-command.js';
import type { Estimate } from '../../../estimate/types.js';
import { Failure } from '../../../failure.js';
import { bytesToReserve, surelyTooLarge } from '../../../plan/fit/fit.js';
import { fillCommand, settingsVariables } from '../../../run/placeholders.js';
import type { Account } from '../../../run/types.js';
import type { Known } from '../../../units/known.js';
import type { SpillCurve } from '../../elastic.js';
import type { JobRequest } from '../types.js';
import { settingsOf } from './job-request.js';

/** A program of which nothing is known, as it would be started. */
export interface ProgramJob {
  readonly command: readonly string[];
  /** Left out, where jobs run that name none. */
  readonly folder?: string | undefined;
  /** Its own variables, beside those that all jobs have. */
  readonly variables: Readonly<Record<string, string>>;
  readonly timeoutSeconds: number;
  /** Whom it is traced as; left out, as who the server is. */
  readonly account?: Account | undefined;
  /** Told what its trace does, and how far it is, 0 to 1, where that is known. */
  readonly onProgress?: ((text: string, share?: number) => void) | undefined;
}

export type EstimateOfProgram = (job: ProgramJob, signal: AbortSignal) => Promise<Estimate>;

/** What a trace found. */
export interface ProgramNeed {
  readonly bytes: Known<number>;
  /** Why there is none; null where there is. */
  readonly failure: string | null;
  /** How long its step takes with less. */
  readonly curve: SpillCurve;
}

/** The program waits for its start, and others of the same person for their estimates. */
const usualTimeoutSeconds = 120;

/** Whether its program can be traced: one in Python, on one GPU, with a time above 0. */
export function canBeTraced({ command, gpus = 1, estimateTimeoutSeconds }: JobRequest): boolean {
  return gpus === 1 && estimateTimeoutSeconds !== 0 && isProgram(command);
}

/** What a job needs that stated nothing, found by tracing its program; undefined where that cannot be traced. */
export async function programNeed(
  request: JobRequest,
  offerBytes: number,
  estimate: EstimateOfProgram,
  signal: AbortSignal,
): Promise<ProgramNeed | undefined> {
  if (!canBeTraced(request)) return undefined;
  const { estimateTimeoutSeconds: timeoutSeconds = usualTimeoutSeconds } = request;
  const settings = { ...settingsOf(request), device: 'gpu:0' };
  try {
    const found = await estimate(
      {
        command: fillCommand(request.command, settings, 1, true),
        folder: request.cwd,
        variables: { ...request.env, ...settingsVariables(settings, 1, true) },
        timeoutSeconds,
      },
      signal,
    );
    const bytes = bytesToReserve(found, offerBytes);
    // Where only the interval reaches beyond the device, it gets all of it.
    const reserved = surelyTooLarge(found, offerBytes) ? bytes : Math.min(bytes, offerBytes);
    return { bytes: reserved, failure: null, curve: found };
  } catch (error) {
    if (!(error instanceof Failure) || error.kind === 'interrupted') throw error;
    return { bytes: 'unknown', failure: error.fact, curve: {} };
  }
}

function isProgram(command: readonly string[]): boolean {
  try {
    programCommand(command);
    return true;
  } catch {
    return false;
  }
}
