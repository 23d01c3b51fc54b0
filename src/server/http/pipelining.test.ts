import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { eventually } from '../../../test/support/made-once.js';
import { openRaw, startTestServer, type TestServer } from '../server-for-tests.js';
import { serverLimits } from './limits.js';

const token = 'a-long-and-secret-token';
const headers = { authorization: `Bearer ${token}` };
let folder: string;
let server: TestServer;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-page-'));
  writeFileSync(join(folder, 'index.html'), '<p>page</p>');
  writeFileSync(join(folder, 'large.js'), 'x'.repeat(114_000));
  writeFileSync(join(folder, 'huge.js'), 'x'.repeat(3_000_000));
  server = await startTestServer({ token, webFolder: folder });
});
afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Sends the same request many times on one connection, and closes it without reading an answer. */
async function pipeline(request: string, count: number): Promise<void> {
  const raw = openRaw(server.port);
  raw.socket.pause();
  const text = `${request.replaceAll('\n', '\r\n')}\r\n\r\n`.repeat(count);
  await new Promise((resolve) => raw.socket.write(text, resolve));
  // The server has read some of it by the time it answers somebody else.
  await server.ask('/healthz');
  raw.socket.destroy();
}

it('answers the owner after strangers sent pipelined requests for the page and left', async () => {
  for (let round = 0; round < 3; round++) {
    await pipeline('GET /large.js HTTP/1.1\nHost: localhost', 2000);
  }
  expect((await server.ask('/jobs', { headers })).status).toBe(200);
  expect((await server.ask('/large.js')).status).toBe(200);
});

it('frees the slots of pipelined event streams when their connection closes', async () => {
  const request = `GET /events HTTP/1.1\nHost: localhost\nAuthorization: Bearer ${token}`;
  await pipeline(request, serverLimits.eventStreams + 100);
  await eventually(async () => (await metric('plimsoll_event_streams')) === 0);
  const again = await server.ask('/events', { headers });
  expect(again.status).toBe(200);
  await again.body?.cancel();
});

it('closes a connection that sends more requests ahead than the limit', async () => {
  const raw = openRaw(server.port);
  const stream = `GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  raw.socket.write(stream.repeat(serverLimits.pipelinedRequests));
  await raw.until(/\nid: 0\n/);
  raw.socket.write(stream);
  expect((await raw.closed).match(/HTTP\/1.1 200/g)).toHaveLength(1);
});

it('cuts strangers who read nothing, not the one who comes next', async () => {
  const request = 'GET /huge.js HTTP/1.1\r\nHost: localhost\r\n\r\n';
  // A few each: what the operating system takes of an answer does not count as unsent.
  const silent = Array.from({ length: 12 }, () => {
    const raw = openRaw(server.port, request.repeat(4));
    raw.socket.pause();
    return raw;
  });
  await eventually(async () => (await metric('plimsoll_http_requests_total')) >= 20);
  expect((await server.ask('/huge.js')).status).toBe(200);
  expect((await server.ask('/jobs', { headers })).status).toBe(200);
  // A paused connection learns that it was cut when it reads on.
  for (const { socket } of silent) socket.resume();
  await Promise.race(silent.map(({ closed }) => closed));
  for (const { socket } of silent) socket.destroy();
});

/** The sum of all its series. */
async function metric(name: string): Promise<number> {
  const text = await (await server.ask('/metrics', { headers })).text();
  const lines = text.split('\n').filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}
