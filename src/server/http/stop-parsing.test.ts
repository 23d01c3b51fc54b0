import { createServer } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stopParsingWhenClosed } from './exchanges.js';
import { type Arrival, judgeAccess } from './http-listener.js';
import { serverLimits } from './limits.js';

const request = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** How many requests of one write reach a server that closes the connection at the third. */
async function heard(onConnection: typeof stopParsingWhenClosed): Promise<number> {
  let count = 0;
  const server = createServer(({ socket }, answer) => {
    count += 1;
    if (count === 3) socket.destroy();
    else answer.end();
  });
  onTestFinished(() => void server.close());
  server.on('connection', onConnection);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const ended = new Promise((resolve) =>
    server.once('connection', (one) => one.once('close', resolve)),
  );
  const client = connect(port, '127.0.0.1', () => client.write(request.repeat(500)));
  client.on('error', () => {});
  await ended;
  client.destroy();
  return count;
}

it('hears nothing more of a connection that was closed, of what was read of it before', async () => {
  // What Node does by itself, so that this test says when it is no longer needed.
  expect(await heard(() => {})).toBeGreaterThan(3);
  expect(await heard(stopParsingWhenClosed)).toBe(3);
});

it('leaves requests as they are while the connection is open', async () => {
  let count = 0;
  const server = createServer((_, answer) => {
    count += 1;
    answer.end();
  });
  onTestFinished(() => void server.close());
  server.on('connection', stopParsingWhenClosed);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const client = connect(port, '127.0.0.1', () => client.end(request.repeat(50)));
  let text = '';
  client.setEncoding('utf8').on('data', (chunk) => {
    text += String(chunk);
  });
  await new Promise((resolve) => client.once('close', resolve));
  expect([count, text.match(/HTTP\/1\.1 200 OK/g)?.length]).toEqual([50, 50]);
});

function judge(parts: Partial<Arrival>, allowed: string[] = []): string | undefined {
  return judgeAccess(
    { method: 'GET', url: '/jobs', hosts: ['localhost:8000'], headers: {}, ...parts },
    { listening: '127.0.0.1', allowed },
  )?.code;
}

describe('who may come in', () => {
  it('lets in programs that are no browsers', () => {
    expect(judge({})).toBeUndefined();
    expect(judge({ method: 'POST' })).toBeUndefined();
  });

  it('wants one host, and one of its own', () => {
    expect(judge({ hosts: [] })).toBe('no-host');
    expect(judge({ hosts: ['localhost', 'evil.example'] })).toBe('no-host');
    expect(judge({ hosts: ['evil.example'] })).toBe('foreign-host');
  });

  it('wants a host of its own also where the address names one', () => {
    expect(judge({ url: 'http://localhost:8000/jobs' })).toBeUndefined();
    for (const url of [
      'http://evil.example/jobs',
      'HTTPS://evil.example',
      'http://localhost@evil.example/',
      'http://evil.example?x=http://localhost/',
      'http:///jobs',
    ]) {
      expect(judge({ url })).toBe('foreign-host');
    }
    // No address: a path, of whatever look.
    expect(judge({ url: '//evil.example/jobs' })).toBeUndefined();
    expect(judge({ url: '/http://evil.example/' })).toBeUndefined();
  });

  it('knows the port that browsers leave out', () => {
    const from = (origin: string, host: string) => judge({ hosts: [host], headers: { origin } });
    expect(from('https://localhost', 'localhost:443')).toBeUndefined();
    expect(from('http://localhost', 'localhost:80')).toBeUndefined();
    expect(from('https://localhost', 'localhost:80')).toBe('foreign-origin');
    expect(from('https://localhost:8443', 'localhost:443')).toBe('foreign-origin');
  });

  it.each(['GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS'])('refuses other origins: %s', (method) => {
    for (const origin of [
      'http://evil.example',
      'http://localhost:3000',
      'http://127.0.0.1:8000',
      'http://localhost',
      'null',
      '',
      'file://',
      'http://localhost:8000.evil.example',
      'http://localhost:8000, http://evil.example',
    ]) {
      expect(judge({ method, headers: { origin } })).toBe('foreign-origin');
    }
    expect(judge({ method, headers: { origin: 'http://localhost:8000' } })).toBeUndefined();
  });

  it('knows its own page behind a proxy that speaks TLS', () => {
    const headers = { origin: 'https://gpu.example', 'sec-fetch-site': 'same-origin' };
    expect(judge({ hosts: ['gpu.example'], headers }, ['gpu.example'])).toBeUndefined();
    // A proxy that hands on its own name for us.
    expect(judge({ hosts: ['127.0.0.1:8000'], headers }, ['gpu.example'])).toBeUndefined();
  });

  it('refuses what a browser says is of another site, also where it names no origin', () => {
    for (const site of ['cross-site', 'same-site', 'whatever']) {
      expect(judge({ headers: { 'sec-fetch-site': site } })).toBe('foreign-origin');
      const origin = 'http://localhost:8000';
      expect(judge({ headers: { 'sec-fetch-site': site, origin } })).toBe('foreign-origin');
    }
    expect(judge({ headers: { 'sec-fetch-site': 'same-origin' } })).toBeUndefined();
    expect(judge({ headers: { 'sec-fetch-site': 'none' } })).toBeUndefined();
  });

  it('lets a link elsewhere lead to the page, and to nothing but the page', () => {
    const headers = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    expect(judge({ url: '/?x=1', headers })).toBeUndefined();
    expect(judge({ url: '/jobs', headers })).toBe('foreign-origin');
    expect(judge({ url: '/', method: 'POST', headers })).toBe('foreign-origin');
    const framed = { ...headers, 'sec-fetch-dest': 'iframe' };
    expect(judge({ url: '/', headers: framed })).toBe('foreign-origin');
  });

  it('refuses addresses that are too long', () => {
    const most = serverLimits.urlCharacters;
    expect(judge({ url: `/${'a'.repeat(most - 1)}` })).toBeUndefined();
    expect(judge({ url: `/${'a'.repeat(most)}` })).toBe('address-too-long');
  });
});
