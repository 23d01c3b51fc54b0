import { count } from '../../../../src/report/words.js';
import {
  eventsAddress,
  fetchDeviceHistory,
  fetchDevices,
  fetchWho,
  firstJobs,
  restOfJobs,
} from '../../api/client.js';
import { asRefusal } from '../../api/refusal.js';
import type { DaemonEvent, JobState, JobSummary } from '../../api/types.js';
import { remember, remembered } from '../page/theme.js';
import { who } from '../page/who.js';
import {
  emptyBoard,
  withEvents,
  withHistory,
  withMoreJobs,
  withSnapshot,
  withWindow,
} from './board.js';
import { createStore } from './store.js';

/** How the page stands with the server. */
type Connection =
  | { readonly phase: 'connecting' }
  | { readonly phase: 'live' }
  | { readonly phase: 'lost'; readonly failures: number; readonly retryAtMs: number }
  /** The server asks for a token. */
  | { readonly phase: 'signed-out' };

/** How often a hidden page takes in what happened. */
const hiddenMs = 1000;

/**
 * Gathers what happens between two frames of the screen and hands it on at once. A page in the
 * background gets no frames: a timer stands in for them.
 */
function createFrameQueue<T>(take: (items: readonly T[]) => void): (item: T) => void {
  let items: T[] = [];
  let scheduled = false;
  const flush = (): void => {
    scheduled = false;
    const taken = items;
    items = [];
    take(taken);
  };
  return (item) => {
    items.push(item);
    if (scheduled) return;
    scheduled = true;
    if (document.hidden) setTimeout(flush, hiddenMs);
    else requestAnimationFrame(flush);
  };
}

const verbs: Readonly<Partial<Record<JobState, string>>> = {
  running: 'started',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  refused: 'refused',
  expired: 'expired',
};

/**
 * Returns the words to announce for a few seconds of events: one job by its name, many by their
 * number, and every critical alert. Undefined if there is nothing to announce.
 */
export function newsOf(
  events: readonly DaemonEvent[],
  stateBefore: (id: string) => JobState | undefined,
): string | undefined {
  const ends = new Map<string, { name: string; state: JobState }>();
  const alerts = new Set<string>();
  for (const event of events) {
    if (event.type === 'alert' && event.alert.state === 'raised') {
      if (event.alert.severity === 'critical') alerts.add(event.alert.message);
    } else if (event.type === 'job') {
      ends.set(event.job.id, event.job);
    }
  }
  const byVerb = new Map<string, string[]>();
  for (const [id, { name, state }] of ends) {
    const verb = verbs[state];
    if (verb === undefined || stateBefore(id) === state) continue;
    byVerb.set(verb, [...(byVerb.get(verb) ?? []), name]);
  }
  const moves = [...byVerb].map(([verb, names]) =>
    names.length === 1 ? `${names[0]} ${verb}.` : `${count(names.length, 'job')} ${verb}.`,
  );
  const said = [...alerts, ...moves];
  return said.length === 0 ? undefined : said.join(' ');
}

/** As many as a chart has pixels. */
const historyPoints = 400;
/** A reader is not talked to more often. */
const newsEveryMs = 4000;

export const board = createStore(emptyBoard(Number(remembered('window') ?? '300') || 300));
export const connection = createStore<Connection>({ phase: 'connecting' });
/** The next words of a screen reader. */
export const news = createStore('');

let closeStream: (() => void) | undefined;
let retryTimer: ReturnType<typeof setTimeout> | undefined;
let failedTries = 0;
/** Counts the streams: answers for one that is gone are thrown away. */
let generation = 0;
/** Events during a new fetch; they are newer than its answer. */
let early: DaemonEvent[] | undefined;

/** Connects, and stays connected: after a loss it tries again, more slowly each time. */
export function connect(): void {
  clearTimeout(retryTimer);
  closeStream?.();
  generation += 1;
  const mine = generation;
  early = [];
  const { phase } = connection.get();
  if (phase === 'signed-out') connection.set({ phase: 'connecting' });
  closeStream = openEventStream(board.get().lastEventId, {
    opened: () => void fetchAnew(mine),
    event: enqueue,
    reset: (last) => {
      early = [];
      board.set({ ...board.get(), lastEventId: last });
      void fetchAnew(mine);
    },
    lost: () => void lost(mine),
  });
}

async function fetchAnew(mine: number): Promise<void> {
  const fetched = await Promise.all([fetchDevices(), firstJobs(), fetchWho()]).catch(
    () => undefined,
  );
  if (mine !== generation) return;
  if (fetched === undefined) {
    await lost(mine);
    return;
  }
  const [{ devices }, { jobs, counts }, me] = fetched;
  who.set(me);
  board.set(withEvents(withSnapshot(board.get(), { devices, jobs, counts }), early ?? []));
  early = undefined;
  failedTries = 0;
  connection.set({ phase: 'live' });
  await Promise.allSettled([fetchHistories(), fetchRest(jobs, mine)]);
}

/** Fetches histories. If one fails, its chart begins now. */
async function fetchHistories(): Promise<void> {
  const { devices, windowSeconds } = board.get();
  await Promise.all(
    devices.map(async ({ id }) => {
      const history = await fetchDeviceHistory(id, windowSeconds, historyPoints);
      if (board.get().windowSeconds === windowSeconds) board.set(withHistory(board.get(), history));
    }),
  );
}

async function fetchRest(first: readonly JobSummary[], mine: number): Promise<void> {
  await restOfJobs(first, (jobs) => {
    if (mine !== generation) return false;
    board.set(withMoreJobs(board.get(), jobs));
    return true;
  });
}

/** A stream does not say why it broke; a plain question does. */
async function lost(mine: number): Promise<void> {
  if (mine !== generation) return;
  closeStream?.();
  generation += 1;
  failedTries += 1;
  const waitMs = backOffSeconds(failedTries, Math.random()) * 1000;
  const now = generation;
  const refusal = await fetchDevices().then(() => undefined, asRefusal);
  if (now !== generation) return;
  if (refusal?.status === 401) {
    connection.set({ phase: 'signed-out' });
    return;
  }
  connection.set({ phase: 'lost', failures: failedTries, retryAtMs: Date.now() + waitMs });
  retryTimer = setTimeout(connect, waitMs);
}

const enqueue = createFrameQueue<DaemonEvent>((events) => {
  publish(events);
  if (early === undefined) board.set(withEvents(board.get(), events));
  else early.push(...events);
});

let pending: DaemonEvent[] = [];
let publishing: ReturnType<typeof setTimeout> | undefined;
/** States as they were when it was last told of them. */
let announcedJobs = board.get().jobs;

function publish(events: readonly DaemonEvent[]): void {
  const worth = events.filter(({ type }) => type === 'job' || type === 'alert');
  if (worth.length === 0) return;
  if (publishing === undefined) {
    announcedJobs = board.get().jobs;
    publishing = setTimeout(() => {
      publishing = undefined;
      const said = newsOf(pending, (id) => announcedJobs.get(id)?.state);
      pending = [];
      if (said !== undefined) news.set(said);
    }, newsEveryMs);
  }
  pending.push(...worth);
}

/** Shows the last so many seconds of each device. */
export function showWindow(windowSeconds: number): void {
  remember('window', String(windowSeconds));
  board.set(withWindow(board.get(), windowSeconds));
  fetchHistories().catch(() => undefined);
}

const firstSeconds = 0.5;
const maxSeconds = 10;

/**
 * How long to wait before the next try to reach the server: twice as long each time, and never the
 * same for all pages that lost it at once. `chance` is 0 to 1.
 */
export function backOffSeconds(failures: number, chance: number): number {
  const whole = Math.min(maxSeconds, firstSeconds * 2 ** Math.max(0, failures - 1));
  return whole * (0.75 + chance * 0.5);
}

/** The server says something at least every 15 s; readings of devices come far more often. */
const silenceMs = 45_000;
const kinds = ['job', 'devices', 'alert', 'queue'] as const;

export interface StreamHandlers {
  readonly opened: () => void;
  readonly event: (event: DaemonEvent) => void;
  /** Missed events are no longer kept: all must be fetched again. */
  readonly reset: (last: number | undefined) => void;
  readonly lost: () => void;
}

/** One stream of events; answers how to close it. After `lost` it is closed. */
function openEventStream(after: number | undefined, handlers: StreamHandlers): () => void {
  const source = new EventSource(eventsAddress(after));
  let watch: ReturnType<typeof setTimeout>;
  const close = (): void => {
    clearTimeout(watch);
    source.close();
  };
  const lose = (): void => {
    close();
    handlers.lost();
  };
  const heard = (): void => {
    clearTimeout(watch);
    watch = setTimeout(lose, silenceMs);
  };
  source.addEventListener('open', () => {
    heard();
    handlers.opened();
  });
  for (const kind of kinds) {
    source.addEventListener(kind, (message: MessageEvent<string>) => {
      heard();
      const event: DaemonEvent = JSON.parse(message.data);
      handlers.event(event);
    });
  }
  source.addEventListener('reset', (message: MessageEvent<string>) => {
    heard();
    const { last }: { last?: number } = JSON.parse(message.data);
    handlers.reset(last);
  });
  // Not left to the browser: it gives up for good at an answer such as 503.
  source.addEventListener('error', lose);
  heard();
  return close;
}
