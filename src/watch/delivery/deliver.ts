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
