import type { DeviceView, JobView } from '../../src/jobs/daemon/contract.js';
import { GiB, MiB } from '../../src/units/bytes.js';
import type { Alert, Forecast } from '../../src/watch/types.js';

const capacity = 80 * GiB;
const line = Math.round(capacity * 0.9);

/** How a device of the made-up machine behaves. */
export type Temper = 'steady' | 'leaking' | 'shared' | 'returning' | 'idle';

const tempers: readonly Temper[] = [
  'steady',
  'leaking',
  'shared',
  'steady',
  'returning',
  'steady',
  'shared',
  'idle',
];

export function temperOf(index: number): Temper {
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
  const foreign = temper === 'shared' ? 3.4 * GiB : 420 * MiB;
  const reservations = jobs.map((job, place) => {
    const wave = 0.06 * Math.sin(seconds / (7 + place) + index);
    const grown = temper === 'leaking' && place === 0 ? (seconds % 240) / 240 : 0;
    const bytes = job.reservation?.bytes ?? job.need.bytes;
    return {
      jobId: job.id,
      name: job.name,
      bytes,
      usedBytes: Math.round(bytes * Math.min(1, 0.72 + wave + grown * 0.3)),
      isReturning: temper === 'returning' && place === jobs.length - 1,
    };
  });
  const used = reservations.reduce((sum, { usedBytes }) => sum + usedBytes, foreign);
  const reserved = reservations
    .filter(({ isReturning }) => !isReturning)
    .reduce((sum, { bytes }) => sum + bytes, 0);
  const returning = reservations
    .filter(({ isReturning }) => isReturning)
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
    lineBytes: line,
    foreignBytes: Math.round(foreign),
    reservedBytes: reserved,
    returningBytes: returning,
    promisableBytes: Math.max(0, Math.round(line - foreign - reserved - returning)),
    reservations,
    forecast: forecastOf(temper, seconds),
    alerts: temper === 'leaking' ? [leakAlert(`gpu:${index}`, nowMs, seconds)] : [],
    takesJobs: true,
  };
}

function leakAlert(deviceId: string, nowMs: number, seconds: number): Alert {
  return {
    kind: 'out-of-memory-risk',
    state: 'raised',
    severity: 'warning',
    deviceId,
    atSeconds: 0,
    epochMs: nowMs - Math.round((seconds % 240) * 1000) + 60_000 - 120_000,
    message: `${deviceId} is expected to be full in about 50 s.`,
    recommendations: ['Save a checkpoint now.'],
    provenance: 'simulated',
  };
}

function forecastOf(temper: Temper, seconds: number): Forecast {
  if (temper !== 'leaking') {
    return {
      risk: 'none',
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
  const eta = 20 + (240 - (seconds % 240)) / 4;
  return {
    risk: eta < 60 ? 'high' : 'medium',
    etaSeconds: eta,
    lowSeconds: eta * 0.7,
    highSeconds: eta * 1.6,
    confidence: 0.82,
    bytesPerSecond: 120 * MiB,
    reason: 'Memory grows by 120.0 MiB a second and does not come back.',
    recommendations: ['Save a checkpoint now.'],
    provenance: 'estimated',
  };
}
