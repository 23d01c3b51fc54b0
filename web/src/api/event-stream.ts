import { eventsAddress } from './client.js';
import type { DaemonEvent } from './types.js';

/** The server says something at least every 15 s; readings of devices come far more often. */
const silenceMs = 45_000;
const kinds = ['job', 'devices', 'alert', 'queue'] as const;

export interface StreamHandlers {
  readonly opened: () => void;
  readonly event: (event: DaemonEvent) => void;
  /** What was missed is no longer kept: all must be fetched anew. */
  readonly reset: (last: number | undefined) => void;
  readonly lost: () => void;
}

/** One stream of events; answers how to close it. After `lost` it is closed. */
export function openEventStream(after: number | undefined, handlers: StreamHandlers): () => void {
  const source = new EventSource(eventsAddress(after));
  let watch: ReturnType<typeof setTimeout>;
  const close = (): void => {
    clearTimeout(watch);
    source.close();
  };
  const lose = (): void => {
    close();
    handlers.lost();
  };
  const heard = (): void => {
    clearTimeout(watch);
    watch = setTimeout(lose, silenceMs);
  };
  source.addEventListener('open', () => {
    heard();
    handlers.opened();
  });
  for (const kind of kinds) {
    source.addEventListener(kind, (message: MessageEvent<string>) => {
      heard();
      const event: DaemonEvent = JSON.parse(message.data);
      handlers.event(event);
    });
  }
  source.addEventListener('reset', (message: MessageEvent<string>) => {
    heard();
    const { last }: { last?: number } = JSON.parse(message.data);
    handlers.reset(last);
  });
  // Not left to the browser: it gives up for good at an answer such as 503.
  source.addEventListener('error', lose);
  heard();
  return close;
}
