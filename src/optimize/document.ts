import type { Check } from '../doctor/checks.js';
import type { Advice } from './advice.js';
import type { PlannedChange } from './apply.js';
import type { SeenDevice } from './device-advice.js';
import type { TrainingAnswer } from './training-answer.js';

export const optimizeModes = ['quick', 'training', 'full'] as const;
export type OptimizeMode = (typeof optimizeModes)[number];

/** What `plimsoll optimize` found, before it is told. */
export interface Optimization {
  readonly mode: OptimizeMode;
  /** How long the machine was watched; 0 where it was not. */
  readonly watchedSeconds: number;
  readonly devices: readonly SeenDevice[];
  /** In the order of what they save. */
  readonly advice: readonly Advice[];
  readonly training?: TrainingAnswer | undefined;
  readonly checks?: readonly Check[] | undefined;
  /** What --apply writes. */
  readonly changes: readonly PlannedChange[];
  readonly applied: boolean;
  readonly notes: readonly string[];
}

/** The same as JSON. */
export function optimizeDocument(found: Optimization): object {
  const { devices, changes, applied, training, checks, ...rest } = found;
  return {
    ...rest,
    devices: devices.map(deviceDocument),
    ...(training !== undefined && { training }),
    ...(checks !== undefined && { checks }),
    applied,
    changes: changes.map(({ path, what }) => ({ path, what })),
  };
}

function deviceDocument({ processLeaks, ...device }: SeenDevice): object {
  return Object.assign({}, device, {
    growing: Array.from(processLeaks, ([pid, leak]) => Object.assign({ pid }, leak)),
  });
}
