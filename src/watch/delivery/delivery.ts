import type { Clock } from '../../time/clock.js';
import type { Alert } from '../types.js';
import type { AlertSink } from './deliver.js';

/** At the end of a watch, what is still being delivered has this long. */
const drainSeconds = 15;

/** Hands alerts to all sinks; one that breaks its promise not to throw harms no other. */
export class Delivery {
  readonly #sinks: readonly AlertSink[];
  readonly #report: (problem: string) => void;

  constructor(sinks: readonly AlertSink[], report: (problem: string) => void) {
    this.#sinks = sinks;
    this.#report = report;
  }

  deliver(alert: Alert): void {
    for (const sink of this.#sinks) {
      try {
        sink.deliver(alert, this.#report);
      } catch (error) {
        this.#report(`An alert sink failed: ${String(error)}`);
      }
    }
  }

  /** Waits for what is under way, a while; not at all once `signal` has aborted. */
  async close(clock: Clock, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const end = (): void => over.abort();
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    if (!signal.aborted) void this.#closeAll('drain').then(end);
    await clock.waitUntil(clock.seconds() + drainSeconds, over.signal);
    signal.removeEventListener('abort', end);
    await this.#closeAll('stop');
  }

  async #closeAll(how: 'drain' | 'stop'): Promise<void> {
    const close = async (sink: AlertSink): Promise<void> => {
      try {
        await sink.close(how);
      } catch (error) {
        this.#report(`An alert sink failed: ${String(error)}`);
      }
    };
    await Promise.all(this.#sinks.map(close));
  }
}
