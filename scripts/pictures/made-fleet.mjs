import { bundled } from '../../bench/bundled.mjs';
import { fleetOf } from '../../dist/fleet/fleet.js';

const minutes = 60;

/** Twelve nodes of eight simulated GPUs, and an hour of their past. */
export async function madeFleet() {
  const { madeAnswers } = await bundled('src/fleet/made-fleet-for-tests.ts');
  const now = Date.now();
  const answers = madeAnswers(12, 8);
  const terabyte = 1024 ** 4;
  const past = Array.from({ length: minutes }, (_, minute) => minute);
  const history = {
    epochMs: past.map((minute) => now - (minutes - minute) * 60_000),
    totalBytes: past.map(() => 7.5 * terabyte),
    usedBytes: past.map((minute) => Math.round((3 + 2 * Math.sin(minute / 9)) * terabyte)),
    reservedBytes: past.map(() => 6 * terabyte),
  };
  return fleetOf({ epochMs: now, windowSeconds: 3600, answers, history });
}
