import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/made-once.js';
import { createFakeDaemon, type FakeDaemon } from './fake-daemon-for-tests.js';
import { rawRequest, startTestServer, type TestServer } from './server-for-tests.js';

let server: TestServer;
afterEach(() => server.close());

/** A server whose daemon takes its time over a job; and how to let it go on. */
async function startSlow(): Promise<{ daemon: FakeDaemon; asked: (() => void)[] }> {
  const daemon = createFakeDaemon();
  const asked: (() => void)[] = [];
  const slow: FakeDaemon = {
    ...daemon,
    async submit(request) {
      await new Promise<void>((resolve) => asked.push(resolve));
      return daemon.submit(request);
    },
  };
  server = await startTestServer({ daemon: slow });
  return { daemon, asked };
}

function submit(body: object) {
  const text = JSON.stringify(body);
  return rawRequest(
    server.port,
    `POST /jobs HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: ${text.length}`,
    text,
  );
}

describe('a client that leaves before it knows its job', () => {
  async function leave(body: object): Promise<FakeDaemon> {
    const { daemon, asked } = await startSlow();
    const raw = submit(body);
    await eventually(() => asked.length === 1);
    raw.socket.destroy();
    // Asked on another connection, so that the server has seen the first one go.
    await raw.closed;
    await server.ask('/healthz');
    asked[0]?.();
    await eventually(() => daemon.jobs({}).length === 1);
    await server.ask('/healthz');
    return daemon;
  }

  it('leaves no job behind', async () => {
    const daemon = await leave({ command: ['train'] });
    expect(daemon.job('1').state).toBe('cancelled');
    expect(server.lines).toEqual([]);
  });

  it('finds it by the word it gave it', async () => {
    const daemon = await leave({ command: ['train'], submission: 'nightly' });
    expect(daemon.job('1').state).toBe('waiting');
  });
});

it('a client that stays has its job', async () => {
  const { daemon, asked } = await startSlow();
  const raw = submit({ command: ['train'] });
  await eventually(() => asked.length === 1);
  asked[0]?.();
  await raw.until(/^HTTP\/1\.1 201 [^]*"state":"waiting"/);
  raw.socket.destroy();
  await raw.closed;
  await server.ask('/healthz');
  expect(daemon.job('1').state).toBe('waiting');
});
