import { PassThrough } from 'node:stream';
import { text as allText } from 'node:stream/consumers';
import type { HttpBindings } from '@hono/node-server';
import { OpenAPIHono } from '@hono/zod-openapi';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  errorOf,
  openRaw,
  rawRequest,
  startTestServer,
  type TestServer,
} from '../server-for-tests.js';
import { createHttpServer } from './http-listener.js';
import { serverLimits } from './limits.js';
import { StrangerConnections } from './listen.js';

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server.close());

const post = 'POST /jobs HTTP/1.1\nHost: localhost\nContent-Type: application/json';

/** `404 unknown-job`, of an answer as it came over the wire. */
function errorIn(text: string): string {
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? [];
  const [, code] =
    /\r\n\r\n\{(?:"schema":1,)?"error":\{"code":"([\w-]+)","fact":"/.exec(text) ?? [];
  return `${status} ${code}`;
}

async function isWell(): Promise<boolean> {
  return (await server.ask('/healthz')).status === 200;
}

describe('large bodies', () => {
  it('are refused by their own word, before they come', async () => {
    const raw = rawRequest(server.port, `${post}\nContent-Length: 1048577`);
    await raw.until(/"body-too-large"/);
    raw.socket.destroy();
    expect(await isWell()).toBe(true);
  });

  it('are refused before a client that asks first has sent them', async () => {
    const raw = rawRequest(server.port, `${post}\nContent-Length: 1048577\nExpect: 100-continue`);
    const text = await raw.until(/"body-too-large"/);
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    raw.socket.destroy();
  });

  it('are let come after asking where they are small enough', async () => {
    const body = '{"command":["a"]}';
    const raw = rawRequest(
      server.port,
      `${post}\nContent-Length: ${body.length}\nExpect: 100-continue\nConnection: close`,
    );
    await raw.until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
    raw.socket.write(body);
    expect(await raw.closed).toContain('HTTP/1.1 201 Created');
  });

  it('of unknown length are cut off, and the connection is closed', async () => {
    const raw = rawRequest(server.port, `${post}\nTransfer-Encoding: chunked`);
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
    let sent = 0;
    // Goes on for ever, as far as the server lets it.
    const pump = (): void => {
      while (!raw.socket.destroyed && raw.socket.write(chunk)) sent += 1;
    };
    raw.socket.on('drain', pump);
    pump();
    const text = await raw.closed;
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    expect(text).toContain('"body-too-large"');
    expect(sent).toBeGreaterThan(10);
    expect(await isWell()).toBe(true);
  });

  it('just within the limit are read', async () => {
    const frame = JSON.stringify({ command: ['a', ''] }).length;
    const room = serverLimits.bodyBytes - frame;
    const most = { command: ['a', 'x'.repeat(room)] };
    expect(JSON.stringify(most).length).toBe(serverLimits.bodyBytes);
    // Longer than a word may be, so it was read and understood.
    expect(await errorOf(server.send('POST', '/jobs', most))).toBe('400 bad-field');
    const more = { command: ['a', 'x'.repeat(room + 1)] };
    expect(await errorOf(server.send('POST', '/jobs', more))).toBe('413 body-too-large');
  });
});

describe('what is no HTTP', () => {
  it.each([
    ['nonsense', 'HELLO\r\n\r\n'],
    ['a bad header', 'GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n'],
    [
      'two lengths',
      `POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
    ],
    [
      'a length and chunks',
      `POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    ],
    ['TLS', '\u0016\u0003\u0001\u0002\u0000\u0001'],
  ])('is told so: %s', async (_, words) => {
    expect(errorIn(await openRaw(server.port, words).closed)).toBe('400 broken-request');
    expect(await isWell()).toBe(true);
  });

  it('is any noise at all, and the server goes on', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 200 }), async (noise) => {
        const raw = openRaw(server.port);
        raw.socket.end(noise);
        const text = await raw.closed;
        if (text !== '') expect(text).toMatch(/^HTTP\/1\.1 [45]\d\d /);
      }),
      { numRuns: 40 },
    );
    expect(await isWell()).toBe(true);
  });

  it('in the middle of a request that was begun is no reason to fall', async () => {
    const raw = rawRequest(server.port, `${post}\nContent-Length: 100`, '{"command"');
    raw.socket.end();
    await raw.closed;
    const reset = rawRequest(server.port, `${post}\nContent-Length: 100`, '{"command"');
    await new Promise((resolve) => reset.socket.once('connect', resolve));
    reset.socket.resetAndDestroy();
    expect(await isWell()).toBe(true);
    expect(server.lines).toEqual([]);
  });
});

describe('slow clients', () => {
  it('are told, and cannot hold a connection', async () => {
    const app = new OpenAPIHono<{ Bindings: HttpBindings }>();
    const policy = { listening: '127.0.0.1', allowed: [] };
    const http = createHttpServer({
      app,
      policy,
      strangers: new StrangerConnections(1000),
      refused: () => undefined,
      fault: () => undefined,
    });
    const { headersTimeout, requestTimeout, keepAliveTimeout, timeout, maxConnections } = http;
    expect({ headersTimeout, requestTimeout, keepAliveTimeout, timeout, maxConnections }).toEqual({
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 30_000,
      timeout: 60_000,
      maxConnections: 4096,
    });
    // As node:http does when one of them has passed.
    const socket = new PassThrough();
    const late = Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
    http.emit('clientError', late, socket);
    expect(errorIn(await allText(socket))).toBe('408 slow-request');
    expect(socket.destroyed).toBe(true);
  });
});

describe('addresses and headers', () => {
  const get = (target: string, more = '') =>
    rawRequest(server.port, `GET ${target} HTTP/1.1\nHost: localhost\nConnection: close${more}`)
      .closed;

  it('that are too long are told so', async () => {
    expect(errorIn(await get(`/${'a'.repeat(9000)}`))).toBe('414 address-too-long');
    expect(errorIn(await get('/jobs', `\nX-Long: ${'a'.repeat(40_000)}`))).toBe(
      '431 headers-too-large',
    );
    expect(await isWell()).toBe(true);
  });

  it('of strange form get an answer', async () => {
    expect(errorIn(await get('*'))).toBe('400 bad-address');
    expect(errorIn(await get('jobs'))).toBe('400 broken-request');
    expect(errorIn(await get('/jo\\bs'))).toBe('400 bad-address');
    expect(errorIn(await get('//evil.example/jobs'))).toBe('404 unknown-route');
    expect(errorIn(await get('http://evil.example/healthz'))).toBe('403 foreign-host');
    expect(errorIn(await get('http://localhost@evil.example/healthz'))).toBe('403 foreign-host');
    expect(await get('http://localhost:8000/healthz')).toMatch(/^HTTP\/1\.1 200 /);
    expect(await get('/healthz', '\nUpgrade: websocket\nConnection: Upgrade')).toMatch(
      /^HTTP\/1\.1 /,
    );
  });

  it('of foreign hosts and origins are refused on every method, and at every route', async () => {
    for (const target of [
      'GET /jobs',
      'POST /jobs',
      'DELETE /jobs/1',
      'GET /',
      'GET /events',
      'GET /healthz',
    ]) {
      const ask = (head: string) => rawRequest(server.port, `${target} HTTP/1.1\n${head}`).closed;
      expect(errorIn(await ask('Host: evil.example'))).toBe('403 foreign-host');
      expect(errorIn(await ask('Host: evil example'))).toBe('403 foreign-host');
      expect(errorIn(await ask('X: y'))).toBe('400 no-host');
      expect(errorIn(await ask('Host: localhost\nHost: evil.example'))).toBe('400 no-host');
      const own = `Host: localhost:${server.port}\nOrigin: `;
      expect(errorIn(await ask(`${own}http://evil.example`))).toBe('403 foreign-origin');
      expect(errorIn(await ask(`${own}null`))).toBe('403 foreign-origin');
      expect(errorIn(await ask('Host: localhost\nSec-Fetch-Site: cross-site'))).toBe(
        '403 foreign-origin',
      );
    }
    expect(server.daemon.submitted).toEqual([]);
    const origin = `http://127.0.0.1:${server.port}`;
    const own = await server.ask('/jobs', { headers: { origin } });
    expect([own.status, own.headers.get('access-control-allow-origin')]).toEqual([200, null]);
  });

  it('can be anything, and the server goes on', async () => {
    const name = fc.stringMatching(/^[A-Za-z-]{1,20}$/);
    const value = fc.string({
      unit: fc.integer({ min: 32, max: 255 }).map((code) => String.fromCharCode(code)),
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(name, value), { maxLength: 6 }),
        fc.webPath(),
        async (headers, path) => {
          const lines = headers.map(([key, text]) => `${key}: ${text}\n`).join('');
          const raw = rawRequest(
            server.port,
            `GET ${path || '/'} HTTP/1.1\nHost: localhost\n${lines}Connection: close`,
          );
          const text = await raw.until(/\r\n\r\n/);
          expect(text).toMatch(/^HTTP\/1\.1 [24]\d\d /);
          raw.socket.destroy();
        },
      ),
      { numRuns: 60 },
    );
    expect(await isWell()).toBe(true);
  });

  it('of any query get an answer', async () => {
    const key = fc.constantFrom('limit', 'state', 'after', 'order', 'x', '__proto__', 'toString');
    const pair = fc.tuple(key, fc.string());
    await fc.assert(
      fc.asyncProperty(fc.array(pair, { maxLength: 4 }), async (pairs) => {
        const answer = await server.ask(`/jobs?${new URLSearchParams(pairs).toString()}`);
        expect([200, 400]).toContain(answer.status);
        if (answer.status === 400) await errorOf(answer);
        else await answer.text();
      }),
      { numRuns: 80 },
    );
  });
});
