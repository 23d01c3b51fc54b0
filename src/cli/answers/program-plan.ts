import { createHash } from 'node:crypto';
import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import type { EventStream } from '../../estimate/trace/event-stream.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import type { PlanBudget } from '../../plan/answers/plan-request.js';
import {
  type ProgramPlan,
  planProgram,
  type TracedProgram,
} from '../../plan/programs/plan-program.js';
import { runDefaults } from '../../run/new-run.js';
import { fillCommand, settingsVariables } from '../../run/placeholders.js';
import type { CliIo } from '../io.js';
import type { LiveProgress } from '../screen/progress.js';

export interface ProgramPlanRequest {
  /** With {batch_size} where its batch goes. */
  readonly command: readonly string[];
  readonly effectiveBatch: number | undefined;
  readonly budget: PlanBudget;
  readonly gpu: Gpu;
  readonly verbose: boolean;
}

export interface ProgramPlanMachine {
  readonly machine: AnswerMachine;
  readonly io: CliIo;
  readonly signal: AbortSignal;
  readonly progress: LiveProgress;
}

/** Traces a program at a few batches and answers the one to use. */
export function tracedProgramPlan(
  { command, effectiveBatch, budget, gpu, verbose }: ProgramPlanRequest,
  { machine, io, signal, progress }: ProgramPlanMachine,
): Promise<ProgramPlan> {
  const commandFor = (batch: number, accumulation: number) =>
    fillCommand(command, settingsFor(batch, accumulation), 1, true);
  let traces = 0;
  const trace = async (batch: number, accumulation: number): Promise<TracedProgram> => {
    traces += 1;
    const what = `Trace ${traces}, batch ${batch}${accumulation > 1 ? ` x ${accumulation}` : ''}`;
    const variables = settingsVariables(settingsFor(batch, accumulation), 1, true);
    progress.show(what);
    let requests = '';
    const estimate = await estimateProgram(
      { command: commandFor(batch, accumulation), gpu },
      {
        ...machine,
        environment: { ...io.environment, ...variables },
        signal,
        onProgress: verbose ? undefined : (text, share) => progress.show(`${what}: ${text}`, share),
        onOutput: verbose ? (text) => io.stderr.write(text) : undefined,
        onTrace: ({ stream }) => {
          requests = digestOf(stream);
        },
      },
    );
    return { estimate, requests };
  };
  return planProgram({ effectiveBatch, budget, commandFor, trace });
}

/** As `plimsoll run` begins; the program sees one GPU. */
function settingsFor(batch: number, accumulation: number) {
  const { precision } = runDefaults;
  const device = 'gpu:0';
  return {
    batch_size: batch,
    accumulation,
    checkpointing: false,
    precision,
    offload: false,
    device,
  };
}

/**
 * The same for two streams that ask an allocator for the very same, in the same order.
 *
 * @example
 * digestOf(first.stream) === digestOf(second.stream); // both programs ran alike
 */
export function digestOf({ kind, slot, bytes, streams }: EventStream): string {
  const hash = createHash('sha256');
  for (const column of [kind, slot, bytes, streams]) hash.update(column).update('|');
  return hash.digest('hex');
}
