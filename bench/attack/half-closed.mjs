import { setTimeout as wait } from 'node:timers/promises';
import { attackServer } from './support/attacked-server.mjs';
import { destroyAll, get, openSocket, strangersAddress } from './support/hostile-sockets.mjs';

const body = 'POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n';
const beginnings = [
  '',
  'G',
  'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ',
  get('/jobs'),
  get('/events'),
  `${body}Content-Length: 1000\r\n\r\n{"command":`,
  `${body}Transfer-Encoding: chunked\r\n\r\nfff\r\n{`,
  '\u0016\u0003\u0001\u0002\u0000\u0001\u0000',
];

/** Half a request and no more to come; a whole one whose sender is gone; a reset in between. */
export const halfClosed = {
  name: 'half-closed',
  title: 'half-closed and reset connections, after nothing, half a request, or a whole one',
  times: { full: 1500, small: 100 },
  async attack(context) {
    const { times, random } = context;
    await attackServer(context, async (server) => {
      const sockets = [];
      for (let number = 0; number < times; number++) {
        const bytes = beginnings[number % beginnings.length];
        const socket = await openSocket(server.url, { from: strangersAddress(number), bytes });
        if (random.chance(0.3)) socket.resetAndDestroy();
        else socket.end();
        sockets.push(socket);
      }
      await wait(2000);
      destroyAll(sockets);
    });
  },
};
