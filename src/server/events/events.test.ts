import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import type { DaemonEvent } from '../../jobs/daemon/types.js';
import { createVirtualClock, type VirtualClock } from '../../time/clock.js';
import { serverLimits } from '../http/limits.js';
import { deviceExample } from '../routes/examples.js';
import { jobListSchema } from '../schemas/jobs.js';
import {
  errorOf,
  openEvents,
  parseEvents,
  rawRequest,
  startTestServer,
  type TestServer,
} from '../server-for-tests.js';

let clock: VirtualClock;
let server: TestServer;
beforeEach(async () => {
  clock = createVirtualClock();
  server = await startTestServer({ clock });
});
afterEach(() => server.close());

function submit(parts: { name?: string; command?: string[] } = {}): Promise<unknown> {
  return server.daemon.submit({ command: ['true'], ...parts });
}

function reading(epochMs: number, gpus = 8): DaemonEvent {
  const devices = Array.from({ length: gpus }, (_, gpu) => ({
    ...deviceExample,
    id: `gpu:${gpu}`,
  }));
  return { type: 'devices', epochMs, devices };
}

async function gaugeOf(name: string): Promise<number> {
  const text = await (await server.ask('/metrics')).text();
  return Number(new RegExp(`^plimsoll_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

describe('events', () => {
  it('tell what happens, by name, with ids on changes of jobs only', async () => {
    const client = openEvents(server.port);
    await client.until(/retry: 2000\nid: 0\n\n/);
    await submit();
    server.daemon.publish(reading(1));
    server.daemon.publish({ type: 'queue', waiting: [], counts: server.daemon.counts() });
    const events = await client.untilEvents(3);
    expect(events.map(({ event, id }) => [event, id])).toEqual([
      ['job', '1'],
      ['devices', undefined],
      ['queue', undefined],
    ]);
    expect(events[0]?.data).toMatchObject({
      type: 'job',
      id: 1,
      what: 'submitted',
      job: { id: '1' },
    });
    expect(client.text()).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(client.text()).toMatch(/content-type: text\/event-stream\r\n/);
    client.socket.destroy();
  });

  it('begin with the latest reading, so that a page need not wait for the next', async () => {
    server.daemon.publish(reading(1));
    server.daemon.publish(reading(2));
    const client = openEvents(server.port);
    const events = await client.untilEvents(1);
    expect(events[0]).toMatchObject({ event: 'devices', data: { epochMs: 2 } });
    client.socket.destroy();
  });

  it('go on where a client was, by its header or its address; the header is newer', async () => {
    for (let count = 0; count < 5; count++) await submit();
    const ids = async (path: string, headers: string, count: number) => {
      const client = openEvents(server.port, path, headers);
      const events = await client.untilEvents(count);
      client.socket.destroy();
      return events.map(({ id }) => id);
    };
    expect(await ids('/events?after=3', '', 2)).toEqual(['4', '5']);
    expect(await ids('/events', '\nLast-Event-ID: 2', 3)).toEqual(['3', '4', '5']);
    expect(await ids('/events?after=1', '\nLast-Event-ID: 4', 1)).toEqual(['5']);
    const strange = await rawRequest(
      server.port,
      'GET /events HTTP/1.1\nHost: localhost\nConnection: close\nLast-Event-ID: x',
    ).closed;
    expect(strange).toMatch(/^HTTP\/1\.1 400 .*"bad-event-id"/s);
  });

  it('lose and double nothing between a list and the stream that follows it', async () => {
    await submit();
    const { lastEventId } = jobListSchema.parse(await (await server.ask('/jobs')).json());
    await submit();
    const client = openEvents(server.port, `/events?after=${lastEventId}`);
    await submit();
    const events = await client.untilEvents(2);
    expect(events.map(({ id }) => id)).toEqual(['2', '3']);
    client.socket.destroy();
  });

  it('have a heartbeat every 15 seconds', async () => {
    const client = openEvents(server.port);
    await client.until(/id: 0\n\n/);
    expect(client.text()).not.toMatch(/\n:\n/);
    await clock.advance(15);
    await client.until(/\n:\n\n$/);
    await clock.advance(15);
    await client.until(/\n:\n\n:\n\n$/);
    client.socket.destroy();
  });

  it('are for so many clients, and one more when one of them leaves', async () => {
    const most = serverLimits.eventStreams;
    // The hub counts what it is given; real connections by the thousand are for the benchmark.
    expect(most).toBeGreaterThanOrEqual(1000);
    const clients = Array.from({ length: 20 }, () => openEvents(server.port));
    await Promise.all(clients.map((client) => client.until(/id: 0\n\n/)));
    expect(await gaugeOf('event_streams')).toBe(20);
    for (const client of clients) client.socket.destroy();
    while ((await gaugeOf('event_streams')) > 0) await clock.advance(1);
  });

  it('cost a client that does not read nothing but old readings, and the server no memory', async () => {
    const slow = openEvents(server.port);
    await slow.until(/id: 0\n\n/);
    slow.socket.pause();
    const before = bytesHeld();
    for (let count = 1; count <= 4000; count++) {
      server.daemon.publish(reading(count));
      if (count % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await submit();
    const one = Buffer.byteLength(JSON.stringify(reading(1)));
    expect(one * 4000).toBeGreaterThan(20 * 1024 * 1024);
    expect(bytesHeld() - before).toBeLessThan(8 * 1024 * 1024);
    expect((await server.ask('/jobs')).status).toBe(200);
    // When it reads again it gets the change it missed, and the latest reading.
    slow.socket.resume();
    await slow.until(/"epochMs":4000/);
    const events = parseEvents(slow.text());
    expect(events.length).toBeLessThan(4000);
    expect(events.filter(({ event }) => event === 'job').map(({ id }) => id)).toEqual(['1']);
    slow.socket.destroy();
  });

  it('leave a client behind that lets changes pile up; it comes back and misses none', async () => {
    const slow = openEvents(server.port);
    await slow.until(/id: 0\n\n/);
    slow.socket.pause();
    const left = new Promise((resolve) => slow.socket.once('close', resolve));
    const long = { name: 'long', command: ['x'.repeat(200_000)] };
    while ((await gaugeOf('event_streams')) > 0) await submit(long);
    slow.socket.resume();
    await left;
    const { last } = server.daemon.eventsAfter(0, 0);
    const first = parseEvents(slow.text()).map(({ id }) => Number(id));
    const lastSeen = first.at(-1) ?? 0;
    expect(lastSeen).toBeLessThan(last);
    const again = openEvents(server.port, '/events', `\nLast-Event-ID: ${lastSeen}`);
    const events = await again.untilEvents(last - lastSeen);
    const all = [...first, ...events.map(({ id }) => Number(id))];
    expect(all).toEqual(Array.from({ length: last }, (_, index) => index + 1));
    again.socket.destroy();
  });

  it('are not mixed with an error where the client says something that is no HTTP', async () => {
    const client = openEvents(server.port);
    await client.until(/id: 0\n\n/);
    client.socket.write('NONSENSE\r\n\r\n');
    expect((await client.closed).match(/HTTP\/1\.1/g)).toEqual(['HTTP/1.1']);
  });

  it('end when the server closes, and no listener is left', async () => {
    const client = openEvents(server.port);
    await client.until(/id: 0\n\n/);
    expect(server.daemon.listeners).toBe(3);
    await server.close();
    await client.closed;
    expect(server.daemon.listeners).toBe(0);
    expect(clock.waiting).toBe(0);
  });

  it('are refused, or cut off, where the daemon cannot tell them, and the server goes on', async () => {
    const full = { kind: 'missing', code: 'store-unreachable', fact: 'Gone.', next: 'x' } as const;
    server.daemon.failNext(new Failure(full));
    expect(await errorOf(server.ask('/events?after=0'))).toBe('503 store-unreachable');
    const client = openEvents(server.port, '/events?after=0');
    await client.until(/id: 0\n\n/);
    client.socket.destroy();
  });

  it('want no body and no wrong option', async () => {
    expect(await errorOf(server.ask('/events?after=x'))).toBe('400 bad-option');
    expect(await errorOf(server.ask('/events?afer=1'))).toBe('400 unknown-option');
  });
});

/** Bytes of buffers that something still refers to. */
function bytesHeld(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
  return process.memoryUsage().arrayBuffers;
}
