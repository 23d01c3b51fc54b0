import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';

/** What one simulated GPU shows at an instant; all bytes are integers. */
export interface SimulatedInstant {
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  readonly usedBytes: number;
  /** The most the allocator may reserve: the device less the driver's own part. */
  readonly limitBytes: number;
  readonly utilizationPercent: number;
}

/** The share of the allocator's limit that is live `seconds` after the start, before noise. */
type Shape = (seconds: number) => number;

/** Work comes in steps: activations build up and are freed, twice a second. */
const step: Shape = (seconds) => Math.abs(((seconds * 2) % 1) - 0.5) * 2;

const shapes = {
  steady: (t) => 0.42 + 0.1 * step(t),
  /** Out of memory after some two minutes. */
  leak: (t) => 0.34 + 0.08 * step(t) + t / 220,
  /** A minute of peace first. */
  'late-leak': (t) => 0.38 + 0.1 * step(t) + Math.max(0, t - 60) / 110,
  /** A cache that fills and is dropped every 20 s. */
  sawtooth: (t) => 0.2 + 0.5 * ((t % 20) / 20),
  /** Rises quickly and settles. */
  warmup: (t) => 0.15 + 0.55 * (1 - Math.exp(-t / 15)),
  /** An evaluation of 2 s, every 15 s. */
  spikes: (t) => 0.32 + 0.05 * step(t) + (t % 15 >= 13 ? 0.4 : 0),
  /** A larger batch every 20 s. */
  growth: (t) => 0.2 + 0.03 * step(t) + 0.08 * Math.floor(t / 20),
  /** Doubles every 30 s. */
  exponential: (t) => 0.1 * 2 ** (t / 30),
  full: () => 1,
} satisfies Record<string, Shape>;

export type ScenarioName = keyof typeof shapes;

export const scenarioNames: readonly ScenarioName[] = [
  'steady',
  'leak',
  'late-leak',
  'sawtooth',
  'warmup',
  'spikes',
  'growth',
  'exponential',
  'full',
];

/** Checks a scenario's name. */
export function parseScenario(name: string): ScenarioName {
  const found = scenarioNames.find((candidate) => candidate === name);
  if (found !== undefined) return found;
  throw new Failure({
    kind: 'input',
    code: 'unknown-scenario',
    fact: `There is no scenario "${name}".`,
    next: `Choose one of ${scenarioNames.join(', ')}, or name a trace file.`,
  });
}

/** Caching allocators hold on to what they had; ours lets go of what it did not need this long. */
const cacheSeconds = 30;
const cacheGridSeconds = 0.25;

/** A driver's own part: 4 % of a small device, 600 MiB of a large one. */
function contextBytes(totalBytes: number): number {
  return Math.min(600 * MiB, Math.floor(totalBytes * 0.04));
}

/**
 * What a scenario shows at a time. The same arguments always give the same answer.
 *
 * @example
 * simulateInstant('leak', { seconds: 10, totalBytes: 24 * GiB, seed: 1 }).allocatedBytes;
 */
export function simulateInstant(
  scenario: ScenarioName,
  { seconds, totalBytes, seed }: { seconds: number; totalBytes: number; seed: number },
): SimulatedInstant {
  const limitBytes = totalBytes - contextBytes(totalBytes);
  const live = (at: number): number => {
    const share = shapes[scenario](Math.max(0, at)) + (noise(seed, at) - 0.5) * 0.01;
    return Math.floor(Math.min(1, Math.max(0, share)) * limitBytes);
  };
  const allocatedBytes = live(seconds);
  let held = allocatedBytes;
  const first = Math.max(0, Math.ceil((seconds - cacheSeconds) / cacheGridSeconds));
  for (let tick = first; tick * cacheGridSeconds <= seconds; tick += 1) {
    held = Math.max(held, live(tick * cacheGridSeconds));
  }
  // The allocator takes memory from the driver in pieces of 2 MiB.
  const reservedBytes = Math.min(limitBytes, Math.ceil(held / (2 * MiB)) * 2 * MiB);
  return {
    allocatedBytes,
    reservedBytes,
    usedBytes: reservedBytes + totalBytes - limitBytes,
    limitBytes,
    utilizationPercent: 70 + Math.floor(noise(seed + 1, seconds) * 30),
  };
}

/** A number from 0 to 1 that looks random and depends on the seed and the tenth of a second. */
function noise(seed: number, seconds: number): number {
  let bits = Math.imul(Math.floor(seconds * 10) + 1, 0x9e37_79b1) ^ Math.imul(seed, 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b_3c6d);
  bits = Math.imul(bits ^ (bits >>> 12), 0x297a_2d39);
  return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32;
}
