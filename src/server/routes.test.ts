import { z } from '@hono/zod-openapi';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { serverLimits } from './http/limits.js';
import { jobListSchema } from './schemas/jobs.js';
import { errorOf, startTestServer, type TestServer } from './server-for-tests.js';

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(() => server.close());

describe('jobs', () => {
  it('are taken, kept, shown and cancelled', async () => {
    const request = { command: ['python', 'train.py'], memoryBytes: 5, name: 'mine', gpus: 0 };
    const made = await server.send('POST', '/jobs', request);
    expect([made.status, made.headers.get('location')]).toEqual([201, '/jobs/1']);
    expect(await made.json()).toMatchObject({ id: '1', name: 'mine', state: 'waiting' });
    expect(server.daemon.submitted).toEqual([request]);
    expect(await (await server.ask('/jobs/1')).json()).toMatchObject({ id: '1', name: 'mine' });
    const cancelled = await server.ask('/jobs/1', { method: 'DELETE' });
    expect([cancelled.status, await cancelled.json()]).toMatchObject([200, { state: 'cancelled' }]);
    const again = server.ask('/jobs/1', { method: 'DELETE' });
    expect(await errorOf(again)).toBe('409 job-has-ended');
  });

  it('are listed by state, order and page, with all counts and the id to listen from', async () => {
    for (let count = 0; count < 5; count++) await server.daemon.submit({ command: ['true'] });
    server.daemon.change('2', { state: 'running' });
    await server.daemon.cancel('4');
    const ids = async (query: string) => {
      const body: unknown = await (await server.ask(`/jobs${query}`)).json();
      return jobListSchema.parse(body).jobs.map(({ id }) => id);
    };
    expect(await ids('')).toEqual(['5', '4', '3', '2', '1']);
    expect(await ids('?order=oldest&limit=2')).toEqual(['1', '2']);
    expect(await ids('?order=oldest&after=2')).toEqual(['3', '4', '5']);
    expect(await ids('?after=4&limit=2')).toEqual(['3', '2']);
    expect(await ids('?state=running,cancelled')).toEqual(['4', '2']);
    expect(await (await server.ask('/jobs')).json()).toMatchObject({
      counts: { waiting: 3, running: 1, cancelled: 1, succeeded: 0 },
      lastEventId: 7,
    });
  });

  it('have a log that is read piece by piece, or from its end', async () => {
    const { id } = await server.daemon.submit({ command: ['true'] });
    server.daemon.setLog(id, 'step 1\nstep 2\nstep 3\n');
    const read = async (query: string) => {
      const answer = await server.ask(`/jobs/${id}/log${query}`);
      const { headers } = answer;
      const places = ['x-log-from', 'x-log-next', 'x-log-size'].map((name) => headers.get(name));
      return [await answer.text(), ...places];
    };
    expect(await read('')).toEqual(['step 1\nstep 2\nstep 3\n', '0', '21', '21']);
    expect(await read('?from=7')).toEqual(['step 2\nstep 3\n', '7', '21', '21']);
    expect(await read('?from=21')).toEqual(['', '21', '21', '21']);
    expect(await read('?from=100')).toEqual(['', '100', '100', '21']);
    expect(await read('?tail=7')).toEqual(['step 3\n', '14', '21', '21']);
    expect(await read('?tail=500')).toEqual(['step 1\nstep 2\nstep 3\n', '0', '21', '21']);
    expect((await server.ask(`/jobs/${id}/log`)).headers.get('content-type')).toMatch(
      /^text\/plain/,
    );
    expect(await errorOf(server.ask(`/jobs/${id}/log?from=1&tail=1`))).toBe('400 bad-option');
  });

  it('are listed a thousand at a time, and page by page all of them, each once', async () => {
    for (let made = 0; made < 2500; made++) await server.daemon.submit({ command: ['true'] });
    const page = z.object({ jobs: z.array(z.object({ id: z.string() })) });
    const sizes: number[] = [];
    const seen = new Set<string>();
    for (let after = ''; sizes.at(-1) !== 0; ) {
      const { jobs } = page.parse(await (await server.ask(`/jobs?order=oldest${after}`)).json());
      sizes.push(jobs.length);
      for (const { id } of jobs) seen.add(id);
      after = `&after=${jobs.at(-1)?.id}`;
    }
    expect(sizes).toEqual([1000, 1000, 500, 0]);
    expect(seen.size).toBe(2500);
  });

  it('send at most 1 MiB of a log at once', async () => {
    const { id } = await server.daemon.submit({ command: ['true'] });
    server.daemon.setLog(id, 'x'.repeat(serverLimits.logBytes + 5));
    const answer = await server.ask(`/jobs/${id}/log`);
    expect((await answer.text()).length).toBe(serverLimits.logBytes);
    expect(answer.headers.get('x-log-next')).toBe(String(serverLimits.logBytes));
    expect(answer.headers.get('x-log-size')).toBe(String(serverLimits.logBytes + 5));
  });

  it('that are not there are told so, however they are named', async () => {
    for (const id of ['9', 'x', '%00', '..%2f..', '%E0%A4%A', 'a'.repeat(100), '-1', '1e3']) {
      for (const path of [`/jobs/${id}`, `/jobs/${id}/log`, `/jobs/${id}/history`]) {
        expect(await errorOf(server.ask(path))).toBe('404 unknown-job');
      }
      const cancelled = server.ask(`/jobs/${id}`, { method: 'DELETE' });
      expect(await errorOf(cancelled)).toBe('404 unknown-job');
    }
    expect(await errorOf(server.ask(`/jobs/${'a'.repeat(101)}`))).toBe('400 bad-option');
  });
});

describe('the rest', () => {
  it('tells the devices and their past', async () => {
    expect(await (await server.ask('/devices')).json()).toMatchObject({
      devices: [{ id: 'gpu:0', takesJobs: true }],
    });
    const past = await server.ask('/devices/gpu%3A0/history?seconds=3&points=2');
    expect(await past.json()).toMatchObject({ id: 'gpu:0', usedMax: [2, 2] });
    expect(await errorOf(server.ask('/devices/gpu:9/history'))).toBe('404 unknown-device');
  });

  it('tells the status under our names, and under those of an earlier tool where asked', async () => {
    await server.daemon.submit({ command: ['true'] });
    const ours = await (await server.ask('/workers/status')).json();
    expect(ours).toMatchObject({ waitingJobs: 1, waitingBytes: 1024 ** 3 });
    expect(Object.keys(Object(ours)).filter((name) => name.includes('_'))).toEqual([]);
    const legacy = await (await server.ask('/workers/status?style=legacy')).json();
    expect(legacy).toEqual({
      schema: 1,
      active_jobs: 0,
      pending_jobs: 1,
      total_allocated_mb: 0,
      pending_requirements_mb: 1024,
    });
    expect(await errorOf(server.ask('/workers/status?style=old'))).toBe('400 bad-option');
  });

  it('tells its health, and that it has none', async () => {
    const well = await server.ask('/healthz');
    expect([well.status, await well.json()]).toMatchObject([
      200,
      { status: 'ok', version: '1.2.3' },
    ]);
    server.daemon.setHealth({ ok: false, why: 'The store of jobs cannot be written.' });
    const ill = await server.ask('/healthz');
    expect([ill.status, await ill.json()]).toMatchObject([
      503,
      { status: 'failing', why: 'The store of jobs cannot be written.' },
    ]);
  });

  it('counts requests by route, not by address', async () => {
    await server.ask('/jobs/1');
    await server.ask('/jobs/2');
    await server.ask('/nowhere/a');
    const text = await (await server.ask('/metrics')).text();
    expect(text).toContain('http_requests_total{method="GET",route="/jobs/:id",status="404"} 2');
    expect(text).toContain('http_requests_total{method="GET",route="unknown",status="404"} 1');
  });

  it('answers HEAD as GET, without a body', async () => {
    const answer = await server.ask('/jobs', { method: 'HEAD' });
    expect([answer.status, await answer.text()]).toEqual([200, '']);
    const events = await server.ask('/events', { method: 'HEAD' });
    expect([events.status, await events.text()]).toEqual([200, '']);
  });

  it('carries the headers that keep browsers safe on every answer, and none that opens it up', async () => {
    for (const path of ['/jobs', '/nope', '/metrics', '/jobs?limit=x', '/openapi.json']) {
      const { headers } = await server.ask(path);
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});

describe('what is wrong', () => {
  it('is told: routes, methods, options', async () => {
    expect(await errorOf(server.ask('/nope'))).toBe('404 unknown-route');
    expect(await errorOf(server.ask('/jobs/'))).toBe('404 unknown-route');
    for (const [method, path, allowed] of [
      ['PUT', '/jobs', 'GET, POST'],
      ['PATCH', '/jobs/1', 'GET, DELETE'],
      ['POST', '/jobs/1/log', 'GET'],
      ['DELETE', '/healthz', 'GET'],
      ['OPTIONS', '/plan', 'POST'],
      ['GET', '/estimate', 'POST'],
    ] as const) {
      const answer = await server.ask(path, { method });
      expect(answer.headers.get('allow')).toBe(allowed);
      expect(await errorOf(answer)).toBe('405 wrong-method');
    }
    for (const query of ['limit=0', 'limit=1001', 'limit=x', 'order=up', 'after=-1', 'state=']) {
      expect(await errorOf(server.ask(`/jobs?${query}`))).toBe('400 bad-option');
    }
    expect(await errorOf(server.ask('/healthz?x=1'))).toBe('400 unknown-option');
  });

  it('is told: bodies', async () => {
    for (const [body, code] of [
      ['', 'bad-json'],
      ['{', 'bad-json'],
      ['{"command":["a"]', 'bad-json'],
      ['nonsense', 'bad-json'],
      ['"\u0000"', 'bad-json'],
      ['[]', 'bad-field'],
      ['{}', 'bad-field'],
      ['{"command":["a"],"nmae":"x"}', 'unknown-field'],
    ] as const) {
      expect(await errorOf(server.send('POST', '/jobs', body))).toBe(`400 ${code}`);
    }
    const wrong = await server.send('POST', '/jobs', '{"command":["a"],"workload":{"batch":0}}');
    expect(await wrong.json()).toMatchObject({
      error: { code: 'bad-field', field: 'workload.batch' },
    });
    const broken = server.ask('/jobs', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: new Uint8Array([0x22, 0xff, 0x22]),
    });
    expect(await errorOf(broken)).toBe('400 bad-json');
    expect(server.daemon.submitted).toEqual([]);
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json5',
    'application/json; charset=latin1',
  ])('is told: a body of the type %s, which a foreign page could send', async (type) => {
    for (const path of ['/jobs', '/estimate', '/plan', '/session']) {
      const answer = server.ask(path, {
        method: 'POST',
        headers: { 'content-type': type },
        body: '{"command":["a"]}',
      });
      expect(await errorOf(answer)).toBe('415 wrong-content-type');
    }
    expect(server.daemon.submitted).toEqual([]);
  });

  it('that the daemon says comes with its status', async () => {
    const full = {
      kind: 'missing',
      code: 'disk-full',
      fact: 'The disk is full.',
      next: 'x',
    } as const;
    server.daemon.failNext(new Failure(full));
    expect(await errorOf(server.send('POST', '/jobs', { command: ['a'] }))).toBe('507 disk-full');
    const queue = { kind: 'input', code: 'queue-full', fact: 'Full.', next: 'x' } as const;
    server.daemon.failNext(new Failure(queue));
    const refused = await server.send('POST', '/jobs', { command: ['a'] });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
  });

  it('with us is no inside view for strangers, and is in the log', async () => {
    server.daemon.failNext(new Error('secret inside'));
    const answer = await server.ask('/jobs');
    const text = await answer.text();
    expect(answer.status).toBe(500);
    expect(text).toContain('"code":"internal"');
    expect(text).not.toMatch(/secret|\.ts|Error:/);
    expect(server.lines.join('\n')).toMatch(/^GET \/jobs 500: Error: secret inside\n +at /);
    expect((await server.ask('/jobs')).status).toBe(200);
  });
});

describe('the log', () => {
  it('has one line a request where asked, none where not', async () => {
    await server.ask('/jobs');
    await server.ask('/nope');
    expect(server.lines).toEqual([]);
    const loud = await startTestServer({ logRequests: true });
    await loud.ask('/jobs?limit=5');
    await loud.ask('/nope');
    await loud.ask('/', { headers: { origin: 'http://evil.example' } });
    expect(loud.lines).toEqual(['GET /jobs 200', 'GET /nope 404', 'GET / 403']);
    await loud.close();
  });
});
