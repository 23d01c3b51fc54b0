import type { Family, KnownModel } from '../../model/types.js';
import type { Workload } from '../types.js';

/**
 * How far the ops of a family were checked. `measured`: against runs on an H200. `traced`: against
 * traces of the real code, which agree with such runs. `read`: against the code alone.
 */
export type Evidence = 'measured' | 'traced' | 'read' | 'generic';

const evidence: Readonly<Record<Family, Evidence>> = {
  llama: 'measured',
  mistral: 'measured',
  qwen2: 'measured',
  qwen3: 'traced',
  qwen2_moe: 'traced',
  qwen3_moe: 'traced',
  mixtral: 'traced',
  gemma: 'traced',
  gemma2: 'traced',
  gemma3: 'traced',
  phi: 'traced',
  phi3: 'traced',
  gpt2: 'measured',
  gpt_neox: 'traced',
  opt: 'measured',
  bloom: 'traced',
  falcon: 'traced',
  deepseek_v2: 'traced',
  deepseek_v3: 'traced',
  bert: 'measured',
  roberta: 'traced',
  distilbert: 'measured',
  t5: 'measured',
  vit: 'measured',
  swin: 'measured',
  convnext: 'traced',
  whisper: 'traced',
  wav2vec2: 'traced',
  clip: 'read',
};

/** What the ops may miss, each way, as a share of what is allocated. */
const missedShares: Readonly<Record<Evidence, number>> = {
  measured: 0.05,
  traced: 0.1,
  read: 0.3,
  generic: 0.25,
};

export interface Spread {
  readonly evidence: Evidence;
  readonly share: number;
}

/** How far the truth may lie from what the ops add up to, before the allocator's own part. */
export function spreadOf(
  { family, generic, kind }: Pick<KnownModel, 'family' | 'generic' | 'kind'>,
  workload: Workload,
): Spread {
  if (generic === true) {
    // Encoders differ more in how they see positions: those traced were up to 21 % off.
    const share = kind === 'encoder' ? 0.35 : missedShares.generic;
    return { evidence: 'generic', share };
  }
  const { quantization, loraRank } = workload;
  const packed = quantization !== undefined && quantization !== 'fp16';
  const own = evidence[family];
  // Kernels of bitsandbytes were read, not run; adapters were traced.
  if (packed) return { evidence: 'read', share: Math.max(0.15, missedShares[own]) };
  if (loraRank !== undefined && own === 'measured') {
    return { evidence: 'traced', share: missedShares.traced };
  }
  return { evidence: own, share: missedShares[own] };
}
