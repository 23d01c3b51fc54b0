import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { UnsentBytes } from '../app.js';
import { serverLimits } from './limits.js';

function exchange(socket = new Socket()) {
  const incoming = new IncomingMessage(socket);
  return { incoming, outgoing: new ServerResponse(incoming) };
}

const { unsentBytes } = serverLimits;

describe('answers that wait for slow clients', () => {
  it('are too much together beyond the limit, until one of them is taken', () => {
    const unsent = new UnsentBytes(unsentBytes);
    const [one, other] = [exchange(), exchange()];
    unsent.count(unsentBytes, one);
    expect(unsent.isTooMuch).toBe(false);
    unsent.count(20_000, other);
    expect(unsent.isTooMuch).toBe(true);
    other.outgoing.emit('close');
    expect(unsent.isTooMuch).toBe(false);
  });

  it('end with their connection, also those queued behind another answer', () => {
    const unsent = new UnsentBytes(unsentBytes);
    const socket = new Socket();
    for (let count = 0; count < 4; count++) unsent.count(unsentBytes, exchange(socket));
    expect(unsent.isTooMuch).toBe(true);
    // Their own responses emit nothing: they never got the connection.
    socket.emit('close');
    expect(unsent.isTooMuch).toBe(false);
  });

  it('do not count where they are small, or the client has left', () => {
    const unsent = new UnsentBytes(unsentBytes);
    for (let count = 0; count < 20_000; count++) unsent.count(16 * 1024, exchange());
    const gone = exchange();
    gone.incoming.socket.destroy();
    unsent.count(unsentBytes + 1, gone);
    expect(unsent.isTooMuch).toBe(false);
  });

  it('are cut off oldest first, until the rest is below the limit', () => {
    const unsent = new UnsentBytes(100_000);
    const exchanges = [exchange(), exchange(), exchange()];
    for (const one of exchanges) unsent.count(50_001, one);
    unsent.cutOldest();
    expect(exchanges.map(({ incoming }) => incoming.socket.destroyed)).toEqual([true, true, false]);
    expect(unsent.isTooMuch).toBe(false);
  });
});
