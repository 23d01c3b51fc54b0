import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Daemon, DaemonEvent } from '../../jobs/daemon/types.js';
import { createVirtualClock } from '../../time/clock.js';
import { createFakeDaemon, type FakeDaemon } from '../fake-daemon-for-tests.js';
import { serverLimits } from '../http/limits.js';
import { jobSummaryExample } from '../routes/examples.js';
import { parseEvents } from '../server-for-tests.js';
import {
  type EventBytes,
  EventHub,
  EventStream,
  KeptChanges,
  type LatestKind,
  Outbox,
} from './event-hub.js';

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

function changeEvent(id: number): DaemonEvent {
  return { type: 'job', id, job: jobSummaryExample, what: 'started' };
}

/** Keeps the changes with these ids, up to `last`; the jobs of the others were forgotten. */
function daemonWith(ids: readonly number[], last: number) {
  const asked: number[] = [];
  const eventsAfter: Daemon['eventsAfter'] = (id, most) => {
    asked.push(id);
    const looked = ids.filter((one) => one > id && one <= id + most);
    return { events: looked.map(changeEvent), first: 1, last };
  };
  return { eventsAfter, asked };
}

describe('kept changes', () => {
  it('are encoded once, and asked for once for all who come back to the same place', () => {
    const daemon = daemonWith([1, 2, 3], 3);
    const kept = new KeptChanges(daemon, 1_000_000);
    const first = kept.after(1);
    expect(first).toMatchObject({ changes: [{ id: 2 }, { id: 3 }], upTo: 3, last: 3 });
    expect(first.changes[0]?.bytes.toString()).toMatch(/^event: job\nid: 2\ndata: \{.*\}\n\n$/);
    expect(kept.after(1)).toBe(first);
    expect(kept.after(0).changes[1]?.bytes).toBe(first.changes[0]?.bytes);
    expect(daemon.asked).toEqual([1, 0]);
    kept.forgetMissed();
    kept.after(1);
    expect(daemon.asked).toEqual([1, 0, 1]);
  });

  it('go on behind those of jobs that were forgotten, however many those are', () => {
    const most = serverLimits.catchUpEvents;
    const kept = new KeptChanges(daemonWith([3 * most + 5], 3 * most + 7), 1_000_000);
    const ids: number[] = [];
    let at = 0;
    for (let rounds = 0; rounds < 10; rounds++) {
      const { changes, upTo, last } = kept.after(at);
      ids.push(...changes.map(({ id }) => id));
      if (at >= last) break;
      expect(upTo).toBeGreaterThan(at);
      at = upTo;
    }
    expect(ids).toEqual([3 * most + 5]);
    expect(at).toBe(3 * most + 7);
  });

  it('are forgotten encoded, the oldest first, beyond the limit', () => {
    const daemon = daemonWith([], 0);
    const size = new KeptChanges(daemon, 0).encode(changeEvent(1)).length;
    const kept = new KeptChanges(daemon, size * 2);
    const [one, two] = [kept.encode(changeEvent(1)), kept.encode(changeEvent(2))];
    kept.encode(changeEvent(3));
    expect(kept.encode(changeEvent(2))).toBe(two);
    expect(kept.encode(changeEvent(1))).not.toBe(one);
  });
});

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

interface Client {
  readonly stream: EventStream;
  /** Ids of changes that came, in order. */
  ids(): readonly number[];
  names(): readonly string[];
  text(): string;
  isCut(): boolean;
  /** Takes so many writes before it is full again. */
  take(writes: number): void;
}

function connect(daemon: FakeDaemon, room = Infinity): Client {
  let left = room;
  let text = '';
  let cut = false;
  const kept = new KeptChanges(daemon, serverLimits.keptEventBytes);
  const stream = new EventStream(kept, {
    write(bytes) {
      text += bytes.toString();
      left -= 1;
      return left > 0;
    },
    cut() {
      cut = true;
    },
    end: () => undefined,
  });
  daemon.listen((event) => {
    kept.forgetMissed();
    stream.hear(event, kept.encode(event));
  });
  const events = () => parseEvents(`\r\n\r\n${text}`);
  return {
    stream,
    names: () => events().map(({ event }) => event),
    ids: () => events().flatMap(({ event, id }) => (event === 'job' ? [Number(id)] : [])),
    text: () => text,
    isCut: () => cut,
    take(writes) {
      left = writes;
      stream.drained();
    },
  };
}

async function daemonAfter(changes: number): Promise<FakeDaemon> {
  const daemon = createFakeDaemon();
  for (let change = 0; change < changes; change++) await daemon.submit({ command: ['true'] });
  return daemon;
}

const devices: DaemonEvent = { type: 'devices', epochMs: 0, devices: [] };

describe('a stream of events', () => {
  it('without an id tells only what comes, and where to resume', async () => {
    const daemon = await daemonAfter(3);
    const client = connect(daemon);
    client.stream.open(undefined);
    expect(client.text()).toBe('retry: 2000\nid: 3\n\n');
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([4]);
  });

  it('goes on behind the id it is given', async () => {
    const daemon = await daemonAfter(5);
    const client = connect(daemon);
    client.stream.open(2);
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([3, 4, 5, 6]);
    expect(client.names()).not.toContain('reset');
  });

  it('says reset where changes between are no longer kept, and goes on from the last', async () => {
    const daemon = await daemonAfter(10);
    daemon.forgetUpTo(5);
    const client = connect(daemon);
    client.stream.open(4);
    expect(client.names()).toEqual(['reset']);
    expect(client.text()).toContain('event: reset\nid: 10\ndata: {"type":"reset","last":10}\n\n');
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([11]);
  });

  it('needs no reset where the first change that is kept is the next one', async () => {
    const daemon = await daemonAfter(10);
    daemon.forgetUpTo(5);
    const client = connect(daemon);
    client.stream.open(5);
    expect(client.ids()).toEqual([6, 7, 8, 9, 10]);
    expect(client.names()).not.toContain('reset');
  });

  it('says reset to one that knows more than there is: it knew another store', async () => {
    const client = connect(await daemonAfter(2));
    client.stream.open(7);
    expect(client.names()).toEqual(['reset']);
  });

  it('cuts off a client that takes no changes, and not one that takes no readings', async () => {
    const daemon = await daemonAfter(0);
    const client = connect(daemon, 2);
    client.stream.open(undefined);
    for (let reading = 0; reading < 5000; reading++) daemon.publish(devices);
    expect(client.isCut()).toBe(false);
    const long = { name: 'long', command: ['x'.repeat(serverLimits.streamBacklogBytes / 8)] };
    for (let change = 0; change < 7; change++) await daemon.submit(long);
    expect(client.isCut()).toBe(false);
    await daemon.submit(long);
    expect(client.isCut()).toBe(true);
  });

  it('beats while the client listens, and gives one up that takes nothing for a minute', async () => {
    const daemon = await daemonAfter(0);
    const client = connect(daemon, 3);
    client.stream.open(undefined);
    client.stream.beat();
    expect(client.text()).toMatch(/\n\n:\n\n$/);
    daemon.publish(devices);
    for (let beat = 0; beat < serverLimits.missedHeartbeats; beat++) client.stream.beat();
    expect(client.isCut()).toBe(false);
    client.take(1);
    daemon.publish(devices);
    for (let beat = 0; beat < serverLimits.missedHeartbeats; beat++) client.stream.beat();
    expect(client.isCut()).toBe(false);
    client.stream.beat();
    expect(client.isCut()).toBe(true);
  });

  it('tells every change once and in order, whatever happens when', async () => {
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.constant('change' as const) },
      { weight: 1, arbitrary: fc.constant('reading' as const) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 30 }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 600 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.integer({ min: 1, max: 5 }),
        fc.array(step, { maxLength: 60 }),
        async (before, part, room, steps) => {
          const daemon = await daemonAfter(before);
          const after = Math.floor(before * part);
          const client = connect(daemon, room);
          client.stream.open(after);
          for (const one of steps) {
            if (one === 'change') await daemon.submit({ command: ['true'] });
            else if (one === 'reading') daemon.publish(devices);
            else client.take(one);
          }
          client.take(Infinity);
          client.take(Infinity);
          const { last } = daemon.eventsAfter(0, 0);
          const expected = Array.from({ length: last - after }, (_, index) => after + index + 1);
          expect(client.ids()).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    );
  });
});
