import { setTimeout as wait } from 'node:timers/promises';
import { attackServer } from './support/attacked-server.mjs';
import { destroyAll, get, openSocket, strangersAddress } from './support/hostile-sockets.mjs';

const pauseMs = 10_000;

/** They connect and say nothing, say a letter a second, guess tokens, or come from many addresses. */
export const strangers = {
  name: 'strangers',
  title: 'connections from strangers, held open for 10 s',
  times: { full: 2000, small: 300 },
  async attack(context) {
    const { times } = context;
    await attackServer(context, async (server) => {
      const sockets = [];
      for (let number = 0; number < times; number++) {
        const from = number % 2 === 0 ? undefined : strangersAddress(number);
        const bytes = number % 5 === 0 ? get('/jobs', { token: `guess-${number}` }) : '';
        sockets.push(await openSocket(server.url, { from, bytes }));
      }
      for (let waited = 0; waited < pauseMs; waited += 1000) {
        for (const socket of sockets) if (socket.writable) socket.write('G');
        await wait(1000);
      }
      destroyAll(sockets);
    });
  },
};
