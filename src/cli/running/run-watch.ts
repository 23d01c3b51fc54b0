import { cleanText } from '../../report/text/text-width.js';
import { alertLine } from '../../watch/delivery/deliver.js';
import type { WatchEvent } from '../../watch/types.js';
import { openProgress, type Progress } from '../screen/progress.js';
import type { Stop } from '../stop.js';
import { openWatching, type Watching, type WatchingOptions } from '../watching/watching.js';

export interface RunWatchOptions extends WatchingOptions {
  /** Called for each event; what it writes goes through `progress` or to stdout. */
  readonly onEvent: (event: WatchEvent, watching: Watching, progress: Progress) => void;
  /** Which events are told on stderr as they come; alerts and comings and goings unless said. */
  readonly isPrinted?: (event: WatchEvent) => boolean;
}

/**
 * Watches to the end, in the way all commands but the screen do: alerts and what happens to
 * devices are told on stderr, and what went wrong in passing is told last.
 */
export async function runWatch(options: RunWatchOptions): Promise<Watching> {
  const { io, settings } = options;
  const watching = await openWatching(options);
  const progress = openProgress(io.stderr);
  try {
    for await (const event of watching.events()) {
      const silenced = event.type === 'alert' && settings.deliver.log === false;
      const line = silenced || options.isPrinted?.(event) === false ? undefined : eventLine(event);
      if (line !== undefined) progress.line(line);
      options.onEvent(event, watching, progress);
    }
  } finally {
    progress.end();
    for (const note of await watching.close()) io.stderr.write(`plimsoll: ${note}\n`);
  }
  return watching;
}

/** Signals have their usual effect again once the command is done, however it ends. */
export async function withStop<T>(stop: Stop, act: (stop: Stop) => Promise<T>): Promise<T> {
  try {
    return await act(stop);
  } finally {
    stop[Symbol.dispose]();
  }
}

/** An event that a person should hear of while a command runs, as one line for stderr. */
function eventLine(event: WatchEvent): string | undefined {
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
