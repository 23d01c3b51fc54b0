import { setTimeout as wait } from 'node:timers/promises';
import { attackServer } from './support/attacked-server.mjs';
import {
  destroyAll,
  get,
  largestPageFile,
  openSocket,
  strangersAddress,
} from './support/hostile-sockets.mjs';

/** Strangers who ask for the page and take one byte in a while; streams with a token that take none. */
export const slowReaders = {
  name: 'slow-readers',
  title: 'readers that take nothing of their answers, with and without a token',
  times: { full: 600, small: 60 },
  async attack(context) {
    await attackServer(context, async (server) => {
      const script = await largestPageFile(server.url);
      const { token } = server;
      const sockets = await Promise.all(
        Array.from({ length: context.times }, (_, number) =>
          number % 4 === 0
            ? openSocket(server.url, { bytes: get('/events', { token }) })
            : openSocket(server.url, {
                from: strangersAddress(number),
                bytes: get(script).repeat(8),
              }),
        ),
      );
      for (let round = 0; round < 20; round++) {
        for (const socket of sockets) socket.read(1);
        await wait(250);
      }
      destroyAll(sockets);
    });
  },
};
