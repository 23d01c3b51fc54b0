import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeCertificate } from '../../../test/support/certificate.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { createVirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import { openWebhook, reviewEstimates, type Webhook } from './open-webhook.js';

let folder = '';
let files = { cert: '', key: '' };
let webhook: Webhook;
const lines: string[] = [];
let estimate = (): Promise<number> => Promise.resolve(4 * GiB);
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-webhook-'));
  files = makeCertificate(folder);
  webhook = await openWebhook(options());
});
afterAll(async () => {
  await webhook.close();
  rmSync(folder, { recursive: true, force: true });
});

function options() {
  const fault = (error: unknown) => lines.push(String(error));
  return {
    host: '127.0.0.1',
    port: 0,
    certFile: files.cert,
    keyFile: files.key,
    rules: { sharing: 'hami', strict: false, estimate: () => estimate(), fault },
    log: (line: string) => lines.push(line),
  } as const;
}

async function send(path: string, body: string | Buffer, more: RequestOptions = {}) {
  const sent = request(`${webhook.url}${path}`, {
    method: 'POST',
    ca: readFileSync(files.cert),
    agent: false,
    headers: { 'content-type': 'application/json' },
    ...more,
  });
  // One that is refused early may close while it is still being sent.
  sent.on('error', () => {});
  sent.end(body);
  const [answer] = await once(sent, 'response');
  const socket: TLSSocket = answer.socket;
  const serial = socket.getPeerCertificate().serialNumber;
  let text = '';
  for await (const piece of answer) text += String(piece);
  return { status: answer.statusCode, body: JSON.parse(text), serial };
}

const review = (dryRun: boolean) =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'u-1',
      kind: { group: '', version: 'v1', kind: 'Pod' },
      operation: 'CREATE',
      dryRun,
      object: {
        metadata: { annotations: { 'plimsoll.dev/estimate': '{"model": "gpt2"}' } },
        spec: { containers: [{ name: 'train' }] },
      },
    },
  });

describe('the webhook over TLS', () => {
  it('answers an AdmissionReview, and a dry run the same', async () => {
    // As API servers ask, with the time that they wait.
    const { status, body } = await send('/mutate?timeout=10s', review(false));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u-1', allowed: true, patchType: 'JSONPatch' },
    });
    const steps: unknown = JSON.parse(Buffer.from(body.response.patch, 'base64').toString());
    expect(steps).toContainEqual({
      op: 'add',
      path: '/spec/containers/0/resources',
      value: {
        limits: { 'nvidia.com/gpu': '1', 'nvidia.com/gpumem': '4096' },
        requests: {
          cpu: '2',
          memory: '4096Mi',
          'nvidia.com/gpu': '1',
          'nvidia.com/gpumem': '4096',
        },
      },
    });
    expect((await send('/mutate', review(true))).body).toEqual(body);
  });

  it.each([
    ['/mutate', '{', 400, 'bad-json'],
    ['/mutate', '[]', 400, 'bad-review'],
    ['/mutate', Buffer.alloc(9 * 1024 * 1024, ' '), 413, 'body-too-large'],
    ['/jobs', '{}', 404, 'unknown-route'],
  ])('%s: what it cannot read gets a clear error', async (path, sent, status, code) => {
    const answer = await send(path, sent);
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(answer.body.error.next.length).toBeGreaterThan(5);
  });

  it('tells that it is well, and takes no GET for a review', async () => {
    expect((await send('/healthz', '', { method: 'GET' })).body).toEqual({ status: 'ok' });
    expect((await send('/mutate', '', { method: 'GET' })).status).toBe(405);
    const text = await send('/mutate', review(false), {
      headers: { 'content-type': 'text/plain' },
    });
    expect(text.status).toBe(415);
  });

  it('answers beside many who hold connections and say nothing, or half of a review', async () => {
    const { port } = new URL(webhook.url);
    const silent = Array.from({ length: 300 }, () => connect(Number(port), '127.0.0.1'));
    const half = Array.from({ length: 300 }, () => {
      const socket = connectTls({
        port: Number(port),
        host: '127.0.0.1',
        ca: readFileSync(files.cert),
        servername: 'localhost',
      });
      socket.write(
        'POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{',
      );
      return socket;
    });
    const held = [...silent, ...half];
    for (const socket of held) socket.on('error', () => {});
    onTestFinished(() => void held.map((socket) => socket.destroy()));
    await Promise.all(
      held.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])),
    );
    // Long before the silent ones are closed for their silence.
    const signal = AbortSignal.timeout(20_000);
    expect((await send('/mutate', review(false), { signal })).status).toBe(200);
  });

  it('is not closed for others while it waits for an estimate', async () => {
    const { port } = new URL(webhook.url);
    let asked = () => {};
    const begun = new Promise<void>((resolve) => {
      asked = resolve;
    });
    let answer = (_bytes: number) => {};
    estimate = () => {
      asked();
      return new Promise((resolve) => {
        answer = resolve;
      });
    };
    onTestFinished(() => {
      estimate = () => Promise.resolve(4 * GiB);
    });
    const waiting = send('/mutate', review(false));
    await begun;
    const others = Array.from({ length: 300 }, () => connect(Number(port), '127.0.0.1'));
    for (const socket of others) socket.on('error', () => {});
    await Promise.race(others.map((socket) => once(socket, 'close')));
    answer(4 * GiB);
    expect((await waiting).status).toBe(200);
    for (const socket of others) socket.destroy();
  });

  it('takes up a new certificate, and keeps the one that works where the new one is broken', async () => {
    const first = (await send('/mutate', review(false))).serial;
    makeCertificate(folder);
    webhook.renew();
    const second = (await send('/mutate', review(false))).serial;
    expect(second).not.toBe(first);
    const whole = readFileSync(files.cert);
    writeFileSync(files.cert, 'half');
    webhook.renew();
    webhook.renew();
    writeFileSync(files.cert, whole);
    expect((await send('/mutate', review(false))).serial).toBe(second);
    expect(lines.map((line) => line.split(':', 1)[0])).toEqual([
      'The certificate changed; new connections use the new one.',
      'The earlier certificate stays in use',
    ]);
  });

  it.each([
    ['/nowhere/tls.crt', /cannot be read: there is no such file/],
    [import.meta.filename, /are not a certificate and its key/],
  ])('says what is wrong with a certificate: %s', async (certFile, fact) => {
    await expect(openWebhook({ ...options(), certFile })).rejects.toMatchObject({
      code: 'bad-certificate',
      fact: expect.stringMatching(fact),
    });
  });
});

const waitSeconds = 8;

/** Estimates that end when the test says so. */
function estimates() {
  const clock = createVirtualClock();
  const made: ((bytes: number) => void)[] = [];
  const ask = reviewEstimates(() => new Promise<number>((resolve) => made.push(resolve)), clock);
  return { clock, made, ask: (workload: WorkloadRequest) => ask(workload, waitSeconds) };
}

it('goes on when a review cannot wait, and answers the next one of this workload', async () => {
  const { clock, made, ask } = estimates();
  await Promise.all([
    expect(ask({ model: 'gpt2' })).rejects.toMatchObject({ code: 'estimate-not-ready' }),
    clock.advance(waitSeconds),
  ]);
  const second = ask({ model: 'gpt2' });
  made[0]?.(7);
  expect(await second).toBe(7);
  expect(await ask({ model: 'gpt2' })).toBe(7);
  expect(made).toHaveLength(1);
});

it('takes so many different ones at once, and more when those are done', async () => {
  const { made, ask } = estimates();
  const first = Array.from({ length: 200 }, (_, at) => ask({ model: 'gpt2', batch: at + 1 }));
  await expect(ask({ model: 'gpt2', batch: 1000 })).rejects.toMatchObject({
    code: 'too-many-estimates',
  });
  for (const end of made) end(7);
  await Promise.all(first);
  const next = ask({ model: 'gpt2', batch: 1000 });
  made.at(-1)?.(9);
  expect(await next).toBe(9);
});
