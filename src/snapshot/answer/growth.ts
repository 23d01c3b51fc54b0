import { before, type Lives, never } from '../history/lives.js';
import { stepOf } from './steps.js';

/** What one stack allocated and did not free, over the steps. */
export interface Growth {
  readonly stack: number;
  count: number;
  bytes: number;
  /** Steps in which something was kept. */
  steps: number;
  firstStep: number;
  lastStep: number;
  firstIndex: number;
  lastIndex: number;
  firstBytes: number;
  /** The most steps that something lived which was freed in the end. */
  longestFreedSteps: number;
}

/** Looks at every allocation of the recording, stack by stack. */
export function growthByStack(lives: Lives, starts: readonly number[]): Map<number, Growth> {
  const growths = new Map<number, Growth>();
  const { born, freed, bytes, stack, length } = lives;
  for (let life = 0; life < length; life += 1) {
    const from = born[life] ?? before;
    if (from === before) continue;
    const key = stack[life] ?? 0;
    const growth = growths.get(key) ?? noGrowth(key);
    growths.set(key, growth);
    const end = freed[life] ?? never;
    const step = stepOf(starts, from);
    if (end !== never) {
      growth.longestFreedSteps = Math.max(growth.longestFreedSteps, stepOf(starts, end) - step);
      continue;
    }
    keep(growth, from, step, bytes[life] ?? 0);
  }
  return growths;
}

function noGrowth(stack: number): Growth {
  return {
    stack,
    count: 0,
    bytes: 0,
    steps: 0,
    firstStep: -1,
    lastStep: -1,
    firstIndex: -1,
    lastIndex: -1,
    firstBytes: 0,
    longestFreedSteps: 0,
  };
}

function keep(growth: Growth, index: number, step: number, bytes: number): void {
  if (growth.count === 0) {
    growth.firstStep = step;
    growth.firstIndex = index;
  }
  if (step === growth.firstStep) growth.firstBytes += bytes;
  if (step !== growth.lastStep) growth.steps += 1;
  growth.count += 1;
  growth.bytes += bytes;
  growth.lastStep = step;
  growth.lastIndex = index;
}

/** Growth in fewer steps may be a warm-up, or something that is made once. */
const fewestSteps = 3;

/**
 * Grows step by step, to the end, and nothing of it is freed later than the rest: a leak. What grows
 * once (weights, the state of an optimizer, a buffer) has one step; a cache that turns over frees
 * what is as old as what it keeps.
 */
export function growsOn(growth: Growth, lastStep: number): boolean {
  const { steps, firstStep } = growth;
  if (steps < fewestSteps) return false;
  const pace = (growth.lastStep - firstStep) / (steps - 1);
  const stillGrows = growth.lastStep >= lastStep - Math.max(1, Math.ceil(pace));
  const oldest = lastStep - firstStep;
  const turnsOver = growth.longestFreedSteps >= 2 && growth.longestFreedSteps * 2 >= oldest;
  return stillGrows && !turnsOver;
}
