import { basename, dirname, join } from 'node:path';
import { Failure } from '../../failure.js';
import { describeConfig } from '../config/describe-config.js';
import { withFile } from '../files/disk.js';
import { limits } from '../limits.js';
import type { Model, ModelDescription, Weights } from '../types.js';
import { WeightTally } from '../weight-tally.js';
import { configFromGguf } from './gguf-config.js';
import { badGguf, type GgufHeader, readGgufHeader } from './gguf-header.js';

/**
 * Reads a GGUF file, or all parts of one that was split (`name-00001-of-00003.gguf`): the weights by
 * their headers, and the model they belong to where its architecture is known. Throws a `Failure`
 * (`no-file` or `bad-gguf`) that names the file.
 *
 * @example
 * const model = readGguf('model-Q4_K_M.gguf');
 * model.weights?.byType[0]?.type; // 'Q4_K'
 */
export function readGguf(path: string): Model {
  const tally = new WeightTally();
  const files = partsOf(path);
  const headers = files.map((file) =>
    withFile(file, (source) => readGgufHeader(source, file, tally)),
  );
  const weights = tally.total('gguf', files, (what) => badGguf(path, what));
  return { path, weights, description: describeHeaders(headers, weights, tally) };
}

/** All parts of a split file, in order; the file alone where it is whole. */
function partsOf(path: string): readonly string[] {
  const match = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(basename(path));
  if (match === null) return [path];
  const [, stem, , count = ''] = match;
  if (Number(count) < 1 || Number(count) > limits.shards) {
    throw badGguf(path, `its name says that it is one of ${count} parts`);
  }
  return Array.from({ length: Number(count) }, (_, index) => {
    const number = String(index + 1).padStart(5, '0');
    return join(dirname(path), `${stem}-${number}-of-${count}.gguf`);
  });
}

/** Only the first part of a split file has the keys of the model. */
function describeHeaders(
  headers: readonly GgufHeader[],
  weights: Weights,
  tally: WeightTally,
): ModelDescription {
  const keys = headers[0]?.keys ?? new Map();
  const vocabulary = headers.find((header) => header.embeddingShape)?.embeddingShape?.[0];
  const found = configFromGguf(keys, { vocabulary, tied: !tally.has('output.weight') });
  if ('why' in found) return unknownModel(keys, weights, `${found.why}.`);
  try {
    return describeConfig(found.config, 'its keys');
  } catch (error) {
    // The weights were read and are sound; keys that make no model only cost the description.
    if (!(error instanceof Failure)) throw error;
    return unknownModel(keys, weights, error.fact);
  }
}

function unknownModel(
  keys: GgufHeader['keys'],
  { parameters }: Weights,
  why: string,
): ModelDescription {
  const architecture = keys.get('general.architecture');
  const title = keys.get('general.name');
  return {
    family: 'unknown',
    modelType: typeof architecture === 'string' ? architecture : 'unknown',
    ...(typeof title === 'string' ? { name: title } : {}),
    parameters,
    notes: [`Only the tensors of the file are known: ${why}`],
  };
}
