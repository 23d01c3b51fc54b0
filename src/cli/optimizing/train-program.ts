import { totalmem } from 'node:os';
import type { Settings } from '../../config/settings.js';
import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import type { Estimate } from '../../estimate/types.js';
import { nodeAdvice } from '../../optimize/node-advice.js';
import { nodeCommand } from '../../optimize/node-programs.js';
import {
  loadingAdvice,
  partsAdvice,
  type TrainingSettings,
} from '../../optimize/training-answer.js';
import { programPaste } from '../../optimize/training-paste.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import { budgetOf, type PlanBudget } from '../../plan/answers/plan-request.js';
import { fitOf } from '../../plan/fit/fit.js';
import { programSettings } from '../../plan/programs/plan-program.js';
import { placeholdersOf } from '../../run/placeholders.js';
import { shellWords } from '../../units/shell-words.js';
import { type ProgramPlanMachine, tracedProgramPlan } from '../answers/program-plan.js';
import { refuseForProgram } from '../options/program-options.js';
import { memoryBudget, type OptimizeArguments, withConfiguration } from './arguments.js';
import { loadingHere } from './loading-here.js';
import type { TrainingFound } from './train-model.js';

/** What is of use with a program. */
const forMachine = ['mode', 'watch', 'apply', 'report', 'devices', 'simulate', 'json', 'verbose'];
const taken = new Set([...forMachine, 'batch', 'memory', 'gpu', 'python', 'cache', 'config']);

/** A program on Node: where its heap should end. Undefined where it runs on something else. */
export async function adviseNode(
  command: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<TrainingFound['advice'] | undefined> {
  const program = await nodeCommand(command, environment);
  return program && nodeAdvice([program], totalmem());
}

/** How to run a program: traced as it is, or at the batches that {batch_size} tells it. */
export async function trainProgram(
  command: readonly string[],
  given: OptimizeArguments,
  settings: Settings,
  tracing: ProgramPlanMachine,
): Promise<TrainingFound> {
  refuseForProgram(given, taken);
  programCommand(command);
  const { machine } = tracing;
  const gpusHere = await machine.gpusHere();
  const isKnownCard = given.gpu !== undefined || gpusHere.length > 0;
  const { gpu, notes } = await chosenGpu(given.gpu, machine);
  const memory = memoryBudget(given, settings, isKnownCard ? gpu : undefined);
  const budget = budgetOf({ memory, gpuNamed: given.gpu !== undefined }, gpu, machine.wording);
  const found = await traced(command, withConfiguration(given, settings), gpu, budget, tracing);
  const loading = loadingHere(settings, isKnownCard);
  const { estimate } = found;
  return {
    training: {
      of: shellWords(command),
      fits: found.fits,
      surely: found.surely,
      settings: found.settings,
      peakBytes: estimate.peak.leastCapacityBytes,
      capacityBytes: budget.capacityBytes,
      method: estimate.method,
      loading,
      paste: programPaste(found.command, budget.memoryBytes),
      notes: [...notes, ...found.notes, ...estimate.notes],
    },
    advice: [...partsAdvice(estimate), loadingAdvice(loading)],
    changes: [],
  };
}

interface TracedProgram {
  readonly estimate: Estimate;
  readonly settings: TrainingSettings;
  readonly fits: boolean;
  readonly surely: boolean;
  readonly command: readonly string[];
  readonly notes: readonly string[];
}

async function traced(
  command: readonly string[],
  given: OptimizeArguments,
  gpu: Gpu,
  budget: PlanBudget,
  tracing: ProgramPlanMachine,
): Promise<TracedProgram> {
  const { machine, io, signal, progress } = tracing;
  const verbose = given.verbose === true;
  const places = placeholdersOf(command);
  if (places.has('batch_size')) {
    // Without a place for accumulation the effective batch cannot be kept.
    const effectiveBatch = places.has('accumulation') ? given.batch : undefined;
    return tracedProgramPlan({ command, effectiveBatch, budget, gpu, verbose }, tracing);
  }
  const estimate = await estimateProgram(
    { command, gpu },
    {
      ...machine,
      signal,
      onProgress: verbose ? undefined : (text, share) => progress.show(text, share),
      onOutput: verbose ? (text) => io.stderr.write(text) : undefined,
    },
  );
  const fit = fitOf(estimate, budget.capacityBytes);
  return {
    estimate,
    settings: programSettings('unknown', 'unknown'),
    fits: fit !== 'no',
    surely: fit === 'surely',
    command,
    notes: ['Write {batch_size} in the command to have its batch chosen, too.'],
  };
}
