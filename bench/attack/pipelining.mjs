import { setTimeout as wait } from 'node:timers/promises';
import { attackServer } from './support/attacked-server.mjs';
import { destroyAll, get, largestPageFile, openSocket } from './support/hostile-sockets.mjs';

const requests = 2100;

/** Thousands of requests on one connection, their answers left unread, then closed. */
export const pipelining = {
  name: 'pipelining',
  title: `${requests} requests in one write without a token, answers unread`,
  times: { full: 60, small: 3 },
  async attack(context) {
    await attackServer(context, async (server) => {
      const script = await largestPageFile(server.url);
      const paths = [script, '/events', '/', '/jobs', '/openapi.json'];
      for (let round = 0; round < context.times; round++) {
        const bytes = get(paths[round % paths.length]).repeat(requests);
        const sockets = await Promise.all(
          Array.from({ length: 4 }, () => openSocket(server.url, { bytes })),
        );
        await wait(context.random.between(20, 400));
        destroyAll(sockets);
      }
    });
  },
};
