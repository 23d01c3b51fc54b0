import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/made-once.js';
import {
  errorOf,
  openEvents,
  rawRequest,
  startTestServer,
  type TestServer,
} from '../server-for-tests.js';
import { serverLimits } from './limits.js';

const token = 'a-long-and-secret-token';
let server: TestServer;
beforeEach(async () => {
  server = await startTestServer({ logRequests: true });
});
afterEach(() => server.close());

const head = 'HTTP/1.1\nHost: localhost\nConnection: close';
const body = '{"command":["a"]}';
const chunked = `11\r\n${body}\r\n0\r\n\r\n`;

/** `404 unknown-job`, or the status alone. */
async function ask(request: string, content = ''): Promise<string> {
  const text = await rawRequest(server.port, request, content).closed;
  const [, status = ''] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? [];
  const [, code] = /"error":\{"code":"([\w-]+)"/.exec(text) ?? [];
  return code === undefined ? status : `${status} ${code}`;
}

describe('a body whose end is doubtful', () => {
  const post = `POST /jobs ${head}\nContent-Type: application/json`;
  it.each([
    ['gzip, chunked', `${post}\nTransfer-Encoding: gzip, chunked`],
    ['chunked, identity', `${post}\nTransfer-Encoding: chunked, identity`],
    ['xchunked', `${post}\nTransfer-Encoding: xchunked`],
    ['chunked twice', `${post}\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked`],
    ['chunked and a length', `${post}\nTransfer-Encoding: chunked\nContent-Length: 17`],
    ['a version without chunks', `${post.replace('1.1', '1.0')}\nTransfer-Encoding: chunked`],
    ['a folded header', `${post}\nX: a\n b\nTransfer-Encoding: chunked`],
    ['a space before the colon', `${post}\nTransfer-Encoding : chunked`],
  ])('is refused: %s', async (_, request) => {
    expect(await ask(request, chunked)).toBe('400 broken-request');
    expect(server.daemon.submitted).toEqual([]);
  });

  it.each(['+17', '0x11', '1 7', '17, 17', '-1'])('is refused: a length of %s', async (length) => {
    expect(await ask(`${post}\nContent-Length: ${length}`, body)).toBe('400 broken-request');
  });

  it('is no matter where it is plain', async () => {
    expect(await ask(`${post}\nTransfer-Encoding: Chunked`, chunked)).toBe('201');
  });
});

describe('a body that is made to hurt', () => {
  it.each(['gzip', 'br', 'identity', ''])('is not unpacked: "%s"', async (packing) => {
    const headers = { 'content-type': 'application/json', 'content-encoding': packing };
    const answer = server.ask('/jobs', { method: 'POST', headers, body });
    expect(await errorOf(answer)).toBe('415 packed-body');
  });

  it.each([
    ['nested deep', `{"command":${'['.repeat(400_000)}${']'.repeat(400_000)}}`],
    ['many values', `{"command":[${'[],'.repeat(300_000)}[]]}`],
    [
      'many keys',
      JSON.stringify({
        command: ['a'],
        env: Object.fromEntries(Array.from({ length: 80_000 }, (_, at) => [`=${at}`, 1])),
      }),
    ],
    ['a key of its own', '{"command":["a"],"env":{"__proto__":"x"}}'],
    ['a key of its own, at the top', '{"__proto__":{"command":["a"]}}'],
  ])('is told what is wrong before it is checked: %s', async (_, text) => {
    expect(await errorOf(server.send('POST', '/jobs', text))).toBe('400 bad-json');
    expect(server.lines.join('\n')).not.toContain('500');
  });

  it('with the longest command there may be is taken', async () => {
    const command = Array.from({ length: 10_000 }, () => 'a');
    expect((await server.send('POST', '/jobs', { command })).status).toBe(201);
  });

  it('changes no object of ours', async () => {
    for (const key of ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty']) {
      const text = `{"command":["a"],"env":{"A":"b"},"${key}":{"polluted":1,"open":true}}`;
      expect(await errorOf(server.send('POST', '/jobs', text))).toMatch(/^400 /);
    }
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect('polluted' in {}).toBe(false);
  });

  it('of a stranger may hold a token and no more', async () => {
    const guarded = await startTestServer({ token });
    const long = { token: 'x'.repeat(serverLimits.strangersBodyBytes) };
    expect(await errorOf(guarded.send('POST', '/session', long))).toBe('413 body-too-large');
    await guarded.close();
  });

  it('half-sent by many is refused before it fills the memory', async () => {
    const part = `{"command":["${'x'.repeat(1_000_000)}`;
    const request = `POST /jobs ${head}\nContent-Type: application/json\nContent-Length: 1048576`;
    const many = Array.from({ length: 70 }, () => rawRequest(server.port, request, part));
    await eventually(() => many.some((raw) => raw.text().includes('"too-busy"')));
    expect((await server.ask('/healthz')).status).toBe(200);
    for (const { socket } of many) socket.destroy();
    await Promise.all(many.map(({ closed }) => closed));
    // What they held is given back.
    await eventually(async () => (await server.send('POST', '/jobs', body)).status === 201);
  });
});

describe('a name that is made to hurt', () => {
  const name = 'a\r\n\r\ndata: x\nid: 99\nplimsoll_fake 1\n\u2028"},\u0000\u001b[31m\\';
  it('is one line in events, and comes back as it was', async () => {
    const events = openEvents(server.port);
    await events.until(/\nid: 0\n/);
    await server.send('POST', '/jobs', { command: ['a'], name });
    const [event] = await events.untilEvents(1);
    expect(event).toMatchObject({ event: 'job', id: '1', data: { job: { name } } });
    events.socket.destroy();
  });

  it('is one line in the log', async () => {
    await server.ask(`/jobs/${encodeURIComponent(name)}`);
    await server.ask(`/${encodeURIComponent(name)}`);
    expect(server.lines).toHaveLength(2);
    // oxlint-disable-next-line no-control-regex -- they are what is looked for
    for (const line of server.lines) expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  });
});

describe('requests of unusual kinds', () => {
  it.each(['TRACE', 'OPTIONS', 'PUT', 'PATCH', 'PROPFIND'])('%s does nothing', async (method) => {
    expect(await ask(`${method} /jobs ${head}`)).toBe('405 wrong-method');
    const answer = await rawRequest(server.port, `${method} /jobs ${head}\nX-Secret: y`).closed;
    expect(answer).toMatch(/\r\nallow: GET, POST\r\n/i);
    expect(answer).not.toMatch(/x-secret|access-control/i);
  });

  it('HEAD is GET without what it answers', async () => {
    const { status, headers, body: none } = await server.ask('/jobs', { method: 'HEAD' });
    expect([status, headers.get('cache-control'), none]).toEqual([200, 'no-store', null]);
  });

  it('an upgrade is an ordinary request, and CONNECT none at all', async () => {
    const upgrade = 'Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13';
    const raw = rawRequest(server.port, `GET /jobs HTTP/1.1\nHost: localhost\n${upgrade}`);
    await raw.until(/^HTTP\/1\.1 200 [^]*"lastEventId"/);
    raw.socket.destroy();
    expect(await ask(`CONNECT localhost:22 ${head}`)).toBe('');
    expect(await ask('PRI * HTTP/2.0', 'SM\r\n\r\n')).toBe('400 broken-request');
  });

  it('an old one must name its host, too', async () => {
    expect(await ask('GET /healthz HTTP/1.0')).toBe('400 no-host');
    expect(await ask('GET /healthz HTTP/1.0\nHost: localhost')).toBe('200');
  });

  it.each([
    ['/jobs/1%2Flog', '404 unknown-job'],
    ['/jobs/..%2f..%2fetc%2fpasswd/log', '404 unknown-job'],
    ['/jobs/%2e%2e/jobs/9', '404 unknown-job'],
    ['/assets/..%2f..%2fpackage.json', '404 unknown-route'],
    ['/%2e%2e/%2e%2e/etc/passwd', '404 unknown-route'],
    ['/jobs/%ff', '404 unknown-job'],
    ['/jobs/%', '404 unknown-job'],
    ['/jobs/%00', '404 unknown-job'],
    ['//jobs', '404 unknown-route'],
    ['/jobs/', '404 unknown-route'],
    ['/JOBS', '404 unknown-route'],
    ['/jobs;a=1', '404 unknown-route'],
  ])('no path leads elsewhere: %s', async (path, answer) => {
    expect(await ask(`GET ${path} ${head}`)).toBe(answer);
  });

  it('no path leads around the token', async () => {
    const guarded = await startTestServer({ token });
    for (const path of [
      '/healthz/../jobs',
      '/healthz/%2e%2e/jobs',
      '/session/../jobs',
      'http://localhost/jobs',
      '/jobs?/healthz',
      '/jobs#/healthz',
    ]) {
      const text = await rawRequest(guarded.port, `GET ${path} ${head}`).closed;
      expect(text).toContain('"no-token"');
    }
    await guarded.close();
  });

  it('a client that leaves in the middle is no fault of ours', async () => {
    const raw = rawRequest(
      server.port,
      `POST /jobs ${head}\nContent-Type: application/json\nContent-Length: 99`,
      '{"comm',
    );
    await new Promise((resolve) => raw.socket.once('connect', resolve));
    raw.socket.resetAndDestroy();
    await eventually(() => server.lines.length > 0);
    expect(server.lines).toEqual(['POST /jobs 400']);
  });
});
