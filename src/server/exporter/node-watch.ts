import type { Device, ProcessReading } from '../../device/device.js';
import type { Discovery } from '../../device/discover.js';
import { machineRoots } from '../../device/kernel-files.js';
import { loadLineOf } from '../../device/load-line.js';
import type { ProcessJob } from '../../run/processes/job-of.js';
import {
  type FactsOptions,
  factsOf,
  openUserNames,
  type ProcessFacts,
} from '../../run/processes/process-facts.js';
import { readProcess } from '../../run/processes/process-table.js';
import type { Clock } from '../../time/clock.js';
import { isKnown, type Known } from '../../units/known.js';
import { createDiagnosis } from '../../watch/diagnosis/diagnose.js';
import type { DeviceState } from '../../watch/types.js';
import { type WatchOptions, watch } from '../../watch/watch.js';
import {
  type AlertSeries,
  alertSeries,
  alertsTotal,
  type DeviceFigures,
  deviceFamilies,
  type JobFigures,
  jobFamilies,
  type MetricFamily,
  metricText,
  nodeFamily,
} from '../metrics/families.js';

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

/** Processes of a device whose jobs are looked up: more than any GPU holds. */
const ownedProcesses = 512;

/** The processes that hold memory on a node, with users and jobs, as last read. */
class NodeProcesses {
  readonly jobs = new NodeJobs();
  readonly #owners: ProcessOwners;
  #facts: ReadonlyMap<number, ProcessFacts> = new Map();
  #processes: readonly OwnedProcess[] = [];

  constructor(options: FactsOptions) {
    this.#owners = new ProcessOwners(options);
  }

  /** Looks up whose the processes are; all devices at once, as a process may be on several. */
  read(states: readonly DeviceState[]): void {
    const there = states.filter(({ present }) => present);
    const pids = there.filter(isReal).flatMap((state) => listOf(state).map(({ pid }) => pid));
    this.#facts = this.#owners.read(new Set(pids));
    this.#processes = there.flatMap((state) =>
      listOf(state).map(({ pid, name, usedBytes }) => ({
        pid,
        name,
        usedBytes,
        device: state.info.id,
        job: this.#factsOf(state, pid)?.job,
      })),
    );
    this.jobs.take(this.#processes);
  }

  /** The largest of each device, and those that leak. */
  shown(states: readonly DeviceState[], most: number): readonly ProcessFigures[] {
    return states.flatMap((state) => {
      const here = this.#processes.filter(({ device }) => device === state.info.id);
      return here.flatMap((one, index): readonly ProcessFigures[] => {
        const leak = state.processLeaks.get(one.pid);
        const leakBytesPerSecond = leak?.found === true ? leak.bytesPerSecond : 'unknown';
        if (index >= most && !isKnown(leakBytesPerSecond)) return [];
        const user = this.#factsOf(state, one.pid)?.user ?? 'unknown';
        return [{ ...one, user, leakBytesPerSecond }];
      });
    });
  }

  /** The processes of a simulated device exist nowhere. */
  #factsOf(state: DeviceState, pid: number): ProcessFacts | undefined {
    return isReal(state) ? this.#facts.get(pid) : undefined;
  }
}

function isReal({ info }: DeviceState): boolean {
  return info.provenance === 'measured';
}

function listOf({ processes }: DeviceState): readonly ProcessReading[] {
  return isKnown(processes) ? processes.slice(0, ownedProcesses) : [];
}

/** A process on a device, with the job that it belongs to. */
interface OwnedProcess extends ProcessReading {
  readonly device: string;
  readonly job: ProcessJob | undefined;
}

/** The device memory of jobs, by the processes that were last read, and its maximum. */
export class NodeJobs {
  #jobs = new Map<string, JobFigures>();

  take(processes: readonly OwnedProcess[]): void {
    const before = this.#jobs;
    this.#jobs = new Map();
    for (const { device, job, usedBytes } of processes) {
      if (job === undefined) continue;
      const key = `${device} ${job.engine} ${job.id}`;
      const seen = this.#jobs.get(key);
      const used = seen === undefined ? usedBytes : sum(seen.usedBytes, usedBytes);
      this.#jobs.set(key, {
        engine: job.engine,
        jobId: job.id,
        name: seen?.name || job.name,
        device,
        reservedBytes: larger(seen?.reservedBytes, job.reservedBytes),
        usedBytes: used,
        peakBytes: larger(before.get(key)?.peakBytes, used),
      });
    }
  }

  get all(): readonly JobFigures[] {
    return [...this.#jobs.values()];
  }

  /** Each of them once, on however many devices. */
  get count(): number {
    return new Set(this.all.map(({ engine, jobId }) => `${engine} ${jobId}`)).size;
  }
}

function sum(one: Known<number>, other: Known<number>): Known<number> {
  return isKnown(one) && isKnown(other) ? one + other : 'unknown';
}

function larger(one: Known<number> = 'unknown', other: Known<number> = 'unknown'): Known<number> {
  if (!isKnown(one)) return other;
  return isKnown(other) ? Math.max(one, other) : one;
}

/**
 * A pid that stays in the lists of a device is the same process; a look into /proc proves it every so
 * many lists. At each of them it would be a tenth of what an exporter costs.
 */
const listsUntilProof = 4;

/** Whose a process is and which job it belongs to, read once in its life. */
export class ProcessOwners {
  readonly #options: FactsOptions;
  #known = new Map<number, ProcessFacts>();
  #lists = 0;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  /** Those of these processes that can be seen; what is kept of all others is forgotten. */
  read(pids: ReadonlySet<number>): ReadonlyMap<number, ProcessFacts> {
    const found = new Map<number, ProcessFacts>();
    const proves = this.#lists % listsUntilProof === 0;
    this.#lists += 1;
    for (const pid of pids) {
      const known = this.#known.get(pid);
      const facts = known === undefined || proves ? this.#look(pid, known) : known;
      if (facts !== undefined) found.set(pid, facts);
    }
    this.#known = found;
    return found;
  }

  #look(pid: number, known: ProcessFacts | undefined): ProcessFacts | undefined {
    const entry = readProcess(this.#options.procRoot, pid);
    if (entry === undefined) return undefined;
    // A pid is given again: only the time of its start tells that it is the same process.
    return known?.started === entry.started ? known : factsOf(entry, this.#options);
  }
}

/** A process that has series of its own. */
interface ProcessFigures extends OwnedProcess {
  readonly user: Known<string>;
  /** Only where it leaks. */
  readonly leakBytesPerSecond: Known<number>;
}

/** Figures of processes on the devices of a node. */
function processFamilies(
  processes: readonly ProcessFigures[],
  counts: ReadonlyMap<string, number>,
): readonly MetricFamily[] {
  return [
    {
      name: 'plimsoll_processes',
      help: 'Processes that hold memory of the device.',
      type: 'gauge',
      samples: Array.from(counts, ([device, value]) => ({ labels: { device }, value })),
    },
    family('used_bytes', 'What a process holds of the device.', processes, (one) => one.usedBytes),
    family(
      'leak_bytes_per_second',
      'How fast a process grows that leaks (estimated).',
      processes,
      (one) => one.leakBytesPerSecond,
    ),
  ];
}

function family(
  name: string,
  help: string,
  processes: readonly ProcessFigures[],
  of: (one: ProcessFigures) => Known<number>,
): MetricFamily {
  return {
    name: `plimsoll_process_${name}`,
    help,
    type: 'gauge',
    samples: processes.flatMap((one) => {
      const value = of(one);
      return isKnown(value) ? [{ labels: labelsOf(one), value }] : [];
    }),
  };
}

function labelsOf({ device, pid, name, user, job }: ProcessFigures) {
  return {
    device,
    pid: String(pid),
    process: knownText(name),
    user: knownText(user),
    engine: job?.engine,
    job_id: job?.id,
    rank: knownText(job?.rank),
    world_size: knownText(job?.worldSize),
  };
}

function knownText(text: string | undefined): string | undefined {
  return text === 'unknown' || text === 'none' ? undefined : text;
}

/** The exporter's own metrics, by the usual names of Prometheus. */
function ownFamilies(startedEpochMs: number): readonly MetricFamily[] {
  const { user, system } = process.cpuUsage();
  return [
    singleFamily(
      'cpu_seconds_total',
      'Processor time of the exporter.',
      'counter',
      (user + system) / 1e6,
    ),
    singleFamily(
      'resident_memory_bytes',
      'Resident memory of the exporter.',
      'gauge',
      process.memoryUsage.rss(),
    ),
    singleFamily(
      'start_time_seconds',
      'When the exporter started.',
      'gauge',
      startedEpochMs / 1000,
    ),
  ];
}

function singleFamily(
  name: string,
  help: string,
  type: MetricFamily['type'],
  value: number,
): MetricFamily {
  return { name: `process_${name}`, help, type, samples: [{ labels: {}, value }] };
}
