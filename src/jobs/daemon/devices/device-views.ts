import { isKnown } from '../../../units/known.js';
import type { Alert, DeviceState } from '../../../watch/types.js';
import type { DeviceRoom, LedgerEntry } from '../../ledger.js';
import type { DeviceHistory, DeviceView, WorkersStatus } from '../types.js';

/** A host has hundreds; the largest are what people look for. */
const shownProcesses = 20;

/** A device with its reservations. */
export function deviceView(options: {
  readonly state: DeviceState;
  /** Undefined where jobs are never placed there. */
  readonly room: DeviceRoom | undefined;
  readonly entries: readonly LedgerEntry[];
  readonly nameOf: (jobId: string) => string;
  readonly takesJobs: boolean;
}): DeviceView {
  const { state, room, entries, nameOf, takesJobs } = options;
  const { id, name, source, provenance } = state.info;
  const { totalBytes, usedBytes, freeBytes } = state.latest;
  return {
    id,
    name,
    source,
    provenance,
    totalBytes,
    usedBytes,
    freeBytes,
    processes: isKnown(state.processes) ? state.processes.slice(0, shownProcesses) : 'unknown',
    loadLineBytes: room?.loadLineBytes ?? 0,
    otherProcessesBytes: room?.otherProcessesBytes ?? usedBytes,
    reservedBytes: room?.reservedBytes ?? 0,
    releasingBytes: room?.releasingBytes ?? 0,
    availableBytes: room?.freeBytes ?? 0,
    reservations: entries.map(({ jobId, bytes, usedBytes: held, isReleasing }) => ({
      jobId,
      name: nameOf(jobId),
      bytes,
      usedBytes: held,
      isReleasing,
    })),
    forecast: state.forecast,
    alerts: state.alerts,
    takesJobs,
  };
}

/** Use of a device over the last seconds, at most so many points. */
export function deviceHistory(
  state: DeviceState,
  windowSeconds: number,
  points: number,
  alerts: readonly Alert[],
): DeviceHistory {
  const { atSeconds, epochMs } = state.latest;
  const fromSeconds = atSeconds - windowSeconds;
  const { seconds, min, max } = state.history.series('used', {
    fromSeconds,
    maxPoints: Math.max(1, Math.floor(points)),
  });
  return {
    id: state.info.id,
    epochMs: Array.from(seconds, (at) => Math.round(epochMs + (at - atSeconds) * 1000)),
    usedMax: Array.from(max, bytesOrNull),
    usedMin: Array.from(min, bytesOrNull),
    alerts: alerts.filter((alert) => alert.atSeconds >= fromSeconds),
  };
}

function bytesOrNull(value: number): number | null {
  return Number.isNaN(value) ? null : Math.round(value);
}

export function deviceStatus(view: DeviceView): WorkersStatus['devices'][number] {
  const { id, totalBytes, usedBytes, freeBytes } = view;
  const isRead = isKnown(totalBytes) && isKnown(usedBytes);
  const share = isRead && totalBytes > 0 ? usedBytes / totalBytes : undefined;
  return {
    id,
    totalBytes,
    usedBytes,
    freeBytes,
    usedPercent: share === undefined ? 'unknown' : Math.round(share * 1000) / 10,
    status: !isRead ? 'unknown' : view.availableBytes > 0 ? 'available' : 'full',
  };
}
