import { z } from '@hono/zod-openapi';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/made-once.js';
import { createVirtualClock } from '../../time/clock.js';
import { serverLimits } from '../http/limits.js';
import type { ServerOptions } from '../open-server.js';
import { errorOf, openEvents, startTestServer, type TestServer } from '../server-for-tests.js';
import { isProof } from './token.js';

const servers: TestServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
async function start(options: Partial<ServerOptions>): Promise<TestServer> {
  const server = await startTestServer(options);
  servers.push(server);
  return server;
}

const token = 'a-long-and-secret-token';
const authorization = `Bearer ${token}`;

const bearer = (server: TestServer, word: string) =>
  server.ask('/jobs', { headers: { authorization: `Bearer ${word}` } });

async function login(server: TestServer): Promise<string> {
  const made = await server.send('POST', '/session', { token });
  return made.headers.get('set-cookie')?.split(';')[0] ?? '';
}

describe('a server with a token', () => {
  it('refuses requests without it, but for health and the page', async () => {
    const server = await start({ token });
    const asked = await server.ask('/openapi.json', { headers: { authorization } });
    const document = z.object({ paths: z.record(z.string(), z.looseObject({})) });
    const { paths } = document.parse(await asked.json());
    expect(Object.keys(paths).length).toBeGreaterThan(10);
    for (const [path, methods] of Object.entries(paths)) {
      for (const method of Object.keys(methods)) {
        const answer = await server.ask(path.replace('{id}', '1'), {
          method: method.toUpperCase(),
          headers: { 'content-type': 'application/json' },
          ...(method === 'post' && { body: '{"token":"wrong"}' }),
        });
        const isOpen = path === '/healthz' || (path === '/session' && method === 'delete');
        // It shows that the server knows the token, and no more.
        if (path === '/proof') expect(await errorOf(answer)).toBe('400 bad-option');
        else if (isOpen) expect(answer.status).toBeLessThan(300);
        else expect(await errorOf(answer)).toMatch(/^401 (no|wrong)-token$/);
      }
    }
    expect(server.daemon.submitted).toEqual([]);
    expect(await errorOf(server.ask('/'))).toBe('404 no-page');
  });

  it('takes the token in the header, and no other', async () => {
    const server = await start({ token });
    const ask = (header: string) => server.ask('/jobs', { headers: { authorization: header } });
    expect((await ask(authorization)).status).toBe(200);
    const wrong = await ask('Bearer wrong');
    expect(wrong.headers.get('www-authenticate')).toBe('Bearer realm="plimsoll"');
    expect(await errorOf(wrong)).toBe('401 wrong-token');
    expect(await errorOf(ask(`Bearer ${token}x`))).toBe('401 wrong-token');
    expect(await errorOf(ask(`Basic ${btoa(token)}`))).toBe('401 no-token');
  });

  it('gives a browser a cookie for it, which opens events too, until it logs out', async () => {
    const server = await start({ token });
    const made = await server.send('POST', '/session', { token });
    expect(made.status).toBe(204);
    const setCookie = made.headers.get('set-cookie') ?? '';
    expect(setCookie).toMatch(/HttpOnly; SameSite=Strict/);
    expect(setCookie).not.toContain(token);
    const headers = { cookie: setCookie.split(';')[0] ?? '' };
    expect((await server.ask('/jobs', { headers })).status).toBe(200);
    const events = await server.ask('/events', { headers });
    expect(events.status).toBe(200);
    await events.body?.cancel();
    const left = await server.ask('/session', { method: 'DELETE', headers });
    expect([left.status, left.headers.get('set-cookie')]).toEqual([
      204,
      expect.stringContaining('Max-Age=0'),
    ]);
    expect(await errorOf(server.ask('/jobs', { headers }))).toBe('401 no-token');
  });

  it.each([
    ['in a header', (server: TestServer, word: string) => bearer(server, word)],
    [
      'to log in',
      (server: TestServer, word: string) => server.send('POST', '/session', { token: word }),
    ],
  ])('slows down who tries tokens %s, and no client that has the right one', async (_, attempt) => {
    const clock = createVirtualClock();
    const server = await start({ token, clock });
    const waitingBefore = clock.waiting;
    for (let tries = 0; tries < serverLimits.wrongTokens; tries++) {
      expect(await errorOf(attempt(server, `guess-${tries}`))).toBe('401 wrong-token');
    }
    const slow = attempt(server, 'one-more');
    await eventually(() => clock.waiting > waitingBefore);
    // From the same address, as all behind a proxy are.
    expect((await bearer(server, token)).status).toBe(200);
    expect((await server.send('POST', '/session', { token })).status).toBe(204);
    await clock.advance(serverLimits.wrongTokenSeconds);
    const answer = await slow;
    expect(answer.headers.get('retry-after')).toBe('60');
    expect(await errorOf(answer)).toBe('429 too-many-wrong-tokens');
    await clock.advance(60);
    expect(await errorOf(attempt(server, 'later'))).toBe('401 wrong-token');
  });

  it('counts tokens together, whichever way they come', async () => {
    const clock = createVirtualClock();
    const server = await start({ token, clock });
    const waitingBefore = clock.waiting;
    for (let tries = 0; tries < serverLimits.wrongTokens; tries++) {
      await errorOf(bearer(server, `guess-${tries}`));
    }
    const slow = server.send('POST', '/session', { token: 'guess' });
    await eventually(() => clock.waiting > waitingBefore);
    await clock.advance(1);
    expect(await errorOf(slow)).toBe('429 too-many-wrong-tokens');
  });

  it('ends the event streams of a session that is logged out, and no others', async () => {
    const server = await start({ token });
    const cookies = await Promise.all([login(server), login(server)]);
    const [mine, other] = cookies.map((cookie) =>
      openEvents(server.port, '/events', `\nCookie: ${cookie}`),
    );
    const program = openEvents(server.port, '/events', `\nAuthorization: ${authorization}`);
    for (const stream of [mine, other, program]) await stream?.until(/\nid: 0\n/);
    // One that is made up ends nothing.
    const madeUp = { cookie: `${cookies[1]}x` };
    await server.ask('/session', { method: 'DELETE', headers: madeUp });
    await server.ask('/session', { method: 'DELETE', headers: { cookie: cookies[0] ?? '' } });
    await mine?.closed;
    await server.daemon.submit({ command: ['secret'] });
    for (const stream of [other, program]) {
      await stream?.until(/event: job/);
      stream?.socket.destroy();
    }
    expect(mine?.text()).not.toContain('secret');
  });

  it('logs a browser in with a link, once', async () => {
    const server = await start({ token });
    const made = await server.ask('/session/link', {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: '{}',
    });
    expect(made.status).toBe(201);
    const { path } = z.object({ path: z.string() }).parse(await made.json());
    const code = path.replace('/#login=', '');
    const opened = await server.send('POST', '/session', { code });
    expect(opened.status).toBe(204);
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await server.ask('/jobs', { headers: { cookie } })).status).toBe(200);
    expect(await errorOf(server.send('POST', '/session', { code }))).toBe('401 used-link');
    expect(await errorOf(server.send('POST', '/session', { code, token }))).toBe('400 bad-field');
    expect(await errorOf(server.send('POST', '/session', {}))).toBe('400 bad-field');
  });

  it('proves that it knows the token without sending it', async () => {
    const server = await start({ token });
    const nonce = 'x8Jk2-bV9qLw3nRt';
    const answer = await server.ask(`/proof?nonce=${nonce}`);
    const { proof } = z.object({ proof: z.string() }).parse(await answer.json());
    expect([isProof(proof, token, nonce), isProof(proof, token, `${nonce}y`)]).toEqual([
      true,
      false,
    ]);
    expect(isProof(proof, `${token}x`, nonce)).toBe(false);
    const open = await start({});
    expect(await errorOf(open.ask(`/proof?nonce=${nonce}`))).toBe('400 no-token-set');
  });

  it('says in its document how to show who one is', async () => {
    const server = await start({ token });
    const answer = await server.ask('/openapi.json', { headers: { authorization } });
    expect(await answer.json()).toMatchObject({
      security: [{ token: [] }, { session: [] }],
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
    });
  });
});

describe('a server without a token', () => {
  it('listens on loopback only', async () => {
    for (const host of ['0.0.0.0', '::', '', '192.0.2.1']) {
      await expect(start({ host })).rejects.toMatchObject({
        code: 'token-needed',
        next: expect.stringContaining('--no-token'),
      });
    }
  });

  it('has nothing to log in to', async () => {
    const server = await start({});
    expect(await errorOf(server.send('POST', '/session', { token: 'x' }))).toBe('400 no-token-set');
    expect((await server.ask('/session', { method: 'DELETE' })).status).toBe(204);
  });
});

describe('a server beyond loopback', () => {
  it('listens with a token, and knows its addresses and the names it was given', async () => {
    const server = await start({ host: '0.0.0.0', token, allowedHosts: ['gpu.example'] });
    expect(server.url).toBe(`http://localhost:${server.port}`);
    expect((await server.ask('/jobs', { headers: { authorization } })).status).toBe(200);
  });
});
