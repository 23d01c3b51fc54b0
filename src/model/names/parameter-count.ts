import { Failure } from '../../failure.js';

/** More than any model has, with sums that stay exact. */
const maxParameters = 1e14;
const factors: Readonly<Record<string, number>> = { k: 1e3, m: 1e6, b: 1e9, t: 1e12 };

/**
 * A number of parameters as people write it: `22b`, `350M`, `1.1B`, `8x7b`, or all digits.
 *
 * @example
 * parseParameters('22b'); // 22_000_000_000
 */
export function parseParameters(text: string): number {
  const match = /^(?:(\d{1,3})x)?(\d{1,15}(?:\.\d{1,6})?)([kmbt]?)$/i.exec(text.trim());
  const count = match === null ? 0 : countOf(match[1], match[2], match[3]);
  if (count >= 1 && count <= maxParameters) return count;
  throw new Failure({
    kind: 'input',
    code: 'bad-parameters',
    fact: `"${text.slice(0, 40)}" is not a number of parameters.`,
    next: 'Write it as 22b, 350m or 1100000000.',
  });
}

/**
 * The number of parameters that a name tells: the first word of it that is a number with `m` or `b`.
 *
 * @example
 * parametersInName('acme/banana-22b-chat'); // 22_000_000_000
 */
export function parametersInName(name: string): number | undefined {
  const own = name.slice(name.lastIndexOf('/') + 1);
  const match = /(?:^|[-_\s:])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([mb])(?![a-z0-9])/i.exec(own);
  const count = match === null ? 0 : countOf(match[1], match[2], match[3]);
  return count >= 1 ? count : undefined;
}

function countOf(experts = '1', number = '0', unit = ''): number {
  return Math.round(Number(experts) * Number(number) * (factors[unit.toLowerCase()] ?? 1));
}
