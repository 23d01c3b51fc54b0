import type { Clock } from '../../../time/clock.js';
import { isNoted } from '../../reasons/is-reason.js';
import { reasonWords } from '../../reasons/words.js';
import type { JobStore } from '../../store/job-store.js';
import type { JobEvent } from '../../store/records.js';
import type { DaemonEvent, JobSummary } from '../types.js';

/** Read from the store at a time. */
const batch = 1000;

export interface PublisherOptions {
  readonly store: JobStore;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** A job as it is now; undefined where it was forgotten. */
  readonly summaryOf: (jobId: string) => JobSummary | undefined;
}

/** Tells those who listen what happens, changes of jobs from the store's journal and in its order. */
export class Publisher {
  readonly #options: PublisherOptions;
  readonly #listeners = new Set<(event: DaemonEvent) => void>();
  readonly #due = new Set<() => DaemonEvent>();
  #last: number;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#last = options.store.eventRange().last;
  }

  listen(listener: (event: DaemonEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get isHeard(): boolean {
    return this.#listeners.size > 0;
  }

  publish(event: DaemonEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Tells all changes of jobs since the last time. */
  publishChanges(): void {
    if (!this.isHeard) {
      this.#last = this.#options.store.eventRange().last;
      return;
    }
    for (;;) {
      const events = this.#options.store.events(this.#last, batch);
      for (const event of this.#toEvents(events)) this.publish(event);
      this.#last = events.at(-1)?.id ?? this.#last;
      if (events.length < batch) return;
    }
  }

  /** Tells it soon, and once, however often it is asked for in between. */
  async publishSoon(make: () => DaemonEvent, seconds: number): Promise<void> {
    if (!this.isHeard || this.#due.has(make)) return;
    this.#due.add(make);
    const { clock, signal } = this.#options;
    await clock.waitUntil(clock.seconds() + seconds, signal);
    this.#due.delete(make);
    if (!signal.aborted && this.isHeard) this.publish(make());
  }

  eventsAfter(
    id: number,
    most: number,
  ): { events: readonly DaemonEvent[]; first: number; last: number } {
    const { store } = this.#options;
    return { events: this.#toEvents(store.events(id, most)), ...store.eventRange() };
  }

  #toEvents(events: readonly JobEvent[]): readonly DaemonEvent[] {
    const summaries = new Map<string, JobSummary | undefined>();
    return events.flatMap((event) => {
      const { jobId } = event;
      if (!summaries.has(jobId)) summaries.set(jobId, this.#options.summaryOf(jobId));
      const job = summaries.get(jobId);
      return job === undefined
        ? []
        : [{ type: 'job' as const, id: event.id, job, what: whatHappened(event) }];
    });
  }
}

/** In a word; a note says what was noted. */
function whatHappened({ type, data: { note } }: JobEvent): string {
  return type === 'note' && isNoted(note) ? reasonWords(note) : type;
}
