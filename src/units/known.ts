/** A value that could not be read is the word `unknown`, in types and in JSON; never a made-up 0. */
export type Known<T> = T | 'unknown';

/** The source of a figure. Every figure shown to a person has one of these. */
export type Provenance = 'measured' | 'simulated' | 'estimated';

export function isKnown<T>(value: Known<T>): value is Exclude<T, 'unknown'> {
  return value !== 'unknown';
}
