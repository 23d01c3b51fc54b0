import type { Gpu } from './cards/gpu-table.js';
import type { EstimateMachine } from './estimate.js';
import { inThisThread } from './estimate-work.js';
import { programTrace } from './trace/program-trace.js';
import type { Trace } from './trace/trace-file.js';
import type { TracePlace } from './trace/trace-place.js';
import type { Estimate } from './types.js';

export interface ProgramRequest {
  /** As a person types it: `['python', 'train.py', '--epochs', '3']`. */
  readonly command: readonly string[];
  readonly gpu: Gpu;
  /** Cards that it sees: what `torch.cuda.device_count()` tells it. One where it is left out. */
  readonly cards?: number | undefined;
  /** Whether it runs in a copy of its folder, so that what it writes there is not kept. */
  readonly inCopy?: boolean | undefined;
}

export interface ProgramMachine extends EstimateMachine {
  /** Gets what the program prints, as it comes. */
  readonly onOutput?: ((text: string) => void) | undefined;
  readonly timeoutSeconds?: number | undefined;
  /** Gets what the program asked for, before it is replayed. */
  readonly onTrace?: ((trace: Trace) => void) | undefined;
  /** Left out, the program runs as who we are. */
  readonly openPlace?: (() => Promise<TracePlace>) | undefined;
}

/**
 * What a program needs on one GPU, found by running it as it is without one.
 *
 * @example
 * const { phases } = await estimateProgram(
 *   { command: ['python', 'train.py'], gpu: findGpu('h100') },
 *   { environment: process.env, folder: process.cwd() },
 * );
 */
export async function estimateProgram(
  { command, gpu, cards, inCopy }: ProgramRequest,
  machine: ProgramMachine,
): Promise<Estimate> {
  const { work = inThisThread, signal } = machine;
  const trace = await programTrace(command, { ...machine, gpu, cards, inCopy });
  machine.onTrace?.(trace);
  return work({ kind: 'trace', trace, gpu }, signal);
}
