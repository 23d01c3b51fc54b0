import type { Engine, EngineRun, RunNews, RunOrder, RunUse } from '../../engine/types.js';
import type { LimitOrder } from '../../run/bridge/spilling.js';
import type { Clock } from '../../time/clock.js';
import { attemptForTests } from '../store/attempt-for-tests.js';

/** How a run shall go. */
export interface FakeProgram {
  readonly seconds: number;
  /** What it holds of each of its devices while it runs. */
  readonly bytes: number;
  /** It can do with so much: it keeps to the limit that it is given, and answers a second later. */
  readonly leastBytes?: number;
  readonly exitCode?: number;
}

interface FakeRun {
  readonly order: RunOrder;
  readonly program: FakeProgram;
  readonly startedAt: number;
  news: RunNews[];
  /** The limit that was asked for last. */
  limit: LimitOrder | undefined;
  /** What it holds of each device. */
  heldBytes: number;
  onNews: ((news: RunNews) => void) | undefined;
}

/**
 * A machine of programs that only exist here: they hold memory of simulated devices for a while. It
 * outlives daemons, as processes do: a run goes on without a daemon.
 */
export class FakeMachine {
  readonly runs = new Map<string, FakeRun>();
  /** How often each command was begun. */
  readonly begun = new Map<string, number>();
  readonly #clock: Clock;
  readonly #programOf: (order: RunOrder) => FakeProgram;

  constructor(clock: Clock, programOf: (order: RunOrder) => FakeProgram) {
    this.#clock = clock;
    this.#programOf = programOf;
  }

  /** What all programs hold of a device now. */
  heldBytes(device: string): number {
    return this.processes(device).reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  }

  /** A process for each run on a device; its number is that of the run. */
  processes(device: string) {
    return [...this.runs.values()].flatMap(({ order, heldBytes, news }, index) =>
      news.some(({ type }) => type === 'finished') || !order.devices?.includes(device)
        ? []
        : [{ pid: index + 1, name: 'fake', usedBytes: heldBytes }],
    );
  }

  engine(): Engine {
    const opened = new Set<string>();
    return {
      openRun: (order, onNews) => {
        opened.add(order.id);
        const run = this.#run(order);
        run.onNews = onNews;
        const past = [...run.news];
        setImmediate(() => past.forEach((news) => opened.has(order.id) && onNews(news)));
        const engineRun: EngineRun = {
          stop: () => this.#finish(run, 143),
          limit: (bytes) => void this.#limit(run, bytes),
          limitAsked: () => run.limit,
          progress: () => [],
          release: () => opened.delete(order.id),
        };
        return engineRun;
      },
      use: (): RunUse => {
        const ids = [...this.runs.keys()];
        return {
          knows: (pid) => pid <= ids.length,
          runOf: (pid) => ids[pid - 1],
          hostBytes: (runId) => this.runs.get(runId)?.heldBytes ?? 0,
        };
      },
      forget: (runId) => this.runs.delete(runId),
      close: () => {
        for (const id of opened) {
          const run = this.runs.get(id);
          if (run !== undefined) run.onNews = undefined;
        }
        opened.clear();
      },
    };
  }

  #run(order: RunOrder): FakeRun {
    const known = this.runs.get(order.id);
    if (known !== undefined) return known;
    const name = order.command.join(' ');
    this.begun.set(name, (this.begun.get(name) ?? 0) + 1);
    const startedAt = this.#clock.seconds();
    const program = this.#programOf(order);
    const most = program.leastBytes === undefined ? Infinity : (order.memoryBytes ?? Infinity);
    const heldBytes = Math.min(program.bytes, most);
    const run: FakeRun = {
      order,
      program,
      startedAt,
      news: [],
      limit: undefined,
      heldBytes,
      onNews: undefined,
    };
    this.runs.set(order.id, run);
    void this.#clock
      .waitUntil(startedAt + program.seconds)
      .then(() => this.#finish(run, program.exitCode ?? 0));
    return run;
  }

  /** A supervisor of its own answers, also while no daemon listens. */
  async #limit(run: FakeRun, bytes: number): Promise<void> {
    const order = { order: (run.limit?.order ?? 0) + 1, bytes };
    run.limit = order;
    await this.#clock.waitUntil(this.#clock.seconds() + 1);
    if (run.news.some(({ type }) => type === 'finished') || run.limit !== order) return;
    const { leastBytes, bytes: wanted } = run.program;
    const before = run.order.memoryBytes ?? wanted;
    const kept = Math.max(bytes, leastBytes ?? Math.min(before, run.heldBytes));
    run.heldBytes = Math.min(wanted, kept);
    const why = kept > bytes ? 'With less it cannot go on.' : '';
    const limited = {
      type: 'limited',
      at: '',
      number: 1,
      order: order.order,
      bytes: kept,
      why,
    } as const;
    run.news.push(limited);
    run.onNews?.(limited);
  }

  #finish(run: FakeRun, exitCode: number): void {
    if (run.news.some(({ type }) => type === 'finished')) return;
    const attempt = attemptForTests({
      settings: run.order.settings,
      command: run.order.command,
      startedAt: isoOf(run.startedAt),
      endedAt: isoOf(this.#clock.seconds()),
      exitCode,
      peakBytes: run.program.bytes,
    });
    const outcome = exitCode === 0 ? 'succeeded' : exitCode === 143 ? 'interrupted' : 'failed';
    const ending: readonly RunNews[] = [
      ...(exitCode === 143 ? [{ type: 'stopped', signal: 'SIGTERM' } as const] : []),
      { type: 'ended', attempt, next: null },
      { type: 'finished', at: attempt.endedAt, outcome, exitCode },
    ];
    run.news.push(...ending);
    for (const news of ending) run.onNews?.(news);
  }
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
