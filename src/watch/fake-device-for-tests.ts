import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Device, DeviceInfo, MemoryReading, ProcessReading } from '../device/types.js';
import { GiB } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import type { Diagnosis } from './diagnosis/diagnose.js';
import type { Alert, Forecast, Leak } from './types.js';

/** A device for tests: what it answers is handed in. */
export function fakeDevice(
  parts: Partial<DeviceInfo> & {
    read?: () => MemoryReading | Promise<MemoryReading>;
    processes?: () => Promise<Known<readonly ProcessReading[]>>;
  } = {},
): Device {
  const { read, processes, ...info } = parts;
  return {
    info: {
      id: 'gpu:0',
      kind: 'gpu',
      name: 'Fake GPU',
      source: 'simulated',
      provenance: 'simulated',
      uuid: 'unknown',
      driver: 'unknown',
      ...info,
    },
    read: read ?? (() => memory(GiB)),
    processes: processes ?? (() => Promise.resolve([])),
  };
}

export function memory(usedBytes: Known<number>, totalBytes = 10 * GiB): MemoryReading {
  return {
    totalBytes,
    usedBytes,
    freeBytes: usedBytes === 'unknown' ? 'unknown' : totalBytes - usedBytes,
    utilizationPercent: 'unknown',
  };
}

export const noLeak: Leak = {
  found: false,
  bytesPerSecond: 0,
  confidence: 1,
  grownBytes: 0,
  sinceSeconds: 'unknown',
  watchSeconds: 0,
  reason: 'Nothing grows.',
};

export const noForecast: Forecast = {
  risk: 'none',
  probability: { within15s: 0, within60s: 0, within5min: 0.01 },
  etaSeconds: 'never',
  lowSeconds: 'never',
  highSeconds: 'never',
  confidence: 1,
  bytesPerSecond: 0,
  reason: 'Nothing grows.',
  recommendations: [],
  provenance: 'estimated',
};

/** Concludes nothing; give the parts that should answer otherwise. */
export function fakeDiagnosis(parts: Partial<Diagnosis> = {}): Diagnosis {
  return {
    add() {},
    addProcesses() {},
    forecast: () => noForecast,
    leak: () => noLeak,
    processLeaks: () => new Map(),
    cause: () => 'none',
    ...parts,
  };
}

setFlagsFromString('--expose-gc');
const collectGarbage: unknown = runInNewContext('gc');

/** What this process holds, rubbish aside. */
export function heldBytes(): number {
  if (typeof collectGarbage !== 'function') throw new Error('There is no gc function.');
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** An alert for tests. */
export function fakeAlert(parts: Partial<Alert> = {}): Alert {
  return {
    kind: 'gpu-critical',
    state: 'raised',
    severity: 'critical',
    deviceId: 'gpu:0',
    atSeconds: 12.5,
    epochMs: Date.UTC(2025, 0, 15, 10, 30),
    message: 'gpu:0 (Fake GPU, simulated) uses 96.0 % of its memory.',
    recommendations: ['Lower the batch size.'],
    provenance: 'simulated',
    ...parts,
  };
}
