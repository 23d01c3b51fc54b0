import { Failure } from '../../failure.js';
import { limits } from '../limits.js';

export type ConfigValues = Readonly<Record<string, unknown>>;

/**
 * What a family takes where its config is silent, and by which other names a field may go. The
 * names in `defaults` are those of transformers.
 */
export interface FieldTable {
  readonly defaults: ConfigValues;
  readonly aliases?: Readonly<Record<string, readonly string[]>>;
}

/**
 * Reads the fields of a config by their name, checked, with the family's defaults. Every refusal is
 * a `Failure` that names the field.
 *
 * @example
 * const fields = new ConfigFields({ n_embd: 1024 }, { defaults: { n_embd: 768 } }, 'config.json');
 * fields.size('n_embd'); // 1024
 */
export class ConfigFields {
  readonly #values: ConfigValues;
  readonly #table: FieldTable;
  readonly place: string;
  /** Sizes that were asked for and that only the defaults gave. */
  readonly assumed: Set<string>;

  constructor(
    values: ConfigValues,
    table: FieldTable,
    place: string,
    assumed: Set<string> = new Set(),
  ) {
    this.#values = values;
    this.#table = table;
    this.place = place;
    this.assumed = assumed;
  }

  /** Whether the config or the default gives it a value. */
  has(name: string): boolean {
    const value = this.#find(name);
    return value !== null && value !== undefined;
  }

  /** Whole and at least 1. */
  size(name: string): number {
    if (!this.#isGiven(name)) this.assumed.add(name);
    return this.#size(name, this.#find(name), 1);
  }

  /** Like `size`, or undefined where the config or the default is null. */
  optionalSize(name: string): number | undefined {
    return this.has(name) ? this.size(name) : undefined;
  }

  /** Whole, and may be 0. */
  count(name: string): number {
    return this.#size(name, this.#find(name), 0);
  }

  layers(name: string): number {
    if (!this.#isGiven(name)) this.assumed.add(name);
    const value = this.count(name);
    if (value > limits.layers) {
      throw this.bad(name, `${value} layers; at most ${limits.layers} are taken`);
    }
    return value;
  }

  /** How many layers each stage has; all together no more than one model may have. */
  depths(name: string): readonly number[] {
    const depths = this.sizes(name);
    const total = depths.reduce((sum, depth) => sum + depth, 0);
    if (total <= limits.layers) return depths;
    throw this.bad(name, `${total} layers in all; at most ${limits.layers} are taken`);
  }

  /** Experts of a layer; 0 where it has none. */
  experts(name: string): number {
    const value = this.count(name);
    if (value <= limits.experts) return value;
    throw this.bad(name, `${value} experts; at most ${limits.experts} are taken`);
  }

  number(name: string): number {
    const value = this.#find(name);
    if (value === null || value === undefined) return 0;
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    throw this.bad(name, `${shown(value)}, not a number of 0 or more`);
  }

  flag(name: string): boolean {
    const value = this.#find(name);
    if (typeof value === 'boolean') return value;
    if (value === null || value === undefined) return false;
    throw this.bad(name, `${shown(value)}, not true or false`);
  }

  text(name: string): string {
    const value = this.#find(name);
    if (typeof value === 'string') return value;
    throw this.bad(name, `${shown(value)}, not a text`);
  }

  sizes(name: string): readonly number[] {
    return this.#list(name).map((value) => this.#size(name, value, 1));
  }

  /** Layers by their number, from 0. */
  indexes(name: string): readonly number[] {
    return this.has(name) ? this.#list(name).map((value) => this.#size(name, value, 0)) : [];
  }

  texts(name: string): readonly string[] | undefined {
    if (!this.has(name)) return undefined;
    return this.#list(name).map((text) => {
      if (typeof text === 'string') return text;
      throw this.bad(name, `a list with ${shown(text)}, not a text`);
    });
  }

  /** A height and a width: one number for both, or two. */
  square(name: string): readonly [number, number] {
    const value = this.#find(name);
    if (!Array.isArray(value)) {
      const size = this.#size(name, value, 1);
      return [size, size];
    }
    const [height, width, ...rest] = this.sizes(name);
    if (height !== undefined && width !== undefined && rest.length === 0) return [height, width];
    throw this.bad(name, `${shown(value)}, not one size or two`);
  }

  /** Classes of a classifier: those named, else `num_labels`, else 2 as in transformers. */
  labels(): number {
    const named = this.#values.id2label;
    if (isRecord(named)) return Object.keys(named).length;
    return this.#values.num_labels === undefined
      ? 2
      : this.#size('num_labels', this.#values.num_labels, 0);
  }

  /** A config within the config; where there is none, its family's defaults. */
  nested(name: string, table: FieldTable): ConfigFields {
    const value = this.#values[name] ?? {};
    if (!isRecord(value)) throw this.bad(name, `${shown(value)}, not an object`);
    return new ConfigFields(value, table, `${this.place}, ${name}`, this.assumed);
  }

  /** The same with one field set. */
  with(name: string, value: unknown): ConfigFields {
    const { aliases = {} } = this.#table;
    const table = { ...this.#table, aliases: { ...aliases, [name]: [] } };
    return new ConfigFields({ ...this.#values, [name]: value }, table, this.place, this.assumed);
  }

  bad(name: string, what: string): Failure {
    return badConfig(this.place, `"${name}" is ${what}`);
  }

  #find(name: string): unknown {
    const key = this.#keyOf(name);
    return key === undefined ? this.#table.defaults[name] : this.#values[key];
  }

  #isGiven(name: string): boolean {
    return this.#keyOf(name) !== undefined;
  }

  #keyOf(name: string): string | undefined {
    // Where a config has both, transformers takes the alias: it sets that one last.
    const keys = [...(this.#table.aliases?.[name] ?? []), name];
    const given = keys.filter(
      (key) => Object.hasOwn(this.#values, key) && this.#values[key] !== undefined,
    );
    // An alias that is null says nothing where another has a value.
    return given.find((key) => this.#values[key] !== null) ?? given[0];
  }

  #list(name: string): readonly unknown[] {
    const value = this.#find(name);
    if (!Array.isArray(value)) throw this.bad(name, `${shown(value)}, not a list`);
    if (value.length <= limits.listLength) return value;
    throw this.bad(name, `a list of ${value.length}; at most ${limits.listLength} are taken`);
  }

  #size(name: string, value: unknown, least: number): number {
    if (typeof value === 'number' && Number.isInteger(value) && value >= least) {
      if (value <= limits.dimension) return value;
      throw this.bad(name, `${value}; at most ${limits.dimension} is taken`);
    }
    throw this.bad(name, `${shown(value)}, not a whole number of ${least} or more`);
  }
}

export function badConfig(place: string, what: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-config',
    fact: `${place}: ${what}.`,
    next: 'Check that it is the complete config.json of a Hugging Face model.',
    cause,
  });
}

export function isRecord(value: unknown): value is ConfigValues {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 40) ?? 'missing';
}

/**
 * The values of a config, from its text.
 *
 * @example
 * parseConfig('{"model_type":"gpt2"}', 'config.json').model_type; // 'gpt2'
 */
export function parseConfig(text: string, place: string): ConfigValues {
  checkJsonStructure(text, (what) => badConfig(place, what));
  let parsed: unknown;
  try {
    parsed = JSON.parse(withoutPythonNumbers(text));
  } catch (error) {
    // It quotes the text, whatever that is.
    const why = error instanceof Error ? error.message.replaceAll(/\p{Cc}+/gu, ' ') : 'unknown';
    throw badConfig(place, `it is not JSON (${why.slice(0, 120)})`, error);
  }
  if (isRecord(parsed)) return parsed;
  throw badConfig(place, 'it is not an object');
}

/**
 * Refuses text that would fill memory once it is parsed: four million opening brackets take 4 MB as
 * text and gigabytes as lists. It does not find out whether the text is JSON.
 */
function checkJsonStructure(text: string, fail: (what: string) => Failure): void {
  let depth = 0;
  let values = 1;
  let inText = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (inText) {
      if (character === '\\') index += 1;
      else if (character === '"') inText = false;
    } else if (character === '"') inText = true;
    else if (character === '{' || character === '[') {
      depth += 1;
      values += 1;
    } else if (character === '}' || character === ']') depth -= 1;
    else if (character === ',') values += 1;
    if (depth > limits.configDepth) throw fail(`it nests deeper than ${limits.configDepth} levels`);
    if (values > limits.configValues) throw fail(`it holds over ${limits.configValues} values`);
  }
}

/**
 * JSON as Python's `json` module writes it may hold `Infinity`, `-Infinity` and `NaN`, which JSON does not have: the configs
 * of Mamba 2 and its relatives do. Each becomes `null`, so that the rest can be read; texts in quotes stay as they are.
 */
export function withoutPythonNumbers(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/gs, (found) =>
    found.startsWith('"') ? found : 'null',
  );
}
