import { Failure } from '../../failure.js';
import { nearest } from '../../units/words.js';
import { type ConfigValues, isRecord } from '../config/config-fields.js';

/** A published model: what its config says, and how many parameters its authors count. */
export interface CatalogueModel {
  /** As on the Hugging Face hub. */
  readonly name: string;
  /** Other names with the same sizes. */
  readonly also: readonly string[];
  readonly parameters: number;
  readonly config: ConfigValues;
}

/** The shipped file has 72 kB; a damaged one must not take the memory of a reader. */
const largestText = 1024 * 1024;

/**
 * Reads a catalogue: one JSON object a line. Throws a `Failure` that names the line.
 *
 * @example
 * parseCatalogue('{"name":"gpt2","parameters":124439808,"config":{"model_type":"gpt2"}}');
 */
export function parseCatalogue(text: string): readonly CatalogueModel[] {
  if (text.length > largestText) throw bad(`it has more than ${largestText} characters`);
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    const model = modelOf(line);
    if (model === undefined) throw bad(`line ${index + 1} is not a model`);
    return [model];
  });
}

function modelOf(line: string): CatalogueModel | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { name, also = [], parameters, config } = value;
  const named = typeof name === 'string' && name !== '' && isTexts(also);
  const counted = typeof parameters === 'number' && Number.isSafeInteger(parameters);
  if (!named || !counted || parameters < 1 || !isRecord(config)) return undefined;
  return { name, also, parameters, config };
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

/** Models by their names. */
export class Catalogue {
  readonly models: readonly CatalogueModel[];
  readonly #byKey = new Map<string, CatalogueModel>();

  constructor(models: readonly CatalogueModel[]) {
    this.models = models;
    // The name as written goes before the same without the words of a variant.
    for (const keyOf of [nameKey, plainKey]) {
      for (const model of models) {
        for (const name of [model.name, ...model.also]) {
          const key = keyOf(name);
          if (!this.#byKey.has(key)) this.#byKey.set(key, model);
        }
      }
    }
  }

  /** The model of that name, or of the same name without the word of a variant. */
  find(name: string): CatalogueModel | undefined {
    return this.#byKey.get(nameKey(name)) ?? this.#byKey.get(plainKey(name));
  }

  /** The name that was probably meant. */
  nearest(name: string): string | undefined {
    const key = nearest(nameKey(name.slice(0, longestName)), [...this.#byKey.keys()]);
    return key === undefined ? undefined : this.#byKey.get(key)?.name;
  }
}

/** Comparing takes time with the square of the length; no published name is longer. */
const longestName = 100;

function bad(why: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-catalogue',
    fact: `The catalogue of models cannot be used: ${why}.`,
    next: 'Install plimsoll again.',
  });
}

/** What tells variants of one model apart, and changes nothing about its sizes. */
const variantWords = new Set(['instruct', 'chat', 'it', 'base', 'hf', 'pt', 'sft', 'dpo']);

/**
 * A name of a model without its organization, case and punctuation, so that names match as people
 * write them.
 *
 * @example
 * nameKey('meta-llama/Meta-Llama-3-8B') === nameKey('llama3:8b'); // true
 */
export function nameKey(name: string): string {
  const own = name.slice(name.lastIndexOf('/') + 1).toLowerCase();
  // A point between digits counts: opt-1.3b is not opt-13b.
  return own.replaceAll(/(?<!\d)\.|\.(?!\d)|[^a-z0-9.]/g, '').replace(/^meta(?=llama)/, '');
}

/**
 * The same without the words that name a variant at its end.
 *
 * @example
 * plainKey('Qwen2.5-7B-Instruct'); // 'qwen2.57b'
 */
function plainKey(name: string): string {
  const words = name.split(/[-_\s]+/);
  let last = words.length;
  while (last > 1 && variantWords.has((words[last - 1] ?? '').toLowerCase())) last -= 1;
  return nameKey(words.slice(0, last).join('-'));
}
