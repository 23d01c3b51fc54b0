import { createServer, type Server } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { fakeAlert } from '../fake-device-for-tests.js';
import { deliverToWebhook } from './deliver-webhook.js';

interface Request {
  readonly method: string;
  readonly type: string;
  readonly token: string;
  readonly body: string;
}

let server: Server;
let address = '';
let requests: Request[] = [];
/** What the next requests are answered with; 200 when none is left, 0 is no answer at all. */
let answers: number[] = [];
let problems: string[] = [];
const report = (problem: string): void => {
  problems.push(problem);
};

beforeEach(async () => {
  requests = [];
  answers = [];
  problems = [];
  server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      requests.push({
        method: request.method ?? '',
        type: request.headers['content-type'] ?? '',
        token: request.headers.authorization ?? '',
        body,
      });
      const status = answers.shift() ?? 200;
      if (status === 0) return;
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('seen');
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const bound = server.address();
  address = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : ''}/secret-path`;
});

afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
});

describe('the alert webhook', () => {
  it('posts each alert as JSON, in order', async () => {
    const sink = deliverToWebhook(address, { headers: { authorization: 'Bearer token' } });
    const alerts = [1, 2, 3].map((atSeconds) => fakeAlert({ atSeconds }));
    for (const alert of alerts) sink.deliver(alert, report);
    await sink.close('drain');
    expect(requests.map(({ body }) => JSON.parse(body) as unknown)).toEqual(alerts);
    expect(requests[0]).toMatchObject({
      method: 'POST',
      type: 'application/json',
      token: 'Bearer token',
    });
    expect(problems).toEqual([]);
  });

  it('tries again after 503 and 429, and then tells no problem', async () => {
    answers = [503, 429];
    const sink = deliverToWebhook(address, { backoffSeconds: 0.01 });
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(requests).toHaveLength(3);
    expect(problems).toEqual([]);
  });

  it('gives up after a few attempts, and does not show the secret in the path', async () => {
    answers = [500, 500, 500, 500];
    const sink = deliverToWebhook(address, { backoffSeconds: 0.01 });
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(requests).toHaveLength(3);
    expect(problems).toEqual([
      `The alert webhook at ${new URL(address).origin} failed: it answered 500.`,
    ]);
  });

  it('takes no for an answer, and does not follow a redirect', async () => {
    for (const status of [404, 302]) {
      requests = [];
      answers = [status];
      const sink = deliverToWebhook(address, { backoffSeconds: 0.01 });
      sink.deliver(fakeAlert(), report);
      await sink.close('drain');
      expect(requests).toHaveLength(1);
      expect(problems.at(-1)).toContain(`it answered ${status}.`);
    }
  });

  it('does not wait for ever for an answer', async () => {
    answers = [0];
    const sink = deliverToWebhook(address, { timeoutSeconds: 0.05, attempts: 1 });
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(problems).toEqual([expect.stringContaining('no answer in 0.05 s.')]);
  });

  it('reports a server that is not there, and gives up at once when stopped', async () => {
    await new Promise((resolve) => {
      server.close(resolve);
    });
    const options = { attempts: 2, backoffSeconds: 0.01 };
    const sink = deliverToWebhook(address, options);
    sink.deliver(fakeAlert(), report);
    await sink.close('drain');
    expect(problems).toEqual([expect.stringContaining('ECONNREFUSED')]);
    const patient = deliverToWebhook(address, { backoffSeconds: 3600 });
    patient.deliver(fakeAlert(), report);
    await patient.close('stop');
    expect(problems).toHaveLength(1);
  });

  it('must be http or https, without a password', () => {
    for (const bad of ['', 'hook', 'file:///etc/passwd', 'ftp://a/b', 'https://me:pass@a/b']) {
      expect(() => deliverToWebhook(bad)).toThrow(Failure);
    }
    expect(() => deliverToWebhook('https://me:pass@a/b')).not.toThrow('me:pass');
  });
});
