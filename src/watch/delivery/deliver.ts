import { callable, checkArguments, madeBy } from '../../units/arguments.js';
import type { Alert } from '../types.js';

/** Where alerts go. Delivery never holds up the watching, and a failure in it is never fatal. */
export interface AlertSink {
  /** Takes the alert and returns at once. `report` is told what went wrong, now or later. */
  deliver(alert: Alert, report: (problem: string) => void): void;
  /**
   * Ends the sink. `drain` lets what is waiting and under way come to its end, within its time
   * limits; `stop` gives all of it up.
   */
  close(how: 'drain' | 'stop'): Promise<void>;
}

/**
 * Hands each alert to a function. What it throws, or rejects with, is reported.
 *
 * @example
 * watch({ deliver: [deliverToCallback((alert) => pager.send(alert.message))] });
 */
export function deliverToCallback(callback: (alert: Alert) => void | Promise<void>): AlertSink {
  checkArguments('deliverToCallback', { callback }, { callback: callable });
  const pending = new Set<Promise<void>>();
  return {
    deliver(alert, report) {
      const call = (async () => callback(alert))()
        .catch((error: unknown) => report(`An alert callback failed: ${String(error)}`))
        .finally(() => pending.delete(call));
      pending.add(call);
    },
    async close(how) {
      if (how === 'drain') await Promise.all(pending);
    },
  };
}

interface DeliveryQueueOptions {
  /** Names the sink in what is reported: `The alert command`. */
  readonly name: string;
  /** So many at a time. */
  readonly concurrency: number;
  /** So many may wait; when more come the oldest is given up, as the newest matters most. */
  readonly capacity: number;
  /** Delivers one alert; rejects with an error whose message says why it could not. */
  readonly work: (alert: Alert, signal: AbortSignal) => Promise<void>;
}

/**
 * A sink that works in the background, with bounds on what it may take. Of a run of failures only
 * the first is reported; the next one after a success is reported again.
 */
export function createDeliveryQueue(options: DeliveryQueueOptions): AlertSink {
  type Waiting = { readonly alert: Alert; readonly report: (problem: string) => void };
  const waiting: Waiting[] = [];
  const running = new Set<Promise<void>>();
  const stopping = new AbortController();
  let failing = false;
  let full = false;

  async function deliver({ alert, report }: Waiting): Promise<void> {
    try {
      await options.work(alert, stopping.signal);
      failing = false;
    } catch (error) {
      if (stopping.signal.aborted || failing) return;
      failing = true;
      report(`${options.name} failed: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  function fill(): void {
    while (running.size < options.concurrency) {
      const next = waiting.shift();
      if (!next) break;
      const delivery = deliver(next).finally(() => {
        running.delete(delivery);
        fill();
      });
      running.add(delivery);
    }
    if (waiting.length === 0) full = false;
  }

  return {
    deliver(alert, report) {
      if (stopping.signal.aborted) return;
      waiting.push({ alert, report });
      fill();
      if (waiting.length <= options.capacity) return;
      waiting.shift();
      if (!full) report(`${options.name} is too slow: alerts were left out.`);
      full = true;
    },
    async close(how) {
      if (how === 'stop') {
        waiting.length = 0;
        stopping.abort();
      }
      // Each delivery that ends may start another one.
      while (running.size > 0) await Promise.all(running);
    },
  };
}

/**
 * One line for people and for grep: when, how bad, what, and the sentence that names the device.
 *
 * @example
 * alertLine(alert); // '2026-01-15T10:30:05.000Z [WARNING] gpu-warning: gpu:0 (...) uses ... (measured)'
 */
export function alertLine(alert: Alert): string {
  checkArguments('alertLine', { alert }, { alert: madeBy('a watch', 'epochMs') });
  const when = new Date(alert.epochMs).toISOString();
  const level = alert.state === 'raised' ? alert.severity.toUpperCase() : 'CLEARED';
  const text = `${when} [${level}] ${alert.kind}: ${alert.message} (${alert.provenance})`;
  // Names of devices and processes come from outside: they must not start a line of their own,
  // nor move the cursor of a terminal.
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}

/**
 * Writes each alert as a line of text. The stream stays open and is its owner's to watch.
 *
 * @example
 * watch({ deliver: [deliverToLog(process.stderr)] });
 */
export function deliverToLog(stream: { write(text: string): unknown }): AlertSink {
  checkArguments('deliverToLog', { stream }, { stream: madeBy('fs.createWriteStream', 'write') });
  return {
    deliver(alert, report) {
      try {
        stream.write(`${alertLine(alert)}\n`);
      } catch (error) {
        report(`The alert log cannot be written: ${String(error)}`);
      }
    },
    close: () => Promise.resolve(),
  };
}
