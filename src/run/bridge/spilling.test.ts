import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/clock.js';
import { GiB } from '../../units/bytes.js';
import type { LimitCgroup } from '../limit/cgroup.js';
import { MovingLimit, orderLimit, readLimitOrder } from '../limit/moving-limit.js';
import { spillWords } from '../words.js';
import { Coordinator } from './coordinator.js';
import type { FromSdk, ToSdk } from './messages.js';
import type { Peer } from './party.js';
import { readMessage } from './read-message.js';
import { type LimitAnswer, Spilling } from './spilling.js';

/** A made-up program: its processes speak, and what the supervisor concludes is kept. */
function talk(start: number | 'none' = 20) {
  const startBytes = start === 'none' ? undefined : start;
  const answers: LimitAnswer[] = [];
  const giving = new Spilling(startBytes, (answer) => answers.push(answer));
  const enter = (parts: object = {}) => {
    const heard: ToSdk[] = [];
    const peer: Peer = { send: (message) => heard.push(message) };
    const said: FromSdk | undefined = readMessage({
      type: 'hello',
      rank: 0,
      world: 1,
      torch: '2.11',
      hooks: [],
      device: 'cuda:0',
      spill: true,
      ...parts,
    });
    if (said?.type !== 'hello') throw new Error('not understood');
    giving.join(peer, said);
    const answer = (bytes: number, order?: number) => {
      const set = readMessage({ type: 'limit-set', bytes, allocatedBytes: 5, order });
      if (set?.type === 'limit-set') giving.limitSet(peer, set);
    };
    const spill = (figures: object) => {
      const read = readMessage({ type: 'spill', ...spilled, ...figures });
      if (read?.type === 'spill') giving.figuresOf(peer, read);
    };
    return { heard, peer, answer, spill, leave: () => giving.leave(peer) };
  };
  return { giving, answers, enter };
}

const spilled = {
  bytesOut: 8,
  bytesBack: 6,
  recomputedSeconds: 0.5,
  stallSeconds: 0.25,
  active: true,
  aside: null,
};

describe('a limit that moves while a program runs', () => {
  it('is in force once all of its processes keep it', () => {
    const { giving, answers, enter } = talk();
    const [one, other] = [enter(), enter()];
    giving.ask({ order: 1, bytes: 10 });
    expect(one.heard).toEqual([{ type: 'limit', bytes: 10, order: 1 }]);
    one.answer(10, 1);
    expect(answers).toEqual([]);
    other.answer(10, 1);
    expect(answers).toEqual([{ order: 1, bytes: 10, why: '' }]);
  });

  it('is the least that holds where a process cannot give way so far', () => {
    const { giving, answers, enter } = talk();
    const [one, other] = [enter(), enter()];
    giving.ask({ order: 1, bytes: 10 });
    one.answer(10, 1);
    other.answer(13, 1);
    expect(answers).toEqual([{ order: 1, bytes: 13, why: 'With less it cannot go on.' }]);
  });

  it('stays as it was for a program that cannot hear of it, and may only rise', () => {
    const { giving, answers, enter } = talk();
    enter({ spill: false });
    giving.ask({ order: 1, bytes: 10 });
    giving.ask({ order: 2, bytes: 30 });
    expect(answers).toEqual([
      { order: 1, bytes: 20, why: 'A process of the program cannot give way.' },
      { order: 2, bytes: 30, why: '' },
    ]);
    const without = talk('none');
    without.giving.ask({ order: 1, bytes: 10 });
    expect(without.answers).toMatchObject([{ bytes: 'none', why: expect.stringContaining('SDK') }]);
  });

  it('takes no notice of workers of a loader, and none of an answer to an earlier order', () => {
    const { giving, answers, enter } = talk();
    const one = enter();
    enter({ spill: false, device: 'cpu' });
    giving.ask({ order: 1, bytes: 10 });
    giving.ask({ order: 2, bytes: 5 });
    one.answer(10, 1);
    expect(answers).toEqual([]);
    one.answer(5, 2);
    expect(answers).toEqual([{ order: 2, bytes: 5, why: '' }]);
    giving.ask({ order: 2, bytes: 4 });
    expect(one.heard).toHaveLength(2);
  });

  it('is told to a process that comes later, and concluded without one that left', () => {
    const { giving, answers, enter } = talk();
    const [one, other] = [enter(), enter()];
    giving.ask({ order: 1, bytes: 10 });
    one.answer(10);
    other.leave();
    expect(answers).toEqual([{ order: 1, bytes: 10, why: '' }]);
    const late = enter();
    expect(late.heard).toEqual([{ type: 'limit', bytes: 10, order: 1 }]);
    late.answer(12, 1);
    expect(answers.at(-1)).toMatchObject({ bytes: 12 });
    expect(giving.limitBytes).toBe(10);
  });

  it('never concludes less than any process keeps', () => {
    const answer = fc.record({ asked: fc.integer({ min: 1, max: 40 }), extra: fc.nat({ max: 9 }) });
    fc.assert(
      fc.property(
        fc.array(answer, { minLength: 1, maxLength: 6 }),
        fc.nat({ max: 3 }),
        (all, deaf) => {
          const { giving, answers, enter } = talk();
          const peers = [enter(), enter()];
          for (let at = 0; at < deaf; at++) enter({ spill: false });
          const kept = new Map(peers.map((peer) => [peer, 20]));
          all.forEach(({ asked, extra }, at) => {
            giving.ask({ order: at + 1, bytes: asked });
            peers.forEach((peer, index) => {
              kept.set(peer, asked + (index === 0 ? extra : 0));
              peer.answer(kept.get(peer) ?? 0, at + 1);
            });
            const most = Math.max(...kept.values(), deaf > 0 ? 20 : 0);
            expect(answers.at(-1)?.bytes).toBe(deaf > 0 ? Math.max(most, asked) : most);
          });
        },
      ),
    );
  });
});

describe('what gave way', () => {
  it('is the sum over all processes, as each told it last, and none where nothing did', () => {
    const { giving, enter } = talk();
    const [one, other] = [enter(), enter()];
    expect(giving.figures).toBeUndefined();
    one.spill({ bytesOut: 0, recomputedSeconds: 0, active: false });
    expect(giving.figures).toBeUndefined();
    one.spill({});
    one.spill({ bytesOut: 10 });
    other.spill({});
    one.leave();
    expect(giving.figures).toEqual({
      bytesOut: 18,
      bytesBack: 12,
      recomputedSeconds: 1,
      stallSeconds: 0.5,
    });
  });

  it('says why a program is left alone, which then is not started again with spilling', () => {
    const { giving, enter } = talk();
    expect(giving.canSpill).toBe(false);
    const one = enter();
    expect(giving.canSpill).toBe(true);
    const aside = 'it has hooks of its own.';
    one.spill({ bytesOut: 0, recomputedSeconds: 0, active: false, aside });
    expect(giving.canSpill).toBe(false);
    expect(giving.figures).toMatchObject({ aside });
    expect(giving.figures && spillWords(giving.figures)).toBe(
      'Spilling left the program alone: it has hooks of its own.',
    );
  });

  it('is not read from a message without all of its figures', () => {
    for (const name of ['bytesOut', 'bytesBack', 'recomputedSeconds', 'stallSeconds']) {
      expect(readMessage({ type: 'spill', ...spilled, [name]: -1 })).toBeUndefined();
    }
    expect(readMessage({ type: 'limit-set', bytes: 'all' })).toBeUndefined();
    expect(readMessage({ type: 'spill', ...spilled })).toMatchObject({ active: true });
  });
});

describe('the plan of a step', () => {
  const step = {
    blocks: [{ name: 'layers.0', bytes: 8 * GiB, seconds: 0.01 }],
    otherBytes: 0,
    fixedBytes: GiB,
    optimizerBytes: 0,
    temporaryBytes: GiB,
    lossBytes: 0,
    hostBytes: 0,
    outBytesPerSecond: 4e10,
    backBytesPerSecond: 4e10,
    stepSeconds: 1,
  };
  const ask = (document: object, ownBytes?: number): readonly ToSdk[] => {
    const heard: ToSdk[] = [];
    const peer: Peer = { send: (message) => heard.push(message) };
    const spilling = new Spilling(ownBytes, () => undefined);
    const events = { limitBytes: () => 0, onRung: () => undefined, onOutOfMemory: () => undefined };
    const coordinator = new Coordinator(createVirtualClock(), events, spilling);
    for (const one of [{ type: 'hello' }, { type: 'blocks', id: 3, ...document }]) {
      const read = readMessage(one);
      if (read !== undefined) coordinator.take(peer, read);
    }
    return heard;
  };

  it('is answered by the limit that the supervisor knows, else by the one that is told', () => {
    const limitBytes = 12 * GiB;
    expect(ask({ ...step, limitBytes })).toMatchObject([{ type: 'spill-plan', id: 3, fits: true }]);
    expect(ask({ ...step, limitBytes }, 4 * GiB)).toMatchObject([{ fits: false }]);
    expect(ask(step)).toEqual([]);
  });

  it.each([...Object.keys(step), 'id'])('is not made without %s', (name) => {
    expect(ask({ ...step, limitBytes: GiB, [name]: true })).toEqual([]);
    const blocks = [{ name: 'a', bytes: -1, seconds: 1 }];
    expect(ask({ ...step, blocks, limitBytes: GiB })).toEqual([]);
  });
});

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-limit-'));
  folders.push(folder);
  return folder;
}

/** A cgroup of files; the program in it holds so much. */
function fakeCgroup(limitBytes: number, heldBytes: number): LimitCgroup {
  const folder = newFolder();
  writeFileSync(join(folder, 'memory.max'), String(limitBytes));
  writeFileSync(join(folder, 'memory.stat'), `anon ${heldBytes}\nshmem 0\n`);
  return { version: 2, folder, procs: join(folder, 'cgroup.procs') };
}

function moving(parts: { onHost: boolean; cgroup?: LimitCgroup; besideBytes?: number }) {
  const folder = newFolder();
  const answers: LimitAnswer[] = [];
  const limit = new MovingLimit({
    start: { bytes: 20, by: parts.onHost ? 'cgroup-v2' : 'sdk', why: 'w.' },
    cgroup: undefined,
    besideBytes: 0,
    ...parts,
    read: () => readLimitOrder(folder),
    onAnswer: (answer) => answers.push(answer),
  });
  const giving: Spilling = new Spilling(20, (answer) => limit.answered(answer, giving));
  const ask = (bytes: number) => {
    orderLimit(folder, bytes);
    limit.look(giving);
    limit.look(giving);
  };
  return { ask, limit, giving, answers, folder };
}

describe('the limit of an attempt', () => {
  it('of a GPU is told without the context, and answered with it', () => {
    const { ask, answers, limit } = moving({ onHost: false, besideBytes: 3 });
    ask(33);
    expect(answers).toEqual([{ order: 1, bytes: 33, why: '' }]);
    ask(10);
    expect(answers[1]).toMatchObject({ order: 2, bytes: 23 });
    // The peak may have come while it was at its highest.
    expect(limit.enforced).toMatchObject({
      bytes: 30,
      why: 'w. The limit was moved while it ran.',
    });
  });

  it('of the host is moved in the cgroup, unless the program holds more', () => {
    const cgroup = fakeCgroup(20, 12);
    const { ask, answers } = moving({ onHost: true, cgroup });
    ask(15);
    expect(readFileSync(join(cgroup.folder, 'memory.max'), 'utf8')).toBe('15');
    ask(10);
    expect(readFileSync(join(cgroup.folder, 'memory.max'), 'utf8')).toBe('15');
    ask(40);
    expect(readFileSync(join(cgroup.folder, 'memory.max'), 'utf8')).toBe('40');
    expect(answers.map(({ bytes }) => bytes)).toEqual([15, 15, 40]);
    expect(answers[1]?.why).toBe('It holds 12 B.');
  });

  it('of an address space stays', () => {
    const { ask, answers } = moving({ onHost: true });
    ask(10);
    expect(answers).toMatchObject([{ bytes: 20, why: expect.stringContaining('address space') }]);
  });

  it('is found in its file, whatever lies there', () => {
    const folder = newFolder();
    expect(readLimitOrder(folder)).toBeUndefined();
    writeFileSync(join(folder, 'limit.json'), '{"order":1,"bytes":-4}');
    expect(readLimitOrder(folder)).toBeUndefined();
    expect(orderLimit(folder, 3 * GiB)).toEqual({ order: 1, bytes: 3 * GiB });
    expect(orderLimit(folder, 2 * GiB)).toEqual({ order: 2, bytes: 2 * GiB });
    rmSync(join(folder, 'limit.json'));
    mkdirSync(join(folder, 'limit.json'));
    expect(readLimitOrder(folder)).toBeUndefined();
  });
});
