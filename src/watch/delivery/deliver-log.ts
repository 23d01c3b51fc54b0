import { checkArguments, madeBy } from '../../units/arguments.js';
import type { Alert } from '../types.js';
import type { AlertSink } from './deliver.js';

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
