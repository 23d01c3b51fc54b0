import { describe, expect, it } from 'vitest';
import { describeConfig } from '../model/config/describe-config.js';
import { shippedCatalogue } from '../model/names/find-model.js';
import { findGpu } from './cards/gpus.js';
import { parameterRule } from './estimate.js';
import { formulaEstimate } from './formula/formula-estimate.js';
import type { Workload } from './types.js';

const gpu = findGpu('h200');
const usual = { precision: 'bf16', optimizer: 'adamw', checkpointing: false } as const;
const workloads: readonly Workload[] = [
  { ...usual, mode: 'train', batch: 2, sequence: 1024 },
  { ...usual, mode: 'train', batch: 8, sequence: 512, checkpointing: true, loraRank: 16 },
  { ...usual, mode: 'infer', batch: 4, sequence: 2048 },
];
/** Some of each family and size; all of them would take minutes. */
const decoders = shippedCatalogue()
  .models.filter(({ config }) =>
    ['llama', 'mistral', 'qwen2', 'qwen3', 'gemma2', 'gpt2', 'phi', 'gpt_neox'].includes(
      String(config['model_type']),
    ),
  )
  .filter(({ parameters }) => parameters < 15e9)
  .filter((_, index) => index % 8 === 0);

describe('parameterRule', () => {
  it('has the figures of published decoders within its interval', async () => {
    const rows = [];
    for (const { name, config, parameters } of decoders) {
      const model = { path: name, description: describeConfig(config, name) };
      for (const workload of workloads) {
        const truth = formulaEstimate(model, workload, gpu).peak.reservedBytes;
        const { interval } = await parameterRule(parameters, workload, gpu, {});
        const share = truth / ((interval.lowBytes + interval.highBytes) / 2);
        const within = truth >= interval.lowBytes && truth <= interval.highBytes;
        rows.push({ name, share, within, mode: workload.mode });
      }
    }
    const outside = rows.filter(({ within }) => !within);
    expect(rows.length).toBeGreaterThan(20);
    expect(outside.length / rows.length).toBeLessThanOrEqual(0.05);
  });
});
