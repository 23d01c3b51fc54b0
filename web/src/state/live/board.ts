import { hasEnded } from '../../../../src/jobs/types.js';
import type {
  Alert,
  DaemonEvent,
  DeviceHistory,
  DeviceView,
  JobState,
  JobSummary,
} from '../../api/types.js';
import { type Hues, withHues } from '../../charts/hues.js';
import {
  emptyHistory,
  historyFrom,
  joined,
  type UseHistory,
  withReading,
} from '../devices/use-history.js';

/** Alerts that are kept for the charts and the list; the oldest go. */
const alertsKept = 200;

/** More than the page lists when it is opened, so that forgetting is rare. */
export const jobsKept = 12_000;

export type Counts = Readonly<Record<JobState, number>>;

/** All that this page knows of the server. */
export interface Board {
  /** False until the first answers came: nothing yet is not the same as nothing. */
  readonly loaded: boolean;
  readonly devices: readonly DeviceView[];
  /** When the devices were read, by the server's clock. */
  readonly readAtMs: number;
  /** Colours of the jobs in the hulls. */
  readonly hues: Hues;
  readonly histories: ReadonlyMap<string, UseHistory>;
  readonly windowSeconds: number;
  readonly jobs: ReadonlyMap<string, JobSummary>;
  readonly counts: Counts;
  /** Newest last. */
  readonly alerts: readonly Alert[];
  /** The last change of a job that was seen; where to resume. */
  readonly lastEventId: number | undefined;
}

const none: Counts = {
  waiting: 0,
  running: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  refused: 0,
  expired: 0,
};

export function emptyBoard(windowSeconds: number): Board {
  return {
    loaded: false,
    devices: [],
    readAtMs: 0,
    hues: new Map(),
    histories: new Map(),
    windowSeconds,
    jobs: new Map(),
    counts: none,
    alerts: [],
    lastEventId: undefined,
  };
}

/** All that was fetched anew takes the place of what was there; histories go on. */
export function withSnapshot(
  board: Board,
  fetched: Pick<Board, 'devices' | 'counts'> & { readonly jobs: readonly JobSummary[] },
): Board {
  return {
    ...board,
    loaded: true,
    devices: fetched.devices,
    hues: withHues(board.hues, fetched.devices),
    counts: fetched.counts,
    jobs: new Map(fetched.jobs.map((job) => [job.id, job])),
    alerts: mergedAlerts(
      board.alerts,
      fetched.devices.flatMap(({ alerts }) => alerts),
    ),
  };
}

/** Pages of the list that came later; what is there already is newer. */
export function withMoreJobs(board: Board, more: readonly JobSummary[]): Board {
  const jobs = new Map(board.jobs);
  for (const job of more) if (!jobs.has(job.id)) jobs.set(job.id, job);
  return jobs.size === board.jobs.size ? board : { ...board, jobs };
}

/** Adds the server's history of a device; newer readings stay behind it. */
export function withHistory(board: Board, fetched: DeviceHistory): Board {
  const before = board.histories.get(fetched.id);
  const history = joined(historyFrom(fetched, board.windowSeconds), before);
  return {
    ...board,
    histories: new Map(board.histories).set(fetched.id, history),
    alerts: mergedAlerts(board.alerts, fetched.alerts),
  };
}

/** Another stretch of time is shown; what was kept is fetched anew. */
export function withWindow(board: Board, windowSeconds: number): Board {
  if (board.windowSeconds === windowSeconds) return board;
  return { ...board, windowSeconds, histories: new Map() };
}

/**
 * Applies the events since the last frame. Ten events or a thousand cost one copy of the changed
 * parts, so that the page keeps up with any rate.
 */
export function withEvents(board: Board, events: readonly DaemonEvent[]): Board {
  if (events.length === 0) return board;
  let jobs: Map<string, JobSummary> | undefined;
  const histories = new Map(board.histories);
  const raised: Alert[] = [];
  let { devices, readAtMs, counts, lastEventId } = board;
  for (const event of events) {
    switch (event.type) {
      case 'job':
        jobs ??= new Map(board.jobs);
        counts = recounted(counts, jobs.get(event.job.id)?.state, event.job.state);
        jobs.set(event.job.id, event.job);
        lastEventId = Math.max(lastEventId ?? 0, event.id);
        break;
      case 'devices':
        ({ devices, epochMs: readAtMs } = event);
        for (const device of event.devices) {
          const before = histories.get(device.id) ?? emptyHistory(board.windowSeconds);
          histories.set(device.id, withReading(before, event.epochMs, device.usedBytes));
        }
        break;
      case 'alert':
        raised.push(event.alert);
        break;
      case 'queue':
        counts = event.counts;
        jobs ??= new Map(board.jobs);
        for (const { id, ...waiting } of event.waiting) {
          const job = jobs.get(id);
          if (job?.state === 'waiting') jobs.set(id, { ...job, waiting });
        }
        break;
      default:
        event satisfies never;
    }
  }
  return {
    ...board,
    devices,
    hues: devices === board.devices ? board.hues : withHues(board.hues, devices),
    readAtMs,
    counts,
    lastEventId,
    histories,
    jobs: jobs === undefined ? board.jobs : withoutOldest(jobs),
    alerts: raised.length === 0 ? board.alerts : mergedAlerts(board.alerts, raised),
  };
}

/** A page that stays open for weeks forgets the jobs that ended first, some at a time. */
function withoutOldest(jobs: Map<string, JobSummary>): Map<string, JobSummary> {
  if (jobs.size <= jobsKept) return jobs;
  const ended = [...jobs.values()].filter(({ state }) => hasEnded(state));
  const oldest = ended.toSorted((one, other) => Number(one.id) - Number(other.id));
  for (const { id } of oldest.slice(0, jobs.size - jobsKept * 0.9)) jobs.delete(id);
  return jobs;
}

/** A job that is not on the page's list yet was not counted. */
function recounted(counts: Counts, from: JobState | undefined, to: JobState): Counts {
  if (from === to) return counts;
  const next = { ...counts, [to]: counts[to] + 1 };
  if (from !== undefined) next[from] = Math.max(0, next[from] - 1);
  return next;
}

/** The same alert comes by the stream, with a device, and with its history: it counts once. */
export function mergedAlerts(kept: readonly Alert[], more: readonly Alert[]): readonly Alert[] {
  const all = new Map([...kept, ...more].map((alert) => [alertKey(alert), alert]));
  if (all.size === kept.length) return kept;
  return [...all.values()].toSorted((one, other) => one.epochMs - other.epochMs).slice(-alertsKept);
}

export function alertKey({ deviceId, kind, state, epochMs, pid }: Alert): string {
  return [deviceId, kind, state, pid, Math.round(epochMs)].join(' ');
}
