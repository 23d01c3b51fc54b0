import { createServer, type RequestListener, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { rayAddress, rayHttp } from './http.js';
import { readVersion } from './submission.js';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function serving(listener: RequestListener): Promise<string> {
  const made = createServer(listener);
  server = made;
  await new Promise<void>((resolve) => made.listen(0, '127.0.0.1', resolve));
  const address = made.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'no failure',
    (error: unknown) => (error instanceof Failure ? error.code : error),
  );
const options = { environment: {}, timeoutMs: 600_000, maxBytes: 1000 };
const version = (text: string) =>
  serving((_, response) => response.end(JSON.stringify({ ray_version: text, session_name: 's' })));

describe('the dashboard of Ray over HTTP', () => {
  it('answers, with the token of the environment, and knows no browser', async () => {
    const seen: unknown[] = [];
    const address = await serving((request, response) => {
      seen.push(request.headers.authorization, request.headers['sec-fetch-mode']);
      response.end('{"a": 1}');
    });
    const http = rayHttp(address, { ...options, environment: { RAY_AUTH_TOKEN: 'word' } });
    expect(await http.post('/api/jobs/', { b: 2 })).toEqual({ a: 1 });
    expect(seen).toEqual(['Bearer word', undefined]);
  });

  it.each<[string, RequestListener, string]>([
    ['a page', (_, response) => response.end('<html>'), 'not-ray'],
    ['half a document', (_, response) => response.end('{"a": '), 'not-ray'],
    [
      'a login',
      (_, response) => response.writeHead(302, { location: 'http://elsewhere/' }).end(),
      'not-ray',
    ],
    ['no access', (_, response) => response.writeHead(401).end(), 'ray-denied'],
    ['an error', (_, response) => response.writeHead(500).end('trace\nlast line'), 'ray-refused'],
    ['too much', (_, response) => response.end(`"${'x'.repeat(2000)}"`), 'ray-answer-too-large'],
    ['a broken connection', (request) => request.socket.destroy(), 'no-ray-head'],
  ])('%s is one clear error', async (_, listener, code) => {
    const http = rayHttp(await serving(listener), options);
    expect(await codeOf(http.get('/api/version'))).toBe(code);
  });

  it.each([
    [500, 'Try again in a minute'],
    [400, 'Change what it names'],
  ])('that refuses with %i says what to do: %s', async (status, next) => {
    const address = await serving((_, response) => response.writeHead(status).end('trace\nlast'));
    await expect(rayHttp(address, options).get('/')).rejects.toMatchObject({
      fact: `Ray at ${address} answered ${status}: last.`,
      next: expect.stringContaining(next),
    });
  });

  it('that never answers is a timeout, and none at all is no head', async () => {
    const silent = rayHttp(await serving(() => {}), { ...options, timeoutMs: 50 });
    expect(await codeOf(silent.get('/'))).toBe('ray-timeout');
    expect(await codeOf(rayHttp('http://127.0.0.1:1', options).get('/'))).toBe('no-ray-head');
  });

  it('what is not there is undefined', async () => {
    const address = await serving((_, response) => response.writeHead(404).end('no such job'));
    expect(await rayHttp(address, options).get('/api/jobs/x')).toBeUndefined();
  });

  it.each([
    ['2.60.0', 'no failure'],
    ['3.0.0.dev0', 'no failure'],
    ['2.3.1', 'no failure'],
    ['2.2.0', 'ray-too-old'],
    ['1.13.0', 'ray-too-old'],
    ['latest', 'not-ray'],
  ])('version %s: %s', async (text, code) => {
    expect(await codeOf(readVersion(rayHttp(await version(text), options)))).toBe(code);
  });
});

describe('the address of the dashboard', () => {
  it('is that of the option, of Ray’s variables, of the configuration, or this machine', () => {
    const variables = { RAY_API_SERVER_ADDRESS: 'http://b:1', RAY_ADDRESS: 'http://c:1' };
    expect(rayAddress('http://a:1/', variables, 'http://d:1')).toBe('http://a:1');
    expect(rayAddress(undefined, variables, 'http://d:1')).toBe('http://b:1');
    expect(rayAddress(undefined, { RAY_ADDRESS: 'http://c:1' }, undefined)).toBe('http://c:1');
    expect(rayAddress(undefined, { RAY_ADDRESS: 'c:6379' }, 'https://d/ray')).toBe('https://d/ray');
    expect(rayAddress(undefined, {}, undefined)).toBe('http://127.0.0.1:8265');
  });

  it.each(['head:8265', 'ray://head:10001', 'http://u:p@head', 'http://head?x=1', ''])(
    '"%s" is refused',
    (text) => {
      expect(() => rayAddress(text, {}, undefined)).toThrow('--address cannot be');
    },
  );
});
