import { createServer } from 'node:http';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { stopParsingWhenClosed } from './stop-parsing.js';

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
