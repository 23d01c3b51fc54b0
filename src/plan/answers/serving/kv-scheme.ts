import { readFileSync, statSync } from 'node:fs';
import type { CacheType } from '../../../estimate/serving/kv-cache.js';
import { MiB } from '../../../units/bytes.js';

/** A config is a page of text; the largest known is under 2 MB. */
const largestBytes = 16 * MiB;

/**
 * In what a config says that keys and values are to be cached; undefined where it says nothing. The
 * file was read as a model before, so what is wrong with it was told there.
 *
 * @example
 * cacheTypeIn('models/llama-fp8/config.json'); // 'fp8'
 */
export function cacheTypeIn(config: string): CacheType | undefined {
  try {
    if (statSync(config).size > largestBytes) return undefined;
    const read: unknown = JSON.parse(readFileSync(config, 'utf8'));
    const settings = field(read, 'quantization_config');
    const bits = field(field(settings, 'kv_cache_scheme'), 'num_bits');
    const named = field(settings, 'kv_cache_quant_algo');
    return bits === 8 || named === 'FP8' ? 'fp8' : undefined;
  } catch {
    return undefined;
  }
}

function field(value: unknown, name: string): unknown {
  return Reflect.get(Object(value), name);
}
