import type { Alert, WatchEvent } from '../../watch/types.js';

/** Enough to tell a story; a week of a flapping alert must not fill the memory we watch. */
const keptEvents = 10_000;

/** What happened while watching, besides samples: the report tells it at the end. */
export class Recorder {
  readonly #alerts: Alert[] = [];
  readonly #events: WatchEvent[] = [];

  /** The latest of them, oldest first. */
  get alerts(): readonly Alert[] {
    return this.#alerts;
  }

  /** The latest of them, oldest first; neither samples nor alerts. */
  get events(): readonly WatchEvent[] {
    return this.#events;
  }

  take(event: WatchEvent): void {
    if (event.type === 'sample') return;
    if (event.type === 'alert') keep(this.#alerts, event.alert);
    else keep(this.#events, event);
  }
}

function keep<T>(list: T[], item: T): void {
  list.push(item);
  if (list.length > keptEvents) list.shift();
}
