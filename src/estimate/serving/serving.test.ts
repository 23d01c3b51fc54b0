import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { readModelConfig } from '../../model/config/read-config.js';
import type { KnownModel } from '../../model/model.js';
import { findGpu } from '../cards/gpus.js';
import { cacheBytes, generateFormula } from './kv-cache.js';
import { serveEstimate } from './serve-estimate.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-serving-'));
afterAll(() => rmSync(folder, { recursive: true }));

function modelOf(config: object): KnownModel {
  const file = join(folder, 'config.json');
  writeFileSync(file, JSON.stringify(config));
  const read = readModelConfig(file);
  if (read.family === 'unknown') throw new Error('not known');
  return read;
}

function recorded(name: string): KnownModel {
  const read = readModelConfig(join(root, 'bench/truth/configs', `${name}.json`));
  if (read.family === 'unknown') throw new Error('not known');
  return read;
}

const llama3 = {
  model_type: 'llama',
  architectures: ['LlamaForCausalLM'],
  hidden_size: 4096,
  intermediate_size: 14336,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  vocab_size: 128256,
  max_position_embeddings: 8192,
  tie_word_embeddings: false,
};

/** 61 layers that cache a vector of 512 and 64 for each token. */
const deepseek3 = {
  model_type: 'deepseek_v3',
  architectures: ['DeepseekV3ForCausalLM'],
  hidden_size: 7168,
  intermediate_size: 18432,
  moe_intermediate_size: 2048,
  num_hidden_layers: 61,
  num_attention_heads: 128,
  num_key_value_heads: 128,
  n_routed_experts: 256,
  n_shared_experts: 1,
  num_experts_per_tok: 8,
  first_k_dense_replace: 3,
  n_group: 8,
  topk_group: 4,
  q_lora_rank: 1536,
  kv_lora_rank: 512,
  qk_rope_head_dim: 64,
  qk_nope_head_dim: 128,
  v_head_dim: 128,
  vocab_size: 129280,
  max_position_embeddings: 163840,
  tie_word_embeddings: false,
};

const bf16 = { type: 'bf16', latent: true } as const;

describe('cacheBytes of one token', () => {
  it.each([
    ['Llama 3 8B', () => modelOf(llama3), 128 * 1024],
    ['Llama 2 7B', () => recorded('llama-2-7b'), 512 * 1024],
    ['Qwen2.5 0.5B', () => recorded('qwen2.5-0.5b'), 12 * 1024],
    ['Mistral 7B', () => recorded('mistral-7b'), 128 * 1024],
    ['GPT-2', () => recorded('gpt2'), 36 * 1024],
    ['DeepSeek V3', () => modelOf(deepseek3), 61 * (512 + 64) * 2],
  ])('of %s is known', (_, model, bytes) => {
    expect(cacheBytes(model(), 1, bf16)).toBe(bytes);
  });

  it('is half in 8 bits, and all heads where the latent vector is not kept', () => {
    expect(cacheBytes(modelOf(llama3), 1, { ...bf16, type: 'fp8' })).toBe(64 * 1024);
    const heads = cacheBytes(modelOf(deepseek3), 1, { ...bf16, latent: false });
    expect(heads).toBe(61 * 128 * (192 + 128) * 2);
  });

  it('does not grow beyond a sliding window', () => {
    const model = modelOf({
      ...llama3,
      model_type: 'mistral',
      architectures: ['MistralForCausalLM'],
      sliding_window: 4096,
    });
    expect(cacheBytes(model, 32_768, bf16)).toBe(4096 * 128 * 1024);
  });
});

describe('serveEstimate', () => {
  const gpu = findGpu('h100');
  const serving = {
    engine: 'vllm',
    maxModelLen: 8192,
    utilization: 0.9,
    precision: 'bf16',
    cacheType: 'bf16',
  } as const;

  it('shares out what is left of the card, in blocks', () => {
    const { serve, peak } = serveEstimate(modelOf(llama3), undefined, serving, gpu);
    expect(serve.weightsBytes).toBe(8_030_261_248 * 2);
    expect(serve.kvBytesPerToken).toBe(128 * 1024);
    expect(serve.kvBytesPerRequest).toBe(1024 ** 3);
    expect(serve.tokens % 16).toBe(0);
    expect(serve.requests).toBe(Math.floor(serve.kvCacheBytes / 1024 ** 3));
    const taken = serve.weightsBytes + serve.workingBytes + serve.kvCacheBytes + gpu.context.bytes;
    expect(taken).toBe(Math.floor(gpu.capacityBytes * 0.9));
    expect(peak.leastCapacityBytes).toBeLessThan(gpu.capacityBytes);
  });

  it('has room for twice the requests where the cache takes half', () => {
    const model = modelOf(llama3);
    const whole = serveEstimate(model, undefined, serving, gpu).serve.requests;
    const half = serveEstimate(model, undefined, { ...serving, cacheType: 'fp8' }, gpu).serve;
    expect(Math.abs(half.requests - 2 * whole)).toBeLessThanOrEqual(1);
  });

  it('answers 0 requests where the weights do not fit', () => {
    const { serve, peak } = serveEstimate(modelOf(deepseek3), undefined, serving, gpu);
    expect(serve).toMatchObject({ requests: 0, tokens: 0, kvCacheBytes: 0 });
    expect(peak.leastCapacityBytes).toBeGreaterThan(gpu.capacityBytes);
  });

  it.each(['llama.cpp', 'transformers'] as const)('takes all of the card for %s', (engine) => {
    const { serve, notes } = serveEstimate(modelOf(llama3), undefined, { ...serving, engine }, gpu);
    const taken = serve.weightsBytes + serve.workingBytes + serve.kvCacheBytes + gpu.context.bytes;
    expect(taken).toBeLessThanOrEqual(gpu.capacityBytes);
    expect(serve.requests).toBeGreaterThan(1);
    expect(notes[0]).toContain('nothing of it was measured');
  });
});

describe('generateFormula', () => {
  /** Reserved bytes measured on an H200 for generate() with a model of these sizes. */
  it.each([
    [{ batch: 8, prompt: 512, newTokens: 256, beams: 1 }, 2_998_927_360],
    [{ batch: 4, prompt: 512, newTokens: 64, beams: 4 }, 3_470_786_560],
  ])('holds what was measured in its interval: %j', (asked, measured) => {
    const model = recorded('llama-3.2-1b');
    const found = generateFormula(model, { ...asked, precision: 'bf16' }, findGpu('h200'));
    expect(found.interval.lowBytes).toBeLessThan(measured);
    expect(found.interval.highBytes).toBeGreaterThan(measured);
    const parts = found.breakdown.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(parts).toBe(found.peak.deviceBytes);
  });
});
