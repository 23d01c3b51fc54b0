import { getEventListeners } from 'node:events';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RememberedWork, rememberedAnswers } from './remembered-answers.js';

const { signal: neverAborted } = new AbortController();
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Answers that count how often they were made, for whatever the key is at the time. */
function counted(method = 'trace') {
  const answers = rememberedAnswers<{ count: number; method: string }>(
    (answer) => answer.method === 'trace',
  );
  let count = 0;
  const state: { key: string | undefined; whileMaking: () => void } = {
    key: 'first',
    whileMaking() {},
  };
  const ask = async () => {
    const asked = {
      key: async () => state.key,
      async make() {
        count += 1;
        state.whileMaking();
        return { count, method };
      },
    };
    const answer = await answers(asked, neverAborted);
    await settled();
    return answer.count;
  };
  return { state, ask };
}

describe('rememberedAnswers', () => {
  it('makes an answer once, and anew when what it depends on changed', async () => {
    const { state, ask } = counted();
    expect([await ask(), await ask()]).toEqual([1, 1]);
    state.key = 'second';
    expect([await ask(), await ask()]).toEqual([2, 2]);
    state.key = 'first';
    expect(await ask()).toBe(1);
  });

  it('makes what has no key each time', async () => {
    const { state, ask } = counted();
    state.key = undefined;
    expect([await ask(), await ask()]).toEqual([1, 2]);
  });

  it('remembers no answer that was not traced', async () => {
    const { ask } = counted('formula');
    expect([await ask(), await ask()]).toEqual([1, 2]);
  });

  it('remembers no answer during which something changed, also when it changes back', async () => {
    const { state, ask } = counted();
    state.whileMaking = () => {
      state.key = 'second';
    };
    expect(await ask()).toBe(1);
    state.whileMaking = () => {};
    state.key = 'first';
    expect(await ask()).toBe(2);
    state.key = 'second';
    expect(await ask()).toBe(3);
  });
});

/** Work that ends when the test says so, and keeps count of itself. */
class Bench {
  readonly memory: RememberedWork<string>;
  readonly begun: Begun[] = [];

  constructor(most = 10) {
    this.memory = new RememberedWork(most);
  }

  ask(key: string, { keeps = true, signal = new AbortController().signal } = {}) {
    const make = (given: AbortSignal) => this.#begin(key, given);
    const answer = this.memory.ask({ key, make, keeps: async () => keeps }, signal);
    // A later look finds it; no one has to look.
    answer.catch(() => {});
    return answer;
  }

  #begin(key: string, signal: AbortSignal): Promise<string> {
    const answer = `${key} ${this.begun.length}`;
    return new Promise((resolve, reject) => {
      const one: Begun = {
        key,
        signal,
        isOver: false,
        end(fails = false) {
          one.isOver = true;
          if (fails) reject(new Error(`no ${answer}`));
          else resolve(answer);
        },
      };
      this.begun.push(one);
    });
  }

  /** The latest. */
  end(fails = false): void {
    this.begun.at(-1)?.end(fails);
  }
}

interface Begun {
  readonly key: string;
  readonly signal: AbortSignal;
  isOver: boolean;
  end(fails?: boolean): void;
}

interface Asker {
  readonly key: string;
  readonly stop: AbortController;
  end: string | undefined;
}

async function noteAnswer(answer: Promise<string>, asker: Asker): Promise<void> {
  asker.end = await answer.catch(String);
}

describe('RememberedWork', () => {
  it('does the same work once, for those who ask meanwhile and those who ask later', async () => {
    const bench = new Bench();
    const both = [bench.ask('a'), bench.ask('a')];
    bench.end();
    expect(await Promise.all(both)).toEqual(['a 0', 'a 0']);
    await settled();
    expect(await bench.ask('a')).toBe('a 0');
    expect(bench.begun).toHaveLength(1);
  });

  it('tells a failure to all who wait, and does not remember it', async () => {
    const bench = new Bench();
    const both = [bench.ask('a'), bench.ask('a')];
    bench.end(true);
    for (const one of both) await expect(one).rejects.toThrow('no a 0');
    await settled();
    const again = bench.ask('a');
    bench.end();
    expect(await again).toBe('a 1');
  });

  it('does not remember what should not be kept', async () => {
    const bench = new Bench();
    const first = bench.ask('a', { keeps: false });
    bench.end();
    await first;
    await settled();
    expect(bench.memory.size).toBe(0);
    const second = bench.ask('a');
    bench.end();
    expect(await second).toBe('a 1');
  });

  it('lets go of the signals of those who have their answer', async () => {
    const bench = new Bench();
    const { signal } = new AbortController();
    const both = Promise.all([bench.ask('a', { signal }), bench.ask('a', { signal })]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(2);
    bench.end();
    await both;
    await settled();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('goes on for the others when one leaves, even the first', async () => {
    for (const leaver of [0, 1]) {
      const bench = new Bench();
      const stops = [new AbortController(), new AbortController()];
      const answers = stops.map(({ signal }) => bench.ask('a', { signal }));
      await settled();
      stops[leaver]?.abort();
      await expect(answers[leaver]).rejects.toMatchObject({ kind: 'interrupted' });
      expect(bench.begun[0]?.signal.aborted).toBe(false);
      bench.end();
      expect(await answers[1 - leaver]).toBe('a 0');
    }
  });

  it('is given up when the last one leaves, who sees it to its end', async () => {
    const bench = new Bench();
    const stops = [new AbortController(), new AbortController()];
    const answers = stops.map(({ signal }) => bench.ask('a', { signal }));
    await settled();
    for (const stop of stops) stop.abort();
    expect(bench.begun[0]?.signal.aborted).toBe(true);
    let isOver = false;
    answers[1]?.catch(() => {
      isOver = true;
    });
    await settled();
    expect(isOver).toBe(false);
    // Who comes now has work of its own, and keeps it when the other ends.
    const late = bench.ask('a');
    bench.begun[0]?.end(true);
    await expect(answers[1]).rejects.toThrow('no a 0');
    await settled();
    const joined = bench.ask('a');
    bench.end();
    expect(await Promise.all([late, joined])).toEqual(['a 1', 'a 1']);
  });

  it('does nothing for one who had left before, and disturbs no other', async () => {
    const bench = new Bench();
    const first = bench.ask('a');
    await expect(bench.ask('a', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      kind: 'interrupted',
    });
    expect(bench.begun[0]?.signal.aborted).toBe(false);
    bench.end();
    expect(await first).toBe('a 0');
  });

  it('forgets what was not asked for longest, and nothing else', async () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g');
    const most = fc.integer({ min: 1, max: 5 });
    await fc.assert(
      fc.asyncProperty(most, fc.array(key, { maxLength: 60 }), async (limit, keys) => {
        const memory = new RememberedWork<string>(limit);
        let lastUsed: string[] = [];
        for (const asked of keys) {
          let isMade = false;
          const make = async () => {
            isMade = true;
            return asked;
          };
          const work = { key: asked, make, keeps: async () => true };
          expect(await memory.ask(work, new AbortController().signal)).toBe(asked);
          await settled();
          expect(isMade).toBe(!lastUsed.includes(asked));
          lastUsed = [asked, ...lastUsed.filter((one) => one !== asked)].slice(0, limit);
          expect(memory.size).toBe(lastUsed.length);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('keeps its promises in whatever order people ask, leave, and work ends', async () => {
    const step = fc.record({
      what: fc.constantFrom('ask', 'ask', 'leave', 'end', 'fail'),
      key: fc.constantFrom('a', 'b', 'c'),
      at: fc.nat({ max: 20 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const most = 2;
        const bench = new Bench(most);
        const askers: Asker[] = [];
        for (const { what, key, at } of steps) {
          if (what === 'ask') {
            const asker = {
              key,
              stop: new AbortController(),
              end: undefined as string | undefined,
            };
            askers.push(asker);
            void noteAnswer(bench.ask(key, { signal: asker.stop.signal }), asker);
          } else if (what === 'leave') askers[at % Math.max(1, askers.length)]?.stop.abort();
          else bench.begun[at % Math.max(1, bench.begun.length)]?.end(what === 'fail');
          await settled();
          expect(bench.memory.size).toBeLessThanOrEqual(most);
          for (const name of ['a', 'b', 'c']) {
            const ofKey = bench.begun.filter((one) => one.key === name && !one.isOver);
            const wanted = ofKey.filter(({ signal }) => !signal.aborted);
            expect(wanted.length).toBeLessThanOrEqual(1);
            // Work goes on exactly as long as somebody wants it.
            const waiting = askers.filter(
              (asker) => asker.key === name && !asker.stop.signal.aborted && !asker.end,
            );
            expect(waiting.length > 0).toBe(wanted.length > 0);
          }
        }
        for (const one of bench.begun) one.end();
        await settled();
        for (const { key, end, stop } of askers) {
          expect(end).toBeDefined();
          if (!stop.signal.aborted) expect(end).toMatch(new RegExp(`^(Error: no )?${key} `));
        }
      }),
      { numRuns: 100 },
    );
  });
});
