import { isKnown, type Known } from '../units/known.js';
import { risks } from '../watch/types.js';
import type { FleetDevice, FleetNode } from './document.js';
import type { Point } from './read-answer.js';
import { byFirstDevice, byRisk } from './risk-order.js';

export type FleetAnswers = Readonly<Record<InstantQueryName, readonly Point[]>>;

/** Devices of all nodes, to be found by target and id. */
export interface DeviceBook {
  readonly nodes: readonly FleetNode[];
  find(point: Point): FleetDevice | undefined;
  nodeOf(point: Point): string;
}

/** Puts the answers about devices together. */
export function deviceBook(answers: FleetAnswers): DeviceBook {
  const used = valuesOf(answers.used);
  const loadLine = valuesOf(answers.loadLine);
  const held = reservations(answers);
  const risk = valuesOf(answers.risk);
  const eta = valuesOf(answers.outOfMemory);
  const leak = valuesOf(answers.leak);
  const devices = new Map<string, FleetDevice>();
  const ofNode = new Map<string, FleetDevice[]>();
  const add = (point: Point, silent: boolean): void => {
    const key = keyOf(point);
    if (devices.has(key)) return;
    const { instance = '', device: id = '', name = '', provenance = '' } = point.labels;
    const rate = leak.get(key) ?? 0;
    const device: FleetDevice = {
      id,
      name,
      provenance: provenance === 'measured' || provenance === 'simulated' ? provenance : 'unknown',
      silent,
      totalBytes: bytesOf(point.value),
      usedBytes: bytesOf(used.get(key)),
      loadLineBytes: bytesOf(loadLine.get(key)),
      reservedBytes: held.get(key)?.reservedBytes ?? 0,
      unusedBytes: held.get(key)?.unusedBytes ?? 0,
      risk: risks[risk.get(key) ?? -1] ?? 'unknown',
      etaSeconds: eta.get(key) ?? null,
      leakBytesPerSecond: rate > 0 ? rate : null,
    };
    devices.set(key, device);
    const list = ofNode.get(instance);
    if (list === undefined) ofNode.set(instance, [device]);
    else list.push(device);
  };
  for (const point of answers.devices) add(point, false);
  for (const point of answers.earlierDevices) add(point, true);
  const names = nodeNames(answers.nodes, ofNode.keys());
  const nodeOf = ({ labels: { instance = '' } }: Point) => names.get(instance) ?? instance;
  return {
    nodes: [...ofNode]
      .map(([instance, list]) => ({
        name: names.get(instance) ?? instance,
        silent: list.every(({ silent }) => silent),
        devices: list.toSorted(byRisk),
      }))
      .toSorted(byFirstDevice),
    find: (point) => devices.get(keyOf(point)),
    nodeOf,
  };
}

interface Held {
  readonly reservedBytes: number;
  readonly unusedBytes: Known<number>;
}

/** Returns reserved bytes that jobs do not use now, by device; unknown if the use of one job is unknown. */
function reservations({ jobReserved, jobUsed }: FleetAnswers): ReadonlyMap<string, Held> {
  const used = new Map(jobUsed.map((point) => [jobKey(point), point.value]));
  const held = new Map<string, Held>();
  for (const point of jobReserved) {
    const key = keyOf(point);
    const before = held.get(key) ?? { reservedBytes: 0, unusedBytes: 0 };
    const now = used.get(jobKey(point));
    const unusedBytes =
      isKnown(before.unusedBytes) && now !== undefined
        ? before.unusedBytes + Math.max(0, Math.round(point.value - now))
        : ('unknown' as const);
    held.set(key, { reservedBytes: before.reservedBytes + Math.round(point.value), unusedBytes });
  }
  return held;
}

/** A job on one of its devices. */
export function jobKey(point: Point): string {
  const { engine = '', job_id: id = '', name = '' } = point.labels;
  return `${keyOf(point)}\n${engine}\n${id}\n${name}`;
}

export function keyOf({ labels: { instance = '', device = '' } }: Point): string {
  return `${instance}\n${device}`;
}

function valuesOf(points: readonly Point[]): ReadonlyMap<string, number> {
  return new Map(points.map((point) => [keyOf(point), point.value]));
}

/** Bytes are whole and not negative; what is not is not known. */
export function bytesOf(value: number | undefined): Known<number> {
  return value !== undefined && value >= 0 ? Math.round(value) : 'unknown';
}

/**
 * What people call the targets of Prometheus: the name that the exporter gives itself, else the
 * target without its port. Where two would have the same name, the target as it is.
 *
 * @example
 * nodeNames([], ['n1:9847', 'n2:9847']).get('n1:9847'); // 'n1'
 */
function nodeNames(
  named: readonly Point[],
  instances: Iterable<string>,
): ReadonlyMap<string, string> {
  const own = new Map(named.map(({ labels }) => [labels['instance'] ?? '', labels['node'] ?? '']));
  const short = [...new Set(instances)].map((one) => {
    const name = own.get(one) || one.replace(/:\d+$/, '');
    return [one, name] as const;
  });
  const counts = new Map<string, number>();
  for (const [, name] of short) counts.set(name, (counts.get(name) ?? 0) + 1);
  return new Map(short.map(([one, name]) => [one, counts.get(name) === 1 ? name : one]));
}

/** Queries to Prometheus, by name. Their number does not depend on the number of nodes. */
export const instantQueryNames = [
  'nodes',
  'devices',
  'earlierDevices',
  'used',
  'loadLine',
  'risk',
  'outOfMemory',
  'leak',
  'processLeaks',
  'jobReserved',
  'jobUsed',
  'jobPeak',
  'ranks',
] as const;
export type InstantQueryName = (typeof instantQueryNames)[number];

export const historyQueryNames = ['totalBytes', 'usedBytes', 'reservedBytes'] as const;
export type HistoryQueryName = (typeof historyQueryNames)[number];

const deviceLabels = 'instance, device';
const jobLabels = 'instance, device, engine, job_id, name';

function job(figure: string): string {
  return `max by (${jobLabels}) (plimsoll_job_${figure})`;
}

/**
 * The expressions of PromQL. Each is a maximum by the labels that are used, so that a target which
 * several servers of Prometheus scrape counts once, and answers stay small.
 */
export function instantQueries(windowSeconds: number): Readonly<Record<InstantQueryName, string>> {
  const window = `[${Math.round(windowSeconds)}s]`;
  const named = (figure: string) => `max by (${deviceLabels}, name, provenance) (${figure})`;
  const device = (figure: string) => `max by (${deviceLabels}) (plimsoll_device_${figure})`;
  return {
    nodes: `max by (instance, node) (last_over_time(plimsoll_node_info${window}))`,
    devices: named('plimsoll_device_total_bytes'),
    // Of those that fell silent within the window, too.
    earlierDevices: named(`last_over_time(plimsoll_device_total_bytes${window})`),
    used: device('used_bytes'),
    loadLine: device('load_line_bytes'),
    risk: device('risk'),
    outOfMemory: device('out_of_memory_seconds'),
    leak: device('leak_bytes_per_second'),
    processLeaks: `max by (${deviceLabels}, pid, process, user, engine, job_id, rank) (plimsoll_process_leak_bytes_per_second)`,
    jobReserved: job('reserved_bytes'),
    jobUsed: job('used_bytes'),
    jobPeak: job('peak_bytes'),
    // Of several processes of a rank the largest: workers of a data loader have its rank, too.
    ranks: `max by (${deviceLabels}, engine, job_id, rank, world_size) (plimsoll_process_used_bytes{rank!=""})`,
  };
}

/** Sums over all GPUs; over all hosts where there is no GPU. */
export const historyQueries: Readonly<Record<HistoryQueryName, string>> = {
  totalBytes: sumOf(deviceLabels, 'plimsoll_device_total_bytes'),
  usedBytes: sumOf(deviceLabels, 'plimsoll_device_used_bytes'),
  reservedBytes: sumOf(jobLabels, 'plimsoll_job_reserved_bytes'),
};

function sumOf(labels: string, figure: string): string {
  const sum = (chosen: string) => `sum(max by (${labels}) (${figure}${chosen}))`;
  return `${sum('{device!="host"}')} or ${sum('')}`;
}
