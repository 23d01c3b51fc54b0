import { loadSettings } from '../../config/load.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import { Failure } from '../../failure.js';
import { chosenGpu } from '../../plan/answers/machine.js';
import { budgetNote, budgetOf } from '../../plan/answers/plan-request.js';
import { programPlanText } from '../../report/text/program-plan-text.js';
import { placeholdersOf } from '../../run/placeholders.js';
import { tracedProgramPlan } from '../answers/program-plan.js';
import type { CommandContext } from '../command-module.js';
import { printJson, textStyle } from '../io.js';
import type { PlanArguments } from '../options/plan-arguments.js';
import { isFramework, planExitCode, planFormatOf } from '../options/plan-format.js';
import { refuseForProgram } from '../options/program-options.js';
import { workloadMachine } from '../options/workload-machine.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';

/** What is of use with a program. */
const workload = ['batch', 'memory', 'maxBatch', 'gpu'];
const taken = new Set([...workload, 'python', 'cache', 'config', 'json', 'verbose', 'format']);

/** `plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}`. */
export async function planOfProgram(
  command: readonly string[],
  given: PlanArguments,
  { io }: CommandContext,
): Promise<number> {
  refuseForProgram(given, taken);
  programCommand(command);
  checkPlaces(command, given);
  const format = planFormatOf(given);
  if (isFramework(format)) {
    throw badUsage(
      `--format ${format} is for a model; the plan of a program is the command to run.`,
      'Leave --format out: the answer ends with that command.',
    );
  }
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const machine = workloadMachine(settings, io, given);
  const { gpu, notes } = await chosenGpu(given.gpu, machine);
  const limits = { memory: given.memory, gpuNamed: given.gpu !== undefined };
  const budget = budgetOf(limits, gpu, machine.wording);
  using stop = stopOnSignals([io.stdout.closed]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  const found = await tracedProgramPlan(
    { command, effectiveBatch: given.batch, budget, gpu, verbose: given.verbose === true },
    { machine, io, signal: stop.signal, progress },
  )
    .catch((error: unknown) => {
      if (stop.interruptedBy === undefined && !io.stdout.closed.aborted) throw error;
      return undefined;
    })
    .finally(() => progress.end());
  if (found === undefined) return stop.interruptedBy ?? 0;
  const beside = [budgetNote(limits, budget, gpu, machine.wording), ...notes];
  const plan = { ...found, notes: [...found.notes, ...beside] };
  if (format === 'json') printJson(io, plan);
  else {
    const text = { columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${programPlanText(plan, text)}\n`);
  }
  return planExitCode(plan, given.batch === undefined);
}

function checkPlaces(command: readonly string[], { batch, maxBatch }: PlanArguments): void {
  const places = placeholdersOf(command);
  if (!places.has('batch_size')) {
    throw badUsage(
      'Nothing in the command says where its batch goes.',
      'Write {batch_size} there: plimsoll plan --memory 24GiB -- python train.py --batch-size {batch_size}',
    );
  }
  if (batch === undefined) return;
  if (maxBatch === true)
    throw badUsage('--max-batch and --batch contradict each other.', 'Leave one of them out.');
  if (!places.has('accumulation')) {
    throw badUsage(
      '--batch is kept by accumulation, and the command has no place for it.',
      'Write {accumulation} there, or leave --batch out to find the largest batch.',
    );
  }
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}
