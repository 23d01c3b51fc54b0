import type { AlertSink } from './deliver.js';
import type { Alert } from './types.js';

/** One line for people and for grep: when, how bad, what, where, why. */
export function alertLine(alert: Alert): string {
  const when = new Date(alert.epochMs).toISOString();
  const process = alert.pid === undefined ? '' : ` pid ${alert.pid}`;
  const state = alert.state === 'raised' ? alert.severity.toUpperCase() : 'cleared';
  const text = `${when} ${state} ${alert.kind} ${alert.deviceId}${process}: ${alert.message}`;
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
