import type { WrittenScores } from '../types.js';

/**
 * Families of transformers 5 whose attention has no fused kernel: their code writes out a score for
 * each pair of tokens. No field of a config says so.
 */
const written: ReadonlyMap<string, WrittenScores> = new Map([
  ['codegen', '32-bit'],
  ['gptj', '32-bit'],
  ['gpt_neox_japanese', 'own-type'],
  ['gpt_oss', 'own-type'],
  ['granite_swa', '32-bit'],
  ['granitemoe_swa', '32-bit'],
  ['megatron-bert', 'own-type'],
  ['mimo_v2_flash', 'own-type'],
  ['mpnet', 'own-type'],
  ['openai-gpt', 'own-type'],
]);

/** Families of transformers 5 that are read generically, and whose attention is one fused kernel. */
const fused: ReadonlySet<string> = new Set([
  'afmoe',
  'arcee',
  'aria_text',
  'biogpt',
  'camembert',
  'cohere',
  'cohere2',
  'cohere2_moe',
  'ctrl',
  'cwm',
  'diffllama',
  'ernie4_5',
  'ernie4_5_moe',
  'exaone4',
  'exaone_moe',
  'flex_olmo',
  'glm',
  'glm4',
  'glm4_moe',
  'gpt_bigcode',
  'granite',
  'granitemoe',
  'granitemoeshared',
  'helium',
  'hy_v3',
  'hyperclovax',
  'jais2',
  'laguna',
  'mellum',
  'minimax_m2',
  'ministral3',
  'nanochat',
  'nemotron',
  'olmo',
  'olmo2',
  'olmo3',
  'olmoe',
  'persimmon',
  'phimoe',
  'seed_oss',
  'smollm3',
  'solar_open',
  'stablelm',
  'starcoder2',
  'vaultgemma',
  'xlm-roberta',
]);

/** How the code of a family keeps its scores; undefined where a fused kernel keeps none. */
export function writtenScoresOf(modelType: string): WrittenScores | 'unknown' | undefined {
  return fused.has(modelType) ? undefined : (written.get(modelType) ?? 'unknown');
}
