import { basename, dirname, join } from 'node:path';
import { Failure } from '../failure.js';
import { checkArguments, fileName } from '../units/arguments.js';
import { bytesOf, safetensorsTypes } from '../units/data-types.js';
import { configName, readModelConfig } from './config/read-config.js';
import { ByteReader, type ByteSource } from './files/byte-reader.js';
import { isLfsPointer, kindOfPath, namesIn, withFile } from './files/disk.js';
import { JsonReader } from './files/json-reader.js';
import { ggufMagic } from './gguf/gguf-header.js';
import { readGguf } from './gguf/read-gguf.js';
import { limits } from './limits.js';
import type { Model, ModelDescription, Weights } from './model.js';
import { elementsOf } from './parameter-list.js';
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

/**
 * Reads the headers of safetensors files together. Throws a `Failure` (`no-file` or
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

/** Bytes of the length that stands in front of the header. */
const lengthBytes = 8;

/**
 * Reads the header of a safetensors file into a tally: no byte of a tensor is read. The checks are
 * those of the reference: known types, sizes that fit the shapes, tensors that lie one after
 * another without a gap, and a file that ends where the last one does.
 */
export function readSafetensorsHeader(source: ByteSource, place: string, tally: WeightTally): void {
  const fail = (what: string): Failure => badSafetensors(place, what);
  if (isLfsPointer(source)) throw lfsPointer(place);
  const front = new ByteReader(source, 0, source.size, fail);
  if (source.size < lengthBytes) throw fail(`it has ${source.size} bytes, too few for a header`);
  const length = front.u64('the length of its header');
  if (length > limits.safetensorsHeaderBytes) {
    throw fail(
      `its header is said to have ${length} bytes; at most ${limits.safetensorsHeaderBytes} are read`,
    );
  }
  if (length > front.left) {
    throw fail(`its header is said to have ${length} bytes, but only ${front.left} follow`);
  }
  const dataStart = lengthBytes + length;
  const bytes = new ByteReader(source, lengthBytes, dataStart, fail);
  const spans = readTensors(new JsonReader(bytes, limits.nameBytes, fail), tally, fail);
  checkSpans(spans, source.size - dataStart, fail);
}

/** Positions of tensors in the data. Two lists of numbers take a fraction of the memory of pairs. */
interface Spans {
  readonly begins: number[];
  readonly ends: number[];
}

function readTensors(json: JsonReader, tally: WeightTally, fail: (what: string) => Failure): Spans {
  const spans: Spans = { begins: [], ends: [] };
  json.object((name) => {
    if (name === '__metadata__') json.skipTexts();
    else readTensor(json, name, tally, spans, fail);
  });
  json.end();
  return spans;
}

function readTensor(
  json: JsonReader,
  name: string,
  tally: WeightTally,
  spans: Spans,
  fail: (what: string) => Failure,
): void {
  let type: string | undefined;
  let shape: readonly number[] | undefined;
  let offsets: readonly number[] | undefined;
  const counts = (most: number): readonly number[] => {
    const read: number[] = [];
    json.list(() => {
      if (read.length === most) throw fail(`a list of tensor "${name}" has over ${most} numbers`);
      read.push(json.count());
    });
    return read;
  };
  json.object((key) => {
    if (key === 'dtype') type = json.text();
    else if (key === 'shape') shape = counts(limits.dimensions);
    else if (key === 'data_offsets') offsets = counts(2);
    else json.skip();
  });
  const [begin, end] = offsets ?? [];
  if (type === undefined || shape === undefined || begin === undefined || end === undefined) {
    throw fail(`tensor "${name}" lacks its dtype, shape or two data_offsets`);
  }
  const elements = elementsOf(shape);
  const dataType = Object.hasOwn(safetensorsTypes, type) ? safetensorsTypes[type] : undefined;
  if (dataType === undefined) throw fail(`tensor "${name}" has the unknown type "${type}"`);
  const bytes = Number.isSafeInteger(elements) ? bytesOf(elements, dataType) : undefined;
  if (bytes === undefined) throw fail(`tensor "${name}" has a shape that makes no size`);
  if (end - begin !== bytes) {
    throw fail(`tensor "${name}" takes ${bytes} bytes by its shape, ${end - begin} by its offsets`);
  }
  tally.add({ name, type, shape, elements, bytes }, fail);
  spans.begins.push(begin);
  spans.ends.push(end);
}

function checkSpans(
  { begins, ends }: Spans,
  dataBytes: number,
  fail: (what: string) => Failure,
): void {
  const beginOf = (index: number): number => begins[index] ?? 0;
  const endOf = (index: number): number => ends[index] ?? 0;
  const order = Uint32Array.from(begins.keys());
  // An empty tensor goes before the one that begins where it stands.
  order.sort((a, b) => beginOf(a) - beginOf(b) || endOf(a) - endOf(b));
  let at = 0;
  for (const index of order) {
    const begin = beginOf(index);
    if (begin < at) throw fail(`two tensors overlap at byte ${begin} of the data`);
    if (begin > at) throw fail(`no tensor covers bytes ${at} to ${begin} of the data`);
    at = endOf(index);
  }
  if (at > dataBytes) {
    throw fail(`its tensors take ${at} bytes, but only ${dataBytes} follow the header`);
  }
  if (at < dataBytes) throw fail(`${dataBytes - at} bytes follow the last tensor`);
}

export function badSafetensors(place: string, what: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-safetensors',
    fact: `${place} is not a readable safetensors file: ${what}.`,
    next: 'Check that the download is complete, or name the config.json instead.',
  });
}

function lfsPointer(place: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-safetensors',
    fact: `${place} is a Git LFS pointer, not the weights.`,
    next: 'Run "git lfs pull" in that folder, or name the config.json instead.',
  });
}

/** Names of files that an index lists, sorted. They must lie beside the index. */
function readSafetensorsIndex(source: ByteSource, place: string): readonly string[] {
  const fail = (what: string): Failure => badSafetensors(place, what);
  const json = new JsonReader(new ByteReader(source, 0, source.size, fail), limits.nameBytes, fail);
  const names = new Set<string>();
  json.object((key) => {
    if (key !== 'weight_map') {
      json.skip();
      return;
    }
    json.object(() => {
      const name = json.text();
      // An index from a stranger must not send us to other folders.
      if (!/^[^/\\]+\.safetensors$/.test(name) || name.includes('\0')) {
        throw fail(`it lists "${name.slice(0, 60)}", which is not a safetensors file beside it`);
      }
      names.add(name);
      if (names.size > limits.shards) throw fail(`it lists over ${limits.shards} files`);
    });
  });
  json.end();
  if (names.size === 0) throw fail('its "weight_map" lists no file');
  return [...names].toSorted();
}

const indexName = 'model.safetensors.index.json';

/** The file of a folder that describes its model. */
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
