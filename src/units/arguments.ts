import { Failure } from '../failure.js';
import { nearest } from './words.js';

/** The rule that a value must keep, and the words for it. */
export type Rule = readonly [(value: unknown) => boolean, string];

export const whole = (least: number): Rule => [
  (value) => Number.isSafeInteger(value) && Number(value) >= least,
  `a whole number of at least ${least}`,
];
export const number: Rule = [(value) => typeof value === 'number', 'a number'];
export const percent: Rule = [
  (value) => typeof value === 'number' && value >= 0 && value <= 100,
  'a number from 0 to 100',
];
export const seconds: Rule = [
  (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0,
  'a number of seconds, 0 or more',
];
export const truth: Rule = [(value) => typeof value === 'boolean', 'true or false'];
export const callable: Rule = [(value) => typeof value === 'function', 'a function'];
export const text: Rule = [(value) => typeof value === 'string' && value !== '', 'a text'];
export const fileName: Rule = [text[0], 'a file name'];
export const object: Rule = [isObject, 'an object'];
export const list: Rule = [Array.isArray, 'a list'];
export const byteList: Rule = [(value) => value instanceof Uint8Array, 'bytes (a Uint8Array)'];
export const texts: Rule = [
  (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
  'a list of texts',
];
/** A result of another function of the library, known by something that it has. */
export const madeBy = (maker: string, has: string): Rule => [
  (value) => isObject(value) && Reflect.get(value, has) !== undefined,
  `what ${maker} returns`,
];
export const oneOf = (words: readonly string[]): Rule => [
  (value) => typeof value === 'string' && words.includes(value),
  `one of ${words.join(', ')}`,
];
export const string: Rule = [(value) => typeof value === 'string', 'a text'];
/** Checked elsewhere, in words of its own. */
export const elsewhere: Rule = [() => true, 'a value'];
/** A list, anything that can be iterated, or a function that gives such. */
export const samples: Rule = [
  (value) =>
    typeof value === 'function' ||
    typeof value === 'string' ||
    (typeof value === 'object' &&
      value !== null &&
      (Symbol.iterator in value || Symbol.asyncIterator in value)),
  'a list, an iterable, or a function that returns one',
];

type Rules = Readonly<Record<string, Rule>>;

/**
 * Throws a `Failure` for the first argument of a function that does not keep its rule; one that is
 * not in `required` may be left out. Types hold TypeScript alone: a program in JavaScript is told here.
 *
 * @example
 * checkArguments('findGpu', { name: 5 }, { name: text }); // throws: name of findGpu is not valid: 5.
 */
export function checkArguments(
  owner: string,
  given: Readonly<Record<string, unknown>>,
  rules: Rules,
  required: readonly string[] = Object.keys(rules),
): void {
  for (const [name, [isKept, words]] of Object.entries(rules)) {
    const value = given[name];
    if (value === undefined && !required.includes(name)) continue;
    if (!isKept(value)) throw badArgument(owner, name, value, `Pass ${words}.`);
  }
}

/** The same for an object of options, whose names must be known, too. */
export function checkOptions(
  owner: string,
  options: unknown,
  rules: Rules,
  required: readonly string[] = [],
): void {
  if (!isObject(options)) throw badArgument(owner, 'options', options, 'Pass an object.');
  const names = Object.keys(rules);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || names.includes(name)) continue;
    throw unknownName(owner, name, names);
  }
  checkArguments(owner, { ...options }, rules, required);
}

/** A name that stands for nothing would have no effect, and no person would notice. */
function unknownName(owner: string, name: string, known: readonly string[]): Failure {
  const meant = nearest(name.slice(0, 100), known);
  return new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: `${owner} has no option "${name.slice(0, 100)}".`,
    next:
      meant === undefined ? `The options are: ${known.join(', ')}.` : `Did you mean "${meant}"?`,
    field: name,
  });
}

export function badArgument(owner: string, name: string, value: unknown, next: string): Failure {
  const given = value === undefined ? 'missing' : `not valid: ${shown(value)}`;
  return new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: `${name} of ${owner} is ${given}.`,
    next,
    field: name,
  });
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  const isPlain = ['string', 'number', 'boolean', 'bigint'].includes(typeof value);
  if (typeof value === 'string') return JSON.stringify(value).slice(0, 60);
  return isPlain || value === null ? String(value) : `a value of type ${typeof value}`;
}
