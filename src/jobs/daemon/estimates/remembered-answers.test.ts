import { describe, expect, it } from 'vitest';
import { rememberedAnswers } from './remembered-answers.js';

const { signal } = new AbortController();
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
    const answer = await answers(asked, signal);
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
