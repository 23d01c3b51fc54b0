import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DaemonEvent } from '../../jobs/daemon/types.js';
import { createFakeDaemon, type FakeDaemon } from '../fake-daemon-for-tests.js';
import { serverLimits } from '../http/limits.js';
import { parseEvents } from '../server-for-tests.js';
import { EventStream } from './event-stream.js';
import { KeptChanges } from './kept-changes.js';

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

async function daemonWith(changes: number): Promise<FakeDaemon> {
  const daemon = createFakeDaemon();
  for (let change = 0; change < changes; change++) await daemon.submit({ command: ['true'] });
  return daemon;
}

const devices: DaemonEvent = { type: 'devices', epochMs: 0, devices: [] };

describe('a stream of events', () => {
  it('without an id tells only what comes, and where to resume', async () => {
    const daemon = await daemonWith(3);
    const client = connect(daemon);
    client.stream.open(undefined);
    expect(client.text()).toBe('retry: 2000\nid: 3\n\n');
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([4]);
  });

  it('goes on behind the id it is given', async () => {
    const daemon = await daemonWith(5);
    const client = connect(daemon);
    client.stream.open(2);
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([3, 4, 5, 6]);
    expect(client.names()).not.toContain('reset');
  });

  it('says reset where changes between are no longer kept, and goes on from the last', async () => {
    const daemon = await daemonWith(10);
    daemon.forgetUpTo(5);
    const client = connect(daemon);
    client.stream.open(4);
    expect(client.names()).toEqual(['reset']);
    expect(client.text()).toContain('event: reset\nid: 10\ndata: {"type":"reset","last":10}\n\n');
    await daemon.submit({ command: ['true'] });
    expect(client.ids()).toEqual([11]);
  });

  it('needs no reset where the first change that is kept is the next one', async () => {
    const daemon = await daemonWith(10);
    daemon.forgetUpTo(5);
    const client = connect(daemon);
    client.stream.open(5);
    expect(client.ids()).toEqual([6, 7, 8, 9, 10]);
    expect(client.names()).not.toContain('reset');
  });

  it('says reset to one that knows more than there is: it knew another store', async () => {
    const client = connect(await daemonWith(2));
    client.stream.open(7);
    expect(client.names()).toEqual(['reset']);
  });

  it('cuts off a client that takes no changes, and not one that takes no readings', async () => {
    const daemon = await daemonWith(0);
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
    const daemon = await daemonWith(0);
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
          const daemon = await daemonWith(before);
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
