import type { ProcessReading } from '../../device/types.js';
import { percentOf } from '../../report/words.js';
import type { ProcessFacts } from '../../run/processes/process-facts.js';
import { isKnown, type Known } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';

/** One process on one device, as the table shows it. */
export interface ProcessRow {
  /** Stays the same while the process holds memory there. */
  readonly key: string;
  readonly pid: number;
  /** Empty for a parent that holds no memory itself and is shown in the tree. */
  readonly deviceId: string;
  readonly usedBytes: Known<number> | 'none';
  /** Percent of the device. */
  readonly sharePercent: Known<number> | 'none';
  /** What it holds of the host, where both are watched. */
  readonly hostBytes: Known<number>;
  /** Percent of one core. */
  readonly cpuPercent: Known<number>;
  readonly ageSeconds: Known<number>;
  readonly user: Known<string>;
  readonly command: string;
  /** Both may be `none`. */
  readonly job: Known<string>;
  readonly container: Known<string>;
  readonly parent: number;
  /** Tells it from a later process of the same pid; undefined where that is not known. */
  readonly started: number | undefined;
  readonly isSimulated: boolean;
  /** Bytes a second, where it grows without coming back. */
  readonly growth: Known<number> | 'none';
  /** Memory over time, oldest first; NaN is a gap. */
  readonly trail: readonly number[];
  /** Lines of the tree before the command. */
  readonly branch: string;
}

/** What is known of a process beside the memory that a device reports for it. */
export interface ProcessDetails {
  readonly facts: ProcessFacts;
  readonly cpuPercent: Known<number>;
  /** When it started, in seconds since the machine did. */
  readonly startedSeconds: number;
}

export interface RowSources {
  readonly states: readonly DeviceState[];
  /** Undefined for one that has ended, or that this machine does not show. */
  readonly details: (pid: number) => ProcessDetails | undefined;
  readonly trail: (key: string) => readonly number[];
  /** Seconds since the machine started. */
  readonly uptimeSeconds: number;
}

/** All GPUs, or the host where there is none. */
export function scopeOf(scope: string, states: readonly DeviceState[]): string {
  const has = states.some(({ info }) =>
    scope === 'gpus' ? info.kind === 'gpu' : info.id === scope,
  );
  if (has) return scope;
  return states.some(({ info }) => info.kind === 'gpu') ? 'gpus' : (states[0]?.info.id ?? 'gpus');
}

/** What the key for the next device goes through. */
export function scopesOf(states: readonly DeviceState[]): readonly string[] {
  const gpus = states.filter(({ info }) => info.kind === 'gpu');
  return [...(gpus.length > 0 ? ['gpus'] : []), ...states.map(({ info }) => info.id)];
}

/** By what a process on a device is known from one reading to the next. */
export function rowKey(pid: number, deviceId: string): string {
  return `${pid} ${deviceId}`;
}

/** A row for each process on each device of the scope, in no order. */
export function buildRows(scope: string, sources: RowSources): ProcessRow[] {
  const host = sources.states.find(({ info }) => info.kind === 'host');
  const hostBytes = new Map(
    (host !== undefined && isKnown(host.processes) ? host.processes : []).map(
      ({ pid, usedBytes }) => [pid, usedBytes],
    ),
  );
  return sources.states
    .filter(({ info }) => (scope === 'gpus' ? info.kind === 'gpu' : info.id === scope))
    .flatMap((state) => {
      // Asked for once: a state concludes when it is asked.
      const device = { info: state.info, latest: state.latest, processLeaks: state.processLeaks };
      return (isKnown(state.processes) ? state.processes : []).map((process) =>
        rowOf(process, device, hostBytes.get(process.pid) ?? 'unknown', sources),
      );
    });
}

function rowOf(
  { pid, name, usedBytes }: ProcessReading,
  { info, latest, processLeaks }: Pick<DeviceState, 'info' | 'latest' | 'processLeaks'>,
  hostBytes: Known<number>,
  sources: RowSources,
): ProcessRow {
  const key = rowKey(pid, info.id);
  const isSimulated = info.provenance === 'simulated';
  const leak = processLeaks.get(pid);
  return row(
    { pid, details: isSimulated ? undefined : sources.details(pid), name },
    {
      deviceId: info.id,
      usedBytes,
      sharePercent: percentOf(usedBytes, latest.totalBytes),
      hostBytes,
      isSimulated,
      growth: leak?.found === true ? leak.bytesPerSecond : 'none',
      trail: sources.trail(key),
    },
    sources.uptimeSeconds,
  );
}

/** Parents of these rows, and theirs, that hold no memory in the scope: the tree shows them. */
export function parentRows(
  rows: readonly ProcessRow[],
  { details, uptimeSeconds }: Pick<RowSources, 'details' | 'uptimeSeconds'>,
): ProcessRow[] {
  const seen = new Set(rows.map(({ pid }) => pid));
  const found: ProcessRow[] = [];
  const queue = rows.map(({ parent }) => parent);
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    // Everything is below the first process: it would tell nothing.
    if (pid <= 1 || seen.has(pid)) continue;
    seen.add(pid);
    const known = details(pid);
    if (known === undefined) continue;
    queue.push(known.facts.parent);
    found.push(row({ pid, details: known, name: 'unknown' }, holdsNothing, uptimeSeconds));
  }
  return found;
}

type Held = Pick<
  ProcessRow,
  'deviceId' | 'usedBytes' | 'sharePercent' | 'hostBytes' | 'isSimulated' | 'growth' | 'trail'
>;

const holdsNothing: Held = {
  deviceId: '',
  usedBytes: 'none',
  sharePercent: 'none',
  hostBytes: 'unknown',
  isSimulated: false,
  growth: 'none',
  trail: [],
};

/** Hundreds are made in each second: as one literal, as objects that are spread take many times the memory. */
function row(
  {
    pid,
    details,
    name,
  }: {
    readonly pid: number;
    readonly details: ProcessDetails | undefined;
    readonly name: Known<string>;
  },
  held: Held,
  uptimeSeconds: number,
): ProcessRow {
  const facts = details?.facts;
  const line = facts?.commandLine ?? 'unknown';
  return {
    key: rowKey(pid, held.deviceId),
    pid,
    user: facts?.user ?? 'unknown',
    command: isKnown(line) ? line : name,
    job: facts?.run ?? 'unknown',
    container: facts?.container ?? 'unknown',
    parent: facts?.parent ?? 0,
    started: facts?.started,
    cpuPercent: details?.cpuPercent ?? 'unknown',
    ageSeconds:
      details === undefined ? 'unknown' : Math.max(0, uptimeSeconds - details.startedSeconds),
    branch: '',
    deviceId: held.deviceId,
    usedBytes: held.usedBytes,
    sharePercent: held.sharePercent,
    hostBytes: held.hostBytes,
    isSimulated: held.isSimulated,
    growth: held.growth,
    trail: held.trail,
  };
}
