import { Failure } from '../../../../src/failure.js';
import { parseBytes } from '../../../../src/units/bytes.js';
import { parseSeconds } from '../../../../src/units/durations.js';
import { Refusal } from '../../api/refusal.js';

/** The fields of a form as they were typed. */
export type Draft<K extends string> = Readonly<Record<K, string>>;
/** Errors by field. */
export type Problems<K extends string> = Partial<Record<K, string>>;

/** Next steps in the words of a form, where those of the server name an option or a field of a request. */
const nextInForm: Readonly<Record<string, string>> = {
  'no-such-program': 'Check its name, and the PATH of the server.',
  'no-such-folder': 'Name another folder, or leave the field empty.',
  'trace-not-limited': 'Fill in Memory.',
  'trace-not-started': 'Fill in Memory.',
  'trace-too-large': 'Fill in Memory.',
};

/** A refusal in the words of a form, for the field that it is about. */
export function problemWords({
  code,
  fact,
  next,
}: Pick<Refusal, 'code' | 'fact' | 'next'>): string {
  // Its fact names the field as a request does, and here it stands below that field.
  if (code === 'bad-field') return `The server does not take this. ${next}`;
  return `${fact} ${nextInForm[code] ?? next}`;
}

/** The same for a refusal that is about no field. */
export function inFormWords(refusal: Refusal): Refusal {
  const { status, code, fact, next, field } = refusal;
  return new Refusal(status, { code, fact, next: nextInForm[code] ?? next, field });
}

/** Reads fields one by one, and gathers what is wrong with them. An empty field is `undefined`. */
export class FieldReader<K extends string> {
  readonly problems: Problems<K> = {};
  readonly #draft: Draft<K>;

  constructor(draft: Draft<K>) {
    this.#draft = draft;
  }

  text(field: K): string | undefined {
    const value = this.#draft[field].trim();
    return value === '' ? undefined : value;
  }

  /** A whole number that is not below `least`. */
  whole(field: K, least: number): number | undefined {
    const text = this.text(field);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= least) return value;
    this.problems[field] = `"${text}" is not a whole number from ${least} on.`;
    return undefined;
  }

  bytes(field: K): number | undefined {
    return this.#read(field, parseBytes);
  }

  seconds(field: K): number | undefined {
    return this.#read(field, parseSeconds);
  }

  #read(field: K, parse: (text: string) => number): number | undefined {
    const text = this.text(field);
    if (text === undefined) return undefined;
    try {
      return parse(text);
    } catch (error) {
      this.problems[field] =
        error instanceof Failure ? `${error.fact} ${error.next}` : `"${text}" cannot be read.`;
      return undefined;
    }
  }

  get isFine(): boolean {
    return Object.keys(this.problems).length === 0;
  }
}

/** An object without what is not set: the server then takes what holds for everybody. */
export function onlySet<T extends object>(fields: T): T {
  const kept: T = { ...fields };
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) Reflect.deleteProperty(kept, key);
  }
  return kept;
}

/** A command line taken apart, or what is wrong with it. */
type SplitCommand = { readonly words: readonly string[] } | { readonly problem: string };

/**
 * Splits a line into the program and its arguments, as a shell does with quotes and backslashes.
 * Nothing is replaced or run: what a shell would do beyond that, a job does with `bash -c '...'`.
 *
 * @example
 * splitCommand('python train.py --name "my run"'); // { words: ['python', 'train.py', '--name', 'my run'] }
 */
export function splitCommand(line: string): SplitCommand {
  const words: string[] = [];
  let word: string | undefined;
  let quote: '"' | "'" | undefined;
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at);
    if (quote !== undefined) {
      if (character === quote) quote = undefined;
      else if (character === '\\' && quote === '"' && /["\\$`]/.test(line.charAt(at + 1))) {
        word += line.charAt(++at);
      } else word += character;
    } else if (character === '"' || character === "'") {
      quote = character;
      word ??= '';
    } else if (character === '\\') {
      at += 1;
      // A backslash before the end of a line joins it with the next.
      if (line.charAt(at) !== '\n') word = (word ?? '') + line.charAt(at);
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + character;
  }
  if (quote !== undefined) return { problem: `A quote (${quote}) is not closed.` };
  if (word !== undefined) words.push(word);
  return words.length === 0 ? { problem: 'Type what to run.' } : { words };
}

/** A command as it could be typed. */
export function joinCommand(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ');
}
