import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../time/clock.js';
import { serverLimits } from './http/limits.js';
import type { ServerOptions } from './open-server.js';
import {
  errorOf,
  exampleAnswers,
  rawRequest,
  startTestServer,
  type TestServer,
} from './server-for-tests.js';

const servers: TestServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
async function start(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const server = await startTestServer(options);
  servers.push(server);
  return server;
}

/** Something that is made until it is told to stop. */
function pending() {
  const asked: AbortSignal[] = [];
  let wake = (): void => undefined;
  return {
    asked,
    make: (_: unknown, signal: AbortSignal): Promise<never> => {
      asked.push(signal);
      wake();
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true });
      });
    },
    untilAsked: async (count: number): Promise<void> => {
      while (asked.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

describe('a server', () => {
  it('says where it listens', async () => {
    const server = await start();
    expect(server.port).toBeGreaterThan(0);
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  });

  it('says why it cannot', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = address !== null && typeof address === 'object' ? address.port : 0;
    await expect(start({ port })).rejects.toMatchObject({
      code: 'port-in-use',
      fact: `Another program listens on port ${port} of 127.0.0.1.`,
    });
    taken.close();
    for (const wrong of [-1, 65_536, 1.5, Number.NaN]) {
      await expect(start({ port: wrong })).rejects.toMatchObject({ code: 'bad-port' });
    }
    const token = 'a-long-and-secret-token';
    for (const host of ['192.0.2.1', 'no such host', 'nowhere.invalid']) {
      await expect(start({ host, token })).rejects.toMatchObject({ code: 'bad-host' });
    }
  });

  it('leaves nothing behind where it could not listen', async () => {
    const server = await start();
    const { daemon } = server;
    await expect(start({ daemon, port: server.port })).rejects.toMatchObject({
      code: 'port-in-use',
    });
    expect(daemon.listeners).toBe(3);
  });

  it('closes, twice as well as once, and is gone then', async () => {
    const server = await start();
    await server.ask('/jobs');
    await Promise.all([server.close(), server.close()]);
    await expect(server.ask('/jobs')).rejects.toThrow('fetch failed');
    const again = await start({ port: server.port });
    expect((await again.ask('/jobs')).status).toBe(200);
  });

  it('closes also where somebody has begun a request and says no more', async () => {
    const slow = { ...systemClock, waitUntil: (_: number, signal?: AbortSignal) => wait(signal) };
    const server = await start({ clock: slow });
    const raw = rawRequest(
      server.port,
      'POST /jobs HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 9',
      '{',
    );
    await new Promise((resolve) => raw.socket.once('connect', resolve));
    // Another answer tells that the server has seen the first.
    await server.ask('/healthz');
    await server.close();
    expect(await raw.closed).toBe('');
  });
});

/** The last moment that closing waits for has come; heartbeats have not. */
function wait(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    signal?.addEventListener('abort', () => resolve(), { once: true });
    setImmediate(resolve);
  });
}

describe('estimates and plans', () => {
  it('are what was asked for', async () => {
    const bodies: unknown[] = [];
    const words: unknown[] = [];
    const server = await start({
      answers: {
        ...exampleAnswers,
        async estimate(request, _, said) {
          words.push(said);
          bodies.push(request);
          return { made: 'estimate' };
        },
        async plan(request, _, said) {
          words.push(said);
          bodies.push(request);
          return { made: 'plan' };
        },
      },
    });
    const workload = { model: '/models/a', batch: 2 };
    const estimate = await server.send('POST', '/estimate', workload);
    expect(await estimate.json()).toEqual({ schema: 1, made: 'estimate' });
    const asked = { ...workload, memoryBytes: 5, gpus: 2, maxBatch: true };
    expect(await (await server.send('POST', '/plan', asked)).json()).toEqual({
      schema: 1,
      made: 'plan',
    });
    expect(bodies).toEqual([workload, asked]);
    await server.send('POST', '/plan?words=form', asked);
    expect(words).toEqual([undefined, undefined, 'form']);
    expect(await errorOf(server.send('POST', '/plan', { ...asked, memory: 5 }))).toBe(
      '400 unknown-field',
    );
  });

  it('are made a few at a time, and stopped when no client waits for them', async () => {
    const { asked, make, untilAsked } = pending();
    const server = await start({ answers: { ...exampleAnswers, estimate: make, plan: make } });
    const leave = new AbortController();
    const waiting = Array.from({ length: serverLimits.answersAtOnce }, (_, count) =>
      server.ask(count % 2 === 0 ? '/estimate' : '/plan', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
        signal: leave.signal,
      }),
    );
    await untilAsked(serverLimits.answersAtOnce);
    const refused = await server.send('POST', '/plan', {});
    expect(refused.headers.get('retry-after')).toBe('5');
    expect(await errorOf(refused)).toBe('503 too-many-answers');
    expect((await server.ask('/jobs')).status).toBe(200);
    leave.abort();
    await Promise.allSettled(waiting);
    await Promise.all(asked.map(untilAborted));
    const more = server.send('POST', '/plan', {});
    await untilAsked(serverLimits.answersAtOnce + 1);
    expect(server.lines).toEqual([]);
    await server.close();
    await Promise.allSettled([more]);
    expect(asked.at(-1)?.aborted).toBe(true);
  });
});

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
