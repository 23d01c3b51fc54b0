import { badJson } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';

/**
 * Refuses JSON that no request of ours looks like, before anything is done with it: nested so deep
 * that walking it overflows the stack, so many values that checking them takes seconds, and the one key that
 * changes what an object is when it is copied carelessly.
 */
export function checkShape(value: unknown): unknown {
  let values = 0;
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > serverLimits.bodyDepth) {
      throw badJson(`it is nested deeper than ${serverLimits.bodyDepth} levels`);
    }
    values += level.length;
    if (values > serverLimits.bodyValues) {
      throw badJson(`it holds more than ${serverLimits.bodyValues} values`);
    }
    level = level.flatMap(membersOf);
  }
  return value;
}

function membersOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value !== 'object' || value === null) return [];
  if (Object.hasOwn(value, '__proto__')) throw badJson('it has a key "__proto__"');
  return Object.values(value);
}
