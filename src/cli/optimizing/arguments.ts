import type { Settings } from '../../config/settings.js';
import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { Failure } from '../../failure.js';
import type { OptimizeMode } from '../../optimize/document.js';
import { MiB } from '../../units/bytes.js';
import type { WorkloadArguments } from '../options/workload-options.js';

/** What `plimsoll optimize` takes; what was not given is absent. */
export interface OptimizeArguments extends Omit<WorkloadArguments, 'mode'> {
  readonly mode?: OptimizeMode;
  readonly watch?: number;
  readonly apply?: boolean;
  readonly undo?: boolean;
  readonly report?: string;
  readonly memory?: number;
  readonly devices?: readonly string[];
  readonly simulate?: string;
  readonly verbose?: boolean;
  readonly json?: boolean;
}

/** Options over the configuration, for the settings that both have. */
export function withConfiguration(
  given: OptimizeArguments,
  { training }: Settings,
): OptimizeArguments {
  const { batch, precision, checkpointing } = training;
  return {
    ...given,
    ...(given.batch === undefined && batch !== undefined && { batch }),
    ...(given.precision === undefined && precision !== undefined && { precision }),
    ...(given.checkpointing === undefined && checkpointing !== undefined && { checkpointing }),
  };
}

/**
 * What PyTorch's allocator may have: as an option says, as the configuration says, else what the load
 * line leaves of the card that was named or found. Undefined where there is neither.
 */
export function memoryBudget(
  given: OptimizeArguments,
  settings: Settings,
  gpu: Gpu | undefined,
): number | undefined {
  const { training, loadLinePercent, memoryLimitBytes } = settings;
  if (given.memory !== undefined) return given.memory;
  if (memoryLimitBytes !== undefined) return memoryLimitBytes;
  if (gpu === undefined) return undefined;
  const percent = training.memoryPercent ?? loadLinePercent;
  const allowed = (percent / 100) * gpu.capacityBytes - gpu.context.bytes;
  return Math.max(MiB, Math.floor(allowed / MiB) * MiB);
}

/** Before anything takes its time. */
export function checkUsage(words: readonly string[], given: OptimizeArguments): void {
  const { mode = 'quick' } = given;
  const named = words.length > 0 || given.script !== undefined || given.parameters !== undefined;
  if (given.undo && (named || given.apply || given.report !== undefined)) {
    throw badUsage('--undo stands alone.', 'Write: plimsoll optimize --undo');
  }
  if (mode === 'quick' && named) {
    throw badUsage(
      '--mode quick looks at the machine, not at a model or a program.',
      'Add --mode training, or --mode full for both.',
    );
  }
  if (mode === 'training' && !named) {
    throw badUsage(
      '--mode training needs a model, or a program after --.',
      'Write: plimsoll optimize --mode training gpt2 --gpu 4090',
    );
  }
  if (given.report !== undefined && !/\.(json|html?)$/i.test(given.report)) {
    throw badUsage(
      `--report cannot be "${given.report}".`,
      'Name a file that ends in .json or .html.',
    );
  }
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}
