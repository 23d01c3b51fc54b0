import { Failure } from '../failure.js';

/** The rule that an option must keep, and the words for it. */
type Rule = readonly [(value: unknown) => boolean, string];

export const whole = (least: number): Rule => [
  (value) => Number.isSafeInteger(value) && Number(value) >= least,
  `a whole number of at least ${least}`,
];
export const percent: Rule = [
  (value) => typeof value === 'number' && value >= 0 && value <= 100,
  'a number from 0 to 100',
];
export const seconds: Rule = [
  (value) => typeof value === 'number' && value >= 0,
  'a number of seconds, 0 or more',
];
export const callable: Rule = [(value) => typeof value === 'function', 'a function'];
export const text: Rule = [(value) => typeof value === 'string' && value !== '', 'a file name'];
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

/** Throws a `Failure` for the first value that does not keep its rule; `undefined` was left out. */
export function checkOptions(
  owner: string,
  given: Readonly<Record<string, unknown>>,
  rules: Readonly<Record<string, Rule>>,
  required: readonly string[] = [],
): void {
  for (const [name, [isKept, words]] of Object.entries(rules)) {
    const value = given[name];
    if (value === undefined && !required.includes(name)) continue;
    if (!isKept(value)) throw badOption(owner, name, value, `Pass ${words}.`);
  }
}

export function badOption(owner: string, name: string, value: unknown, next: string): Failure {
  const said = value === undefined ? 'missing' : `not valid: ${shown(value)}`;
  return new Failure({
    kind: 'input',
    code: 'bad-argument',
    fact: `${name} of ${owner} is ${said}.`,
    next,
    field: name,
  });
}

function shown(value: unknown): string {
  const isPlain = ['string', 'number', 'boolean', 'bigint'].includes(typeof value);
  if (typeof value === 'string') return JSON.stringify(value).slice(0, 60);
  return isPlain || value === null ? String(value) : `a value of type ${typeof value}`;
}
