import { setTimeout as wait } from 'node:timers/promises';
import { attackServer } from './support/attacked-server.mjs';
import {
  destroyAll,
  get,
  largestPageFile,
  openSocket,
  strangersAddress,
} from './support/hostile-sockets.mjs';

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
