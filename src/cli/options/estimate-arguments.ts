import type { Command } from 'commander';
import type { CacheType } from '../../estimate/serving/kv-cache.js';
import { engines, type ServeEngine } from '../../estimate/serving/serve-estimate.js';
import { Failure } from '../../failure.js';
import { workloadModes } from '../../plan/answers/read-workload.js';
import { cacheTypeNames, servingModes } from '../../plan/answers/serving/serving-request.js';
import { badArgument, countArgument, oneOfArgument } from './arguments.js';
import type { GpuCounts } from './parallel-options.js';
import type { WorkloadArguments } from './workload-options.js';

/** How a model is run for an estimate. */
export const estimateModes = [...workloadModes, ...servingModes] as const;

/** What `plimsoll estimate` takes; what was not given is absent. */
export interface EstimateArguments extends Omit<WorkloadArguments, 'mode' | 'gpus'> {
  readonly gpus?: GpuCounts;
  readonly mode?: (typeof estimateModes)[number];
  readonly prompt?: number;
  readonly new?: number;
  readonly beams?: number;
  readonly engine?: ServeEngine;
  readonly maxModelLen?: number;
  readonly gpuMemoryUtilization?: number;
  readonly kvPrecision?: CacheType;
  readonly savings?: boolean;
  readonly verbose?: boolean;
  readonly cwdCopy?: boolean;
  readonly html?: string;
  readonly json?: boolean;
}

/** What the modes `generate` and `serve` take beside what all do. */
export function addServingOptions(command: Command): Command {
  return command
    .option('--prompt <n>', 'generate: tokens of the prompt', countArgument('--prompt'))
    .option('--new <n>', 'generate: new tokens', countArgument('--new'))
    .option('--beams <n>', 'generate: beams (1)', countArgument('--beams'))
    .option(
      '--engine <name>',
      `serve: ${engines.join(', ')} (vllm; llama.cpp for a .gguf)`,
      oneOfArgument('--engine', engines),
    )
    .option(
      '--max-model-len <n>',
      "serve: tokens of the longest request, its answer included (the model's own)",
      countArgument('--max-model-len'),
    )
    .option(
      '--gpu-memory-utilization <share>',
      'serve: the share of the card that vLLM takes (0.9)',
      shareArgument,
    )
    .option(
      '--kv-precision <name>',
      `serve: data type of the KV cache: ${cacheTypeNames.join(', ')}`,
      oneOfArgument('--kv-precision', cacheTypeNames),
    );
}

/** A model has no folder to copy. */
export function refuseCopy({ cwdCopy }: OnOneCount): void {
  if (cwdCopy !== true) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--cwd-copy is for a program.',
    next: 'Name the program after --, or leave it out.',
  });
}

/** An option that does nothing would mislead. */
export function refuseServing(given: OnOneCount): void {
  const { prompt, new: written, beams, engine, maxModelLen, kvPrecision } = given;
  const ofMode = [
    ['generate', { '--prompt': prompt, '--new': written, '--beams': beams }],
    [
      'serve',
      {
        '--engine': engine,
        '--max-model-len': maxModelLen,
        '--gpu-memory-utilization': given.gpuMemoryUtilization,
        '--kv-precision': kvPrecision,
      },
    ],
  ] as const;
  for (const [mode, options] of ofMode) {
    const [option] = Object.entries(options).find(([, value]) => value !== undefined) ?? [];
    if (option === undefined) continue;
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `${option} is for --mode ${mode}.`,
      next: `Add --mode ${mode}, or leave it out.`,
    });
  }
}

function shareArgument(text: string): number {
  const share = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (share > 0 && share <= 1) return share;
  const next = 'It takes a share above 0 and up to 1, such as 0.9.';
  throw badArgument('--gpu-memory-utilization', text, next);
}

/** The same with one number of GPUs. */
export type OnOneCount = Omit<EstimateArguments, 'gpus'> & { readonly gpus?: number | undefined };

/** A range of GPUs is a question of its own, which only a model that is trained on them answers. */
export function onOneCount({ gpus, ...given }: EstimateArguments): OnOneCount {
  if (typeof gpus !== 'object') return { ...given, gpus };
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: 'A range of GPUs is only for a model that is trained on them.',
    next: 'Name a model and --parallel, or one number of GPUs.',
  });
}
