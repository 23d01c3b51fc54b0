import { computesInBfloat16, type Gpu } from '../../estimate/cards/gpu-table.js';
import type { EstimateMethod } from '../../estimate/estimate.js';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Workload } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import type { Model, Stack } from '../../model/types.js';
import { formatBytes, GiB, MiB } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { ChangeableSetting, Offload, PlanFacts, PlanWishes, ZeroStage } from '../fit/types.js';
import { readModelOf } from './find-source.js';
import type { AnswerMachine } from './machine.js';
import {
  assumedPrecision,
  filledInput,
  type OpenWorkload,
  stacksOf,
  tokensPerSample,
} from './plan-input.js';
import { argsExample, type RequestWording } from './wording.js';

/** What `plan` takes beside what describes the workload. */
export interface PlanLimits {
  /** Of the device, the CUDA context included. */
  readonly memory?: number | undefined;
  /** Of the allocator alone. */
  readonly allocatorMemory?: number | undefined;
  readonly gpuNamed: boolean;
  readonly maxBatch: boolean;
  readonly gpus: number;
  readonly zero?: ZeroStage | undefined;
  readonly offload?: Offload | undefined;
  readonly mayChange?: readonly ChangeableSetting[] | undefined;
}

type BudgetLimits = Pick<PlanLimits, 'memory' | 'allocatorMemory' | 'gpuNamed'>;

export interface PlanBudget {
  /** What the device offers, the CUDA context included. */
  readonly memoryBytes: number;
  readonly contextBytes: number;
  /** What is left of it for PyTorch's allocator. */
  readonly allocatorMemoryBytes: number;
}

export interface PlanRequest {
  readonly wishes: PlanWishes;
  readonly facts: PlanFacts;
  readonly budget: PlanBudget;
  /** Absent for what is not read from a file. */
  readonly model?: Model;
  readonly notes: readonly string[];
}

/** A request that holds together: what is left is to find out. */
export interface PreparedPlan {
  readonly source: ModelSource;
  readonly gpu: Gpu;
  readonly method: EstimateMethod;
  readonly maxBatch: boolean;
  readonly request: PlanRequest;
  /** What was assumed, and why it is this card. */
  readonly notes: readonly string[];
}

/** In an argument of a script: the batch that is tried. */
const batchPlace = '{batch}';

/** The model with a batch: a script is told it where its arguments ask for it. */
export function sourceFor(source: ModelSource, { batch }: Workload): ModelSource {
  if (source.kind !== 'script') return source;
  const args = source.args.map((arg) => arg.replaceAll(batchPlace, String(batch)));
  return { ...source, args };
}

/** Which model, run how, on which card. */
export interface PlannedWorkload {
  readonly source: ModelSource;
  readonly workload: OpenWorkload;
  readonly gpu: Gpu;
}

/** Fills in what was left open, from the model where it tells. */
export async function planRequest(
  { source, workload, gpu }: PlannedWorkload,
  limits: PlanLimits,
  machine: AnswerMachine,
): Promise<PlanRequest> {
  const { wording } = machine;
  const ownBatch = source.kind === 'script' && !source.args.some((arg) => arg.includes(batchPlace));
  if (ownBatch) refuseBatch(workload.batch !== undefined, limits.maxBatch, wording);
  const model = await readModelOf(source, machine);
  const budget = budgetOf(limits, gpu, wording);
  const notes = [budgetNote(limits, budget, gpu, wording)];
  const stacks = stacksOf(model);
  const { gpus, zero, offload, mayChange } = limits;
  if (ownBatch) {
    notes.push(
      `The batch is the script's own; an argument such as ${argsExample(wording, batchPlace)} has it planned.`,
    );
  }
  const input = filledInput(source, stacks, workload);
  const { sequence, image } = input;
  if (sequence !== workload.sequence)
    notes.push(`No ${wording.name('seq')} was given: ${sequence} is assumed.`);
  if (image !== workload.image)
    notes.push(`No ${wording.name('image')} was given: ${image} is assumed.`);
  const usual =
    limits.maxBatch && workload.precision === undefined
      ? assumedPrecision(workload, model, gpu)
      : undefined;
  if (usual !== undefined) {
    const { precision, why } = usual;
    notes.push(`No ${wording.name('precision')} was given: ${precision} is assumed; ${why}.`);
  }
  return {
    wishes: {
      mode: 'train',
      ...workload,
      ...(usual !== undefined && { precision: usual.precision }),
      ...(ownBatch && { batch: 1 }),
      sequence,
      image,
      offload,
      zero,
      ...(mayChange && { mayChange }),
    },
    facts: {
      capacityBytes: budget.memoryBytes,
      gpus,
      parameters: model && parametersOf(model),
      layers: layersOf(stacks),
      tokensPerSample: tokensPerSample(source, stacks, input),
      bfloat16: computesInBfloat16(gpu),
      transformers: source.kind === 'path' || source.kind === 'parameters',
    },
    budget,
    ...(model && { model }),
    notes,
  };
}

function refuseBatch(given: boolean, wanted: boolean, wording: RequestWording): void {
  if (!given && !wanted) return;
  throw new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `${wording.name(given ? 'batch' : 'maxBatch')} does not reach the script, which makes its own batch.`,
    next: `Hand it over as an argument of its workload, such as ${argsExample(wording, batchPlace)}.`,
  });
}

export function budgetOf(
  { memory, allocatorMemory, gpuNamed }: BudgetLimits,
  { capacityBytes, context }: Gpu,
  { name, example }: RequestWording,
): PlanBudget {
  const contextBytes = context.bytes;
  if (memory !== undefined && allocatorMemory !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `Both ${name('memoryBytes')} and ${name('allocatorMemoryBytes')} were given.`,
      next: `Give one of them: ${name('memoryBytes')} has the CUDA context in it, ${name('allocatorMemoryBytes')} does not.`,
      field: 'memoryBytes',
    });
  }
  const stated = allocatorMemory === undefined ? memory : allocatorMemory + contextBytes;
  if (stated === undefined && !gpuNamed) {
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: 'The memory budget is missing.',
      next: `Give ${example('memoryBytes', 24 * GiB)}, or name the card with ${name('gpu')}.`,
      field: 'memoryBytes',
    });
  }
  const most = gpuNamed ? capacityBytes : Number.POSITIVE_INFINITY;
  const memoryBytes = Math.min(stated ?? most, most);
  const allocatorMemoryBytes = Math.max(0, memoryBytes - contextBytes);
  return { memoryBytes, contextBytes, allocatorMemoryBytes };
}

export function budgetNote(
  { allocatorMemory, gpuNamed }: BudgetLimits,
  { memoryBytes, contextBytes, allocatorMemoryBytes }: PlanBudget,
  { name, capacityBytes }: Gpu,
  wording: RequestWording,
): string {
  const context = `${Math.round(contextBytes / MiB)} MiB`;
  if (gpuNamed && memoryBytes === capacityBytes) {
    return `The ${name} has ${formatBytes(capacityBytes)}; its CUDA context takes about ${context} of them.`;
  }
  const all = formatBytes(memoryBytes);
  const parts =
    allocatorMemory === undefined
      ? `The CUDA context takes about ${context} of the ${all}`
      : `PyTorch's allocator may hold ${formatBytes(allocatorMemoryBytes)}; with about ${context} for the CUDA context that is ${all} of the device`;
  if (gpuNamed) return `${parts}. The ${name} has ${formatBytes(capacityBytes)}.`;
  return `${parts} (as on the ${name}). Name a card with ${wording.name('gpu')} to have its own context counted.`;
}

function layersOf(stacks: readonly Stack[]): number | undefined {
  const counts = stacks.flatMap(({ layers }) => layers.map(({ count }) => count));
  return counts.length === 0 ? undefined : counts.reduce((sum, count) => sum + count, 0);
}

function parametersOf({ description, weights }: Model): number | undefined {
  if (isKnown(description.parameters)) return description.parameters;
  return weights?.parameters;
}
