import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import { OpenAPIHono } from '@hono/zod-openapi';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/made-once.js';
import { openRaw, rawRequest } from '../server-for-tests.js';
import { waitsForClient } from './exchanges.js';
import { createHttpServer } from './http-listener.js';
import { listen, StrangerConnections } from './listen.js';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

/** A server whose answers at /slow are made when the test says so, and our ends of its connections. */
async function slowServer() {
  const app = new OpenAPIHono<{ Bindings: HttpBindings }>();
  const asked: ((text: string) => void)[] = [];
  app.get('/fast', (context) => context.text('fast'));
  app.all('/slow', async (context) =>
    context.text(await new Promise<string>((resolve) => asked.push(resolve))),
  );
  const server = createHttpServer({
    app,
    policy: { listening: '127.0.0.1', allowed: [] },
    strangers: new StrangerConnections(1000),
    refused: () => undefined,
    fault: () => undefined,
  });
  servers.push(server);
  const sockets: Socket[] = [];
  server.on('connection', (socket: Socket) => sockets.push(socket));
  const { port } = await listen(server, '127.0.0.1', 0);
  return {
    port,
    asked,
    sockets,
    /** As when nothing has moved on the connections, of which there were so many, for `silentSeconds`. */
    silence: async (connections = 1): Promise<void> => {
      await eventually(() => sockets.length === connections);
      for (const socket of sockets) socket.emit('timeout');
    },
  };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

describe('a silent connection', () => {
  it('is kept while the answer is made, however long that takes', async () => {
    const { port, asked, silence } = await slowServer();
    const raw = openRaw(port, get('/slow'));
    await eventually(() => asked.length === 1);
    await silence();
    await silence();
    asked[0]?.('done');
    expect(await raw.until(/done$/)).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('is kept when a quick answer waits behind a slow one', async () => {
    const { port, asked, silence } = await slowServer();
    const raw = openRaw(port, get('/slow') + get('/fast'));
    await eventually(() => asked.length === 1);
    await silence();
    asked[0]?.('done');
    expect(await raw.until(/done[^]*fast$/)).toContain('done');
  });

  it('is let go while the client does not ask, or not to the end', async () => {
    const { port, silence } = await slowServer();
    const mute = openRaw(port);
    await silence();
    expect(await mute.closed).toBe('');
    const half = rawRequest(
      port,
      'POST /slow HTTP/1.1\nHost: localhost\nContent-Length: 9',
      'half',
    );
    await silence(2);
    expect(await half.closed).toBe('');
  });

  it('is let go after an answer, and the time counts again after a slow one', async () => {
    const { port, asked, sockets, silence } = await slowServer();
    const raw = openRaw(port, get('/slow'));
    await eventually(() => asked.length === 1);
    await silence();
    asked[0]?.('done');
    await raw.until(/done$/);
    expect(sockets[0]?.timeout).toBeGreaterThan(0);
    await silence();
    await raw.closed;
  });

  it('is let go while the client does not take its answer', async () => {
    const { port, asked, sockets, silence } = await slowServer();
    const raw = openRaw(port);
    raw.socket.pause();
    raw.socket.write(get('/slow'));
    await eventually(() => asked.length === 1);
    asked[0]?.('x'.repeat(64 * 1024 * 1024));
    await eventually(() => (sockets[0]?.writableLength ?? 0) > 0);
    await silence();
    expect(sockets[0]?.destroyed).toBe(true);
  });
});

describe('who waits for whom', () => {
  const outgoing = { writableLength: 0, writableEnded: false, headersSent: false };
  it('is told by what came and what is still to go', () => {
    const of = (part: Partial<typeof outgoing>, complete = true) =>
      waitsForClient({ incoming: { complete }, outgoing: { ...outgoing, ...part } });
    expect(waitsForClient(undefined)).toBe(true);
    expect(of({}, false)).toBe(true);
    expect(of({})).toBe(false);
    // An event stream on which nothing happens, and one that its client does not read.
    expect(of({ headersSent: true })).toBe(false);
    expect(of({ headersSent: true, writableLength: 1 })).toBe(true);
    expect(of({ headersSent: true, writableEnded: true })).toBe(true);
  });
});
