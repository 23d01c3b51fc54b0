import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type QuantizationPreset, quantizationPresets } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/folders.js';
import { openOutputFile } from '../../files/output-file.js';
import { checkArguments, fileName, object, string } from '../../units/arguments.js';
import type { ComputeDtype, QuantizationMemory } from './bits-and-bytes.js';

/**
 * Keeps how a model is to be loaded, in `quantization` below the home folder of plimsoll. What was
 * there before is replaced as a whole, or not at all.
 *
 * @example
 * saveQuantization(homeFolder(process.env), { model: 'gpt2', preset: 'int8', forTraining: false,
 *   computeDtype: 'bfloat16', memory: { gpuBytes: [24e9], hostBytes: 0 } });
 */
export function saveQuantization(home: string, given: SavedQuantization): string {
  checkArguments('saveQuantization', { home, given }, { home: fileName, given: object });
  const { path, text } = quantizationFile(home, given);
  makeQuantizationFolder(join(home, 'quantization'));
  openOutputFile(path, home).write(text);
  return path;
}

/** The file that keeps a choice, as it is to be written. */
export function quantizationFile(
  home: string,
  given: SavedQuantization,
): { readonly path: string; readonly text: string } {
  checkArguments('saveQuantization', { model: given.model }, { model: string });
  const saved = { ...given, model: canonicalModel(given.model) };
  const text = toJson(saved);
  const problem = fromJson(text);
  if (typeof problem === 'string') {
    throw new Failure({
      kind: 'input',
      code: 'bad-quantization',
      fact: `This cannot be saved: ${problem}.`,
      next: 'Correct it.',
    });
  }
  return { path: pathOf(home, saved.model), text };
}

/** Loads the settings saved for a model, however its path is written; undefined if there are none. */
export function loadQuantization(home: string, model: string): SavedQuantization | undefined {
  checkArguments('loadQuantization', { home, model }, { home: fileName, model: string });
  const canonical = canonicalModel(model);
  const found = readSaved(home, canonical);
  return found === undefined && canonical !== model ? readSaved(home, model) : found;
}

function readSaved(home: string, model: string): SavedQuantization | undefined {
  const path = pathOf(home, model);
  const text = readText(path);
  if (text === undefined) return undefined;
  const saved = fromJson(text);
  if (typeof saved === 'string') throw bad(path, saved);
  // Never one model's settings for another, however the file came to have this name.
  if (saved.model !== model) throw bad(path, 'it is for another model');
  return saved;
}

function pathOf(home: string, model: string): string {
  return join(home, 'quantization', `${modelKey(model)}.json`);
}

function makeQuantizationFolder(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'cannot-write',
      fact: `The folder ${folder} cannot be made (${wordsOf(error)}).`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
}

function readText(path: string): string | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, 'r');
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw bad(path, 'it is not a file');
    if (stats.size > savedLimits.fileBytes) {
      throw bad(path, `it has ${stats.size} bytes, more than ${savedLimits.fileBytes}`);
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(descriptor));
  } catch (error) {
    if (error instanceof Failure) throw error;
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw bad(path, wordsOf(error), error);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function bad(path: string, why: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-quantization-file',
    fact: `The saved quantization ${path} cannot be used: ${why}.`,
    next: 'Delete the file, and save one again: plimsoll plan MODEL --memory 24GiB --save',
    cause,
  });
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * One name for one model: a folder that is there by its real path, however it was written.
 * `./my-model`, `my-model/` and `my-model/config.json` are the same model; anything else is a name
 * on a hub. The Python package names models by the same rule.
 *
 * @example
 * canonicalModel('cyberagent/calm3-22b-chat'); // the same, unless there is such a folder here
 */
function canonicalModel(model: string): string {
  const folder = basename(model) === 'config.json' ? dirname(model) : model;
  try {
    return statSync(folder).isDirectory() ? realpathSync.native(folder) : model;
  } catch {
    return model;
  }
}

/** File systems take 255 bytes; the hash, its dash and the ending need some of them. */
const readableLength = 80;
const hashLength = 12;

/**
 * A file name for a model, readable and safe whatever the model is called: no separators, no dots in
 * front, and a hash so that two models never share one.
 *
 * @example
 * modelKey('cyberagent/calm3-22b-chat'); // 'cyberagent-calm3-22b-chat-' and 12 hexadecimal digits
 */
export function modelKey(model: string): string {
  const readable = model
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, readableLength);
  const hash = createHash('sha256').update(model).digest('hex').slice(0, hashLength);
  return readable === '' ? hash : `${readable}-${hash}`;
}

/** How a model is to be loaded, as it was chosen once. */
export interface SavedQuantization {
  readonly model: string;
  readonly preset: QuantizationPreset;
  readonly forTraining: boolean;
  readonly computeDtype: ComputeDtype;
  readonly memory: QuantizationMemory;
}

/** Raised when the shape of the file changes. */
const schema = 1;

/** A saved choice has some hundred bytes; the longest model name is a path. */
const savedLimits = {
  fileBytes: 64 * 1024,
  modelLength: 4096,
  /** More GPUs than one machine has. */
  gpus: 1024,
} as const;

function toJson({ model, preset, forTraining, computeDtype, memory }: SavedQuantization) {
  const { gpuBytes, hostBytes } = memory;
  const document = {
    schema,
    model,
    preset,
    forTraining,
    computeDtype,
    memory: { gpuBytes, hostBytes },
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** The choice that a text holds, or in words what is wrong with it. Nothing in it is trusted. */
function fromJson(text: string): SavedQuantization | string {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  if (!isObject(document)) return 'it is not an object';
  const { schema: version, model, preset, forTraining, computeDtype, memory, ...others } = document;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) return `it has a key that means nothing, "${unknown.slice(0, 40)}"`;
  if (version !== schema) return `its schema is not ${schema}`;
  if (typeof model !== 'string' || model === '' || model.length > savedLimits.modelLength) {
    return `model must be a text of 1 to ${savedLimits.modelLength} letters`;
  }
  const known = quantizationPresets.find((one) => one === preset);
  if (known === undefined) return `preset must be one of ${quantizationPresets.join(', ')}`;
  if (typeof forTraining !== 'boolean') return 'forTraining must be true or false';
  if (computeDtype !== 'bfloat16' && computeDtype !== 'float16') {
    return 'computeDtype must be bfloat16 or float16';
  }
  const sizes = memoryOf(memory);
  if (sizes === undefined)
    return 'memory must hold gpuBytes, a list, and hostBytes, in whole bytes';
  return { model, preset: known, forTraining, computeDtype, memory: sizes };
}

function memoryOf(value: unknown): QuantizationMemory | undefined {
  if (!isObject(value)) return undefined;
  const { gpuBytes, hostBytes, ...others } = value;
  if (Object.keys(others).length > 0 || !isSize(hostBytes)) return undefined;
  if (!Array.isArray(gpuBytes) || gpuBytes.length > savedLimits.gpus) return undefined;
  const sizes: readonly unknown[] = gpuBytes;
  return sizes.every(isSize) ? { gpuBytes: [...sizes], hostBytes } : undefined;
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
