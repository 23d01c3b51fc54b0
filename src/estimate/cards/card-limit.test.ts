import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { replay } from '../trace/event-replay.js';
import { type EventStream, EventStreamBuilder } from '../trace/event-stream.js';
import { replayOn, roomOn } from './card-limit.js';
import { findGpu } from './gpus.js';

const card = findGpu('3060');
const room = roomOn(card);

/** Two blocks of different sizes one after the other: the first stays cached while the second is asked for. */
function twoAfterAnother(first: number, second: number): EventStream {
  const builder = new EventStreamBuilder();
  builder.free(builder.alloc(first));
  builder.free(builder.alloc(second));
  return builder.finish();
}

describe('roomOn', () => {
  it('leaves out the context, and what the driver keeps', () => {
    expect(room).toBeLessThan(card.capacityBytes - card.context.bytes);
    expect(room).toBeGreaterThan(0.95 * card.capacityBytes - card.context.bytes);
    const h200 = findGpu('h200');
    expect(h200.capacityBytes - h200.context.bytes - roomOn(h200)).toBe(615 * MiB);
  });

  it('is nothing where the context alone fills the card', () => {
    expect(roomOn({ ...card, capacityBytes: 100 * MiB })).toBe(0);
  });
});

describe('replayOn', () => {
  it('is a plain replay where the card has room for all that is cached', () => {
    const stream = twoAfterAnother(2 * GiB, 3 * GiB);
    expect(replayOn(card, stream)).toMatchObject({ peakReservedBytes: 5 * GiB, limited: false });
  });

  it('never holds more than the card has: what is cached is given back first', () => {
    const stream = twoAfterAnother(7 * GiB, 8 * GiB);
    expect(replay(stream).peakReservedBytes).toBe(15 * GiB);
    expect(replayOn(card, stream)).toMatchObject({ peakReservedBytes: 8 * GiB, limited: true });
  });

  it('says what would be needed where the job does not fit', () => {
    const stream = twoAfterAnother(7 * GiB, 13 * GiB);
    expect(replayOn(card, stream)).toMatchObject({ peakReservedBytes: 20 * GiB, limited: false });
  });

  it('goes on without a workspace for which there is no room, as PyTorch takes the next kernel', () => {
    const builder = new EventStreamBuilder();
    const kept = builder.alloc(9 * GiB);
    builder.free(builder.allocSpare(4 * GiB));
    builder.free(builder.alloc(2 * GiB));
    builder.free(kept);
    const stream = builder.finish();
    expect(replay(stream).peakReservedBytes).toBe(13 * GiB);
    expect(replayOn(card, stream)).toMatchObject({ peakReservedBytes: 11 * GiB, limited: true });
  });
});
