import type { Gpu } from '../../estimate/cards/gpu-table.js';
import { type EstimateRequest, estimate } from '../../estimate/estimate.js';
import {
  changedByFormula,
  findSavings,
  type SettingChange,
  usualLoraRank,
} from '../../estimate/savings.js';
import {
  type Estimate,
  type QuantizationPreset,
  quantizationPresets,
  type Workload,
} from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import { sureBytes } from '../fit/fit.js';
import { presetFacts, type TrainingMethod } from '../quantization/presets.js';
import { closedWorkload } from './closed-workload.js';
import { findSource, readModelOf } from './find-source.js';
import { type AnswerMachine, checkMachine, chosenGpu } from './machine.js';
import { withOwnInput } from './plan-input.js';
import { parallelOf } from './read-parallel.js';
import { checkRequest, readWorkload } from './read-workload.js';
import type { WorkloadRequest } from './workload-request.js';

/** A request that holds together: what is left is to find out. */
export interface PreparedEstimate extends EstimateRequest {
  /** Why it is this card, where none was named. */
  readonly notes: readonly string[];
}

/** The card that an estimate is compared with. */
type CardOfEstimate = Pick<Gpu, 'name' | 'capacityBytes' | 'context'>;

export function cardOfEstimate({ name, capacityBytes, context }: Gpu): CardOfEstimate {
  return { name, capacityBytes, context };
}

/** An estimate with the card that it is for. */
export interface EstimateDocument extends Estimate {
  readonly gpu: CardOfEstimate;
  readonly recommendedQuantization?: RecommendedQuantization;
}

/**
 * Answers `plimsoll estimate --json`. A request that cannot be answered is a `Failure` that names
 * the field.
 *
 * @example
 * const { peak } = await answerEstimate({ model: '/models/gpt2', batch: 8, seq: 1024 }, machine);
 * peak.deviceBytes;
 */
export async function answerEstimate(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<EstimateDocument> {
  checkMachine('answerEstimate', machine);
  return makeEstimate(await prepareEstimate(request, machine), machine);
}

/** Everything that can be told to be wrong before anything takes its time. */
export async function prepareEstimate(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<PreparedEstimate> {
  const { wording } = machine;
  const checked = checkRequest(request, wording, 'estimate');
  const parallel = parallelOf(checked, wording);
  const read = readWorkload(checked, wording);
  const { source, notes: found } = await findSource(read.source, machine);
  const { gpu, notes } = await chosenGpu(read.gpu, machine);
  const model = await readModelOf(source, machine);
  const filled = withOwnInput(read.workload, source, model, gpu, machine);
  return {
    source,
    workload: {
      ...closedWorkload(filled.workload, source, wording),
      ...(parallel !== undefined && { parallel }),
    },
    gpu,
    method: read.method,
    notes: [...found, ...filled.notes, ...notes],
  };
}

/** Savings by formula cost nothing; traces take time. */
export async function makeEstimate(
  { notes, ...request }: PreparedEstimate,
  machine: AnswerMachine,
  traceSavings = false,
): Promise<EstimateDocument> {
  const found = await estimate(request, machine);
  const basis = traceSavings && found.method === 'trace' ? 'trace' : 'formula';
  // What the formula sees of one GPU says nothing of a rank.
  const asked = basis === 'trace' || request.workload.parallel === undefined;
  const savings = asked ? await findSavings(request, found, machine, basis) : [];
  const answer = savings.length === 0 ? found : { ...found, savings };
  const recommended = await recommendedQuantization(request, found, machine);
  return {
    ...answer,
    gpu: cardOfEstimate(request.gpu),
    ...(recommended !== undefined && { recommendedQuantization: recommended }),
    notes: [...notes, ...found.notes],
  };
}

/** The most precise way to hold the weights with which a workload surely fits a card. */
interface RecommendedQuantization {
  readonly preset: QuantizationPreset | 'none';
  readonly training: TrainingMethod | 'none';
  readonly reason: string;
}

interface Candidate extends SettingChange {
  readonly preset: QuantizationPreset;
  readonly training: TrainingMethod | 'none';
}

/** A candidate with what the job then needs of the card and of the host. */
interface Option extends Pick<Candidate, 'preset' | 'training'> {
  readonly gpuBytes: number;
  readonly hostBytes: number;
  /** Of the card, by the upper end of the interval. */
  readonly sureBytes: number;
  readonly fits: boolean;
}

/**
 * The preset for the workload, the card and the figures of an estimate. Absent where presets do not
 * apply, where one was chosen, and where no formula knows the model.
 *
 * @example
 * const recommended = await recommendedQuantization(request, found, machine);
 * recommended?.preset; // 'int8'
 */
async function recommendedQuantization(
  request: EstimateRequest,
  found: Estimate,
  machine: AnswerMachine,
): Promise<RecommendedQuantization | undefined> {
  const { workload, gpu } = request;
  if (workload.parallel !== undefined || workload.quantization !== undefined) return undefined;
  const changed = await changedByFormula(request, found, candidatesOf(workload), machine);
  // A candidate may be off by the same share as the estimate beside it.
  const share = sureBytes(found) / found.peak.leastCapacityBytes;
  const halves = changed.find(({ preset }) => preset === 'fp16')?.weightBytes ?? 0;
  const options = changed.map(
    ({ preset, training, leastCapacityBytes: least, weightBytes }): Option => {
      const sure = Math.ceil(least * share);
      const over = Math.max(0, sure - gpu.capacityBytes);
      const { weights, bytesPerParameter } = presetFacts[preset];
      if (weights === 'gpu') {
        const fits = over === 0;
        return { preset, training, gpuBytes: least, hostBytes: 0, sureBytes: sure, fits };
      }
      if (weights === 'host') {
        const hostBytes = Math.max(0, sure - gpu.context.bytes);
        const fits = hostBytes <= machine.hostBytes;
        return { preset, training, gpuBytes: 0, hostBytes, sureBytes: 0, fits };
      }
      // The layers that are over wait on the host in 16 bits.
      const rounded = ((halves - weightBytes) / (2 - bytesPerParameter)) * bytesPerParameter;
      const hostBytes = Math.ceil((over / bytesPerParameter) * 2);
      const fits = over <= rounded && hostBytes <= machine.hostBytes;
      const [gpuBytes, left] = [least - over, sure - over];
      return { preset, training, gpuBytes, hostBytes, sureBytes: left, fits };
    },
  );
  return options.length === 0 ? undefined : chosenOf(options, gpu.capacityBytes);
}

/** On a GPU the most precise first; the host is precise as well, but far slower. */
function candidatesOf({ mode, loraRank }: Workload): readonly Candidate[] {
  const onGpu = quantizationPresets.filter((preset) => preset !== 'cpu');
  return [...onGpu, 'cpu' as const].flatMap((preset) => {
    const methods = mode === 'infer' ? (['none'] as const) : presetFacts[preset].training;
    const kept = preset === 'cpu' ? ({ precision: 'fp32' } as const) : { quantization: preset };
    return methods
      .filter((training) => loraRank === undefined || training !== 'full')
      .map((training): Candidate => {
        const rank = training === 'lora' ? { loraRank: loraRank ?? usualLoraRank } : {};
        return { change: preset, preset, training, settings: { ...kept, ...rank } };
      });
  });
}

function chosenOf(options: readonly Option[], capacityBytes: number): RecommendedQuantization {
  const at = options.findIndex(({ fits }) => fits);
  const [chosen, better] = [options[at], options[at - 1]];
  const card = `the ${formatBytes(capacityBytes)} of this card`;
  if (chosen === undefined) {
    const sizes = options.map((one) => one.sureBytes + one.hostBytes);
    const reason = `No preset makes this workload surely fit ${card}; the smallest needs up to ${formatBytes(Math.min(...sizes))} (estimated).`;
    return { preset: 'none', training: 'none', reason };
  }
  const { preset, training, gpuBytes, hostBytes } = chosen;
  const need = [
    ...(gpuBytes > 0 ? [`${formatBytes(gpuBytes)} of ${card}`] : []),
    ...(hostBytes > 0 ? [`${formatBytes(hostBytes)} of the host`] : []),
  ].join(' and ');
  const best =
    better === undefined
      ? 'It is the most precise preset'
      : 'It is the most precise preset with which this workload surely fits';
  const other =
    better === undefined
      ? ''
      : ` With ${nameOf(better)} it needs ${formatBytes(better.gpuBytes)}, up to ${formatBytes(better.sureBytes)} by the upper end of its interval.`;
  return { preset, training, reason: `${best}: it needs ${need} (estimated).${other}` };
}

function nameOf({ preset, training }: Option): string {
  return training === 'none' ? preset : `${preset} (${training})`;
}
