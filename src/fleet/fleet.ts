import { isKnown } from '../units/known.js';
import type {
  Fleet,
  FleetDevice,
  FleetHistory,
  FleetLeak,
  FleetNode,
  FleetTotals,
} from './document.js';
import { type DeviceBook, deviceBook, type FleetAnswers, keyOf } from './fleet-devices.js';
import { fleetJobs, wasteOf } from './fleet-jobs.js';
import { isAtRisk } from './risk-order.js';
import { fleetTrainings } from './trainings.js';

/** A list for people; the totals count all of them. */
const maxWastefulJobs = 100;

export interface FleetParts {
  readonly epochMs: number;
  readonly windowSeconds: number;
  readonly answers: FleetAnswers;
  readonly history: FleetHistory;
}

/** The fleet, from what Prometheus answered. */
export function fleetOf({ epochMs, windowSeconds, answers, history }: FleetParts): Fleet {
  const book = deviceBook(answers);
  const jobs = fleetJobs(answers, book);
  const trainings = fleetTrainings(answers, book);
  return {
    epochMs,
    windowSeconds,
    totals: { ...totalsOf(book.nodes), jobs: jobs.length, trainings: trainings.length },
    nodes: book.nodes,
    leaks: fleetLeaks(answers, book),
    wasteful: jobs.filter((job) => wasteOf(job) > 0).slice(0, maxWastefulJobs),
    trainings,
    history,
  };
}

function totalsOf(nodes: readonly FleetNode[]): Omit<FleetTotals, 'jobs' | 'trainings'> {
  const all = nodes.flatMap(({ devices }) => devices);
  const gpus = all.filter(({ id }) => id !== 'host');
  const counted = gpus.length > 0 ? gpus : all;
  const sum = (figure: 'totalBytes' | 'usedBytes' | 'reservedBytes' | 'unusedBytes') =>
    counted.reduce((total, device) => total + knownOf(device, figure), 0);
  return {
    nodes: nodes.length,
    silentNodes: nodes.filter(({ silent }) => silent).length,
    of: gpus.length > 0 ? 'gpu' : 'host',
    devices: counted.length,
    simulated: counted.filter(({ provenance }) => provenance === 'simulated').length,
    totalBytes: sum('totalBytes'),
    usedBytes: sum('usedBytes'),
    reservedBytes: sum('reservedBytes'),
    unusedBytes: sum('unusedBytes'),
    atRisk: all.filter(isAtRisk).length,
    leaking: all.filter(({ leakBytesPerSecond }) => leakBytesPerSecond !== null).length,
  };
}

function knownOf(
  device: FleetDevice,
  figure: 'totalBytes' | 'usedBytes' | 'reservedBytes' | 'unusedBytes',
): number {
  const value = device[figure];
  return isKnown(value) ? value : 0;
}

/** Leaks of processes, and of devices where no process could be named; the fastest first. */
function fleetLeaks({ processLeaks, leak }: FleetAnswers, book: DeviceBook): readonly FleetLeak[] {
  const ofProcesses = processLeaks.map((point): FleetLeak => {
    const { device = '', pid = '', process = '', user = '' } = point.labels;
    return {
      node: book.nodeOf(point),
      device,
      bytesPerSecond: point.value,
      etaSeconds: book.find(point)?.etaSeconds ?? null,
      process: { pid, name: process, user },
    };
  });
  const named = new Set(processLeaks.map(keyOf));
  const ofDevices = leak
    .filter((point) => point.value > 0 && !named.has(keyOf(point)))
    .map(
      (point): FleetLeak => ({
        node: book.nodeOf(point),
        device: point.labels['device'] ?? '',
        bytesPerSecond: point.value,
        etaSeconds: book.find(point)?.etaSeconds ?? null,
        process: null,
      }),
    );
  return [...ofProcesses, ...ofDevices].toSorted(
    (one, other) => other.bytesPerSecond - one.bytesPerSecond,
  );
}
