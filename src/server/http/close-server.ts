import type { Server as NetServer } from 'node:net';
import type { Clock } from '../../time/clock.js';
import { serverLimits } from './limits.js';

/** A server of HTTP, with or without TLS. */
interface Server extends NetServer {
  closeIdleConnections(): void;
  closeAllConnections(): void;
}

/** Takes no new connections, lets open requests end, and cuts off those that take too long. */
export async function closeServers(
  servers: readonly Server[],
  stopAll: () => void,
  clock: Clock,
): Promise<void> {
  const done = new AbortController();
  const each = servers.map(
    (server) => new Promise<void>((resolve) => void server.close(() => resolve())),
  );
  const closed = Promise.all(each).then(() => done.abort());
  stopAll();
  for (const server of servers) server.closeIdleConnections();
  await clock.waitUntil(clock.seconds() + serverLimits.closeSeconds, done.signal);
  for (const server of servers) server.closeAllConnections();
  await closed;
}
