import { appendFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Failure } from '../failure.js';
import { type AlertSink, deliverToLog } from '../watch/delivery/deliver.js';
import { deliverToCommand } from '../watch/delivery/deliver-command.js';
import { deliverToWebhook } from '../watch/delivery/deliver-webhook.js';
import type { DeliverySettings } from './settings.js';

/** The sinks that the settings ask for; what shows on stderr or the screen is not among them. */
export function alertSinks(settings: DeliverySettings, folder: string): readonly AlertSink[] {
  const { log, command, webhook } = settings;
  return [
    ...(typeof log === 'string' ? [deliverToLog(alertFile(resolve(folder, log)))] : []),
    ...(command === undefined ? [] : [deliverToCommand(command)]),
    ...(webhook === undefined ? [] : [deliverToWebhook(webhook)]),
  ];
}

/** Opened anew for each line, so that it may be moved away or emptied while we run. */
function alertFile(path: string): { write(text: string): void } {
  const write = (text: string) => appendFileSync(path, text);
  try {
    write('');
  } catch (error) {
    throw new Failure({
      kind: 'input',
      code: 'cannot-write',
      fact: `The alert log ${path} cannot be written: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Correct alerts.deliver.log.',
      cause: error,
    });
  }
  return { write };
}
