import type { Optimizer, Precision, Workload } from '../../estimate/types.js';
import { presetFacts } from '../quantization/presets.js';
import type { Configuration, PlanFacts } from './types.js';

const weightSize: Readonly<Record<Precision, number>> = {
  fp32: 4,
  bf16: 2,
  fp16: 2,
  'amp-bf16': 4,
  'amp-fp16': 4,
};

/** Bytes of states for each byte of weights; in 8 bits two states are half of 4 bytes. */
const statesPerWeightByte: Readonly<Record<Optimizer, number>> = {
  adamw: 2,
  'adamw-fused': 2,
  'adamw-8bit': 0.5,
  adam: 2,
  'adam-fused': 2,
  adamax: 2,
  nadam: 2,
  radam: 2,
  rmsprop: 1,
  adagrad: 1,
  adadelta: 2,
  adafactor: 0,
  sgd: 0,
  'sgd-momentum': 1,
};

/** Bytes that a parameter has as a weight, and as states of the optimizer. */
export function parameterBytes(
  precision: Precision,
  optimizer: Optimizer,
): { readonly weight: number; readonly states: number } {
  const weight = weightSize[precision];
  return { weight, states: weight * statesPerWeightByte[optimizer] };
}

/**
 * What a configuration takes of one GPU whatever the batch is: weights, gradients and states of the optimizer.
 * Never too much, so what is larger than the budget need not be estimated.
 *
 * @example
 * leastStateBytes(configuration, facts, 'train'); // 4 x 2 bytes a parameter, all in bf16
 */
export function leastStateBytes(
  configuration: Configuration,
  facts: PlanFacts,
  mode: Workload['mode'],
): number {
  const { parameters = 0, gpus } = facts;
  const { quantization, zero } = configuration;
  // Layers may wait on the host.
  if (configuration.offload === 'weights') return 0;
  const preset = quantization === undefined ? undefined : presetFacts[quantization];
  const weights = parameters * (preset?.bytesPerParameter ?? weightSize[configuration.precision]);
  const keptWeights = zero === 3 ? weights / gpus : weights;
  if (mode === 'infer' || configuration.loraRank !== undefined) return keptWeights;
  const states = weights * statesPerWeightByte[configuration.optimizer];
  const keptStates = configuration.offload === 'optimizer' ? 0 : zero >= 1 ? states / gpus : states;
  return keptWeights + keptStates + (zero >= 2 ? weights / gpus : weights);
}
