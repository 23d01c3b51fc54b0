import { environmentRules } from './rules.js';

type Entry = [name: string, values: readonly string[] | null];

/** Words that a switch takes for on. */
const on = ['1', 'true', 'True', 'TRUE', 'yes', 'on'];

/**
 * Which values of which variables are for debugging, and so have no place in a program that goes into
 * production; null stands for any value.
 *
 * @example
 * debugSettings()['CUDA_LAUNCH_BLOCKING']; // ['1', 'true', ...]
 */
export function debugSettings(): Readonly<Record<string, readonly string[] | null>> {
  const entries = environmentRules.flatMap(
    ({ name, production, debug, debugValues = [], reads }): Entry[] => {
      if (production === undefined) return [];
      if (production.action === 'unset') return [[name, null]];
      const value = debug?.action === 'set' && typeof debug.value === 'string' ? [debug.value] : [];
      const values = [...debugValues, ...value].filter((one) => one !== production.value);
      if (values.length === 0) return [];
      return [[name, reads === 'switch' ? on : values]];
    },
  );
  return Object.fromEntries(entries);
}
