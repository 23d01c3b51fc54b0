import type { Server } from 'node:http';
import type { Clock } from '../../time/clock.js';
import { serverLimits } from './limits.js';

/** Takes no new connections, lets open requests end, and cuts off those that take too long. */
export async function closeServer(
  server: Server,
  stopAll: () => void,
  clock: Clock,
): Promise<void> {
  const done = new AbortController();
  const closed = new Promise<void>((resolve) => {
    server.close(() => {
      done.abort();
      resolve();
    });
  });
  stopAll();
  server.closeIdleConnections();
  await clock.waitUntil(clock.seconds() + serverLimits.closeSeconds, done.signal);
  server.closeAllConnections();
  await closed;
}
