import type { DeviceView, JobView } from '../../src/jobs/daemon/types.js';
import { GiB, MiB } from '../../src/units/bytes.js';
import type { Alert, Forecast } from '../../src/watch/types.js';

const capacity = 80 * GiB;
const line = Math.round(capacity * 0.9);

/** How a device of the made-up machine behaves. */
type Temper = 'steady' | 'leaking' | 'shared' | 'releasing' | 'idle';

const tempers: readonly Temper[] = [
  'steady',
  'leaking',
  'shared',
  'steady',
  'releasing',
  'steady',
  'shared',
  'idle',
];

function temperOf(index: number): Temper {
  return tempers[index % tempers.length] ?? 'steady';
}

/** A device at a moment, with these jobs on it. `seconds` counts from the start of the show. */
export function makeDevice(
  index: number,
  jobs: readonly JobView[],
  seconds: number,
  nowMs: number,
): DeviceView {
  const temper = temperOf(index);
  const others = otherProcessesBytes(temper, seconds);
  const reservations = jobs.map((job, place) => {
    const wave = 0.06 * Math.sin(seconds / (7 + place) + index);
    const bytes = job.reservation?.bytes ?? job.need.bytes;
    return {
      jobId: job.id,
      name: job.name,
      bytes,
      usedBytes: Math.round(bytes * Math.min(1, 0.72 + wave)),
      isReleasing: temper === 'releasing' && place === jobs.length - 1,
    };
  });
  const used = reservations.reduce((sum, { usedBytes }) => sum + usedBytes, others);
  const reserved = reservations
    .filter(({ isReleasing }) => !isReleasing)
    .reduce((sum, { bytes }) => sum + bytes, 0);
  const releasing = reservations
    .filter(({ isReleasing }) => isReleasing)
    .reduce((sum, { bytes }) => sum + bytes, 0);
  const usedBytes = Math.round(Math.min(capacity, used));
  return {
    id: `gpu:${index}`,
    name: 'NVIDIA H100 80GB HBM3',
    source: 'simulated',
    provenance: 'simulated',
    totalBytes: capacity,
    usedBytes,
    freeBytes: capacity - usedBytes,
    processes: [],
    loadLineBytes: line,
    otherProcessesBytes: Math.round(others),
    reservedBytes: reserved,
    releasingBytes: releasing,
    availableBytes: Math.max(0, Math.round(line - others - reserved - releasing)),
    reservations,
    forecast: forecastOf(temper, usedBytes),
    alerts:
      temper === 'leaking' && seconds % leakSeconds > 60
        ? [leakAlert(`gpu:${index}`, nowMs, seconds)]
        : [],
    takesJobs: true,
  };
}

/** A process that is not a job leaks, and is started anew when it is full. */
const leakSeconds = 240;
const leakBytesPerSecond = 195 * MiB;

function otherProcessesBytes(temper: Temper, seconds: number): number {
  if (temper === 'leaking') return 420 * MiB + (seconds % leakSeconds) * leakBytesPerSecond;
  return temper === 'shared' ? 3.4 * GiB : 420 * MiB;
}

function leakAlert(deviceId: string, nowMs: number, seconds: number): Alert {
  return {
    kind: 'leak',
    state: 'raised',
    severity: 'warning',
    deviceId,
    atSeconds: 0,
    epochMs: Math.round((nowMs - (seconds % leakSeconds) * 1000) / 1000) * 1000 + 60_000,
    message: `python (process 4711) on ${deviceId} leaks 195 MiB a second.`,
    recommendations: ['Save a checkpoint now.'],
    provenance: 'simulated',
  };
}

function forecastOf(temper: Temper, usedBytes: number): Forecast {
  if (temper !== 'leaking') {
    return {
      risk: 'none',
      probability: { within15s: 0, within60s: 0, within5min: 0.01 },
      etaSeconds: 'never',
      lowSeconds: 'never',
      highSeconds: 'never',
      confidence: 0.9,
      bytesPerSecond: 0,
      reason: 'Memory neither rises nor falls.',
      recommendations: [],
      provenance: 'estimated',
    };
  }
  const eta = Math.max(1, (capacity - usedBytes) / leakBytesPerSecond);
  return {
    risk: eta < 15 ? 'critical' : eta < 60 ? 'high' : 'medium',
    probability: { within15s: eta < 15 ? 0.8 : 0.1, within60s: 0.9, within5min: 0.97 },
    etaSeconds: eta,
    lowSeconds: eta * 0.7,
    highSeconds: eta * 1.6,
    confidence: 0.82,
    bytesPerSecond: leakBytesPerSecond,
    reason: 'Memory grows by 195 MiB a second and does not come back.',
    recommendations: ['Save a checkpoint now.'],
    provenance: 'estimated',
  };
}
