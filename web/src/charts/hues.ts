import type { DeviceView } from '../api/types.js';

/** As many colours as the style sheet has for jobs. */
const hueCount = 10;
export type Hues = ReadonlyMap<string, number>;

/** The colour of a job that lies in no hull. */
export function plainHue(jobId: string): number {
  const number = Number(jobId);
  return Number.isSafeInteger(number) ? Math.abs(number) % hueCount : jobId.length % hueCount;
}

/**
 * Each job in a hull keeps its colour for as long as it is there, and no two in one hull share
 * one while there are colours left. Answers the same map where nothing changed.
 */
export function withHues(hues: Hues, devices: readonly DeviceView[]): Hues {
  const next = new Map<string, number>();
  let changed = false;
  for (const { reservations } of devices) {
    const taken = new Set<number>();
    for (const { jobId } of reservations) {
      const known = next.get(jobId) ?? hues.get(jobId);
      if (known !== undefined) taken.add(known);
    }
    for (const { jobId } of reservations) {
      let hue = next.get(jobId) ?? hues.get(jobId);
      if (hue === undefined) {
        hue = freeHue(plainHue(jobId), taken);
        taken.add(hue);
        changed = true;
      }
      next.set(jobId, hue);
    }
  }
  return changed || next.size !== hues.size ? next : hues;
}

function freeHue(first: number, taken: ReadonlySet<number>): number {
  for (let step = 0; step < hueCount; step++) {
    const hue = (first + step * 3) % hueCount;
    if (!taken.has(hue)) return hue;
  }
  return first;
}
