import { dirname, join } from 'node:path';
import { withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { Weights } from '../types.js';
import { WeightTally } from '../weight-tally.js';
import { badSafetensors, readSafetensorsHeader } from './safetensors-header.js';
import { readSafetensorsIndex } from './safetensors-index.js';

/**
 * What the headers of safetensors files tell, together. Throws a `Failure` (`no-file` or
 * `bad-safetensors`) that names the file.
 *
 * @example
 * const weights = readSafetensors(['model.safetensors']);
 * weights.bytes;
 */
export function readSafetensors(paths: readonly string[]): Weights {
  const tally = new WeightTally();
  for (const path of paths) {
    withFile(path, (source) => readSafetensorsHeader(source, path, tally));
  }
  return tally.total('safetensors', paths, (what) => badSafetensors(paths[0] ?? 'it', what));
}

/** The same for the files that an index (`model.safetensors.index.json`) lists, beside it. */
export function readShardedSafetensors(indexPath: string): Weights {
  const names = withFile(indexPath, (source) => {
    if (source.size > limits.indexBytes) {
      throw badSafetensors(indexPath, `it is larger than ${limits.indexBytes} bytes`);
    }
    return readSafetensorsIndex(source, indexPath);
  });
  return readSafetensors(names.map((name) => join(dirname(indexPath), name)));
}
