import { basename, dirname, join } from 'node:path';
import { Failure } from '../failure.js';
import { checkArguments, fileName } from '../units/arguments.js';
import { configName, readModelConfig } from './config/read-config.js';
import { kindOfPath, namesIn, withFile } from './files/disk.js';
import {
  badSafetensors,
  readSafetensorsHeader,
  readSafetensorsIndex,
} from './files/safetensors.js';
import { ggufMagic } from './gguf/gguf-header.js';
import { readGguf } from './gguf/read-gguf.js';
import { limits } from './limits.js';
import type { Model, ModelDescription, Weights } from './types.js';
import { WeightTally } from './weight-tally.js';

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
  checkArguments('readModel', { path }, { path: fileName });
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
    const start = new Uint8Array(ggufMagic.length);
    source.read(start, 0);
    return new TextDecoder().decode(start) === ggufMagic;
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

const indexName = 'model.safetensors.index.json';

/** What in a folder stands for its model. */
interface FolderChoice {
  readonly config?: string;
  readonly weights?: { readonly format: 'index' | 'safetensors' | 'gguf'; readonly name: string };
  /** Why weights that are there were left alone. */
  readonly notes: readonly string[];
}

type FolderAnswer = FolderChoice | { readonly why: string; readonly next?: string };

/**
 * Chooses by the names in a folder. GGUF files go before a config: folders that hold only those
 * often have a config of one line, which gives the family and none of its sizes.
 */
export function chooseInFolder(names: readonly string[]): FolderAnswer {
  const config = names.includes(configName) ? { config: configName } : {};
  if (names.includes(indexName)) {
    return { ...config, weights: { format: 'index', name: indexName }, notes: [] };
  }
  const files = names.filter((name) => name.endsWith('.safetensors'));
  const chosen = files.includes('model.safetensors') ? 'model.safetensors' : files[0];
  if (chosen !== undefined && (files.length === 1 || chosen === 'model.safetensors')) {
    return { ...config, weights: { format: 'safetensors', name: chosen }, notes: [] };
  }
  if (files.length > 1) return severalSafetensors(config, files.length);
  const gguf = wholeGguf(names.filter((name) => name.endsWith('.gguf')));
  const [name] = gguf;
  if (name !== undefined && gguf.length === 1) {
    return { weights: { format: 'gguf', name }, notes: [] };
  }
  if (gguf.length > 1) {
    return { why: `it holds ${gguf.length} GGUF models`, next: 'Name one of them.' };
  }
  if (config.config !== undefined) return { ...config, notes: [] };
  return { why: `it holds no ${configName} and no weights` };
}

function severalSafetensors(config: { config?: string }, count: number): FolderAnswer {
  const holds = `holds ${count} safetensors files and no ${indexName} that says which belong together`;
  if (config.config === undefined) return { why: `it ${holds}`, next: 'Name one of them.' };
  return { ...config, notes: [`The weights were not read: the folder ${holds}.`] };
}

/** Of a model that was split only the first part. */
function wholeGguf(names: readonly string[]): readonly string[] {
  return names.filter((name) => /-00001-of-\d{5}\.gguf$|^(?!.*-\d{5}-of-\d{5}\.gguf$)/.test(name));
}
