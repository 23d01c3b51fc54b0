import type { Optimizer, Precision, QuantizationPreset, Workload } from '../../estimate/types.js';
import type { Configuration, ZeroStage } from './types.js';

// How long a sample takes in one configuration against another. A simple model, explained in
// docs/plan.md: it orders settings, it does not tell seconds. What is not arithmetic on the GPU is
// counted in tokens, as the number of tokens that the GPU would compute in that time.

/**
 * Mixed precision is 1. Without tensor cores (fp32, as PyTorch sets it) 3; with all in 16 bits
 * nothing has to be converted.
 */
const precisionCost: Readonly<Record<Precision, number>> = {
  fp32: 3,
  'amp-bf16': 1,
  'amp-fp16': 1,
  bf16: 0.9,
  fp16: 0.9,
};
/** The step is a small part of the time; the fused one reads every state once. */
const optimizerCost: Readonly<Record<Optimizer, number>> = {
  'adamw-fused': 1,
  'adam-fused': 1,
  sgd: 1,
  'sgd-momentum': 1,
  adamw: 1.01,
  adam: 1.01,
  adamax: 1.01,
  nadam: 1.01,
  radam: 1.01,
  rmsprop: 1.01,
  adagrad: 1.01,
  adadelta: 1.01,
  'adamw-8bit': 1.02,
  adafactor: 1.05,
};
/** Weights are turned back into 16 bits before each use; with offload they also cross the bus. */
const quantizationCost: Readonly<Record<QuantizationPreset, number>> = {
  fp16: 1,
  int8: 1.5,
  int4: 1.3,
  int4_double: 1.35,
  int4_offload: 10,
  cpu: 50,
};
/** The forward pass is done twice: 4 parts instead of 3 (backward costs twice what forward does). */
const checkpointingCost = 4 / 3;
/** No gradients of the frozen weights: 2 parts of 3, and the adapters. */
const adaptersCost = 0.75;
/**
 * Each pass reads all weights, however small the batch is. A GPU computes some 200 tokens while it
 * reads them (H200: 989 TFLOP/s against 4.8 TB/s).
 */
const weightReadTokens = 200;
/**
 * A step on the host: 4 bytes a parameter over PCIe and some 28 through the host's memory take about
 * 0.35 ns, in which a GPU trains 9,000 (A100) to 23,000 (H200) tokens.
 */
const offloadStepTokens = 20_000;
/** One exchange of 2 bytes a parameter over NVLink, at 200 GB/s. */
const exchangeTokens = 700;
/**
 * Exchanges after each pass and after each step. As many as without ZeRO at first; ZeRO 2 spreads
 * gradients after each pass, ZeRO 3 also collects the weights for forward and for backward.
 */
const exchanges: Readonly<Record<ZeroStage, { pass: number; step: number }>> = {
  0: { pass: 0, step: 2 },
  1: { pass: 0, step: 2 },
  2: { pass: 1, step: 1 },
  3: { pass: 3, step: 0 },
};

/** How much one GPU gets to do at a time. */
export interface CostOf {
  readonly mode: Workload['mode'];
  readonly batch: number;
  readonly accumulation: number;
  readonly gpus: number;
  readonly tokensPerSample: number;
}

/**
 * The time for a sample against a GPU that is always busy, with mixed precision and a fused AdamW.
 *
 * @example
 * relativeCost(configuration, { mode: 'train', batch: 8, accumulation: 1, gpus: 1, tokensPerSample: 1024 });
 * // 1.02
 */
export function relativeCost(configuration: Configuration, of: CostOf): number {
  const passTokens = of.batch * of.tokensPerSample;
  const stepTokens = passTokens * of.accumulation;
  const exchanged = of.gpus > 1 ? exchanges[configuration.zero] : { pass: 0, step: 0 };
  const perPass = weightReadTokens + exchanged.pass * exchangeTokens;
  const perStep =
    (configuration.offload === 'optimizer' ? offloadStepTokens : 0) +
    exchanged.step * exchangeTokens;
  return arithmeticCost(configuration, of.mode) * (1 + perPass / passTokens + perStep / stepTokens);
}

function arithmeticCost(configuration: Configuration, mode: Workload['mode']): number {
  const shared =
    precisionCost[configuration.precision] *
    (configuration.quantization === undefined ? 1 : quantizationCost[configuration.quantization]);
  if (mode === 'infer') return shared;
  return (
    shared *
    optimizerCost[configuration.optimizer] *
    (configuration.checkpointing ? checkpointingCost : 1) *
    (configuration.loraRank === undefined ? 1 : adaptersCost)
  );
}
