import { askFleet } from '../../fleet/ask-fleet.js';
import type { Prometheus } from '../../fleet/prometheus.js';
import type { Fleet } from '../../fleet/types.js';
import type { Clock } from '../../time/clock.js';
import type { FleetSource } from '../routes/fleet-routes.js';

/** Shorter than a usual scrape interval: a newer answer would be the same. */
const freshSeconds = 10;
const windowSeconds = 3600;

/** One question at a time, however many pages are open; its answer is for all of them, for some seconds. */
export function fleetSource(
  prometheus: Prometheus,
  clock: Clock,
  signal: AbortSignal,
): FleetSource {
  let askedAt = -Infinity;
  let answer: Promise<Fleet> | undefined;
  const ask = async (): Promise<Fleet> => {
    const fleet = await askFleet(prometheus, { nowMs: clock.epochMs(), windowSeconds, signal });
    askedAt = clock.seconds();
    return fleet;
  };
  return () => {
    if (answer !== undefined && clock.seconds() - askedAt < freshSeconds) return answer;
    askedAt = clock.seconds();
    answer = ask().catch((error: unknown) => {
      // The next one asks anew.
      answer = undefined;
      throw error;
    });
    return answer;
  };
}
