import { cleanText } from '../../report/text/text-width.js';
import { alertLine } from '../../watch/delivery/deliver-log.js';
import type { WatchEvent } from '../../watch/types.js';

/** An event that a person should hear of while a command runs, as one line for stderr. */
export function eventLine(event: WatchEvent): string | undefined {
  switch (event.type) {
    case 'alert':
      return alertLine(event.alert);
    case 'appeared':
      return cleanText(
        `plimsoll: ${event.device.id} (${event.device.name}) appeared and is watched from now on.`,
      );
    case 'vanished':
      return cleanText(`plimsoll: ${event.device.id} is gone: ${event.reason}`);
    // Samples are shown otherwise, and late ones are counted in the report.
    case 'sample':
    case 'late':
    default:
      return undefined;
  }
}
