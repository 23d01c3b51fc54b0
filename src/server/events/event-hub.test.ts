import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/virtual-clock.js';
import { createFakeDaemon } from '../fake-daemon-for-tests.js';
import { serverLimits } from '../http/limits.js';
import type { EventBytes } from './event-bytes.js';
import { EventHub } from './event-hub.js';

function sink() {
  const got: EventBytes[] = [];
  let ended = 0;
  return {
    got,
    ended: () => ended,
    write(bytes: EventBytes) {
      got.push(bytes);
      return true;
    },
    cut: () => undefined,
    end() {
      ended += 1;
    },
  };
}

describe('the hub', () => {
  it('encodes an event once, for those who listen now and those who ask later', async () => {
    const daemon = createFakeDaemon();
    const hub = new EventHub(daemon, createVirtualClock());
    const [one, other, late] = [sink(), sink(), sink()];
    hub.open(one, undefined);
    hub.open(other, undefined);
    await daemon.submit({ command: ['true'] });
    hub.open(late, 0);
    expect(one.got.at(-1)?.toString()).toMatch(/^event: job\nid: 1\n/);
    expect(other.got.at(-1)).toBe(one.got.at(-1));
    expect(late.got.at(-1)).toBe(one.got.at(-1));
    hub.close();
  });

  it('ends the streams of those who may no longer listen, at once or at the next heartbeat', async () => {
    const clock = createVirtualClock();
    const daemon = createFakeDaemon();
    const hub = new EventHub(daemon, clock);
    const [one, other, free] = [sink(), sink(), sink()];
    const may = { one: true, other: true };
    hub.open(one, undefined, { mayStay: () => may.one, owns: () => true });
    hub.open(other, undefined, { mayStay: () => may.other, owns: () => true });
    hub.open(free, undefined);
    may.one = false;
    hub.dismiss();
    may.other = false;
    expect([one.ended(), other.ended(), hub.count]).toEqual([1, 0, 2]);
    await clock.advance(serverLimits.heartbeatSeconds);
    expect([one.ended(), other.ended(), free.ended(), hub.count]).toEqual([1, 1, 0, 1]);
    const before = one.got.length;
    await daemon.submit({ command: ['true'] });
    expect(one.got).toHaveLength(before);
    hub.close();
  });

  it('has room for so many, and again when one leaves', () => {
    const hub = new EventHub(createFakeDaemon(), createVirtualClock());
    const streams = Array.from({ length: serverLimits.eventStreams }, () => {
      hub.checkRoom();
      return hub.open(sink(), undefined);
    });
    expect(() => hub.checkRoom()).toThrow(/limit of 2000 open event streams/);
    const [first] = streams;
    if (first) hub.leave(first);
    expect(() => hub.checkRoom()).not.toThrow();
    expect(hub.count).toBe(serverLimits.eventStreams - 1);
    hub.close();
  });

  it('beats to all, and stops when it is closed', async () => {
    const clock = createVirtualClock();
    const daemon = createFakeDaemon();
    const hub = new EventHub(daemon, clock);
    const clients = [sink(), sink()];
    for (const client of clients) hub.open(client, undefined);
    await clock.advance(3 * serverLimits.heartbeatSeconds);
    for (const { got } of clients) {
      expect(got.filter((bytes) => bytes.toString() === ':\n\n').length).toBe(3);
    }
    hub.close();
    await clock.advance(1);
    expect(clients.map(({ ended }) => ended())).toEqual([1, 1]);
    expect([clock.waiting, daemon.listeners, hub.count]).toEqual([0, 0, 0]);
  });
});
