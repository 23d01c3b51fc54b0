import type { Estimate, Workload } from '../../estimate/types.js';
import type { PlanFacts } from './types.js';

/** Units of a small world: one parameter is a byte where it is in 8 bits. */
export const parameters = 1000;
const perSample = 100;
const contextBytes = 50;
/** Share that an estimate may miss. */
const missedShare = 0.02;

export const facts: PlanFacts = {
  capacityBytes: 30_000,
  gpus: 1,
  parameters,
  layers: 10,
  tokensPerSample: 1000,
  bfloat16: true,
  transformers: true,
};

/**
 * A judge whose answers can be added up by hand, and who counts what he is asked.
 *
 * @example
 * const { judge, asked } = fakeJudge();
 */
export function fakeJudge() {
  const asked: Workload[] = [];
  const judge = async (workload: Workload): Promise<Estimate> => {
    asked.push(workload);
    return fakeEstimate(workload);
  };
  return { judge, asked };
}

export function fakeEstimate(workload: Workload): Estimate {
  const { mode, batch, precision, optimizer, checkpointing, loraRank, quantization } = workload;
  const size = precision === 'bf16' || precision === 'fp16' ? 2 : 4;
  const bits = quantization === 'int8' ? 1 : quantization === undefined ? size : 0.5625;
  const weights = parameters * bits;
  const trained = loraRank === undefined ? parameters * size : parameters / 10;
  const states = { adamw: 2, 'adamw-fused': 2, 'adamw-8bit': 0.5, adafactor: 0 };
  const kept: Readonly<Record<string, number>> = states;
  const train = mode === 'train' ? 1 : 0;
  const breakdown: Estimate['breakdown'] = [
    { part: 'weights', bytes: Math.ceil(weights) },
    { part: 'gradients', bytes: train * trained },
    { part: 'optimizer', bytes: train * Math.ceil(trained * (kept[optimizer] ?? 0)) },
    { part: 'activations', bytes: Math.ceil(batch * perSample * (checkpointing ? 0.25 : 1)) },
    { part: 'context', bytes: contextBytes },
  ];
  const deviceBytes = breakdown.reduce((sum, { bytes }) => sum + bytes, 0);
  const reservedBytes = deviceBytes - contextBytes;
  return {
    method: 'trace',
    peak: {
      allocatedBytes: reservedBytes,
      reservedBytes,
      deviceBytes,
      leastCapacityBytes: deviceBytes,
    },
    interval: {
      lowBytes: Math.floor(reservedBytes * (1 - missedShare)),
      highBytes: Math.ceil(reservedBytes * (1 + missedShare)),
      confidence: 0.95,
    },
    breakdown,
    notes: [],
  };
}
