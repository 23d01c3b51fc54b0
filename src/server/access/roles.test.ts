import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from '@hono/zod-openapi';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attemptForTests } from '../../report/job-for-tests.js';
import { errorOf, openEvents, startTestServer, type TestServer } from '../server-for-tests.js';
import { readAudit } from './audit-log.js';
import type { Role } from './identity.js';
import { isProof } from './token.js';
import { hashOfToken, newUserToken, tokenId } from './users/user.js';
import { openUserStore, type UserStore } from './users/user-store.js';

const ownerToken = 'a-long-and-secret-token';
let home: string;
let users: UserStore;
let server: TestServer;

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-roles-'));
  users = await openUserStore(home);
  server = await startTestServer({ token: ownerToken, users, auditHome: home });
});
afterEach(async () => {
  await server.close();
  users.close();
  rmSync(home, { recursive: true, force: true });
});

function added(name: string, role: Role, maxMemoryBytes?: number): string {
  const { token, id, hash } = newUserToken();
  const quota = { maxMemoryBytes, maxJobs: undefined };
  const addedAt = '2026-11-16T00:00:00.000Z';
  users.add({ name, role, tokenId: id, tokenHash: hash, ...quota, account: undefined, addedAt });
  return token;
}

function as(token: string) {
  const authorization = `Bearer ${token}`;
  return {
    get: (path: string) => server.ask(path, { headers: { authorization } }),
    post: (path: string, body: unknown) =>
      server.ask(path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    cancel: (id: string) =>
      server.ask(`/jobs/${id}`, { method: 'DELETE', headers: { authorization } }),
  };
}

const who = async (answer: Promise<Response>) => (await answer).json();
const job = { command: ['true'] };

describe('a user', () => {
  it('submits jobs, cancels his own and reads their logs, and no others', async () => {
    const [ada, bob] = [as(added('ada', 'user')), as(added('bob', 'user'))];
    const made = await ada.post('/jobs', job);
    expect([made.status, await made.json()]).toMatchObject([201, { id: '1', owner: 'ada' }]);
    expect(server.daemon.submitters).toEqual([{ name: 'ada' }]);
    expect(await errorOf(bob.get('/jobs/1/log'))).toBe('403 not-your-job');
    expect(await errorOf(bob.get('/jobs/1/request'))).toBe('403 not-your-job');
    expect(await errorOf(bob.get('/jobs/1/report'))).toBe('403 not-your-job');
    expect(await errorOf(bob.get('/jobs/1/snapshots/1'))).toBe('403 not-your-job');
    expect(await errorOf(ada.get('/jobs/1/report'))).toBe('404 no-report');
    expect(await errorOf(ada.get('/jobs/1/snapshots/1'))).toBe('404 no-snapshot');
    expect(await errorOf(ada.get('/jobs/1/snapshots/x'))).toBe('400 bad-option');
    expect((await ada.get('/jobs/1/request')).status).toBe(200);
    expect(await errorOf(bob.cancel('1'))).toBe('403 not-your-job');
    const limit = { memoryBytes: 1024 };
    expect(await errorOf(bob.post('/jobs/1/limit', limit))).toBe('403 not-your-job');
    expect(await errorOf(ada.post('/jobs/1/limit', { memoryBytes: 0 }))).toMatch(/^400 /);
    expect(server.daemon.job('1').limit).toBeNull();
    expect(await who(ada.post('/jobs/1/limit', limit))).toMatchObject({
      limit: { askedBytes: 1024 },
    });
    expect(server.daemon.job('1').state).toBe('waiting');
    expect((await bob.get('/jobs/1')).status).toBe(200);
    expect((await ada.get('/jobs/1/log')).status).toBe(200);
    expect((await ada.cancel('1')).status).toBe(200);
    expect(await errorOf(bob.cancel('9'))).toBe('404 unknown-job');
  });

  it('is who the server says, with his quota', async () => {
    const token = added('ada', 'user', 40);
    expect(await who(as(token).get('/session'))).toEqual({
      name: 'ada',
      role: 'user',
      maxMemoryBytes: 40,
      maxJobs: null,
      schema: 1,
    });
    expect(await who(as(ownerToken).get('/session'))).toMatchObject({
      name: 'owner',
      role: 'admin',
    });
  });
});

describe('a viewer', () => {
  it('sees the state, and can do nothing', async () => {
    const vic = as(added('vic', 'viewer'));
    await server.daemon.submit(job, { name: 'vic' });
    for (const path of ['/jobs', '/jobs/1', '/devices', '/workers/status', '/metrics']) {
      expect((await vic.get(path)).status).toBe(200);
    }
    expect(await errorOf(vic.post('/jobs', job))).toBe('403 role-not-allowed');
    expect(await errorOf(vic.cancel('1'))).toBe('403 role-not-allowed');
    expect(await errorOf(vic.get('/jobs/1/log'))).toBe('403 role-not-allowed');
    expect(await errorOf(vic.get('/jobs/1/request'))).toBe('403 role-not-allowed');
    expect(await errorOf(vic.get('/jobs/1/report'))).toBe('403 role-not-allowed');
    expect(await errorOf(vic.get('/jobs/1/snapshots/1'))).toBe('403 role-not-allowed');
    // A script that is estimated is a program that runs.
    expect(await errorOf(vic.post('/estimate', { script: '/tmp/x.py' }))).toBe(
      '403 role-not-allowed',
    );
    expect(await errorOf(vic.post('/plan', {}))).toBe('403 role-not-allowed');
    expect(server.daemon.submitted).toHaveLength(1);
  });
});

describe('an admin', () => {
  it('cancels and reads what belongs to others, as the owner does', async () => {
    const root = as(added('root', 'admin'));
    await server.daemon.submit(job, { name: 'ada' });
    await server.daemon.submit(job, { name: 'ada' });
    expect((await root.get('/jobs/1/log')).status).toBe(200);
    expect((await root.cancel('1')).status).toBe(200);
    expect((await as(ownerToken).cancel('2')).status).toBe(200);
  });
});

describe('what comes out of a job', () => {
  const outOfMemory = {
    kind: 'cuda',
    askedBytes: 1,
    freeBytes: 1,
    totalBytes: 1,
    message: 'private words',
  } as const;
  const attempts = [
    attemptForTests({
      outOfMemory,
      snapshot: { file: '/private/file', findings: ['private'] },
      lastLines: ['private words'],
      holders: {
        atSeconds: 1,
        totalBytes: 9,
        othersBytes: 'unknown',
        processes: [{ pid: 5, command: 'worker --key private', bytes: 9 }],
      },
    }),
  ];

  it('is for its owner and for admins alone, in lists, in jobs and in events', async () => {
    const [ada, bob] = [added('ada', 'user'), added('bob', 'user')];
    await server.daemon.submit(job, { name: 'ada' });
    const listen = (token: string, path = '/events') =>
      openEvents(server.port, path, `\nAuthorization: Bearer ${token}`);
    const streams = [ada, bob, ownerToken].map((token) => listen(token));
    for (const stream of streams) await stream.until(/\nid: 1\n/);
    server.daemon.change('1', { attempts });
    const late = [ada, bob].map((token) => listen(token, '/events?after=0'));
    for (const stream of [...streams, ...late]) await stream.until(/"id":2,/);
    const seen = [...streams, ...late].map((stream) => stream.text().includes('private'));
    expect(seen).toEqual([true, false, true, true, false]);
    for (const stream of [...streams, ...late]) stream.socket.destroy();
    for (const path of ['/jobs', '/jobs/1']) {
      const texts = await Promise.all(
        [ada, bob].map(async (token) => (await as(token).get(path)).text()),
      );
      expect(texts.map((text) => text.includes('private'))).toEqual([true, false]);
    }
  });
});

describe('the session of a user', () => {
  const cookieFrom = (answer: Response) => answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  const nameOf = async (cookie: string) => who(server.ask('/session', { headers: { cookie } }));

  it('is his, by token or by link, and ends with his token', async () => {
    const token = added('ada', 'user');
    const byToken = cookieFrom(await server.send('POST', '/session', { token }));
    const made = await as(token).post('/session/link', {});
    const { path, url } = z.object({ path: z.string(), url: z.string() }).parse(await made.json());
    expect(url).toBe(server.url);
    const code = path.replace('/#login=', '');
    const byLink = cookieFrom(await server.send('POST', '/session', { code }));
    for (const cookie of [byToken, byLink]) {
      expect(await nameOf(cookie)).toMatchObject({ name: 'ada', role: 'user' });
    }
    const { id, hash } = newUserToken();
    users.change('ada', { token: { id, hash } });
    for (const cookie of [byToken, byLink]) {
      expect(await errorOf(server.ask('/jobs', { headers: { cookie } }))).toBe('401 no-token');
    }
  });

  it('cannot be turned into that of another', async () => {
    added('bob', 'admin');
    const token = added('ada', 'user');
    const cookie = cookieFrom(await server.send('POST', '/session', { token }));
    const [name = '', value = ''] = cookie.split('=');
    const [until, nonce, , signature] = value.split('.');
    for (const subject of ['user:bob', 'user:ada2', '', 'uid:0']) {
      const whose = Buffer.from(subject).toString('base64url');
      const forged = [until, nonce, ...(whose === '' ? [] : [whose]), signature].join('.');
      const answer = server.ask('/jobs', { headers: { cookie: `${name}=${forged}` } });
      expect(await errorOf(answer)).toBe('401 no-token');
    }
  });
});

describe('a user who is removed', () => {
  it('is let in no more, and his streams end', async () => {
    const token = added('ada', 'user');
    expect((await as(token).get('/jobs')).status).toBe(200);
    const cookie = await server.send('POST', '/session', { token });
    const header = cookie.headers.get('set-cookie')?.split(';')[0] ?? '';
    const stream = openEvents(server.port, '/events', `\nAuthorization: Bearer ${token}`);
    await stream.until(/\nid: 0\n/);
    users.remove('ada');
    expect(await errorOf(as(token).get('/jobs'))).toBe('401 wrong-token');
    expect(await errorOf(server.ask('/jobs', { headers: { cookie: header } }))).toBe(
      '401 no-token',
    );
    // The end of any session is when all streams are looked at; else it is the next heartbeat.
    const other = await server.send('POST', '/session', { token: ownerToken });
    const others = other.headers.get('set-cookie')?.split(';')[0] ?? '';
    await server.ask('/session', { method: 'DELETE', headers: { cookie: others } });
    await stream.closed;
  });
});

describe('the proof for a user', () => {
  it('rests on the hash of his token', async () => {
    const token = added('ada', 'user');
    const nonce = 'x8Jk2-bV9qLw3nRt';
    const ask = (id: string | undefined) => server.ask(`/proof?nonce=${nonce}&id=${id}`);
    const { proof } = z
      .object({ proof: z.string() })
      .parse(await (await ask(tokenId(token))).json());
    expect(isProof(proof, hashOfToken(token), nonce)).toBe(true);
    expect(await errorOf(ask('0123456789ab'))).toBe('401 wrong-token');
  });
});

describe('the audit log', () => {
  it('lists who did what, and what was refused', async () => {
    const [ada, vic] = [added('ada', 'user'), added('vic', 'viewer')];
    await as(ada).post('/jobs', job);
    await as(vic).cancel('1');
    await as(added('bob', 'user')).get('/jobs/1/log');
    await as('wrong-token-of-somebody').get('/jobs');
    await server.send('POST', '/session', { token: ada });
    await as(ada).cancel('1');
    await as(ada).get('/jobs');
    const entries = readAudit(home, 100).map(({ who: name, action, outcome, code, job: id, via }) =>
      [name, via, action, id ?? '-', outcome, code ?? ''].join(' ').trim(),
    );
    expect(entries).toEqual([
      'ada token submit 1 done',
      'vic token cancel 1 refused role-not-allowed',
      'bob token getJobLog 1 refused not-your-job',
      'unknown none listJobs - refused wrong-token',
      'ada token login - done',
      'ada token cancel 1 done',
    ]);
  });
});
