import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { serverLimits } from './limits.js';
import { UnsentBytes } from './unsent-bytes.js';

function response(): ServerResponse {
  return new ServerResponse(new IncomingMessage(new Socket()));
}

describe('answers that wait for slow clients', () => {
  it('are too much together beyond the limit, until one of them is taken', () => {
    const unsent = new UnsentBytes();
    const [one, other] = [response(), response()];
    unsent.count(serverLimits.unsentBytes, one);
    expect(unsent.isTooMuch).toBe(false);
    unsent.count(20_000, other);
    expect(unsent.isTooMuch).toBe(true);
    other.emit('close');
    expect(unsent.isTooMuch).toBe(false);
  });

  it('do not count where they are small, or nobody waits any more', () => {
    const unsent = new UnsentBytes();
    for (let count = 0; count < 20_000; count++) unsent.count(16 * 1024, response());
    const gone = response();
    gone.destroy();
    unsent.count(serverLimits.unsentBytes + 1, gone);
    expect(unsent.isTooMuch).toBe(false);
  });
});
