import { formatSeconds } from '../../../../src/units/durations.js';
import type { Fleet } from '../../api/types.js';
import { linePath } from '../../charts/fleet-lines.js';

/** Used and reserved, as shares of the whole fleet, over the last hour. */
export function HistoryLines({ fleet }: { fleet: Fleet }) {
  const { history, windowSeconds } = fleet;
  if (history.epochMs.length < 2) return null;
  const last = `the last ${formatSeconds(windowSeconds)}`;
  return (
    <figure class="fleet-history">
      <svg
        viewBox="0 0 100 100"
        preserveAspectRatio="none"
        role="img"
        aria-label={`Used and reserved memory, ${last}`}
      >
        <path class="reserved" d={linePath(history.reservedBytes, history)} />
        <path class="used" d={linePath(history.usedBytes, history)} />
      </svg>
      <figcaption>
        <i class="fleet-key used" /> used <i class="fleet-key reserved" /> reserved, {last}
      </figcaption>
    </figure>
  );
}
