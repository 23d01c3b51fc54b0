import type { Engine, EngineRun, RunNews, RunOrder, RunUse } from '../../engine/engine.js';
import type { Clock } from '../../time/clock.js';
import { attemptForTests } from '../store/attempt-for-tests.js';

/** How a run shall go. */
export interface FakeProgram {
  readonly seconds: number;
  /** Bytes it holds of each of its devices while it runs. */
  readonly bytes: number;
  readonly exitCode?: number;
}

interface FakeRun {
  readonly order: RunOrder;
  readonly program: FakeProgram;
  readonly startedAt: number;
  news: RunNews[];
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

  /** Returns the bytes that all programs hold of a device now. */
  heldBytes(device: string): number {
    return this.processes(device).reduce((sum, { usedBytes }) => sum + usedBytes, 0);
  }

  /** A process for each run on a device; its number is that of the run. */
  processes(device: string) {
    return [...this.runs.values()].flatMap(({ order, program, news }, index) =>
      news.some(({ type }) => type === 'finished') || !order.devices?.includes(device)
        ? []
        : [{ pid: index + 1, name: 'fake', usedBytes: program.bytes }],
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
          hostBytes: (runId) => this.runs.get(runId)?.program.bytes ?? 0,
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
    const run: FakeRun = { order, program, startedAt, news: [], onNews: undefined };
    this.runs.set(order.id, run);
    void this.#clock
      .waitUntil(startedAt + program.seconds)
      .then(() => this.#finish(run, program.exitCode ?? 0));
    return run;
  }

  #finish(run: FakeRun, exitCode: number): void {
    if (run.news.length > 0) return;
    const attempt = attemptForTests({
      settings: run.order.settings,
      command: run.order.command,
      startedAt: isoOf(run.startedAt),
      endedAt: isoOf(this.#clock.seconds()),
      exitCode,
      peakBytes: run.program.bytes,
    });
    const outcome = exitCode === 0 ? 'succeeded' : exitCode === 143 ? 'interrupted' : 'failed';
    run.news = [
      ...(exitCode === 143 ? [{ type: 'stopped', signal: 'SIGTERM' } as const] : []),
      { type: 'ended', attempt, next: null },
      { type: 'finished', at: attempt.endedAt, outcome, exitCode },
    ];
    for (const news of run.news) run.onNews?.(news);
  }
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
