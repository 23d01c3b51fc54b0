import { describe, expect, it } from 'vitest';
import { type LatestKind, Outbox } from './outbox.js';

/** Takes `room` writes, then is full until it is drained. */
function open(room: number, maxBytes = 100) {
  const written: string[] = [];
  let left = room;
  const outbox = new Outbox(
    {
      write(bytes) {
        written.push(bytes.toString());
        left -= 1;
        return left > 0;
      },
    },
    maxBytes,
  );
  return {
    written,
    outbox,
    send: (text: string) => outbox.send(Buffer.from(text)),
    latest: (kind: LatestKind, text: string) => outbox.sendLatest(kind, Buffer.from(text)),
    drain: (more: number) => {
      left = more;
      outbox.drained();
    },
  };
}

describe('what waits for a client', () => {
  it('goes out at once while the client keeps up', () => {
    const { send, latest, written } = open(10);
    send('a');
    latest('devices', 'd1');
    latest('devices', 'd2');
    send('b');
    expect(written).toEqual(['a', 'd1', 'd2', 'b']);
  });

  it('keeps changes in order, and of readings only the latest, behind them', () => {
    const { send, latest, written, drain } = open(1);
    send('a');
    latest('devices', 'd1');
    send('b');
    latest('devices', 'd2');
    latest('queue', 'q1');
    send('c');
    latest('devices', 'd3');
    expect(written).toEqual(['a']);
    drain(10);
    expect(written).toEqual(['a', 'b', 'c', 'd3', 'q1']);
  });

  it('goes on where it stopped when the client is full again', () => {
    const { send, written, drain } = open(1);
    for (const text of ['a', 'b', 'c', 'd']) send(text);
    drain(2);
    expect(written).toEqual(['a', 'b', 'c']);
    send('e');
    drain(5);
    expect(written).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('says when too much has piled up, and counts what was taken as gone', () => {
    const { send, drain } = open(1, 5);
    send('first');
    expect(send('12345')).toBe(true);
    drain(1);
    expect(send('12345')).toBe(true);
    expect(send('6')).toBe(false);
  });

  it('never lets readings pile up', () => {
    const { latest, send, written, drain } = open(1, 5);
    send('a');
    for (let reading = 0; reading < 1000; reading++) latest('devices', `d${reading}`);
    drain(10);
    expect(written).toEqual(['a', 'd999']);
  });
});
