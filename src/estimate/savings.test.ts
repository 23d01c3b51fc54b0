import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { findGpu } from './cards/gpus.js';
import { type EstimateRequest, estimate } from './estimate.js';
import { findSavings } from './savings.js';
import { gpt2TraceFile } from './trace/traces-for-tests.js';
import type { Workload } from './types.js';

const workload: Workload = {
  mode: 'train',
  batch: 4,
  sequence: 64,
  precision: 'fp32',
  optimizer: 'adamw',
  checkpointing: false,
};
const path = fileURLToPath(new URL('../../bench/truth/configs/gpt2.json', import.meta.url));
const request: EstimateRequest = {
  source: { kind: 'path', path },
  workload,
  gpu: findGpu('h200'),
  method: 'formula',
};

let folder = '';
let python = '';
/** Traces every job alike, but for plain SGD: that fails. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-savings-'));
  python = join(folder, 'python');
  const script = [
    'for output; do :; done',
    'case "$*" in *--optimizer=sgd*) exit 1;; esac',
    `gunzip -c '${fileURLToPath(gpt2TraceFile)}' > "$output"`,
  ];
  writeFileSync(python, `#!/bin/sh\n${script.join('\n')}\n`);
  chmodSync(python, 0o755);
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});
const machine = () => ({ python, environment: process.env, folder });

describe('findSavings', () => {
  it('gives the difference that the formula sees, the most first', async () => {
    const base = await estimate(request, machine());
    const savings = await findSavings(request, base, machine(), 'formula');
    const saved = savings.map(({ savesBytes }) => savesBytes);
    expect(saved).toEqual(saved.toSorted((a, b) => b - a));
    expect(savings.every(({ basis }) => basis === 'formula')).toBe(true);
    for (const { settings, savesBytes, leastCapacityBytes } of savings) {
      const changed = { ...request, workload: { ...workload, ...settings } };
      const { peak } = await estimate(changed, machine());
      expect(savesBytes).toBe(base.peak.leastCapacityBytes - peak.leastCapacityBytes);
      expect(savesBytes).toBeGreaterThan(0);
      expect(leastCapacityBytes).toBe(peak.leastCapacityBytes);
    }
  });

  it('leaves out what saves nothing of the least capacity, though the peak may sink', async () => {
    const adapters = {
      ...workload,
      precision: 'bf16',
      quantization: 'int4',
      loraRank: 16,
      checkpointing: true,
      batch: 1,
      sequence: 1024,
    } as const;
    // Four layers of an 8B model: the peak sinks with the fused optimizer and with SGD, and the
    // least capacity rises.
    const config = join(folder, 'config.json');
    writeFileSync(
      config,
      JSON.stringify({
        architectures: ['LlamaForCausalLM'],
        model_type: 'llama',
        hidden_size: 4096,
        intermediate_size: 14_336,
        num_attention_heads: 32,
        num_hidden_layers: 4,
        num_key_value_heads: 8,
        rms_norm_eps: 1e-5,
        vocab_size: 128_256,
      }),
    );
    const asked: EstimateRequest = {
      source: { kind: 'path', path: config },
      workload: adapters,
      gpu: findGpu('4090'),
      method: 'formula',
    };
    const base = await estimate(asked, machine());
    const savings = await findSavings(asked, base, machine(), 'formula');
    const changes = savings.map(({ change }) => change);
    expect(changes).toContain('half the sequence');
    expect(changes).not.toContain('the fused optimizer');
    expect(changes).not.toContain('plain SGD');
    for (const { savesBytes, leastCapacityBytes } of savings) {
      expect(leastCapacityBytes).toBe(base.peak.leastCapacityBytes - savesBytes);
      expect(savesBytes).toBeGreaterThan(0);
    }
  });

  it('brings them to the scale of a traced answer', async () => {
    const base = await estimate(request, machine());
    const { peak } = base;
    const twice = { ...base, peak: { ...peak, reservedBytes: 2 * peak.reservedBytes } };
    const [first] = await findSavings(request, base, machine(), 'formula');
    const [doubled] = await findSavings(request, twice, machine(), 'formula');
    expect(doubled?.savesBytes).toBe(2 * (first?.savesBytes ?? 0));
  });

  it('traces each change when asked, and asks the formula where that fails', async () => {
    const traced = { ...request, method: 'auto' } as const;
    const reported: string[] = [];
    const asked = { ...machine(), onProgress: (text: string) => void reported.push(text) };
    const found = await estimate(traced, asked);
    expect(await findSavings(traced, found, asked, 'trace')).toMatchObject([{ basis: 'formula' }]);
    // Every trace is alike, so that nothing would be saved of what it found.
    const leastCapacityBytes = found.peak.leastCapacityBytes + GiB;
    const base = { ...found, peak: { ...found.peak, leastCapacityBytes } };
    const savings = await findSavings(traced, base, asked, 'trace');
    const basisOf = (change: string) => savings.find((one) => one.change === change)?.basis;
    expect(basisOf('half the batch')).toBe('trace');
    expect(basisOf('plain SGD')).toBe('formula');
    expect(savings.find(({ basis }) => basis === 'trace')?.savesBytes).toBe(GiB);
    expect(reported).toContain('What gradient checkpointing would save (1 of 8)');
  });

  it('changes nothing of a script that the script decides itself', async () => {
    const source = { kind: 'script', path: 'train.py', args: [] } as const;
    const script = { ...request, source, method: 'auto' } as const;
    const base = await estimate(script, machine());
    expect(await findSavings(script, base, machine(), 'formula')).toEqual([]);
    const leastCapacityBytes = base.peak.leastCapacityBytes + GiB;
    const larger = { ...base, peak: { ...base.peak, leastCapacityBytes } };
    const savings = await findSavings(script, larger, machine(), 'trace');
    const settings = savings.flatMap((one) => Object.keys(one.settings));
    expect(new Set(settings)).toEqual(new Set(['optimizer', 'loraRank', 'precision']));
  });
});
