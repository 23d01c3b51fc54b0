import type { MemoryPoint } from '../types.js';

export const GiB = 1024 ** 3;

/** A repeatable stream of numbers from 0 to 1, for series with noise. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Normal noise that remembers its last value: each one keeps `memory` of the one before. */
export function wanderingNoise(seed: number, memory: number): () => number {
  const random = randomFrom(seed);
  let value = 0;
  return () => {
    const radius = Math.sqrt(-2 * Math.log(random() + 1e-12));
    const fresh = radius * Math.cos(2 * Math.PI * random());
    value = memory * value + Math.sqrt(1 - memory ** 2) * fresh;
    return value;
  };
}

/** Points of `bytesAt` every `interval` seconds; `live`, where given, makes it an allocator's. */
export function pointsOf(parts: {
  readonly seconds: number;
  readonly interval?: number;
  readonly limit?: number;
  readonly held: (seconds: number) => number;
  readonly live?: (seconds: number) => number;
}): MemoryPoint[] {
  const { seconds, interval = 0.1, limit = 24 * GiB, held, live } = parts;
  const points: MemoryPoint[] = [];
  for (let i = 0; i * interval < seconds; i++) {
    const at = i * interval;
    points.push({
      seconds: at,
      limitBytes: limit,
      heldBytes: Math.min(limit, Math.max(0, Math.round(held(at)))),
      ...(live ? { liveBytes: Math.round(live(at)) } : {}),
    });
  }
  return points;
}
