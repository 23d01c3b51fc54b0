import type { Discovery } from '../../device/discover.js';
import { loadLineOf } from '../../device/load-line.js';
import { machineRoots } from '../../device/roots.js';
import type { Device } from '../../device/types.js';
import { openUserNames } from '../../run/processes/user-names.js';
import type { Clock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import { createDiagnosis } from '../../watch/diagnosis/diagnose.js';
import type { DeviceState } from '../../watch/types.js';
import { type WatchOptions, watch } from '../../watch/watch.js';
import { type AlertSeries, alertSeries, alertsTotal } from '../metrics/alert-series.js';
import { type DeviceFigures, deviceFamilies } from '../metrics/device-families.js';
import { jobFamilies } from '../metrics/job-families.js';
import { type MetricFamily, metricText } from '../metrics/metric-text.js';
import { nodeFamily } from '../metrics/node-family.js';
import { NodeProcesses } from './node-processes.js';
import { ownFamilies } from './own-families.js';
import { processFamilies } from './process-families.js';

/** Devices seldom come and go, and looking for them costs more than reading them. */
const rescanSeconds = 60;
/** Processes of a device that are followed for leaks; each takes some 50 KB. */
const followedProcesses = 8;
/** The past is in Prometheus; a history cannot be smaller. */
const historySizes = { samples: 64, buckets: 16, coarserLevels: 1, fold: 8 };
/** The lists of all devices come within this time of each other; their owners are read once. */
const listsSeconds = 0.2;

export interface NodeWatchOptions {
  readonly discovery: Discovery;
  /** Only these; all where it is left out. */
  readonly devices?: readonly Device[] | undefined;
  readonly watch: Pick<
    WatchOptions,
    'intervalSeconds' | 'processIntervalSeconds' | 'thresholds' | 'deliver'
  >;
  /** The share of a device that jobs may fill. */
  readonly loadLine: number;
  /** How many processes of each device get series of their own. */
  readonly maxProcesses: number;
  readonly node: string;
  readonly version: string;
  readonly clock: Clock;
  readonly procRoot?: string | undefined;
}

/** Watches a node, and writes what it sees as a page for Prometheus. */
export interface NodeWatch {
  states(): readonly DeviceState[];
  notes(): readonly string[];
  text(): string;
  close(): Promise<void>;
}

export function openNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { discovery, devices, clock, node, version, procRoot = machineRoots.proc } = options;
  const startedEpochMs = clock.epochMs();
  const stopping = new AbortController();
  const watching = watch({
    ...options.watch,
    discovery,
    ...(devices && { devices }),
    rescanSeconds,
    historySizes,
    createDiagnosis: () => createDiagnosis({ maxProcesses: followedProcesses }),
    clock,
    signal: stopping.signal,
  });
  const processes = new NodeProcesses({ procRoot, userName: openUserNames() });
  const raised = new Map(alertSeries.map((series) => [keyOf(series), { ...series, count: 0 }]));
  const lists = new Map<string, DeviceState['processes']>();
  let isStale = false;

  function readProcesses(): void {
    if (isStale) processes.read(watching.states());
    isStale = false;
  }

  function takeLists({ info, processes: list }: DeviceState): void {
    if (lists.get(info.id) === list) return;
    lists.set(info.id, list);
    if (isStale) return;
    isStale = true;
    void clock.waitUntil(clock.seconds() + listsSeconds, stopping.signal).then(readProcesses);
  }

  async function consume(): Promise<void> {
    for await (const event of watching) {
      if (event.type === 'sample') takeLists(event.state);
      if (event.type !== 'alert' || event.alert.state !== 'raised') continue;
      const series = raised.get(keyOf(event.alert));
      if (series) series.count += 1;
    }
  }
  const consumed = consume();

  function families(): readonly MetricFamily[] {
    readProcesses();
    const states = watching.states();
    const counts = states.flatMap(({ info, present, processes: list }) =>
      present && isKnown(list) ? [[info.id, list.length] as const] : [],
    );
    return [
      nodeFamily(node, version),
      ...deviceFamilies(states.map((state) => figuresOf(state, options.loadLine))),
      ...processFamilies(processes.shown(states, options.maxProcesses), new Map(counts)),
      ...jobFamilies(processes.jobs.all),
      {
        name: 'plimsoll_jobs',
        help: 'Jobs, by state.',
        type: 'gauge',
        samples: [{ labels: { state: 'running' }, value: processes.jobs.count }],
      },
      {
        ...alertsTotal,
        type: 'counter',
        samples: Array.from(raised.values(), ({ count, ...labels }) => ({ labels, value: count })),
      },
      ...ownFamilies(startedEpochMs),
    ];
  }

  return {
    states: () => watching.states(),
    notes: () => watching.notes(),
    text: () => metricText(families()),
    async close() {
      stopping.abort();
      await consumed;
      await watching.closed;
    },
  };
}

function keyOf({ kind, severity }: AlertSeries): string {
  return `${kind} ${severity}`;
}

function figuresOf(state: DeviceState, share: number): DeviceFigures {
  const { info, latest, present, forecast, leak, alerts } = state;
  const { totalBytes, usedBytes, utilizationPercent } = latest;
  return {
    id: info.id,
    name: info.name,
    provenance: info.provenance,
    present,
    totalBytes,
    usedBytes,
    utilizationPercent,
    loadLineBytes: isKnown(totalBytes) ? loadLineOf(totalBytes, { share }) : 'unknown',
    forecast,
    leak,
    alerts,
  };
}
