import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Failure } from '../../failure.js';
import { jobForTests } from '../../report/job-for-tests.js';
import { proofOf } from '../../server/access/token.js';
import {
  readServerNote,
  removeServerNote,
  writeServerNote,
} from '../../server/service/server-file.js';
import { sendJob } from '../commands/submit.js';
import { findServer, isOnThisMachine } from './find-server.js';
import { cancelJob, listJobs, openServerClient, readJob, readLog } from './server-client.js';
import { type Asked, answerJson, serverForTests } from './server-for-tests.js';

/** A server that knows a token, and answers everything else as a test wants it. */
function proving(token: string, answer: (response: ServerResponse) => void) {
  return ({ url }: Asked, response: ServerResponse): void => {
    const nonce = new URL(url, 'http://x').searchParams.get('nonce');
    if (nonce === null) answer(response);
    else answerJson(response, { proof: proofOf(token, nonce) });
  };
}

const never = new AbortController().signal;
const now = async () => {};

async function failure(asked: Promise<unknown>): Promise<Failure> {
  const error: unknown = await asked.then(
    () => 'an answer',
    (reason: unknown) => reason,
  );
  if (error instanceof Failure) return error;
  throw new Error(`no Failure but ${String(error)}`);
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'plimsoll-test-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

describe('findServer', () => {
  it('takes the option, the variable, the file of the home, or the usual one', () => {
    const PLIMSOLL_HOME = folder();
    const home = { PLIMSOLL_HOME };
    const usual = 'http://127.0.0.1:8000';
    expect(findServer({}, home)).toEqual({ url: usual, isForeign: true });
    writeFileSync(join(PLIMSOLL_HOME, 'token'), 'kept\n', { mode: 0o600 });
    expect(findServer({}, home)).toEqual({ url: usual, token: 'kept' });
    const { pid } = process;
    writeServerNote(PLIMSOLL_HOME, { url: 'http://127.0.0.1:9/', pid, token: 'secret' });
    expect(findServer({}, home)).toEqual({ url: 'http://127.0.0.1:9', token: 'secret' });
    const PLIMSOLL_SERVER = 'https://gpu.example/plimsoll/';
    const other = { url: 'https://gpu.example/plimsoll', token: undefined };
    expect(findServer({}, { ...home, PLIMSOLL_SERVER })).toEqual(other);
    const PLIMSOLL_TOKEN = 'mine';
    const all = { ...home, PLIMSOLL_SERVER, PLIMSOLL_TOKEN };
    expect(findServer({ server: 'http://[::1]:7' }, all)).toEqual({
      url: 'http://[::1]:7',
      token: 'mine',
    });
  });

  it('takes what listens at the address of a server without a token that was killed for foreign', () => {
    const PLIMSOLL_HOME = folder();
    const url = 'http://127.0.0.1:9';
    writeServerNote(PLIMSOLL_HOME, { url, pid: 2 ** 30 });
    expect(findServer({}, { PLIMSOLL_HOME })).toEqual({ url, isForeign: true });
    writeServerNote(PLIMSOLL_HOME, { url, pid: process.pid });
    expect(findServer({}, { PLIMSOLL_HOME })).toEqual({ url });
  });

  it.each(['nowhere', 'ftp://a', 'http://user:pass@a', ''])('refuses %j', (server) => {
    expect(() => findServer({ server }, { PLIMSOLL_HOME: folder() })).toThrow(
      `--server cannot be "${server}"`,
    );
  });

  it('knows which servers are on this machine', () => {
    for (const url of ['http://127.0.0.1:8000', 'http://localhost', 'http://[::1]:1']) {
      expect(isOnThisMachine({ url })).toBe(true);
    }
    expect(isOnThisMachine({ url: 'http://gpu.example:8000' })).toBe(false);
  });
});

describe('the file of a server', () => {
  it('is for its owner alone, and goes only with the one who wrote it', () => {
    const home = join(folder(), 'new');
    writeServerNote(home, { url: 'http://a/', pid: 7, token: 'x' });
    expect(statSync(join(home, 'server.json')).mode & 0o777).toBe(0o600);
    writeServerNote(home, { url: 'http://b/', pid: 8 });
    removeServerNote(home, 7);
    expect(readServerNote(home)).toEqual({ url: 'http://b/', pid: 8 });
    removeServerNote(home, 8);
    expect(readServerNote(home)).toBeUndefined();
  });

  it.each([
    '',
    '{',
    '[]',
    '{"url":1,"pid":2}',
    '{"url":"?","pid":2}',
    '{"url":"http://a"}',
    'null',
  ])('counts as none where it holds %j', (text) => {
    const home = folder();
    writeFileSync(join(home, 'server.json'), text);
    expect(readServerNote(home)).toBeUndefined();
  });

  it('counts as none where it is a folder, or far too large', () => {
    const home = folder();
    mkdirSync(join(home, 'server.json'));
    expect(readServerNote(home)).toBeUndefined();
    const other = folder();
    const note = JSON.stringify({ url: 'http://a', pid: 1, more: 'x'.repeat(100_000) });
    writeFileSync(join(other, 'server.json'), note);
    expect(readServerNote(other)).toBeUndefined();
  });
});

describe('asking a server', () => {
  it('sends the token and the path, and hands on the answer', async () => {
    const job = jobForTests();
    const server = await serverForTests(proving('secret', (response) => answerJson(response, job)));
    const client = openServerClient({ url: server.url, token: 'secret' }, never);
    expect(await readJob(client, 'a/b')).toEqual(job);
    expect(server.asked[1]).toMatchObject({
      method: 'GET',
      url: '/jobs/a%2Fb',
      authorization: 'Bearer secret',
    });
  });

  it('sends neither token nor job to what cannot prove that it knows the token', async () => {
    const answers: ((asked: Asked, response: ServerResponse) => void)[] = [
      proving('another', () => undefined),
      (_, response) => answerJson(response, jobForTests(), 201),
      (_, response) => response.end('hello'),
      (_, response) =>
        answerJson(
          response,
          { error: { code: 'no-token-set', fact: 'None.', next: 'Go on.' } },
          400,
        ),
    ];
    for (const answer of answers) {
      const server = await serverForTests(answer);
      const client = openServerClient({ url: server.url, token: 'secret-token' }, never);
      const request = { command: ['true'], env: { PASSWORD: 'secret-word' } };
      const found = await failure(sendJob(client, request, never, now));
      expect(found).toMatchObject({ code: 'server-unproven', exitCode: 2 });
      expect(JSON.stringify(server.asked)).not.toContain('secret');
    }
  });

  it('asks for the proof again after a connection broke: another program may be there now', async () => {
    let times = 0;
    const server = await serverForTests(
      proving('secret', (response) => {
        times += 1;
        if (times === 1) response.destroy();
        else answerJson(response, jobForTests());
      }),
    );
    const client = openServerClient({ url: server.url, token: 'secret' }, never);
    await failure(readJob(client, '1'));
    await readJob(client, '1');
    const paths = server.asked.map(({ url }) => url.split('?')[0]);
    expect(paths).toEqual(['/proof', '/jobs/1', '/proof', '/jobs/1']);
  });

  it('does not speak to what is not a server of ours', async () => {
    const server = await serverForTests((_, response) => answerJson(response, jobForTests()));
    const client = openServerClient({ url: server.url, isForeign: true }, never);
    expect(await failure(readJob(client, '1'))).toMatchObject({ code: 'server-unreachable' });
    expect(server.asked).toEqual([]);
  });

  it.each([
    [404, 'unknown-job', 2],
    [400, 'bad-field', 2],
    [401, 'wrong-token', 2],
    [409, 'job-has-ended', 2],
    [503, 'queue-full', 3],
    [507, 'disk-full', 3],
    [500, 'internal', 3],
  ])('tells the error of status %i in its words', async (status, code, exitCode) => {
    const error = { code, fact: 'So it is.', next: 'Do that.' };
    const server = await serverForTests((_, response) => answerJson(response, { error }, status));
    const found = await failure(cancelJob(openServerClient(server, never), '1'));
    expect(found).toMatchObject({ code, exitCode });
    expect(found.fact).toContain('So it is.');
    if (status === 401) expect(found.next).toContain('PLIMSOLL_TOKEN');
  });

  it.each([
    [200, 'hello'],
    [200, '{}'],
    [200, '{"id":"1","state":"sleeping"}'],
    [500, '<html>'],
    [302, ''],
  ])('finds out another program (%i %j)', async (status, body) => {
    const server = await serverForTests((_, response) => {
      response.writeHead(status, { location: 'http://127.0.0.1:1/' });
      response.end(body);
    });
    const found = await failure(readJob(openServerClient(server, never), '1'));
    expect(found).toMatchObject({ code: 'no-plimsoll-server', exitCode: 3 });
  });

  it('says what to do where no server listens', async () => {
    const server = await serverForTests(() => {});
    await server.close();
    const found = await failure(readJob(openServerClient(server, never), '1'));
    expect(found).toMatchObject({ code: 'server-unreachable', exitCode: 3 });
    expect(found.message).toContain('ECONNREFUSED');
    expect(found.message).toContain('plimsoll serve');
  });

  it('turns pages until there are no more, or enough', async () => {
    const server = await serverForTests(({ url }, response) => {
      const query = new URL(url, 'http://x').searchParams;
      const from = Number(query.get('after') ?? 31) - 1;
      // A server may give less than was asked for.
      const most = Math.min(7, Number(query.get('limit')));
      const ids = Array.from({ length: 30 }, (_, index) => 30 - index).filter((id) => id <= from);
      const jobs = ids.slice(0, most).map((id) => jobForTests({ id: String(id) }));
      answerJson(response, { jobs, counts: { waiting: 30 } });
    });
    const client = openServerClient(server, never);
    const all = await listJobs(client, { order: 'newest', most: Number.POSITIVE_INFINITY });
    expect(all.jobs.map(({ id }) => Number(id))).toEqual(
      Array.from({ length: 30 }, (_, index) => 30 - index),
    );
    const some = await listJobs(client, { states: ['waiting'], order: 'newest', most: 10 });
    expect(some).toMatchObject({ counts: { waiting: 30 } });
    expect(some.jobs.length).toBe(10);
    expect(server.asked.at(-1)?.url).toBe('/jobs?order=newest&limit=3&state=waiting&after=24');
  });

  it('needs the size of a log', async () => {
    const server = await serverForTests((_, response) => response.end('text'));
    const found = await failure(readLog(openServerClient(server, never), '1', 0));
    expect(found.code).toBe('no-plimsoll-server');
  });
});

describe('sendJob', () => {
  const request = { command: ['true'], submission: 'once' };

  it('sends it again with the same word when the connection breaks', async () => {
    let times = 0;
    const server = await serverForTests((_, response, { socket }) => {
      times += 1;
      if (times === 1) socket.destroy();
      else if (times === 2) {
        answerJson(response, { error: { code: 'closing', fact: 'Closing.', next: 'Wait.' } }, 503);
      } else answerJson(response, jobForTests(), 201);
    });
    const job = await sendJob(openServerClient(server, never), request, never, now);
    expect(job.id).toBe('12');
    expect(server.asked.map(({ body }) => JSON.parse(body).submission)).toEqual([
      'once',
      'once',
      'once',
    ]);
  });

  it('does not wait for a server that never was there', async () => {
    const server = await serverForTests(() => {});
    await server.close();
    const found = await failure(sendJob(openServerClient(server, never), request, never, now));
    expect(found.message).toContain('plimsoll serve');
  });

  it('gives up after a while, and says that the job may be there', async () => {
    const server = await serverForTests((_, __, { socket }) => socket.destroy());
    const found = await failure(sendJob(openServerClient(server, never), request, never, now));
    expect(found).toMatchObject({ code: 'server-unreachable', exitCode: 3 });
    expect(found.fact).toContain('it may have accepted the job');
    expect(server.asked.length).toBe(20);
  });
});
