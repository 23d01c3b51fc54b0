import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { IncomingBytes, readJsonBody } from './read-body.js';

it('a client that left before anybody looked at its body is not waited for', async () => {
  const incoming = new IncomingMessage(new Socket());
  incoming.headers['content-type'] = 'application/json';
  const closed = new Promise((resolve) => incoming.once('close', resolve));
  incoming.destroy();
  await closed;
  const limits = { maxBytes: 100, bodies: new IncomingBytes() };
  await expect(readJsonBody(incoming, limits)).rejects.toMatchObject({ code: 'client-left' });
});
