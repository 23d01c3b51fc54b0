import { fleetBytes } from '../../../../src/report/fleet-words.js';
import { percentOf, percentWords } from '../../../../src/report/words.js';
import type { Fleet } from '../../api/types.js';

/** The sums of the fleet. */
export function FleetFacts({ fleet: { totals } }: { fleet: Fleet }) {
  const { usedBytes, totalBytes, reservedBytes, unusedBytes } = totals;
  const facts: readonly (readonly [string, string])[] = [
    ['Used', `${fleetBytes(usedBytes)}, ${percentWords(percentOf(usedBytes, totalBytes))}`],
    ['Reserved', fleetBytes(reservedBytes)],
    ['Reserved and unused', fleetBytes(unusedBytes)],
    ['Devices at risk', totals.atRisk.toLocaleString('en-US')],
    ['Leaks', totals.leaking.toLocaleString('en-US')],
    ['Jobs', totals.jobs.toLocaleString('en-US')],
  ];
  return (
    <dl class="fleet-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
