import { createServer, type RequestListener, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { authorizationOf, openPrometheus, prometheusUrl } from './prometheus.js';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serving(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (failure: unknown) => failure,
  );
  if (error instanceof Failure) return error.code;
  throw error ?? new Error('it did not fail');
}

const signal = new AbortController().signal;
const answer = '{"status":"success","data":{"resultType":"vector","result":[]}}';

describe('a Prometheus', () => {
  it('is asked with the secret, and answers', async () => {
    const seen: string[] = [];
    const url = await serving((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
      request.on('data', (chunk) => seen.push(String(chunk)));
      request.on('end', () => response.end(answer));
    });
    const prometheus = openPrometheus({ url, authorization: 'Bearer abc' });
    expect(await prometheus.points('up{a="b"}', signal)).toEqual([]);
    expect(seen).toEqual([
      'POST /api/v1/query Bearer abc',
      'query=up%7Ba%3D%22b%22%7D&timeout=30s',
    ]);
  });

  it('that refuses, is another program, redirects or is silent is named', async () => {
    const status = (code: number, body: string) =>
      serving((_, response) => {
        response.writeHead(code, { location: 'http://127.0.0.1:1/' });
        response.end(body);
      });
    const asked = (url: string, seconds?: number) =>
      codeOf(openPrometheus({ url }, seconds).points('up', signal));
    expect(await asked(await status(401, 'Unauthorized'))).toBe('prometheus-refused');
    expect(await asked(await status(404, '<html>'))).toBe('no-prometheus');
    expect(await asked(await status(200, '<html>'))).toBe('no-prometheus');
    expect(await asked(await status(302, ''))).toBe('no-prometheus');
    const failed = '{"status":"error","errorType":"execution","error":"too many samples"}';
    expect(await asked(await status(422, failed))).toBe('prometheus-failed');
    expect(await asked(await serving(() => undefined), 0.05)).toBe('prometheus-slow');
    expect(await asked('http://127.0.0.1:1')).toBe('prometheus-unreachable');
  });

  it('ends with its caller', async () => {
    const url = await serving(() => undefined);
    const stop = new AbortController();
    const asked = codeOf(openPrometheus({ url }).points('up', stop.signal));
    stop.abort();
    expect(await asked).toBe('interrupted');
  });
});

describe('its address and secret', () => {
  it('are read as people write them', () => {
    expect(prometheusUrl('https://example.org/prometheus/', '')).toBe(
      'https://example.org/prometheus',
    );
    expect(authorizationOf('bearer abc\n', '')).toBe('Bearer abc');
    expect(authorizationOf('Basic ada:pass word', '')).toBe(
      `Basic ${Buffer.from('ada:pass word').toString('base64')}`,
    );
  });

  it('are refused where they cannot be used, and the secret is not repeated', () => {
    for (const bad of ['', 'prometheus:9090', 'ftp://a', 'http://ada:secret@host']) {
      expect(() => prometheusUrl(bad, '--prometheus')).toThrow(Failure);
    }
    expect(() => prometheusUrl('http://ada:secret@host', '--prometheus')).toThrow(/^(?!.*secret@)/);
    for (const bad of ['', 'abc', 'bearer', 'bearer a b', 'basic ada', 'bearer a\nb']) {
      expect(() => authorizationOf(bad, 'FILE')).toThrow(/FILE holds neither/);
    }
  });
});
