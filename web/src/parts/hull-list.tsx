import { formatBytes } from '../../../src/units/bytes.js';
import { isKnown } from '../../../src/units/known.js';
import type { DeviceView } from '../api/types.js';
import { hueClass } from './use-hue.js';
import { usedOfReserved } from './words.js';

/** More would make one card taller than its neighbours. */
const jobsShown = 4;

/** What lies in the hull, from the top down, as in the picture beside it. */
export function HullList({ device, onRequest }: { device: DeviceView; onRequest: boolean }) {
  const stacked = device.reservations
    .toSorted((one, other) => Number(one.isReleasing) - Number(other.isReleasing))
    .toReversed();
  const shown = stacked.slice(0, jobsShown);
  const more = stacked.slice(jobsShown);
  return (
    <ul class="hull-list">
      {shown.map(({ jobId, name, bytes, usedBytes, isReleasing }) => (
        <li key={jobId} class={hueClass(jobId)}>
          <i class={isReleasing ? 'swatch releasing' : 'swatch'} />
          <a href={`#/job/${jobId}`} title={name}>
            {name}
          </a>
          <span class="figure">
            {isReleasing
              ? `${formatBytes(bytes)} being released`
              : usedOfReserved(usedBytes, bytes)}
          </span>
        </li>
      ))}
      {more.length > 0 && (
        <li>
          <i class="swatch none" />
          <span class="soft">{more.length} more</span>
          <span class="figure">{formatBytes(more.reduce((sum, { bytes }) => sum + bytes, 0))}</span>
        </li>
      )}
      {stacked.length === 0 && <li class="nobody">{emptyWords(device, onRequest)}</li>}
      {isKnown(device.otherProcessesBytes) && device.otherProcessesBytes > 0 && (
        <li>
          <i class="swatch other" />
          <span title="Processes that are not jobs of this server">other processes</span>
          <span class="figure">{formatBytes(device.otherProcessesBytes)}</span>
        </li>
      )}
    </ul>
  );
}

function emptyWords({ takesJobs }: DeviceView, onRequest: boolean): string {
  if (!takesJobs) return 'Takes no jobs.';
  return onRequest ? 'Takes jobs that ask for no GPU.' : 'No job runs here.';
}
