import type { Discovery } from '../device/discover.js';
import type { Device } from '../device/types.js';
import { isKnown, type Known } from '../units/known.js';
import type { DeviceState } from '../watch/types.js';
import { watch } from '../watch/watch.js';
import type { SeenDevice } from './device-advice.js';

export interface LookOptions {
  readonly discovery: Discovery;
  /** Only these; all of them when left out. */
  readonly devices?: readonly Device[] | undefined;
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** Between two looks at who holds what, where the whole look takes a second. */
const processSeconds = 0.5;

/** Watches all devices for a while; no alert is sent anywhere. */
export async function seenDevices({
  discovery,
  devices,
  seconds,
  signal,
}: LookOptions): Promise<readonly SeenDevice[]> {
  const watching = watch({
    discovery,
    ...(devices && { devices }),
    durationSeconds: seconds,
    processIntervalSeconds: Math.max(processSeconds, seconds / 60),
    signal,
  });
  await watching.closed;
  return watching.states().map((state) => seenDevice(state, seconds));
}

/** What advice needs of what was watched. */
function seenDevice(state: DeviceState, watchedSeconds: number): SeenDevice {
  const { info, latest, processes, leak, processLeaks } = state;
  const { allocator, host } = latest;
  return {
    ...info,
    totalBytes: latest.totalBytes,
    usedBytes: latest.usedBytes,
    busiestPercent: busiest(state),
    watchedSeconds,
    processes,
    leak,
    processLeaks,
    cachedBytes: allocator ? allocator.reservedBytes - allocator.allocatedBytes : 'unknown',
    stalledPercent: host?.pressureSomePercent ?? 'unknown',
    swapUsedBytes: host?.swapUsedBytes ?? 'unknown',
  };
}

function busiest({ history, latest }: DeviceState): Known<number> {
  if (!isKnown(latest.utilizationPercent)) return 'unknown';
  const known = history.series('utilization').max.filter((value) => !Number.isNaN(value));
  return Math.max(latest.utilizationPercent, ...known);
}
