import { basename, dirname, join } from 'node:path';
import { Failure } from '../failure.js';
import { configName, readModelConfig } from './config/read-config.js';
import { kindOfPath, namesIn, withFile } from './files/disk.js';
import { chooseInFolder, indexName } from './folder-choice.js';
import { ggufMagic } from './gguf/gguf-header.js';
import { readGguf } from './gguf/read-gguf.js';
import { readSafetensors, readShardedSafetensors } from './safetensors/read-safetensors.js';
import type { Model, ModelDescription, Weights } from './types.js';

const understood =
  'Name a config.json, a .safetensors or .gguf file, or a folder that holds one of them.';

/**
 * Reads a model from whatever stands for it: a Hugging Face config, weights, or a folder of them.
 * Of weights only the headers are read. Throws a `Failure` that names the file and the place in it.
 *
 * @example
 * const { description, weights } = await readModel('models/llama-3.2-1b');
 * description.parameters; // 1235814400
 * weights?.byType; // [{ type: 'BF16', tensors: 146, ... }], where the weights are there
 */
export async function readModel(path: string): Promise<Model> {
  const kind = kindOfPath(path);
  if (kind === 'folder') return readFolder(path);
  if (kind === 'other') throw notUnderstood(path, 'it is neither a file nor a folder');
  const name = basename(path).toLowerCase();
  if (name.endsWith('.index.json')) return withConfigBeside(path, readShardedSafetensors(path));
  if (name.endsWith('.json')) return { path, description: readModelConfig(path) };
  if (name.endsWith('.safetensors')) return withConfigBeside(path, readWeightFile(path));
  if (name.endsWith('.gguf') || startsLikeGguf(path)) return readGguf(path);
  throw notUnderstood(path, whyNot(name));
}

function readFolder(folder: string): Model {
  const choice = chooseInFolder(namesIn(folder));
  if ('why' in choice) throw notUnderstood(folder, choice.why, choice.next);
  const { config, weights, notes } = choice;
  const description = config === undefined ? undefined : readModelConfig(join(folder, config));
  if (weights === undefined) {
    if (description === undefined) throw notUnderstood(folder, 'it holds no model');
    return { path: folder, description: withNotes(description, notes) };
  }
  const file = join(folder, weights.name);
  if (weights.format === 'gguf') return { ...readGguf(file), path: folder };
  const read = weights.format === 'index' ? readShardedSafetensors(file) : readSafetensors([file]);
  return combine(folder, description, read);
}

/** One part of a sharded model stands for all of it, where the index lies beside it. */
function readWeightFile(path: string): Weights {
  const index = join(dirname(path), indexName);
  const isPart = /-\d+-of-\d+\.safetensors$/i.test(path);
  return isPart && isThere(index) ? readShardedSafetensors(index) : readSafetensors([path]);
}

function withConfigBeside(path: string, weights: Weights): Model {
  const config = join(dirname(path), configName);
  return combine(path, isThere(config) ? readModelConfig(config) : undefined, weights);
}

/** The config describes the model; where it cannot, the weights tell how many parameters it has. */
function combine(path: string, description: ModelDescription | undefined, weights: Weights): Model {
  const { parameters } = weights;
  if (description === undefined) {
    const notes = ['There is no config.json beside the weights, so only their headers are known.'];
    const unknown = { family: 'unknown', modelType: 'unknown', parameters, notes } as const;
    return { path, weights, description: unknown };
  }
  if (description.family === 'unknown') {
    return { path, weights, description: { ...description, parameters } };
  }
  return { path, weights, description };
}

function withNotes(description: ModelDescription, notes: readonly string[]): ModelDescription {
  return { ...description, notes: [...description.notes, ...notes] };
}

function isThere(path: string): boolean {
  try {
    return kindOfPath(path) === 'file';
  } catch {
    return false;
  }
}

function startsLikeGguf(path: string): boolean {
  return withFile(path, (source) => {
    const start = Buffer.alloc(ggufMagic.length);
    source.read(start, 0);
    return start.toString('latin1') === ggufMagic;
  });
}

function whyNot(name: string): string {
  return /\.(bin|pt|pth|ckpt|pkl)$/.test(name)
    ? 'it is a pickle, which could run anything when it is read'
    : 'unknown file type; for a script use --script';
}

function notUnderstood(path: string, why: string, next = understood): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-model',
    fact: `${path} is not a readable model: ${why}.`,
    next,
  });
}
