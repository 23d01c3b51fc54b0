import { describe, expect, it } from 'vitest';
import type { Daemon, DaemonEvent } from '../../jobs/daemon/types.js';
import { serverLimits } from '../http/limits.js';
import { jobSummaryExample } from '../routes/examples.js';
import { KeptChanges } from './kept-changes.js';

function change(id: number): DaemonEvent {
  return { type: 'job', id, job: jobSummaryExample, what: 'started' };
}

/** Keeps the changes with these ids, up to `last`; the jobs of the others were forgotten. */
function daemonWith(ids: readonly number[], last: number) {
  const asked: number[] = [];
  const eventsAfter: Daemon['eventsAfter'] = (id, most) => {
    asked.push(id);
    const looked = ids.filter((one) => one > id && one <= id + most);
    return { events: looked.map(change), first: 1, last };
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
    const size = new KeptChanges(daemon, 0).encode(change(1)).length;
    const kept = new KeptChanges(daemon, size * 2);
    const [one, two] = [kept.encode(change(1)), kept.encode(change(2))];
    kept.encode(change(3));
    expect(kept.encode(change(2))).toBe(two);
    expect(kept.encode(change(1))).not.toBe(one);
  });
});
