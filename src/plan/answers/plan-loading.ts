import type { QuantizationPreset } from '../../estimate/types.js';
import type { Plan } from '../fit/types.js';
import {
  bitsAndBytesArguments,
  type ComputeDtype,
  type FromPretrainedArguments,
  type QuantizationMemory,
} from '../quantization/bits-and-bytes.js';
import { choosePreset } from '../quantization/choose.js';
import type { PlanRequest } from './plan-request.js';

/** How transformers is told to load the model as planned. */
export interface PlanLoading {
  readonly preset: QuantizationPreset;
  readonly memory: QuantizationMemory;
  readonly computeDtype: ComputeDtype;
  readonly arguments: FromPretrainedArguments;
}

/** Absent where the weights are neither quantized nor to be kept for later. */
export function loadingOf(
  plan: Plan,
  request: PlanRequest,
  host: { readonly hostBytes: number },
  save = false,
): PlanLoading | undefined {
  const { quantization } = plan.settings;
  if (!plan.fits || (quantization === 'none' && !save)) return undefined;
  const preset = quantization === 'none' ? 'fp16' : quantization;
  const computeDtype = request.facts.bfloat16 ? 'bfloat16' : 'float16';
  const memory = memoryOf(preset, plan, request, host.hostBytes);
  return {
    preset,
    memory,
    computeDtype,
    arguments: bitsAndBytesArguments(preset, memory, computeDtype),
  };
}

/** What the weights may take, beside all that the job takes too. */
function memoryOf(
  preset: QuantizationPreset,
  { estimate, hostBytes, settings }: Plan,
  { facts, wishes, budget }: PlanRequest,
  hostTotalBytes: number,
): QuantizationMemory {
  const weights = estimate.breakdown.find(({ part }) => part === 'weights')?.bytes ?? 0;
  const choice =
    facts.parameters === undefined
      ? undefined
      : choosePreset({
          parameters: facts.parameters,
          freeBytes: budget.memoryBytes,
          hostFreeBytes: Math.max(hostTotalBytes, hostBytes),
          forTraining: wishes.mode === 'train',
          workingBytes: Math.max(0, estimate.peak.deviceBytes - weights),
        });
  const whole = { gpuBytes: [budget.allocatorMemoryBytes], hostBytes };
  const { gpuBytes } = choice?.preset === preset ? choice.memory : whole;
  return { gpuBytes: Array.from({ length: settings.gpus }, () => gpuBytes[0] ?? 0), hostBytes };
}
